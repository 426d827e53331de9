//! An eventlog whose writer is blocked while threads continue to fire: the losses are reported in the log and in the totals.

use crate::eventlog_rules;

use std::io::Read;
use std::process::Command;

use eventlog_rules::{Log, check};
use ghc_eventlog::events::id;
use stopworld::World;
use stopworld::events::record::Policy;
use stopworld_trace::eventlog::Options;

const FIRED: u64 = 400_000;

/// A pipe without a reader takes 64 KiB, and then the writer waits.
#[test]
fn losses_are_reported_where_they_happened() {
    let _alone = crate::alone();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    // Opened for reading and writing, so that opening does not wait; it is read through another descriptor.
    let both = std::fs::File::options().read(true).write(true).open(&path).unwrap();
    let mut reader = std::fs::File::open(&path).unwrap();
    let trace = Options::new(&path).policy(Policy::Dropping).start().unwrap();
    let world = World::builder().record_to(&trace).build().unwrap();
    let label = world.telemetry_intern("once more").unwrap().get();
    (0..FIRED).for_each(|_| world.events().fire_user_message(label));
    let reading = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).unwrap();
        bytes
    });
    // After the reads there is room for the world's end.
    trace.flush().unwrap();
    drop(world);
    trace.wait_for_worlds(std::time::Duration::from_secs(120));
    let finished = trace.finish().unwrap();
    drop(both);
    let log = Log::parse(&reading.join().unwrap());
    check(&log);
    assert!(finished.totals.dropped > FIRED / 100, "{finished:?}");
    let said = log.all(id::LOG_MSG).map(|event| event.text(0));
    let numbers = said.filter(|text| text.contains("were lost before this"));
    let lost: u64 = numbers.map(|text| text.split(' ').nth(1).unwrap().parse::<u64>().unwrap()).sum();
    assert_eq!(lost, finished.totals.dropped);
    assert_eq!(log.count(id::USER_MSG) as u64 + lost, FIRED);
}
