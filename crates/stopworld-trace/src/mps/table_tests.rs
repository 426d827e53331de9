//! The package `stopworld` depends on no format crate, so its event table and its categories repeat names and numbers of `mps-telemetry`.
//!
//! These tests check that they agree.

use mps_telemetry::Version;
use stopworld::events::{Category, DESCRIPTORS};

#[test]
fn the_mps_records_of_the_event_table_exist() {
    for record in DESCRIPTORS.iter().flat_map(|descriptor| descriptor.mps) {
        let layout = Version::V2.layout(record.code).unwrap_or_else(|| panic!("{record:?} is not an MPS event"));
        assert_eq!((layout.name, layout.category.name()), (record.name, record.category.name()));
    }
}

#[test]
fn the_categories_are_those_of_the_format() {
    let ours = Category::ALL.map(|category| (category.name(), category as u8));
    let theirs = mps_telemetry::Category::ALL.map(|category| (category.name(), category as u8));
    assert_eq!(ours, theirs);
}
