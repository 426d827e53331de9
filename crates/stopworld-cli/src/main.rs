//! The `stopworld` command: see `stopworld --help`, or the [`stopworld::cli`] module.

use std::process::ExitCode;

fn main() -> ExitCode {
    stopworld::cli::main()
}
