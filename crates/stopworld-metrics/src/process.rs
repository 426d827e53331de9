//! What is read at each scrape: the worlds' heaps and threads, and the recorder of the process.

use std::fmt;
use std::sync::Mutex;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

use stopworld::events::record::{Recorder, locked};
use stopworld::{SpaceBytes, WeakWorld, World};

/// The worlds that take part.
#[derive(Default)]
pub(crate) struct ProcessMetrics {
    worlds: Mutex<Vec<Member>>,
}

struct Member {
    world: WeakWorld,
    /// The number of its threads when it was last known; `None` if it was never known.
    threads: Option<usize>,
}

/// The sums over the worlds.
#[derive(Default)]
pub(crate) struct Sums {
    pub(crate) worlds: i64,
    /// `None` if the number of a world is not known yet.
    pub(crate) threads: Option<i64>,
    pub(crate) committed: i64,
    pub(crate) limit: i64,
    live: SpaceBytes,
}

impl Sums {
    /// Returns the live bytes of the spaces.
    pub(crate) fn live(&self) -> [(&'static str, i64); 3] {
        let SpaceBytes { small, large, pinned } = self.live;
        [("small", small as i64), ("large", large as i64), ("pinned", pinned as i64)]
    }
}

/// The description of the live bytes.
pub(crate) const LIVE: &str = "Bytes left alive by the latest collection of each world, by space";

impl ProcessMetrics {
    /// Adds a world, unless it takes part already.
    pub(crate) fn add(&self, world: &World) {
        locked(&self.worlds, |members| {
            members.retain(|member| member.world.is_alive());
            if !members.iter().any(|member| member.world.is(world)) {
                members.push(Member { world: world.downgrade(), threads: None });
            }
        });
    }

    /// Returns the present sums over the worlds.
    pub(crate) fn sums(&self) -> Sums {
        let mut sums = Sums { threads: Some(0), ..Sums::default() };
        let used: Vec<World> = locked(&self.worlds, |members| {
            let living = members.iter_mut().filter_map(|member| Some((member.world.upgrade()?, &mut member.threads)));
            living
                .map(|(world, threads)| {
                    let counters = world.counters();
                    // Unknown while the list of threads is in use, as during a collection.
                    *threads = counters.threads.or(*threads);
                    sums.worlds += 1;
                    sums.threads = sums.threads.zip(*threads).map(|(sum, threads)| sum + threads as i64);
                    sums.committed += counters.committed_bytes as i64;
                    sums.limit += world.heap_limit() as i64;
                    sums.live.small += counters.live.small;
                    sums.live.large += counters.live.large;
                    sums.live.pinned += counters.live.pinned;
                    world
                })
                .collect()
        });
        // A world may end here: outside of the lock, which its end may need.
        drop(used);
        sums
    }
}

impl fmt::Debug for ProcessMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessMetrics").finish_non_exhaustive()
    }
}

impl Collector for ProcessMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let sums = self.sums();
        let mut gauge = |name, help, unit: Option<&Unit>, value| {
            let gauge = ConstGauge::<i64>::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, unit, gauge.metric_type())?)
        };
        gauge("worlds", "Worlds that are not closed", None, sums.worlds)?;
        if let Some(threads) = sums.threads {
            gauge("threads", "Attached threads", None, threads)?;
        }
        gauge("heap_committed", "Memory that the heaps hold", Some(&Unit::Bytes), sums.committed)?;
        gauge("heap_limit", "Memory that the heaps may hold", Some(&Unit::Bytes), sums.limit)?;
        let mut live = encoder.encode_descriptor("live", LIVE, Some(&Unit::Bytes), MetricType::Gauge)?;
        for (space, bytes) in sums.live() {
            ConstGauge::<i64>::new(bytes).encode(live.encode_family(&[("space", space)])?)?;
        }
        let recorder = Recorder::of_process().totals();
        let mut counter = |name, help, value| {
            let counter = ConstCounter::<u64>::new(value);
            counter.encode(encoder.encode_descriptor(name, help, None, counter.metric_type())?)
        };
        counter("trace_events", "Events fired for traces", recorder.fired)?;
        counter("trace_events_lost", "Events that were dropped because the buffers were full", recorder.dropped)
    }
}
