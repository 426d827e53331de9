//! The error inside this module.

use std::fmt::{self, Display};

use ::serde::{de, ser};

/// The message of an error, in serializers and deserializers that are not those of a format.
#[derive(Debug)]
pub(super) struct Failure(pub(super) String);

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

impl ser::Error for Failure {
    fn custom<T: Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

impl de::Error for Failure {
    fn custom<T: Display>(message: T) -> Self {
        Self(message.to_string())
    }
}
