//! Numbers of the MPS that have names: values of parameters.
//!
//! A stream may contain any number, so each of these types also has a value for a number without a name.

/// Declares a type: for each number with a name, its variant and its meaning.
macro_rules! values {
    ($(
        $(#[$doc:meta])+
        $name:ident { $($number:literal $variant:ident $text:literal),+ $(,)? }
    )+) => {$(
        $(#[$doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $(
                #[doc = concat!("Number ", stringify!($number), ": ", $text, ".")]
                $variant,
            )+
            /// A number without a name.
            Other(u64),
        }

        impl $name {
            /// Returns the value with this number.
            #[inline(always)]
            pub const fn from_number(number: u64) -> $name {
                match number {
                    $($number => $name::$variant,)+
                    _ => $name::Other(number),
                }
            }

            /// Returns its number.
            #[inline(always)]
            pub const fn number(self) -> u64 {
                match self {
                    $($name::$variant => $number,)+
                    $name::Other(number) => number,
                }
            }

            /// Returns the meaning of the value in a few words; `None` for a number without a name.
            pub const fn meaning(self) -> Option<&'static str> {
                match self {
                    $($name::$variant => Some($text),)+
                    $name::Other(_) => None,
                }
            }
        }

        impl Default for $name {
            /// The value with the number 0.
            fn default() -> $name {
                $name::from_number(0)
            }
        }
    )+};
}

values! {
    /// The reason for which a trace was created.
    TraceStartWhy {
        0 Generation0 "generation 0",
        1 Dynamic "dynamic criterion",
        2 Opportunism "opportunism",
        3 FullIncremental "full, in steps",
        4 Full "full",
        5 Walk "walk",
        6 Extension "extension",
    }

    /// The rank of a reference: the strength with which it keeps its object alive. References are scanned rank by rank.
    Rank {
        0 Ambiguous "ambiguous references",
        1 Exact "exact references",
        2 Final "final references",
        3 Weak "weak references",
    }

    /// The result of an operation.
    Res {
        0 Ok "success",
        1 Fail "a failure of no other kind",
        2 Resource "a resource could not be obtained",
        3 Memory "memory could not be obtained",
        4 Limit "an internal limit was reached",
        5 Unimplemented "the operation is not implemented",
        6 Io "an I/O error",
        7 CommitLimit "the commit limit was reached",
        8 Parameter "an invalid parameter",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_that_of_its_value() {
        for number in (0..20).chain([u64::MAX]) {
            assert_eq!(TraceStartWhy::from_number(number).number(), number);
            assert_eq!(Rank::from_number(number).number(), number);
            assert_eq!(Res::from_number(number).number(), number);
        }
        assert_eq!((TraceStartWhy::from_number(4), Rank::from_number(3)), (TraceStartWhy::Full, Rank::Weak));
        assert_eq!((Rank::from_number(4), Res::from_number(7)), (Rank::Other(4), Res::CommitLimit));
        assert_eq!((Rank::Exact.meaning(), Rank::Other(4).meaning()), (Some("exact references"), None));
    }
}
