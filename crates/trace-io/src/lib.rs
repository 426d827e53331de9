//! Code that the readers and writers of trace files share.
//!
//! | module | part |
//! |---|---|
//! | [`source`] | reading: a buffer for a file, which knows the offset of each byte |
//! | [`bytes`] | writing: a byte buffer of fixed capacity, filled without allocation |
//! | [`json`] | writes text as JSON strings |

pub mod bytes;
pub mod json;
pub mod source;

/// Returns the part of a message about a truncated file that states the number of missing bytes.
pub fn more_bytes(missing: u64) -> String {
    match missing {
        1 => "1 byte more was expected".to_owned(),
        _ => format!("{missing} bytes more were expected"),
    }
}

/// Returns the end of a message that names the first damage: empty, or " (and 2 more places are damaged)".
pub fn and_more_places(damages: u64) -> String {
    match damages {
        0 | 1 => String::new(),
        _ => format!(" (and {})", more_places(damages - 1)),
    }
}

/// Returns the part of a message about a damaged file that counts further places: "2 more places are damaged".
pub fn more_places(more: u64) -> String {
    match more {
        1 => "1 more place is damaged".to_owned(),
        _ => format!("{more} more places are damaged"),
    }
}

/// Runs the examples of the README as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_damage_is_counted_in_the_singular_and_the_plural() {
        let ends = [1, 2, 3].map(and_more_places);
        assert_eq!(ends, ["", " (and 1 more place is damaged)", " (and 2 more places are damaged)"]);
    }
}
