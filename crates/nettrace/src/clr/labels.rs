//! The names of enumerated values.

/// The names of a field's values.
#[derive(Debug)]
pub(super) enum Labels {
    /// A name for each value, from 0.
    One(&'static [&'static str]),
    /// A name for each bit, from the lowest; several are separated by commas.
    Flags(&'static [(u32, &'static str)]),
}

impl Labels {
    /// The name of a value; a value without a name is formatted as a number.
    pub(super) fn of(&self, value: i32) -> String {
        match self {
            Labels::One(names) => one(names, value).map_or_else(|| value.to_string(), str::to_owned),
            Labels::Flags(flags) => flag_names(flags, value),
        }
    }
}

fn one(names: &'static [&'static str], value: i32) -> Option<&'static str> {
    names.get(usize::try_from(value).ok()?).copied()
}

/// Formats flags as .NET does: the names from the lowest bit, or the number if a set bit has no name.
fn flag_names(flags: &[(u32, &str)], value: i32) -> String {
    if value == 0 {
        return "None".to_owned();
    }
    let mut rest = value as u32;
    let mut names = Vec::new();
    for (bit, name) in flags {
        if rest & bit != 0 {
            rest &= !bit;
            names.push(*name);
        }
    }
    if rest == 0 { names.join(", ") } else { value.to_string() }
}
