//! `stopworld watch`: the terminal and the page, of processes of this project, and of a process that plays a trace of .NET.

#[path = "../diagnostics_support/mod.rs"]
mod diagnostics_support;
mod line;
mod page;
#[path = "../page_support/mod.rs"]
mod page_support;
mod played;
mod requests;
#[path = "../../../../tests/skipped/mod.rs"]
mod skipped;
#[path = "../terminal/mod.rs"]
mod terminal;
mod view;
mod watched;
#[path = "../../../stopworld-watch/tests/written/mod.rs"]
mod written;

/// The program of a [`Subject`](diagnostics_support::subject::Subject). It does nothing in the process of the tests.
#[test]
fn subject() {
    diagnostics_support::subject::live();
}
