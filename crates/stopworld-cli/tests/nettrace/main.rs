//! `.nettrace` files: tests of the crate `nettrace`, and of stopworld's own writer.

mod clr;
mod command;
#[path = "../command_support/mod.rs"]
mod command_support;
mod damage;
mod dump;
mod heap_dump;
#[path = "../nettrace_plans/mod.rs"]
mod nettrace_plans;
#[path = "../../../../tests/nettrace_rules/mod.rs"]
mod nettrace_rules;
#[path = "../../../../tests/nettrace_support/mod.rs"]
mod nettrace_support;
#[path = "../../../../tests/patience/mod.rs"]
mod patience;
mod read;
#[path = "../../../../tests/skipped/mod.rs"]
mod skipped;
mod stacks;
#[path = "../trace_data/mod.rs"]
mod trace_data;
mod writer;
#[path = "../writer_support/mod.rs"]
mod writer_support;
