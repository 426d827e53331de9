//! A debugger outside of the process.

macro_rules! debugger_rows {
    ($next:ident $($then:ident)* { $($before:tt)* }) => { $next! { $($then)* { $($before)*
        /// A debugger outside of the process is in control: it is asked and told of stops.
        DebuggerAttached / fire_debugger_attached in World {
            net [GCDynamicEvent = 39 v 0 op 41: Default GC Informational]
            mps []
            ghc [LOG_MSG = 16]
            fields {
                control: u64 [Code] "its control word: the mode in the lowest byte, a number of its own in the upper half",
            }
        }

        /// It is not in control any more.
        DebuggerDetached / fire_debugger_detached in World {
            net [GCDynamicEvent = 39 v 0 op 41: Default GC Informational]
            mps []
            ghc [LOG_MSG = 16]
            fields {
                control: u64 [Code] "its control word",
            }
        }

        /// It was in control and did not answer: it was killed, or has let go without a word. The world is stopped by its own stopper again.
        DebuggerLost / fire_debugger_lost in World {
            net [GCDynamicEvent = 39 v 0 op 41: Default GC Informational]
            mps []
            ghc [LOG_MSG = 16]
            fields {
                control: u64 [Code] "its control word",
                phase: u32 [Code] "where the collection was: 0 outside, 1 before the threads stood, then by phases to 13 after the restart",
            }
        }
    } } };
}
