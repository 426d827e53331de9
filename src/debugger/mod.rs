//! Debuggers that take over stopping.

pub mod mock;
