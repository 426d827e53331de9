//! Futexes.
