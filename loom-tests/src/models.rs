//! The models, by what they are about.

mod futex;
mod handler;
mod stop_start;
