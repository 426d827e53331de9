//! Code generated from the table of events: serialisation of payloads, readers of such bytes that check before they read, and the page of
//! the documentation.

use crate::event_support;

use std::sync::Arc;

use event_support::fire_everything;
use proptest::prelude::*;
use stopworld::events::templates::{self, FieldError, View};
use stopworld::events::{DESCRIPTORS, EventId, Events, MemorySink, Record, Selection, payload, reference};

/// One record of each event with fields made from `seed`, and the expected fields.
fn one_of_each(seed: u64) -> Vec<Record> {
    let events = Events::new();
    let sink = Arc::new(MemorySink::with_capacity(256).unwrap());
    events.listen(sink.clone(), Selection::everything()).unwrap();
    let mut state = seed | 1;
    fire_everything(&events, || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state ^ state >> 29
    });
    sink.drain().collect()
}

/// The naive serialiser: each field in the size of its kind, one after the other.
fn plainly_serialized(record: &Record) -> Vec<u8> {
    let fields = record.id.descriptor().fields.iter().zip(record.fields());
    fields.flat_map(|(field, value)| value.to_le_bytes()[..field.kind.bytes()].to_vec()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_payload_is_its_fields_in_order_and_is_read_back_as_it_was(seed: u64) {
        let records = one_of_each(seed);
        prop_assert_eq!(records.len(), EventId::COUNT);
        for record in &records {
            let descriptor = record.id.descriptor();
            let mut buffer = [0; _];
            let bytes = record.event().serialize(&mut buffer).to_vec();
            prop_assert_eq!(record.event().id(), record.id);
            prop_assert_eq!(&bytes, &plainly_serialized(record));
            prop_assert_eq!(bytes.len(), descriptor.payload_bytes(descriptor.version));
            let view = View::at(record.id, &bytes, descriptor.version);
            let read: Vec<u64> = view.fields().map(|(_, value)| value.unwrap()).collect();
            prop_assert_eq!(&read[..], record.fields());
            for (field, value) in descriptor.fields.iter().zip(record.fields()) {
                prop_assert_eq!(view.named(field.name), Ok(*value));
            }
        }
    }

    /// For any bytes and any version, a reader returns a field that is present, or an error.
    #[test]
    fn no_bytes_and_no_version_make_a_reader_read_past_the_payload(
        bytes in proptest::collection::vec(any::<u8>(), 0..64), version: u8, index in 0_usize..8,
    ) {
        for descriptor in &DESCRIPTORS {
            let found = View::at(descriptor.id, &bytes, version).field(index);
            let Some(place) = descriptor.layout().nth(index) else {
                prop_assert_eq!(found, Err(FieldError::Unknown { event: descriptor.name }));
                continue;
            };
            let end = place.offset + place.field.kind.bytes();
            match found {
                Ok(value) => {
                    prop_assert!(place.field.since <= version && end <= bytes.len());
                    let mut word = [0; 8];
                    word[..end - place.offset].copy_from_slice(&bytes[place.offset..end]);
                    prop_assert_eq!(value, u64::from_le_bytes(word));
                }
                Err(FieldError::NotInVersion { since, .. }) => prop_assert!(since > version),
                Err(FieldError::Short { have, to, .. }) => prop_assert!(have < to && end > bytes.len()),
                Err(error) => prop_assert!(false, "{}", error),
            }
        }
    }
}

#[test]
fn a_newer_reader_checks_the_version_and_an_older_one_never_reads_so_far() {
    // A thread's attachment as version 1 wrote it, and one as a version 3 may write it.
    let old = [7, 0, 0, 0, 0x10, 0x20, 0, 0, 0, 0, 0, 0];
    let template = templates::ThreadAttached::at(&old, 1);
    assert_eq!((template.tid(), template.record_addr()), (Ok(7), Ok(0x2010)));
    let missing = FieldError::NotInVersion { event: "ThreadAttached", field: "label", since: 2, version: 1 };
    assert_eq!(template.label(), Err(missing));
    assert_eq!(payload::ThreadAttached::deserialize(&old, 1), Err(missing));

    let new = [&old[..], &9_u64.to_le_bytes(), b"and more"].concat();
    let template = templates::ThreadAttached::at(&new, 3);
    assert_eq!((template.tid(), template.label()), (Ok(7), Ok(9)));
    assert_eq!(payload::ThreadAttached::deserialize(&new, 3).unwrap().label, 9);

    // The header says version 2 but the payload is of version 1.
    let lying = templates::ThreadAttached::at(&old, 2);
    let short = FieldError::Short { event: "ThreadAttached", field: "label", from: 12, to: 20, have: 12 };
    assert_eq!(lying.label(), Err(short));
    assert_eq!(
        short.to_string(),
        "the payload of ThreadAttached ends after 12 bytes, and its field `label` lies in bytes 12 to 20"
    );
    assert_eq!(lying.view().fields().count(), 3);
}

#[test]
fn a_collection_starts_with_these_bytes() {
    let records = one_of_each(1);
    let start = records.iter().find(|record| record.id == EventId::GcStart).unwrap();
    let stopworld::events::Event::GcStart(start) = start.event() else { panic!("not its own payload") };
    let bytes = start.serialize();
    assert_eq!(payload::GcStart::BYTES, 8);
    assert_eq!(bytes[..4], start.number.to_le_bytes());
    assert_eq!(bytes[4..], start.reason.to_le_bytes());
    assert_eq!(payload::GcStart::deserialize(&bytes, 1), Ok(start));
}

#[test]
fn versions_only_add_at_the_end_and_the_layout_has_no_holes() {
    for descriptor in &DESCRIPTORS {
        assert!(descriptor.fields.is_sorted_by_key(|field| field.since), "{}", descriptor.name);
        let mut end = 0;
        for place in descriptor.layout() {
            assert_eq!(place.offset, end, "{}", descriptor.name);
            end += place.field.kind.bytes();
            assert!(place.field.since >= 1 && place.field.since <= descriptor.version);
        }
        assert_eq!(descriptor.payload_bytes(descriptor.version), end);
        let mut names: Vec<_> = descriptor.fields.iter().map(|field| field.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), descriptor.fields.len(), "{}: two fields of one name", descriptor.name);
    }
}

#[test]
fn the_committed_page_is_the_generated_one() {
    let committed = include_str!("../../docs/events.md");
    assert!(committed == reference::markdown(), "docs/events.md is old: stopworld events --markdown > docs/events.md");
}
