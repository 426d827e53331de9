//! How fast telemetry streams become text: `cargo bench --bench decode`.
//!
//! The stream is a real one of a Scheme under the MPS, with a record for every reference that is fixed, repeated to some
//! 16 MB; the lines go nowhere. What must hold is 500 MB/s for `hex`, the form that is made for programs (a stream is
//! decoded faster than a disk gives it). The real `mpseventcnv` decodes 64 MB/s. `bytes` is what the others stand on: the
//! same records found, and nothing printed.

use std::hint::black_box;
use std::io;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use mps_telemetry::decode::{Form, Style, decode};
use mps_telemetry::reader::Reader;

const STREAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/mps/scheme-cool-all.bin");

/// The whole records of the file, 40 times.
fn stream() -> Vec<u8> {
    let file = std::fs::read(STREAM).expect("the fixture is there");
    let mut reader = Reader::new(&file[..]);
    let mut whole = 0;
    loop {
        while let Ok(Some(record)) = reader.buffered() {
            whole = record.offset as usize + record.bytes().len();
        }
        if !reader.fill().expect("memory is readable") {
            return file[..whole].repeat(40);
        }
    }
}

fn decoding(criterion: &mut Criterion) {
    let stream = stream();
    let mut group = criterion.benchmark_group("decode");
    group.throughput(Throughput::Bytes(stream.len() as u64)).sample_size(20);
    group.bench_function("bytes", |bencher| {
        bencher.iter(|| {
            let mut reader = Reader::new(&stream[..]);
            while reader.fill().expect("memory is readable") {
                while let Ok(Some(record)) = reader.buffered() {
                    black_box(record.code());
                }
            }
        });
    });
    let forms = [
        ("hex", Form::Hex),
        ("named", Form::Named),
        ("manual -S", Form::Manual(Style::Human)),
        ("manual -SC", Form::Manual(Style::Commas)),
    ];
    for (name, form) in forms {
        group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
            bencher.iter(|| decode(&stream[..], io::sink(), form, None, &mut |_| {}).expect("the stream is whole"));
        });
    }
    group.finish();
}

criterion_group!(benches, decoding);
criterion_main!(benches);
