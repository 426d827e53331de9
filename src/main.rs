//! The `stopworld` command.

fn main() {}
