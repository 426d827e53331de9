//! Tests of the templates of the CLR's events: each version has its fields, and a missing field is never read.

use nettrace::clr::gc::{AllocationTick, CommittedUsage, Dynamic, HeapStats, PinObject};
use nettrace::clr::history::{FitBucketInfo, GlobalHeapHistory, LohCompact, PerHeapHistory};
use nettrace::clr::{self, FieldValue, Payload, Provider};
use proptest::prelude::*;
use rstest::rstest;

/// Returns a HeapStats payload as each version writes it, in which each number identifies its field. Version 3 is not known yet, so it has
/// an unknown tail.
fn heap_stats(version: u32) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..10_u64).flat_map(|field| (1000 + field).to_le_bytes()).collect();
    bytes.extend((0..3_u32).flat_map(|field| (2000 + field).to_le_bytes()));
    if version >= 1 {
        bytes.extend(9_u16.to_le_bytes());
    }
    if version >= 2 {
        bytes.extend((0..2_u64).flat_map(|field| (3000 + field).to_le_bytes()));
    }
    if version >= 3 {
        bytes.extend([0xEE; 40]);
    }
    bytes
}

#[rstest]
fn an_old_template_reads_new_data_and_a_new_one_old_data(
    #[values(0, 1, 2, 3)] written: u32,
    #[values(0, 1, 2, 3)] read: u32,
) {
    let bytes = heap_stats(written);
    let stats = HeapStats::new(read, Payload::new(&bytes, 8));
    assert_eq!((stats.generation_size0(), stats.finalization_promoted_count()), (Some(1000), Some(1009)));
    assert_eq!((stats.pinned_object_count(), stats.gc_handle_count()), (Some(2000), Some(2002)));
    let both = written.min(read);
    assert_eq!(stats.clr_instance_id(), (both >= 1).then_some(9));
    assert_eq!(stats.generation_size4(), (both >= 2).then_some(3000));
    assert_eq!(stats.total_promoted_size4(), (both >= 2).then_some(3001));
    let template = clr::find(Provider::Runtime, 4, read).expect("a newer version has the newest template");
    let mut names = Vec::new();
    template.decode(read, Payload::new(&bytes, 8), |_, field, _| names.push(field.name));
    assert_eq!(names.len(), [13, 14, 16, 16][both as usize], "{names:?}");
}

/// The actual length has precedence over the version. Tested for every version, cut at every length.
#[rstest]
fn a_payload_is_never_read_past_its_end(#[values(0, 1, 2, 3)] version: u32) {
    let bytes = heap_stats(3);
    for length in 0..bytes.len() {
        let stats = HeapStats::new(version, Payload::new(&bytes[..length], 8));
        assert_eq!(stats.generation_size0().is_some(), length >= 8);
        assert_eq!(stats.gc_handle_count().is_some(), length >= 92);
        assert_eq!(stats.generation_size4().is_some(), version >= 2 && length >= 102);
        assert_eq!(stats.total_promoted_size4().is_some(), version >= 2 && length >= 110);
    }
}

fn z16(text: &str) -> Vec<u8> {
    text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
}

#[rstest]
fn pointers_are_as_wide_as_those_of_the_process(#[values(4, 8)] pointer: u8) {
    let word = |value: u64| value.to_le_bytes()[..pointer.into()].to_vec();
    let tick = [
        100_000_u32.to_le_bytes().to_vec(),
        1_u32.to_le_bytes().to_vec(),
        0_u16.to_le_bytes().to_vec(),
        5_000_000_000_u64.to_le_bytes().to_vec(),
        word(0xABCD),
        z16("System.Größe"),
        3_u32.to_le_bytes().to_vec(),
        word(0xDEAD_BEEF),
        24_u64.to_le_bytes().to_vec(),
    ]
    .concat();
    let view = AllocationTick::new(4, Payload::new(&tick, pointer));
    assert_eq!((view.bytes(), view.kind()), (Some(5_000_000_000), Some(1)));
    assert_eq!((view.type_id(), view.heap_index()), (Some(0xABCD), Some(3)));
    assert_eq!(view.type_name().expect("the name is present").to_string(), "System.Größe");
    assert_eq!((view.address(), view.object_size()), (Some(0xDEAD_BEEF), Some(24)));
    let old = AllocationTick::new(1, Payload::new(&tick, pointer));
    assert_eq!((old.bytes(), old.type_name()), (Some(100_000), None));

    let numbers: Vec<u8> = (1..=50).flat_map(word).collect();
    let head = [vec![0; 2], word(1).repeat(6), vec![0; 24], word(7), 5_u32.to_le_bytes().to_vec()].concat();
    let history = [head, numbers].concat();
    assert_eq!(history.len(), if pointer == 8 { 486 } else { 2 + 24 + 24 + 4 + 4 + 200 });
    let view = PerHeapHistory::new(3, Payload::new(&history, pointer));
    let generations: Vec<_> = view.generations().collect();
    assert_eq!((view.count(), view.extra_gen0_commit(), generations.len()), (Some(5), Some(7), 5));
    assert_eq!((generations[4].size_before, generations[4].budget), (41, 50));
}

#[rstest]
fn rows_of_c_structures_are_padded_before_a_pointer(#[values(4, 8)] pointer: u8) {
    let word = |value: u64| value.to_le_bytes()[..pointer.into()].to_vec();
    let row = |n: u32| {
        let times: Vec<u8> = [n, n + 1, n + 2].iter().flat_map(|time| time.to_le_bytes()).collect();
        [times, vec![0xEE; usize::from(pointer) - 4], word(u64::from(n) * 10), word(1)].concat()
    };
    let bytes = [vec![0, 0, 2, 0], row(10), row(20)].concat();
    let heaps: Vec<_> = LohCompact::new(0, Payload::new(&bytes, pointer)).heaps().collect();
    assert_eq!(heaps.len(), 2);
    assert_eq!((heaps[1].plan, heaps[1].relocate, heaps[1].references, heaps[1].nulls), (20, 22, 200, 1));
    let mut rows = Vec::new();
    let template = clr::find(Provider::Runtime, 208, 0).expect("the template is known");
    template.decode(0, Payload::new(&bytes, pointer), |row, field, value| rows.push((row, field.name, value)));
    assert_eq!(rows.last(), Some(&(Some(1), "ZeroRefs", FieldValue::Unsigned(1))));
}

#[test]
fn every_event_is_found_by_its_provider_number_and_version() {
    for (provider, event, version, name) in [
        (Provider::Runtime, 1, 0, "GC/Start"),
        (Provider::Runtime, 1, 2, "GC/Start"),
        (Provider::Runtime, 32, 0, "GC/SampledObjectAllocation"),
        (Provider::Runtime, 187, 0, "Runtime/Start"),
        (Provider::Rundown, 187, 0, "Runtime/Start"),
        (Provider::Private, 199, 7, "GC/PinPlugAtGCTime"),
    ] {
        assert_eq!(clr::find(provider, event, version).map(|template| template.name), Some(name));
    }
    assert!(clr::find(Provider::Runtime, 204, 2).is_none(), "another layout");
    assert!(clr::find(Provider::Rundown, 4, 2).is_none());
}

#[test]
fn labels_are_those_of_dotnet() {
    let bytes = [1_u32, 0, 13, 99].iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
    let mut labels = Vec::new();
    let template = clr::find(Provider::Runtime, 1, 2).expect("the template is known");
    template.decode(2, Payload::new(&bytes, 8), |_, field, value| labels.push(field.label(&value)));
    assert_eq!(labels, [None, None, Some("LowMemoryHostBlocking".to_owned()), Some("99".to_owned())]);
}

proptest! {
    /// For any bytes, no accessor panics, and the listing agrees with the accessors.
    #[test]
    fn any_bytes_are_read_without_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..700),
        version in 0_u32..6,
        pointer in prop_oneof![Just(4_u8), Just(8), any::<u8>()],
    ) {
        let payload = Payload::new(&bytes, pointer);
        for template in clr::all() {
            let mut fields = 0;
            template.decode(version, payload, |_, field, value| {
                fields += 1;
                let _ = field.label(&value);
            });
            prop_assert!(fields <= 20 + bytes.len());
        }
        let _ = PerHeapHistory::new(version, payload).generations().count();
        let _ = LohCompact::new(version, payload).heaps().count();
        let _ = FitBucketInfo::new(version, payload).buckets().count();
        let _ = CommittedUsage::of(&Dynamic::new(version, payload));
        let _ = (0..9).filter_map(|phase| GlobalHeapHistory::new(version, payload).time(phase)).count();
        let pin = PinObject::new(version, payload);
        let _ = (pin.type_name().map(|name| name.to_string()), pin.clr_instance_id());
        let tick = AllocationTick::new(version, payload);
        let _ = (tick.object_size(), tick.type_name().map(|name| name.to_string()));
    }
}
