//! Events that the program fires itself: names, messages and markers.

macro_rules! program_rows {
    ($next:ident $($then:ident)* { $($before:tt)* }) => { $next! { $($then)* { $($before)*
        /// A text was interned: it has a number now, by which other events refer to it. The text itself is in the label store.
        Interned / fire_interned in User {
            net []
            mps [Intern = 0x21: User]
            ghc []
            fields {
                label: u64 [Label] "the number of the text",
            }
        }

        /// An address was given a name.
        Labelled / fire_labelled in User {
            net []
            mps [Label = 0x22: User, LabelPointer = 0x23: User]
            ghc []
            fields {
                address: usize [Address] "the named address",
                label: u64 [Label] "its name",
            }
        }

        /// The program logged a message.
        UserMessage / fire_user_message in User {
            net []
            mps []
            ghc [USER_MSG = 19]
            fields {
                text: u64 [Label] "the message",
            }
        }

        /// The program marked this moment, so that it can be found in a timeline.
        UserMarker / fire_user_marker in User {
            net []
            mps []
            ghc [USER_MARKER = 58]
            fields {
                text: u64 [Label] "the marker's name",
            }
        }
    } } };
}
