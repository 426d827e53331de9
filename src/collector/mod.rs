//! One collection.

pub(crate) mod termination;
