//! The speed of decoding telemetry streams to text: `cargo bench --bench decode`.
//!
//! The stream was recorded from a Scheme interpreter on the MPS, with a record for every fixed reference. It is repeated to about 16 MB, and
//! the output is discarded. The requirement is 500 MB/s for `hex`, the machine-readable form, so that decoding is faster than reading
//! from a disk. The real `mpseventcnv` decodes 64 MB/s. `bytes` is the baseline: it finds the same records and prints nothing.

use std::hint::black_box;
use std::io;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use mps_telemetry::decode::{Form, Style, decode};
use mps_telemetry::reader::Reader;

const STREAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/mps/scheme-cool-all.bin");

/// Returns the complete records of the file, repeated 40 times.
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
