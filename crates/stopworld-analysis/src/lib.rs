//! Analyses trace files of garbage collections: reports for people, and conversions for other programs.
//!
//! | module | part |
//! |---|---|
//! | [`allocations`] | allocation profiles with call stacks: the functions' names, and the formats other than pprof |
//! | [`gcstats`] | the collections of a .NET trace, as PerfView counts them |
//! | [`profstats`] | heap and time profiles: `.hp` files, GHC eventlogs |
//! | [`pprof`] | writes profiles, and the objects of heap snapshots, in the format of pprof |
//! | [`report`] | tables and pages of both, and the summary of a run |
//! | [`convert`] | converts a trace to another format, or to a timeline |
//! | [`snapshot`] | heap dumps and heap snapshots: objects by type, and what has grown |
//! | [`tables`] | the facts of a trace as rows of tables, the same for every format |

pub mod allocations;
pub mod convert;
pub mod gcstats;
mod json;
pub mod pprof;
pub mod profstats;
pub mod report;
pub mod snapshot;
pub mod tables;

/// Runs the examples of the README as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
