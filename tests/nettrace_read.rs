//! Traces of real runtimes and made by hand, read to their end.

use std::collections::BTreeMap;

use rstest::rstest;
use stopworld::formats::nettrace::{NetEvent, Reader, Summary, TraceInfo, Visitor};

#[derive(Default)]
struct Counts {
    trace: Option<TraceInfo>,
    by_kind: BTreeMap<(String, u32), u64>,
    times: Vec<i64>,
}

impl Visitor for Counts {
    fn trace(&mut self, trace: &TraceInfo) {
        self.trace = Some(trace.clone());
    }

    fn event(&mut self, event: &NetEvent<'_>) {
        *self.by_kind.entry((event.kind.provider.clone(), event.kind.event)).or_default() += 1;
        self.times.push(event.time);
    }
}

fn read(path: &str) -> (Counts, Summary) {
    let mut counts = Counts::default();
    let summary = Reader::new(std::fs::File::open(path).unwrap()).read(&mut counts);
    (counts, summary)
}

#[rstest]
#[case("tiny", 2, 0)]
#[case("handmade-v4-3gcs", 34, 0)]
#[case("handmade-v6-3gcs", 34, 0)]
#[case("gcapp-3.1-gc-info", 0, 0)]
#[case("gcapp-3.1-collect-default", 0, 0)]
#[case("gcapp-3.1-gcheap-all", 0, 0)]
fn a_trace_is_read_to_its_end(#[case] name: &str, #[case] events: u64, #[case] lost: u64) {
    let (counts, summary) = read(&format!("tests/fixtures/nettrace/{name}.nettrace"));
    println!("{:?} {summary:?} {:#?}", counts.trace, counts.by_kind);
    assert_eq!((summary.damage, summary.ended_orderly, summary.late), (None, true, 0));
    assert_eq!((summary.events, summary.lost), (events, lost));
    assert!(counts.times.is_sorted());
}
