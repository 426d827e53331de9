//! The event tables of both versions, and the layout of a record.

use super::v1::V1_0_0;
use super::v2::{self, V2_0_0};

pub use super::layout::{HEADER, LARGEST_RECORD, Layout, Param, Sort, Unit};

/// The table of events that a stream follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    /// Event version 1.0.0 of October 2012, when the tool was `eventcnv -S`.
    V1,
    /// Event version 2.0.0: release 1.118 and later, read by `mpseventcnv`.
    V2,
}

impl Version {
    /// All known versions, the oldest first.
    pub const ALL: [Version; 2] = [Version::V1, Version::V2];

    /// The events of this version, by increasing code.
    pub const fn layouts(self) -> &'static [Layout] {
        match self {
            Version::V1 => &V1_0_0,
            Version::V2 => &V2_0_0,
        }
    }

    /// Returns the event with this code.
    #[inline]
    pub fn layout(self, code: u16) -> Option<&'static Layout> {
        let by_code = match self {
            Version::V1 => &BY_CODE_V1,
            Version::V2 => &BY_CODE_V2,
        };
        by_code.get(usize::from(code)).copied().flatten()
    }

    /// The largest code of an event.
    pub fn max_code(self) -> u16 {
        self.layouts().last().map_or(0, |layout| layout.code)
    }

    /// The numbers that `EventInit` states.
    pub const fn numbers(self) -> [u32; 3] {
        match self {
            Version::V1 => [1, 0, 0],
            Version::V2 => v2::NUMBERS,
        }
    }
}

/// Layouts by code, so that a lookup is one load. Codes are dense and below 128 in both versions.
type ByCode = [Option<&'static Layout>; 128];

static BY_CODE_V1: ByCode = by_code(&V1_0_0);
static BY_CODE_V2: ByCode = by_code(&V2_0_0);

const fn by_code(layouts: &'static [Layout]) -> ByCode {
    let mut table: ByCode = [None; 128];
    let mut i = 0;
    while i < layouts.len() {
        table[layouts[i].code as usize] = Some(&layouts[i]);
        i += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    /// A declared parameter: sort, name, offset, bit.
    type Declared<'a> = (&'a str, &'a str, u16, Option<u8>);

    /// A row of the tables extracted from the MPS's headers.
    fn row(line: &str) -> (u16, &str, &str, &str, Vec<Declared<'_>>) {
        let cells: Vec<&str> = line.split('\t').collect();
        let code = u16::from_str_radix(cells[0].trim_start_matches("0x"), 16).unwrap();
        let params = cells[5].split_whitespace().map(|param| {
            let (sort, rest) = param.split_once(':').unwrap();
            let (name, place) = rest.split_once('@').unwrap();
            let (offset, bit) = place.split_once('.').map_or((place, None), |(o, b)| (o, Some(b.parse().unwrap())));
            (sort, name, offset.parse().unwrap(), bit)
        });
        (code, cells[1], cells[2], cells[4], params.collect())
    }

    #[rstest]
    #[case(Version::V2, include_str!("../testdata/events-v2.0.0.tsv"), 92)]
    #[case(Version::V1, include_str!("../testdata/events-v1.0.0-seed.tsv"), 86)]
    fn the_layouts_are_those_of_the_mps(#[case] version: Version, #[case] tsv: &str, #[case] count: usize) {
        let rows: Vec<_> = tsv.lines().filter(|line| !line.starts_with('#')).map(row).collect();
        assert_eq!(rows.len(), count);
        assert_eq!(version.layouts().len(), count);
        for (layout, (code, name, category, size, params)) in version.layouts().iter().zip(rows) {
            assert_eq!((layout.code, layout.name), (code, name));
            assert_eq!(format!("{:?}", layout.category), category, "{name}");
            match size.parse::<usize>() {
                Ok(size) => assert_eq!(layout.size(0), size, "{name}"),
                Err(_) => {
                    assert_eq!(size, "align8(24+len+4)");
                    assert_eq!(layout.size(7), 40, "the specification's own example");
                }
            }
            let ours = layout.params.iter().map(|p| (format!("{:?}", p.sort), p.name, p.offset, p.bit));
            let theirs = params.into_iter().map(|(sort, name, offset, bit)| (sort.to_owned(), name, offset, bit));
            assert!(ours.eq(theirs), "{name}: {:?}", layout.params);
        }
    }

    #[rstest]
    fn an_event_is_found_by_its_code(#[values(Version::V1, Version::V2)] version: Version) {
        for code in 0..=u16::MAX {
            let searched = version.layouts().iter().find(|layout| layout.code == code);
            assert_eq!(version.layout(code), searched);
        }
        let longest = version.layouts().iter().map(|layout| layout.size(255)).max();
        assert_eq!(longest, Some(LARGEST_RECORD));
        assert!(version.layouts().is_sorted_by_key(|layout| layout.code));
    }
}
