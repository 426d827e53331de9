//! A drop-in `libgc.so.1`: programs that use the Boehm collector (bdwgc) run on stopworld, unchanged.
//!
//! The shared library exports what Debian's `libgc.so.1` of bdwgc 8.2 exports: 256 functions and 35 variables. Programs find it by
//! `LD_LIBRARY_PATH=target/release/libgc`. The README says which programs run, and what differs.
//!
//! ```text
//!   api            the functions of the interface
//!     │
//!   thread         the calling thread's attachment
//!     │
//!   library        the one world, and its kinds of objects; recording: traces and profiles that the environment requests
//!     │
//!   binding        what the library does in each collection: roots, links, finalizers
//!     │
//!   tables, lock   what the interface's functions have registered, and the lock that guards it
//! ```
//!
//! Objects are [untyped objects](stopworld::untyped) of the collector. The rest of the interface is tables: what is a root, which words
//! are links, which objects have finalizers. The functions of the interface change the tables under the library's lock, and the
//! [binding](stopworld::untyped::Binding) reads them in the stopped world.

#![allow(non_snake_case, reason = "the names of the functions are those of the interface")]

mod api;
mod binding;
mod call_sites;
mod data;
mod environment;
mod hook;
mod library;
mod lock;
mod os;
mod print;
mod recording;
mod tables;
mod thread;

use stopworld_platform::sync;
