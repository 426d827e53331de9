//! The memory that readers, converters and reports take. This program has an allocator that counts, so these tests run one at a time.

mod convert;
mod eventlog;
#[path = "../eventlog_support/mod.rs"]
mod eventlog_support;
mod gcstats;
#[path = "../gcstats_stream/mod.rs"]
mod gcstats_stream;
#[path = "../memory_support/mod.rs"]
mod memory_support;
mod nettrace;
#[path = "../nettrace_support/mod.rs"]
mod nettrace_support;
