//! Real traces of .NET: what is shown live equals the report of the same trace.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Mutex;

use nettrace::Reader;
use rstest::rstest;
use stopworld_analysis::gcstats::collection::{Collection, HeapStats, Kind};
use stopworld_analysis::gcstats::{Rules, analyse};
use stopworld_watch::follow::follow;
use stopworld_watch::model::{History, Runtime};

fn fixture(name: &str) -> File {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/nettrace");
    File::open(folder.join(name)).expect("the fixture exists")
}

fn shown(name: &str) -> History {
    let history = Mutex::default();
    let summary = follow(fixture(name), &history, &|_| (), &|_| None);
    let history: History = history.into_inner().expect("no panic");
    assert_eq!(history.lost, summary.lost);
    history
}

#[rstest]
#[case("gcapp-3.1-collect-default.nettrace")]
#[case("gcapp-3.1-gc-info.nettrace")]
#[case("handmade-v4-3gcs.nettrace")]
#[case("handmade-v6-3gcs.nettrace")]
#[case("bgc-srv.nettrace")]
fn the_pauses_of_a_trace_are_those_of_its_report(#[case] name: &str) {
    let history = shown(name);
    let (processes, _) = analyse(Reader::new(fixture(name)), Rules::Ours).expect("the trace is readable");
    let report = &processes[0];
    let mut all = Vec::new();
    let each = report.for_each(|collection, _| -> io::Result<()> {
        all.push(collection.clone());
        Ok(())
    });
    each.expect("the collections can be read");
    assert!(all.iter().any(|collection| collection.complete));
    assert_eq!((history.runtime, history.incomplete), (Runtime::DotNet, 0));
    // Nothing is shown that the report does not have, and everything that it has is shown.
    for number in history.pauses.iter().filter_map(|pause| pause.number) {
        assert!(all.iter().any(|collection| collection.number == number), "collection {number}");
    }
    let sizes = |stats: &HeapStats| stats.sizes.map(|size| size as u64);
    for heap in history.heaps.iter() {
        let is_it = |collection: &Collection| collection.stats.as_ref().is_some_and(|stats| sizes(stats) == heap.bytes);
        assert!(all.iter().any(is_it), "{heap:?}");
    }
    for collection in all.iter().filter(|collection| collection.complete) {
        // A background collection has several pauses, and the report has their sum.
        let pauses = history.pauses.iter().filter(|pause| pause.number == Some(collection.number));
        let ms: Vec<f64> = pauses.map(|pause| pause.ns as f64 / 1e6).collect();
        assert!(!ms.is_empty(), "collection {}", collection.number);
        if collection.kind == Kind::BLOCKING {
            let differs = (ms[0] - collection.pause).abs();
            assert!(ms.len() == 1 && differs < 0.002, "collection {}: {ms:?}, {}", collection.number, collection.pause);
        }
        if let Some(stats) = &collection.stats {
            let is_shown = history.heaps.iter().any(|heap| heap.bytes == sizes(stats));
            assert!(is_shown, "collection {}", collection.number);
        }
    }
}
