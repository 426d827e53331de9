//! The models, one module per subject.

mod answers;
mod assisted;
mod attach_detach;
mod coming_and_going;
mod full;
mod futex;
mod handler;
mod helpers;
mod late;
mod mark_byte;
mod nested;
mod ranges;
mod scopes;
mod stop_start;
mod termination;
mod two_collectors;
mod vtable;
