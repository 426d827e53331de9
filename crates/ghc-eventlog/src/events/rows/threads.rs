//! Threads, capabilities, and threads of the operating system.

macro_rules! thread_rows {
    ($next:ident $($then:ident)* { $($before:tt)* }) => { $next! { $($then)* { $($before)*
        /// A thread was created.
        CREATE_THREAD = 0 "Create thread" {
            CreateThread {
                thread: u32 [Id] "the thread",
            } "creating thread {thread}"
        }

        /// A thread starts to run on the capability of the block.
        RUN_THREAD = 1 "Run thread" {
            RunThread {
                thread: u32 [Id] "the thread",
            } "running thread {thread}"
        }

        /// A thread stops running. Old versions of GHC declare 6 bytes: that layout is not decoded.
        STOP_THREAD = 2 "Stop thread" {
            StopThread {
                thread: u32 [Id] "the thread",
                reason: StopReason [Code] "why it stops",
                info: u32 [Code] "the stack size of a stack overflow, or the thread that owns the black hole; otherwise 0",
            } "stopping thread {thread} ({reason})"
        }

        /// A thread can run again.
        THREAD_RUNNABLE = 3 "Thread runnable" {
            ThreadRunnable {
                thread: u32 [Id] "the thread",
            } "thread {thread} is runnable"
        }

        /// A thread moves to another capability.
        MIGRATE_THREAD = 4 "Migrate thread" {
            MigrateThread {
                thread: u32 [Id] "the thread",
                cap: u16 [Id] "the new capability",
            } "migrating thread {thread} to cap {cap}"
        }

        /// A thread is woken by another thread.
        THREAD_WAKEUP = 8 "Wakeup thread" {
            ThreadWakeup {
                thread: u32 [Id] "the thread",
                cap: u16 [Id] "the capability on which it will run",
            } "waking up thread {thread} on cap {cap}"
        }

        /// A thread that evaluates sparks was created.
        CREATE_SPARK_THREAD = 15 "Create spark thread" {
            CreateSparkThread {
                thread: u32 [Id] "the thread",
            } "creating spark thread {thread}"
        }

        /// The program starts. Written by old versions of GHC.
        STARTUP = 17 "Startup" {
            Startup {
                caps: u16 [Count] "capabilities",
            } "startup: {caps} capabilities"
        }

        /// A capability set was created.
        CAPSET_CREATE = 25 "Create capability set" {
            CapsetCreate {
                capset: u32 [Id] "the capability set",
                kind: CapsetKind [Code] "what its capabilities have in common",
            } "created capset {capset} of type {kind}"
        }

        /// A capability set was deleted.
        CAPSET_DELETE = 26 "Delete capability set" {
            CapsetDelete {
                capset: u32 [Id] "the capability set",
            } "deleted capset {capset}"
        }

        /// A capability was added to a set.
        CAPSET_ASSIGN_CAP = 27 "Add capability to capability set" {
            CapsetAssignCap {
                capset: u32 [Id] "the capability set",
                cap: u16 [Id] "the capability",
            } "assigned cap {cap} to capset {capset}"
        }

        /// A capability was removed from a set.
        CAPSET_REMOVE_CAP = 28 "Remove capability from capability set" {
            CapsetRemoveCap {
                capset: u32 [Id] "the capability set",
                cap: u16 [Id] "the capability",
            } "removed cap {cap} from capset {capset}"
        }

        /// A thread has a name.
        THREAD_LABEL = 44 "Thread label" {
            ThreadLabel<'a> {
                thread: u32 [Id] "the thread",
                label: Text<'a> [Text] "its name",
            } "thread {thread} has label \"{label}\""
        }

        /// A capability was created.
        CAP_CREATE = 45 "Create capability" {
            CapCreate {
                cap: u16 [Id] "the capability",
            } "created cap {cap}"
        }

        /// A capability was deleted.
        CAP_DELETE = 46 "Delete capability" {
            CapDelete {
                cap: u16 [Id] "the capability",
            } "deleted cap {cap}"
        }

        /// A capability was disabled.
        CAP_DISABLE = 47 "Disable capability" {
            CapDisable {
                cap: u16 [Id] "the capability",
            } "disabled cap {cap}"
        }

        /// A capability was enabled again.
        CAP_ENABLE = 48 "Enable capability" {
            CapEnable {
                cap: u16 [Id] "the capability",
            } "enabled cap {cap}"
        }

        /// A thread of the operating system was created. An early version of GHC declares 14 bytes: that layout is not decoded.
        TASK_CREATE = 55 "Task create" {
            TaskCreate {
                task: u64 [Id] "the task",
                cap: u16 [Id] "its capability",
                kernel_thread: u64 [Id] "the kernel's number of the thread",
            } "task 0x{task:hex} created on cap {cap} with OS kernel thread {kernel_thread}"
        }

        /// A thread of the operating system moves to another capability.
        TASK_MIGRATE = 56 "Task migrate" {
            TaskMigrate {
                task: u64 [Id] "the task",
                cap: u16 [Id] "the old capability",
                new_cap: u16 [Id] "the new capability",
            } "task 0x{task:hex} migrated from cap {cap} to cap {new_cap}"
        }

        /// A thread of the operating system ends.
        TASK_DELETE = 57 "Task delete" {
            TaskDelete {
                task: u64 [Id] "the task",
            } "task 0x{task:hex} deleted"
        }
    }}};
}
