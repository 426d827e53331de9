//! Parallel evaluation: sparks, Eden (a parallel Haskell), and Mercury.

macro_rules! parallel_rows {
    ($next:ident $($then:ident)* { $($before:tt)* }) => { $next! { $($then)* { $($before)*
        /// The numbers of a capability's sparks, by what happened to them.
        SPARK_COUNTERS = 34 "Spark counters" {
            SparkCounters {
                created: u64 [Count] "created",
                dud: u64 [Count] "already evaluated when they were created",
                overflowed: u64 [Count] "left out because the pool was full",
                converted: u64 [Count] "evaluated",
                collected: u64 [Count] "garbage-collected",
                fizzled: u64 [Count] "evaluated by another thread in the meantime",
                remaining: u64 [Count] "in the pool",
            } "spark stats: {created} created, {converted} converted, {remaining} remaining ({overflowed} overflowed, \
               {dud} dud, {collected} GC'd, {fizzled} fizzled)"
        }

        /// A spark was created.
        SPARK_CREATE = 35 "Spark create" {
            SparkCreate {} "spark created"
        }

        /// A spark was already evaluated when it was created.
        SPARK_DUD = 36 "Spark dud" {
            SparkDud {} "dud spark discarded"
        }

        /// A spark was left out because the pool was full.
        SPARK_OVERFLOW = 37 "Spark overflow" {
            SparkOverflow {} "overflowed spark discarded"
        }

        /// A spark of this capability is evaluated.
        SPARK_RUN = 38 "Spark run" {
            SparkRun {} "running a local spark"
        }

        /// A spark of another capability is evaluated.
        SPARK_STEAL = 39 "Spark steal" {
            SparkSteal {
                cap: u16 [Id] "the capability that had it",
            } "stealing a spark from cap {cap}"
        }

        /// A spark was evaluated before a capability took it.
        SPARK_FIZZLE = 40 "Spark fizzle" {
            SparkFizzle {} "spark fizzled"
        }

        /// A spark was garbage-collected.
        SPARK_GC = 41 "Spark GC" {
            SparkGc {} "spark GCed"
        }

        /// Eden: messages are being received.
        EDEN_START_RECEIVE = 60 "Starting message receival" {
            EdenStartReceive {} "starting to receive"
        }

        /// Eden: messages have been received.
        EDEN_END_RECEIVE = 61 "Finished message receival" {
            EdenEndReceive {} "stop receiving"
        }

        /// Eden: a process was created.
        CREATE_PROCESS = 62 "Creating Process" {
            CreateProcess {
                process: u32 [Id] "the process",
            } "creating process {process}"
        }

        /// Eden: a process ends.
        KILL_PROCESS = 63 "Killing Process" {
            KillProcess {
                process: u32 [Id] "the process",
            } "killing process {process}"
        }

        /// Eden: a thread belongs to a process.
        ASSIGN_THREAD_TO_PROCESS = 64 "Assigning Thread to Process" {
            AssignThreadToProcess {
                thread: u32 [Id] "the thread",
                process: u32 [Id] "the process",
            } "assigning thread {thread} to process {process}"
        }

        /// Eden: a machine was created.
        CREATE_MACHINE = 65 "Creating Machine" {
            CreateMachine {
                machine: u16 [Id] "the machine",
                real_time: u64 [Code] "the time of its creation",
            } "creating machine {machine} at {real_time}"
        }

        /// Eden: a machine ends.
        KILL_MACHINE = 66 "Killing Machine" {
            KillMachine {
                machine: u16 [Id] "the machine",
            } "killing machine {machine}"
        }

        /// Eden: a message is sent to another machine.
        SEND_MESSAGE = 67 "Sending Message" {
            SendMessage {
                tag: MessageTag [Code] "the kind of message",
                process: u32 [Id] "the sending process",
                thread: u32 [Id] "the sending thread",
                machine: u16 [Id] "the receiving machine",
                receiver: u32 [Id] "the receiving process",
                inport: u32 [Id] "its inport",
            } "sending message with tag {tag} from process {process}, thread {thread} to machine {machine}, process \
               {receiver} on inport {inport}"
        }

        /// Eden: a message was received from another machine.
        RECEIVE_MESSAGE = 68 "Receiving Message" {
            ReceiveMessage {
                tag: MessageTag [Code] "the kind of message",
                process: u32 [Id] "the receiving process",
                inport: u32 [Id] "its inport",
                machine: u16 [Id] "the sending machine",
                sender: u32 [Id] "the sending process",
                thread: u32 [Id] "the sending thread",
                size: u32 [Bytes] "the message",
            } "receiving message with tag {tag} at process {process}, inport {inport} from machine {machine}, process \
               {sender}, thread {thread} with size {size}"
        }

        /// Eden: a message within a machine.
        SEND_RECEIVE_LOCAL_MESSAGE = 69 "Sending/Receiving local Message" {
            SendReceiveLocalMessage {
                tag: MessageTag [Code] "the kind of message",
                process: u32 [Id] "the sending process",
                thread: u32 [Id] "the sending thread",
                receiver: u32 [Id] "the receiving process",
                inport: u32 [Id] "its inport",
            } "sending/receiving message with tag {tag} from process {process}, thread {thread} to process {receiver} on \
               inport {inport}"
        }

        /// Mercury: a parallel conjunction starts.
        MER_START_PAR_CONJ = 100 "Start a parallel conjunction (dyn id, static id)" {
            MerStartParConj {
                conjunction: u64 [Id] "the conjunction",
                static_id: u32 [Id] "its place in the program",
            } "Start a parallel conjunction 0x{conjunction:hex}, static_id: {static_id}"
        }

        /// Mercury: a parallel conjunction ends.
        MER_END_PAR_CONJ = 101 "End a parallel conjunction (dyn id)" {
            MerEndParConj {
                conjunction: u64 [Id] "the conjunction",
            } "End par conjunction: 0x{conjunction:hex}"
        }

        /// Mercury: a conjunct ends.
        MER_END_PAR_CONJUNCT = 102 "End a parallel conjunct (dyn id)" {
            MerEndParConjunct {
                conjunction: u64 [Id] "the conjunction",
            } "End par conjunct: 0x{conjunction:hex}"
        }

        /// Mercury: a spark was created.
        MER_CREATE_SPARK = 103 "A spark is being created with attributes for Mercury" {
            MerCreateSpark {
                conjunction: u64 [Id] "the conjunction",
                spark: u32 [Id] "the spark",
            } "Create spark for conjunction: 0x{conjunction:hex} spark: 0x{spark:hex}"
        }

        /// Mercury: a future was created.
        MER_FUT_CREATE = 104 "Create a future (future id)" {
            MerFutCreate {
                future: u64 [Id] "the future",
                name: u32 [Id] "the text with its name",
            } "Create future 0x{future:hex} named {name}"
        }

        /// Mercury: a thread reads a future that has its value.
        MER_FUT_WAIT_NOSUSPEND = 105 "Wait on a future without suspending (future id)" {
            MerFutWaitNosuspend {
                future: u64 [Id] "the future",
            } "Wait didn't suspend for future: 0x{future:hex}"
        }

        /// Mercury: a thread waits for a future.
        MER_FUT_WAIT_SUSPENDED = 106 "Wait on a future by suspending this thread (future id)" {
            MerFutWaitSuspended {
                future: u64 [Id] "the future",
            } "Wait suspended on future: 0x{future:hex}"
        }

        /// Mercury: a future gets its value.
        MER_FUT_SIGNAL = 107 "Signal a future (future id)" {
            MerFutSignal {
                future: u64 [Id] "the future",
            } "Signaled future 0x{future:hex}"
        }

        /// Mercury: a capability looks for a thread to resume.
        MER_LOOKING_FOR_GLOBAL_THREAD = 108 "Looking for a global thread to resume" {
            MerLookingForGlobalThread {} "Looking for global thread to resume"
        }

        /// Mercury: a capability tries to steal a spark.
        MER_WORK_STEALING = 109 "Trying to steal a spark" {
            MerWorkStealing {} "Trying to steal a spark"
        }

        /// Mercury: a thread is not needed any more.
        MER_RELEASE_THREAD = 110 "Release a thread to the free pool" {
            MerReleaseThread {
                thread: u32 [Id] "the thread",
            } "Releasing thread {thread} to the free pool"
        }

        /// Mercury: a capability sleeps.
        MER_ENGINE_SLEEPING = 111 "Engine going to sleep" {
            MerEngineSleeping {} "Capability going to sleep"
        }

        /// Mercury: a capability looks for a spark of its own.
        MER_LOOKING_FOR_LOCAL_SPARK = 112 "Looking for a local spark" {
            MerLookingForLocalSpark {} "Looking for a local spark to execute"
        }

        /// Mercury: the program is about to start.
        MER_CALLING_MAIN = 113 "About to call the program entry point" {
            MerCallingMain {} "About to call the program entry point"
        }
    }}};
}
