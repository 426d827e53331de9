//! The Scheme interpreter, and profiles of its programs.

mod profile;
mod programs;
#[path = "../stack_support/mod.rs"]
mod stack_support;
