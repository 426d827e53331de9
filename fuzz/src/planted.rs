//! A reader of telemetry streams with planted bugs, of the kinds that the targets check for.

use mps_telemetry::reader::Reader;
use mps_telemetry::{TypedRecord, v2};

use crate::differential::is_prefix;
use crate::{limited, names_a_byte};

/// Reads a stream with the bug `mistake`.
pub fn planted(mistake: &str, stream: &[u8]) {
    match mistake {
        "overflow" => {
            let mut held = 0;
            sizes(stream, |size| held += size);
        }
        "memory" => limited(64 << 20, || sizes(stream, |size| drop(vec![1u8; (size as u32) as usize]))),
        "time" => sizes(stream, |size| (0..size).for_each(|number| _ = std::hint::black_box(number))),
        "message" => {
            let mut reader = Reader::new(stream);
            if reader.fill().is_ok_and(|more| more) && reader.buffered().is_err() {
                names_a_byte("a record of the stream is damaged");
            }
        }
        "prefix" => {
            let all = |stream| {
                let mut all = Vec::new();
                sizes(stream, |size| all.push(size));
                // The planted bug: the last record comes first.
                all.reverse();
                all
            };
            is_prefix(&all(&stream[..stream.len() / 2]), &all(stream));
        }
        other => panic!("there is no planted bug '{other}'"),
    }
}

fn sizes(stream: &[u8], mut each: impl FnMut(u64)) {
    let mut reader = Reader::new(stream);
    let _ = reader.fill();
    while let Ok(Some(record)) = reader.buffered() {
        if let Some(allocation) = v2::PoolAlloc::decode(&record) {
            each(allocation.size);
        }
    }
}
