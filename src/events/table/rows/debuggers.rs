//! A debugger in another process.

macro_rules! debugger_rows {
    ($next:ident $($then:ident)* { $($before:tt)* }) => { $next! { $($then)* { $($before)*
        /// A debugger in another process took control: it receives requests and notifications about stops.
        DebuggerAttached / fire_debugger_attached in World {
            net [GCDynamicEvent = 39 v 0 op 41: Default GC Informational]
            mps []
            ghc [LOG_MSG = 16]
            fields {
                control: u64 [Code] "its control word: the mode in the lowest byte, a number that identifies it in the upper half",
            }
        }

        /// The debugger is no longer in control.
        DebuggerDetached / fire_debugger_detached in World {
            net [GCDynamicEvent = 39 v 0 op 41: Default GC Informational]
            mps []
            ghc [LOG_MSG = 16]
            fields {
                control: u64 [Code] "its control word",
            }
        }

        /// The debugger in control did not acknowledge a request: it was killed, or it detached without notice. The world stops its own
        /// threads again.
        DebuggerLost / fire_debugger_lost in World {
            net [GCDynamicEvent = 39 v 0 op 41: Default GC Informational]
            mps []
            ghc [LOG_MSG = 16]
            fields {
                control: u64 [Code] "its control word",
                phase: u32 [Code] "phase of the collection: 0 none, 1 before the threads were stopped, and so on to 13 after the restart",
            }
        }
    } } };
}
