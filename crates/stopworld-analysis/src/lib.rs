//! Analyses trace files of garbage collections: reports for people, and conversions for other programs.
//!
//! | module | part |
//! |---|---|
//! | [`gcstats`] | the collections of a .NET trace, as PerfView counts them |
//! | [`profstats`] | heap and time profiles: `.hp` files, GHC eventlogs |
//! | [`report`] | tables and pages of both, and the summary of a run |
//! | [`convert`] | converts a trace to another format, or to a timeline |

pub mod convert;
pub mod gcstats;
mod json;
pub mod profstats;
pub mod report;

/// Runs the examples of the README as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
