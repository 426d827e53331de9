//! The view as a page: a server for browsers on this machine.
//!
//! | file | part |
//! |---|---|
//! | `access` | which requests are answered |
//! | `actions` | what the page can request |
//! | `batch` | what a page gets of the history, and how it resumes |
//! | `document` | the page itself |
//! | `server` | connections, routes and answers |

mod access;
pub mod actions;
mod batch;
mod document;
mod server;

pub use actions::{ActionError, Actions};
pub use server::{ServeError, Server};
