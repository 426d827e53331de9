//! The analyses of trace files: conversions, statistics, profiles, pages.

mod alloc_stacks;
#[path = "../command_support/mod.rs"]
mod command_support;
mod convert;
mod convert_nettrace;
#[path = "../../../../tests/eventlog_support/mod.rs"]
mod eventlog_support;
mod fuzz_cases;
mod gcstats_page;
mod gcstats_rules;
#[path = "../gcstats_support/mod.rs"]
mod gcstats_support;
mod gcstats_traces;
mod gcstats_worlds;
mod heap_map_page;
mod heapprof_page;
#[path = "../mps_stream/mod.rs"]
mod mps_stream;
#[path = "../nettrace_plans/mod.rs"]
mod nettrace_plans;
#[path = "../../../../tests/nettrace_rules/mod.rs"]
mod nettrace_rules;
#[path = "../../../../tests/nettrace_support/mod.rs"]
mod nettrace_support;
mod page_charts;
#[path = "../page_support/mod.rs"]
mod page_support;
mod pprof;
mod profiles;
#[path = "../../../../tests/skipped/mod.rs"]
mod skipped;
mod speedscope;
mod timeline;
#[path = "../timeline_rules/mod.rs"]
mod timeline_rules;
#[path = "../trace_data/mod.rs"]
mod trace_data;
