//! The cost of the smallest operations, one by one: `cargo bench --bench micro`.
//!
//! These operations occur everywhere in a mutator: an allocation from the thread's run of free cells (including the
//! collections it causes; the pacing floor is raised so that they are rare), reading and writing a field, a safepoint poll, a
//! blocking region, a root, a disabled event with and without a probe. They have no limits here; the limits are in
//! `cargo bench --bench compare`. The empty loop is the baseline for the others.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use stopworld::events::Events;
use stopworld::{Gc, GcCell, Mutator, Stopper, Trace, World, traced};

traced! {
    /// The smallest object: one word.
    pub struct Words1 { words: [u64; 1] }
}
traced! {
    /// 16 bytes, like a pair.
    pub struct Words2 { words: [u64; 2] }
}
traced! {
    /// 32 bytes.
    pub struct Words4 { words: [u64; 4] }
}
traced! {
    /// 64 bytes.
    pub struct Words8 { words: [u64; 8] }
}
traced! {
    /// 256 bytes.
    pub struct Words32 { words: [u64; 32] }
}
traced! {
    /// An object with one reference.
    pub struct Link { next: GcCell<Option<Gc<Link>>> }
}

/// Runs `body` on this thread, attached to a world whose collections are rare.
fn in_a_world<R>(stopper: Stopper, body: impl FnOnce(&Mutator) -> R) -> R {
    let world = World::builder().initial_heap(256 << 20).stopper(stopper).build().expect("a world");
    // SAFETY: the benches keep their references on the stack only.
    let mutator = unsafe { world.attach("bench") }.expect("attached");
    body(&mutator)
}

fn allocation(criterion: &mut Criterion) {
    fn one<T: Trace>(
        group: &mut criterion::BenchmarkGroup<'_, criterion::measurement::WallTime>,
        m: &Mutator,
        new: fn() -> T,
    ) {
        let bytes = size_of::<T>() as u64;
        group.throughput(Throughput::Bytes(bytes));
        group.bench_function(BenchmarkId::from_parameter(bytes), |bencher| bencher.iter(|| m.alloc(new())));
    }
    in_a_world(Stopper::Signals, |m| {
        let mut group = criterion.benchmark_group("allocate");
        one(&mut group, m, || Words1 { words: [0; 1] });
        one(&mut group, m, || Words2 { words: [0; 2] });
        one(&mut group, m, || Words4 { words: [0; 4] });
        one(&mut group, m, || Words8 { words: [0; 8] });
        one(&mut group, m, || Words32 { words: [0; 32] });
        group.finish();
    });
}

fn fields(criterion: &mut Criterion) {
    in_a_world(Stopper::Signals, |m| {
        let end = m.alloc(Link { next: GcCell::new(None) }).expect("memory");
        let link = m.alloc(Link { next: GcCell::new(Some(end)) }).expect("memory");
        let mut group = criterion.benchmark_group("field");
        group.bench_function("get", |bencher| bencher.iter(|| black_box(link).next.get()));
        group.bench_function("set", |bencher| bencher.iter(|| black_box(link).next.set(Some(black_box(end)))));
        group.finish();
    });
}

fn stopping(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("thread");
    group.bench_function("empty loop", |bencher| bencher.iter(|| black_box(())));
    in_a_world(Stopper::Safepoints, |m| {
        group.bench_function("safepoint", |bencher| bencher.iter(|| m.safepoint()));
    });
    in_a_world(Stopper::Signals, |m| {
        group.bench_function("blocking region", |bencher| bencher.iter(|| m.blocking(|| black_box(()))));
    });
    group.finish();
}

fn handles(criterion: &mut Criterion) {
    in_a_world(Stopper::Signals, |m| {
        let object = m.alloc(Words2 { words: [0; 2] }).expect("memory");
        criterion.bench_function("root", |bencher| bencher.iter(|| m.root(black_box(object))));
    });
}

fn events(criterion: &mut Criterion) {
    let events = Events::new();
    let mut group = criterion.benchmark_group("event off");
    group.bench_function("without a probe", |bencher| bencher.iter(|| black_box(&events).fire_emergency_set(1, 2)));
    group.bench_function("with a probe", |bencher| bencher.iter(|| black_box(&events).fire_gc_start(1, 2)));
    group.finish();
}

criterion_group!(benches, allocation, fields, stopping, handles, events);
criterion_main!(benches);
