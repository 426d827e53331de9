//! Lines on standard error.

/// Prints a line on standard error as the macro of std does, but ignores an error: a closed standard error must not end the command with a
/// panic.
macro_rules! eprintln {
    ($($line:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($line)*);
    }};
}
