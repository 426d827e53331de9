//! The view as a page: a server for browsers on this machine.
//!
//! | file | part |
//! |---|---|
//! | `access` | which requests are answered |
//! | `actions` | what the page can request |
//! | `batch` | what a page gets of the history, and how it resumes |
//! | `connections` | how many connections there are, and how long each may stall |
//! | `document` | the page itself |
//! | `server` | routes and answers |

mod access;
pub mod actions;
mod batch;
mod connections;
mod document;
mod server;

pub use actions::{ActionError, Actions};
pub use server::{ServeError, Server};
