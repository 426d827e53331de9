//! Model checks of the stopping protocol.
