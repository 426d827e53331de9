//! The program, its process, its messages, and the blocks of the file.

macro_rules! program_rows {
    ($next:ident $($then:ident)* { $($before:tt)* }) => { $next! { $($then)* { $($before)*
        /// A message of the runtime.
        LOG_MSG = 16 "Log message" {
            LogMsg<'a> {
                text: Text<'a> [Text] "the message",
            } "{text}"
        }

        /// Assigns the following bytes of the file to a capability.
        BLOCK_MARKER = 18 "Block marker" {
            BlockMarker {
                size: u32 [Bytes] "the block, with this event",
                end_time: u64 [Nanoseconds] "when the block ended",
                cap: u16 [Id] "the capability, or NO_CAPABILITY",
            } "event block: cap {cap}, end time: {end_time}\n"
        }

        /// A message of the program.
        USER_MSG = 19 "User message" {
            UserMsg<'a> {
                text: Text<'a> [Text] "the message",
            } "{text}"
        }

        /// The compiler. Written by old versions of GHC.
        VERSION = 23 "Version" {
            Version<'a> {
                version: Text<'a> [Text] "its version, in Latin-1",
            } "compiler version is {version:latin}"
        }

        /// The command line. Written by old versions of GHC.
        PROGRAM_INVOCATION = 24 "Program invocation" {
            ProgramInvocation<'a> {
                command: Text<'a> [Text] "the command line, in Latin-1",
            } "program invocation: {command:latin}"
        }

        /// The runtime that writes the log, such as `GHC-9.0.2 rts_thr`.
        RTS_IDENTIFIER = 29 "RTS name and version" {
            RtsIdentifier<'a> {
                capset: u32 [Id] "the capability set of the process",
                name: Text<'a> [Text] "its name and version",
            } "capset {capset}: RTS version \"{name}\""
        }

        /// The program's name and arguments.
        PROGRAM_ARGS = 30 "Program arguments" {
            ProgramArgs<'a> {
                capset: u32 [Id] "the capability set of the process",
                args: Items<'a> [Text] "the name, and the arguments",
            } "capset {capset}: args: {args}"
        }

        /// The program's environment.
        PROGRAM_ENV = 31 "Program environment variables" {
            ProgramEnv<'a> {
                capset: u32 [Id] "the capability set of the process",
                variables: Items<'a> [Text] "the variables, with their values",
            } "capset {capset}: env: {variables}"
        }

        /// The process.
        OSPROCESS_PID = 32 "Process ID" {
            OsProcessPid {
                capset: u32 [Id] "the capability set of the process",
                pid: u32 [Id] "its number",
            } "capset {capset}: pid {pid}"
        }

        /// The parent process.
        OSPROCESS_PPID = 33 "Parent process ID" {
            OsProcessPpid {
                capset: u32 [Id] "the capability set of the process",
                pid: u32 [Id] "the number of the parent process",
            } "capset {capset}: parent pid {pid}"
        }

        /// A text to which other events refer.
        INTERN_STRING = 42 "Intern string" {
            InternString<'a> {
                text: Leading<'a, 4> [Text] "the text, in Latin-1",
                id: u32 [Id] "its number",
            } "Interned string: \"{text}\" with id {id}"
        }

        /// The time of day at time 0.
        WALL_CLOCK_TIME = 43 "Wall clock time" {
            WallClockTime {
                capset: u32 [Id] "the capability set of the clock",
                seconds: u64 [Seconds] "Unix time",
                nanoseconds: u32 [Nanoseconds] "its fraction",
            } "capset {capset}: wall clock time {seconds}s {nanoseconds}ns (unix epoch)"
        }

        /// A point in time that the program marked.
        USER_MARKER = 58 "User marker" {
            UserMarker<'a> {
                name: Text<'a> [Text] "the marker's name",
            } "marker: {name}"
        }

        /// An empty event that GHC declares; readers print its description.
        HACK_BUG_T9003 = 59 "Empty event for bug #9003" {
            HackBugT9003 {} -
        }

        /// A hardware or software counter of perf.
        PERF_NAME = 140 "perf event name" {
            PerfName<'a> {
                counter: u32 [Id] "the counter",
                name: Text<'a> [Text] "its name",
            } "perf event {counter} named \"{name}\""
        }

        /// A counter of perf advanced.
        PERF_COUNTER = 141 "perf event counter" {
            PerfCounter {
                counter: u32 [Id] "the counter",
                kernel_thread: u64 [Id] "the kernel's number of the thread",
                period: u64 [Count] "how far it advanced, minus one",
            } "perf event counter {counter} incremented by {period:+1} in OS thread {kernel_thread}"
        }

        /// A thread reached a tracepoint of perf.
        PERF_TRACEPOINT = 142 "perf event tracepoint" {
            PerfTracepoint {
                tracepoint: u32 [Id] "the tracepoint",
                kernel_thread: u64 [Id] "the kernel's number of the thread",
            } "perf event tracepoint {tracepoint} reached in OS thread {kernel_thread}"
        }

        /// Bytes that the program wrote.
        USER_BINARY_MSG = 181 "User binary message" {
            UserBinaryMsg<'a> {
                bytes: Raw<'a> [Bytes] "the message",
            } "binary message {bytes}"
        }
    }}};
}
