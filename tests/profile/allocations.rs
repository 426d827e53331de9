//! Sampled allocations (`.profile.samples`): call stacks with their functions, estimates against exact counts, and what is in use.

use std::collections::HashMap;
use std::ffi::CStr;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;
use rstest::rstest;
use stopworld::profile::allocations::{AllocationProfile, AllocationSampling, AllocationSite, MOST_FRAMES};
use stopworld::untyped::{ObjectPointers, UntypedKind};
use stopworld::{Gc, GcCell, Mutator, World, keep_alive, traced};
use stopworld_platform::symbols::Symbols;

use crate::hazard::{self, By, while_collecting};

/// The same samples in each run of the tests.
pub fn with_fixed_seed(interval: u64) -> AllocationSampling {
    AllocationSampling { seed: 24, ..AllocationSampling::every(interval) }
}

traced! {
    pub struct Link { next: GcCell<Option<Gc<Link>>>, number: u64 }
    struct Other { number: u64 }
}

/// The bytes of a `Link` and of an `Other`, with their headers.
const LINK_BYTES: f64 = 24.0;
const OTHER_BYTES: f64 = 16.0;

pub fn world(by: By, interval: u64) -> World {
    hazard::build(hazard::builder().allocation_sampling(with_fixed_seed(interval)), by)
}

pub fn attached(world: &World) -> Mutator {
    // SAFETY: the tests keep each `Gc` on their stacks and in collected objects.
    unsafe { world.attach("main") }.unwrap()
}

#[inline(never)]
pub fn many(m: &Mutator, objects: u64) {
    for number in 0..objects {
        black_box(m.alloc(Other { number }).unwrap());
    }
    black_box(());
}

#[inline(never)]
fn through_a_caller(m: &Mutator, objects: u64) {
    many(m, objects);
    black_box(());
}

#[inline(never)]
pub fn list(m: &Mutator, links: u64) -> Gc<Link> {
    let mut first = None;
    for number in 0..links {
        first = Some(m.alloc(Link { next: GcCell::new(first), number }).unwrap());
    }
    black_box(first).unwrap()
}

/// The program's own functions of a site, innermost first, without their paths.
fn functions(site: &AllocationSite, symbols: &mut Symbols) -> Vec<String> {
    let stack: Vec<usize> = site.call_stack.unwrap().return_addresses().collect();
    let frames = symbols.own_frames(&stack);
    let places = frames.iter().flat_map(|(_, places)| places);
    places.map(|place| place.function().rsplit("::").next().unwrap().to_owned()).collect()
}

/// The sites by their two innermost functions.
fn by_function(profile: &AllocationProfile) -> HashMap<String, Vec<AllocationSite>> {
    assert_eq!(profile.dropped, 0);
    let mut symbols = Symbols::new();
    let mut sites: HashMap<String, Vec<AllocationSite>> = HashMap::new();
    for site in &profile.sites {
        let functions = functions(site, &mut symbols);
        sites.entry(functions[..functions.len().min(2)].join(" < ")).or_default().push(*site);
    }
    sites
}

fn sum(sites: &[AllocationSite], value: impl Fn(&AllocationSite) -> f64) -> f64 {
    sites.iter().map(value).sum()
}

/// Whether the estimate is within six standard deviations of this many objects of a size, each sampled with the same probability.
fn is_near(estimate: f64, objects: f64, bytes: f64, interval: f64) -> bool {
    let probability = -(-bytes / interval).exp_m1();
    (estimate - objects).abs() <= 6.0 * (objects * (1.0 - probability) / probability).sqrt() + 1e-3 * objects
}

#[rstest]
#[case::signals(By::Signals)]
#[case::safepoints(By::Safepoints)]
#[case::debugger(By::Debugger)]
fn each_function_has_its_share_and_its_callers(#[case] by: By) {
    const INTERVAL: u64 = 2000;
    let world = world(by, INTERVAL);
    let m = attached(&world);
    many(&m, 100_000);
    through_a_caller(&m, 300_000);
    keep_alive(list(&m, 50_000));
    let sites = by_function(&world.allocation_profile().unwrap());
    let estimates = |name: &str| {
        let sites = sites.iter().filter(|(key, _)| key.starts_with(name)).flat_map(|(_, sites)| sites).copied();
        sites.collect::<Vec<_>>()
    };
    for (name, objects, bytes) in [
        ("many < each_function", 100_000.0, OTHER_BYTES),
        ("many < through_a_caller", 300_000.0, OTHER_BYTES),
        ("list < each_function", 50_000.0, LINK_BYTES),
    ] {
        let found = estimates(name);
        let estimate = sum(&found, AllocationSite::allocated_objects);
        assert!(
            is_near(estimate, objects, bytes, INTERVAL as f64),
            "{name}: {estimate} of {objects}: {:?}",
            sites.keys()
        );
        let is_of = |site: &AllocationSite| {
            site.type_info.name().ends_with(if name.starts_with("list") { "Link" } else { "Other" })
        };
        assert!(found.iter().all(|site| is_of(site) && site.object_bytes as f64 == bytes));
    }
}

/// Runs a function on another stack, with a wrong frame pointer. No unwind table describes this function.
#[unsafe(naked)]
extern "C" fn on_stack(top: usize, f: extern "C" fn(&Mutator), m: &Mutator) {
    std::arch::naked_asm!(
        "push rbx",
        "push rbp",
        "mov rbx, rsp",
        "mov rsp, rdi",
        "mov rbp, 0x10",
        "mov rdi, rdx",
        "call rsi",
        "mov rsp, rbx",
        "pop rbp",
        "pop rbx",
        "ret",
    )
}

#[inline(never)]
extern "C" fn on_the_coroutine(m: &Mutator) {
    many(m, 100);
    black_box(());
}

/// The words above the first frame of the coroutine are no return addresses.
#[rstest]
#[case::registered(true)]
#[case::unknown(false)]
fn on_a_coroutines_stack_the_walk_stays_in_its_bounds(#[case] is_registered: bool) {
    let world = world(By::Signals, 1);
    let m = attached(&world);
    let stack = vec![0x1234_5678_9abc_usize; 32 << 10].leak().as_ptr_range();
    let top = (stack.end as usize - 256) & !15;
    // SAFETY: leaked memory stays readable.
    let registered = is_registered.then(|| unsafe { m.register_stack(stack.start.cast(), stack.end.cast()) });
    on_stack(top, on_the_coroutine, &m);
    let sites = world.allocation_profile().unwrap().sites;
    assert_eq!(sites.iter().map(|site| site.samples).sum::<u64>(), 100);
    let mut symbols = Symbols::new();
    for site in &sites {
        if is_registered {
            let functions = functions(site, &mut symbols);
            assert_eq!(functions[..2], ["many", "on_the_coroutine"], "{functions:?}");
        } else {
            assert_eq!(site.call_stack, None);
        }
    }
    drop(registered);
}

#[rstest]
#[case::signals(By::Signals)]
#[case::safepoints(By::Safepoints)]
#[case::debugger(By::Debugger)]
fn what_is_in_use_is_what_lives(#[case] by: By) {
    let world = world(by, 1);
    let m = attached(&world);
    let kept = list(&m, 1000);
    many(&m, 5000);
    m.collect().unwrap();
    // An object that this thread's stack still names may live on.
    let sites = world.allocation_profile().unwrap().sites;
    let (links, others): (Vec<_>, Vec<_>) =
        sites.iter().copied().partition(|site| site.type_info.name().ends_with("Link"));
    assert_eq!(links.iter().map(|site| (site.samples, site.samples_in_use)).fold((0, 0), added), (1000, 1000));
    let (allocated, in_use) = others.iter().map(|site| (site.samples, site.samples_in_use)).fold((0, 0), added);
    assert!(allocated == 5000 && in_use < 10, "{in_use} of {allocated}");
    keep_alive(kept);
    scrubbed(|| ());
    m.collect().unwrap();
    let live = world.totals().live_bytes;
    let estimate = sum(&world.allocation_profile().unwrap().sites, AllocationSite::bytes_in_use);
    assert!((estimate - live as f64).abs() < 1.0, "{estimate} bytes in use, {live} are live");
}

fn added((a, b): (u64, u64), (c, d): (u64, u64)) -> (u64, u64) {
    (a + c, b + d)
}

#[inline(never)]
fn scrubbed(f: impl FnOnce()) {
    black_box([0_usize; 512]);
    f();
}

/// Collections come between the choice of a cell and its object, and at every other instruction.
#[rstest]
#[case::signals(By::Signals)]
#[case::safepoints(By::Safepoints)]
fn no_sample_is_lost_while_other_threads_collect(#[case] by: By) {
    // Few stops come between the two: without the guard, about every second round loses a sample.
    for _ in 0..12 {
        let world = world(by, 1);
        while_collecting(&world, || {
            let m = attached(&world);
            let kept = list(&m, 30_000);
            m.collect().unwrap();
            let profile = world.allocation_profile().unwrap();
            let all = profile.sites.iter().map(|site| (site.samples, site.samples_in_use)).fold((0, 0), added);
            assert_eq!((all, profile.dropped), ((30_000, 30_000), 0), "the sample of an object in use was lost");
            keep_alive(kept);
        });
    }
}

#[test]
fn a_collection_at_each_allocation_loses_no_sample() {
    let builder = hazard::builder().collect_every(0).allocation_sampling(with_fixed_seed(1));
    let world = hazard::build(builder, By::Signals);
    let m = attached(&world);
    let kept = list(&m, 300);
    let profile = world.allocation_profile().unwrap();
    let all = profile.sites.iter().map(|site| (site.samples, site.samples_in_use)).fold((0, 0), added);
    assert_eq!((all, profile.dropped), ((300, 300), 0));
    keep_alive(kept);
}

#[test]
fn the_samples_of_threads_that_have_ended_are_kept() {
    let world = world(By::Signals, 1);
    let m = attached(&world);
    let threads: Vec<_> = (0..4)
        // SAFETY: the threads keep no `Gc`.
        .map(|index| unsafe { world.spawn("worker", move |m| many(m, 1000 * (index + 1))) }.unwrap())
        .collect();
    threads.into_iter().for_each(|thread| m.blocking(|| thread.join()).unwrap());
    let samples: u64 = world.allocation_profile().unwrap().sites.iter().map(|site| site.samples).sum();
    assert_eq!(samples, 10_000);
    m.collect().unwrap();
    let in_use: u64 = world.allocation_profile().unwrap().sites.iter().map(|site| site.samples_in_use).sum();
    assert!(in_use < 10, "{in_use}");
}

#[inline(never)]
fn down(m: &Mutator, levels: u32) {
    if levels == 0 {
        many(m, 10)
    } else {
        down(m, levels - 1)
    }
    black_box(levels);
}

#[test]
fn a_call_stack_deeper_than_the_limit_has_its_innermost_frames() {
    let world = world(By::Signals, 1);
    let m = attached(&world);
    down(&m, 1000);
    let profile = world.allocation_profile().unwrap();
    let [site] = profile.sites[..] else { panic!("{profile:?}") };
    assert_eq!(site.samples, 10);
    assert_eq!(site.call_stack.unwrap().return_addresses().count(), MOST_FRAMES);
    let functions = functions(&site, &mut Symbols::new());
    assert_eq!(functions[..3], ["many", "down", "down"]);
    assert!(functions.len() > MOST_FRAMES / 2 && functions[1..].iter().all(|function| function == "down"));
}

#[test]
fn large_objects_count_by_their_blocks() {
    const INTERVAL: u64 = 200_000;
    let world = world(By::Signals, INTERVAL);
    let m = attached(&world);
    for _ in 0..3000 {
        black_box(m.alloc_array(12_000, |i| i as u8).unwrap());
    }
    let sites = world.allocation_profile().unwrap().sites;
    assert_eq!(sites[0].object_bytes, 16 << 10);
    let objects = sum(&sites, AllocationSite::allocated_objects);
    assert!(is_near(objects, 3000.0, 16384.0, INTERVAL as f64), "{objects}");
}

#[test]
fn an_untyped_object_that_is_freed_is_not_in_use() {
    let kind = UntypedKind::scanned("freed");
    let builder = hazard::builder().untyped(ObjectPointers::Bases).allocation_sampling(with_fixed_seed(1));
    let world = hazard::build(builder, By::Signals);
    let m = attached(&world);
    let in_use = || {
        world
            .allocation_profile()
            .unwrap()
            .sites
            .iter()
            .map(|site| (site.samples, site.samples_in_use))
            .fold((0, 0), added)
    };
    for bytes in [16, 24, 500, 100_000] {
        // Too few for a collection, which would not see those in the `Vec`.
        let objects: Vec<_> = (0..10).map(|_| m.alloc_untyped(bytes, kind).unwrap()).collect();
        let before = in_use();
        for object in objects {
            // SAFETY: nothing uses the object any more.
            unsafe { m.free_untyped(object) }.unwrap();
        }
        let after = in_use();
        assert_eq!((after.0, after.1 + 10), before, "objects of {bytes} bytes");
        // Each of the freed cells is allocated, and sampled, as any other.
        black_box(m.alloc_untyped(bytes, kind).unwrap());
        assert_eq!(in_use(), (after.0 + 1, after.1 + 1));
    }
    m.collect().unwrap();
    assert!(in_use().1 <= 4, "{:?}", in_use());
}

#[test]
fn libraries_come_and_go_while_threads_sample() {
    let world = world(By::Signals, 64);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let libraries: [&CStr; 3] = [c"libresolv.so.2", c"libBrokenLocale.so.1", c"libanl.so.1"];
            while !done.load(Ordering::Relaxed) {
                for name in libraries {
                    // SAFETY: glibc's own libraries, which may be loaded and unloaded.
                    unsafe {
                        let library = libc::dlopen(name.as_ptr(), libc::RTLD_NOW);
                        if !library.is_null() {
                            libc::dlclose(library);
                        }
                    }
                }
            }
        });
        let m = attached(&world);
        many(&m, 100_000);
        done.store(true, Ordering::Relaxed);
    });
    let sites = by_function(&world.allocation_profile().unwrap());
    assert_eq!(sites.keys().filter(|name| !name.starts_with("many < ")).count(), 0, "{:?}", sites.keys());
}

#[test]
fn a_world_without_sampling_has_no_profile() {
    let world = hazard::world(By::Signals);
    assert!(world.allocation_profile().is_none());
}

#[test]
fn the_same_seed_takes_the_same_samples() {
    let samples = |seed| {
        let sampling = AllocationSampling { seed, ..AllocationSampling::every(1000) };
        let world = hazard::build(hazard::builder().allocation_sampling(sampling), By::Signals);
        many(&attached(&world), 20_000);
        world.allocation_profile().unwrap().sites.iter().map(|site| site.samples).sum::<u64>()
    };
    assert_eq!(samples(1), samples(1));
    assert!((2..20).any(|seed| samples(seed) != samples(1)));
    assert_ne!(AllocationSampling::every(1).seed, AllocationSampling::every(1).seed, "the default is random");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(12) })]
    /// The estimate of the bytes of objects of many sizes, small and large, against the collector's own count.
    #[test]
    fn estimates_of_mixed_sizes_have_no_bias(
        seed: u64,
        interval in prop::sample::select(vec![1_u64, 100, 5000, 100_000]),
        sizes in prop::collection::vec((0_usize..3000, 1_usize..400), 1..30),
    ) {
        let sampling = AllocationSampling { interval_bytes: interval, seed };
        let world = hazard::build(hazard::builder().allocation_sampling(sampling), By::Signals);
        let m = attached(&world);
        let (mut bytes, mut variance) = (0.0, 0.0);
        for (length, count) in sizes {
            for _ in 0..count {
                black_box(m.alloc_array(length, |i| i as u64).unwrap());
            }
            // What an object of this size takes, from a world in which each is sampled.
            let exact = hazard::build(hazard::builder().allocation_sampling(with_fixed_seed(1)), By::Signals);
            let size = m.blocking(|| std::thread::scope(|scope| {
                let measure = || {
                    let m = attached(&exact);
                    black_box(m.alloc_array(length, |i| i as u64).unwrap());
                    exact.allocation_profile().unwrap().sites[0].object_bytes as f64
                };
                scope.spawn(measure).join().unwrap()
            }));
            let probability = -(-size / interval as f64).exp_m1();
            bytes += size * count as f64;
            variance += size * size * count as f64 * (1.0 - probability) / probability;
        }
        let estimate = sum(&world.allocation_profile().unwrap().sites, AllocationSite::allocated_bytes);
        prop_assert!((estimate - bytes).abs() <= 6.0 * variance.sqrt() + 2e-3 * bytes, "{estimate} of {bytes} bytes");
    }
}
