//! What trace files of garbage collections say, for people and for other programs.
//!
//! | module | part |
//! |---|---|
//! | [`gcstats`] | the collections of a .NET trace, as PerfView counts them |
//! | [`profstats`] | heap and time profiles: `.hp` files, GHC eventlogs |
//! | [`report`] | tables and pages of both, and the summary of a run |
//! | [`convert`] | a trace of one format as one of another, or as a timeline |

pub mod convert;
pub mod gcstats;
mod json;
pub mod profstats;
pub mod report;

/// Runs the examples of the README as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
