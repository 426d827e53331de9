//! Shows the collections of a running process as they happen, on a terminal or as a page for a browser.
//!
//! ```text
//!   process ──diagnostics socket──► feed ──► model ──► screen    a terminal
//!   (stopworld or .NET)                          └───► web       a browser on this machine
//! ```
//!
//! | file | part |
//! |---|---|
//! | `feed` | the session with the process |
//! | `follow`, `decode` | reads its stream; what an event reports |
//! | `model`, `ring` | everything that is shown, in bounded memory |
//! | `screen`, `terminal` | the view on a terminal: its picture; its keys and signals |
//! | `web` | the view as a page, with its server |

mod decode;
pub mod feed;
pub mod follow;
pub mod model;
pub mod ring;
pub mod screen;
pub mod terminal;
pub mod web;

/// Runs the examples of the README as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
