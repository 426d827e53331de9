//! What the program says by itself: names, messages and markers.

macro_rules! program_rows {
    ($next:ident $($then:ident)* { $($before:tt)* }) => { $next! { $($then)* { $($before)*
        /// A text has got a number. The text itself is in the store of labels.
        Interned / fire_interned in User {
            net []
            mps [Intern = 0x21: User]
            ghc []
            fields {
                label: u64 [Label] "the number of the text",
            }
        }

        /// An address has got a name.
        Labelled / fire_labelled in User {
            net []
            mps [Label = 0x22: User, LabelPointer = 0x23: User]
            ghc []
            fields {
                address: usize [Address] "what is named",
                label: u64 [Label] "its name",
            }
        }

        /// The program says something.
        UserMessage / fire_user_message in User {
            net []
            mps []
            ghc [USER_MSG = 19]
            fields {
                text: u64 [Label] "what it says",
            }
        }

        /// The program marks a moment, to be found again in a picture.
        UserMarker / fire_user_marker in User {
            net []
            mps []
            ghc [USER_MARKER = 58]
            fields {
                text: u64 [Label] "what it calls it",
            }
        }
    } } };
}
