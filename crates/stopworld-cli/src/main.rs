//! The `stopworld` command: see `stopworld --help`, or the [`stopworld_cli`] module.

use std::process::ExitCode;

fn main() -> ExitCode {
    stopworld_cli::main()
}
