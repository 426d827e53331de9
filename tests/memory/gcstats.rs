//! A trace of any length takes the same memory (`.format.hostile`), and every collection in it counts.

use std::io;

use crate::gcstats_stream::Stream;
use crate::memory_support::{alone, measured};
use nettrace::Reader;
use stopworld_analysis::gcstats::{Rules, analyse};

#[test]
fn memory_does_not_grow_with_the_number_of_collections() {
    let stream = Stream::new(150 << 20, 0);
    let expected = stream.collections();
    let _alone = alone();
    let ((), most) = measured(|| {
        let (processes, summary) = analyse(Reader::new(stream), Rules::Ours).expect("temporary files can be read");
        assert!(summary.damage.is_none(), "{:?}", summary.damage);
        assert_eq!(summary.lost, 0);
        assert_eq!(processes[0].all.count, expected);
        let mut xml = 0;
        let lines = processes[0].for_each(|collection, figures| {
            assert!(collection.complete && figures.peak > 1.0);
            xml += 1;
            Ok::<_, io::Error>(())
        });
        lines.expect("temporary files can be read");
        assert_eq!(xml, expected);
    });
    // Stored compactly the collections would take about 40 MiB; the reader's windows take most of the rest.
    let most = most >> 20;
    assert!(expected > 100_000 && most < 64, "{most} MiB for {expected} collections");
}
