//! The options that select the profiles of a run: the heap, by one of seven breakdowns, and the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::size::seconds;
use stopworld::profile::census::{Breakdown, Census, Every, Filters, HeapProfile, Stage};
use stopworld::profile::{TickClock, TimeProfile};
use stopworld::{Charging, WorldBuilder};

#[derive(Debug, Args)]
pub(super) struct Profiling {
    /// Profile the heap: hc by cost centre stack, hm by module, hd by description, hy by type, hr by retainers, hb by biography,
    /// hT by the kind of object. Written to --trace FILE.eventlog or FILE.hp
    #[arg(long, value_name = "BY", value_parser = breakdown)]
    pub(super) profile: Option<Breakdown>,

    /// The interval between two censuses of the heap: seconds (fractions allowed), or collections, such as 5gc [default: 1gc]
    #[arg(long, value_name = "S|Ngc", value_parser = every, allow_hyphen_values = true)]
    pub(super) interval: Option<Every>,

    /// Count only objects that match: KIND is module, description, type, centre, stack, retainer or biography, NAME a full
    /// name from a profile by that KIND (for a module the whole path). May be repeated
    #[arg(long, value_name = "KIND=NAME,…", value_parser = only)]
    pub(super) only: Vec<Only>,

    /// Profile the time: processor time (the default) or real time. Written to --trace FILE.eventlog or FILE.prof
    #[arg(long, value_name = "CLOCK", num_args = 0..=1, require_equals = true, default_missing_value = "cpu")]
    pub(super) time_profile: Option<Clock>,

    /// The length of a tick of the time profile, in seconds, at least 0.00002 [default: 0.001]
    #[arg(long, value_name = "S", value_parser = tick, allow_negative_numbers = true)]
    pub(super) tick: Option<Duration>,
}

/// The values of `--time-profile`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Clock {
    /// A tick for each interval of processor time
    Cpu,
    /// A tick for each interval of real time, also for waiting threads
    Wall,
}

/// A filter: its kind, and the names that it matches.
#[derive(Clone, Debug)]
pub(super) struct Only {
    kind: Filter,
    names: Vec<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Filter {
    Module,
    Description,
    Type,
    Centre,
    Stack,
    Retainer,
    Biography,
}

fn breakdown(text: &str) -> Result<Breakdown, String> {
    let options = Breakdown::ALL.map(Breakdown::option).join(" ");
    Breakdown::from_option(text).ok_or_else(|| format!("unknown breakdown '{text}': the breakdowns are {options}"))
}

fn every(text: &str) -> Result<Every, String> {
    let Some(count) = text.strip_suffix("gc") else { return seconds(text).map(Every::Time) };
    match count.parse() {
        Ok(count) if count > 0 => Ok(Every::Collections(count)),
        _ => Err("the number of collections must be a whole number from 1 on, such as 5gc".to_owned()),
    }
}

fn tick(text: &str) -> Result<Duration, String> {
    let interval = seconds(text)?;
    match interval < TimeProfile::SHORTEST {
        true => Err(format!("a tick must be at least {} seconds long", TimeProfile::SHORTEST.as_secs_f64())),
        false => Ok(interval),
    }
}

fn only(text: &str) -> Result<Only, String> {
    let (kind, names) = text.split_once('=').ok_or("write a kind, = and names, such as type=Tree")?;
    let known = || Filter::value_variants().iter().filter_map(Filter::to_possible_value);
    let kind = Filter::from_str(kind, true).map_err(|_| {
        let kinds: Vec<String> = known().map(|value| value.get_name().to_owned()).collect();
        format!("'{kind}' is not one of {}", kinds.join(" "))
    })?;
    let names: Vec<String> = names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    match (kind, names.iter().find(|name| Stage::from_name(name).is_none())) {
        _ if names.is_empty() => Err("write the names to match after the =".to_owned()),
        (Filter::Biography, Some(name)) => {
            let stages = Stage::ALL.map(|stage| stage.name().to_ascii_lowercase()).join(" ");
            Err(format!("'{name}' is not one of {stages}"))
        }
        _ => Ok(Only { kind, names }),
    }
}

/// Records whether the filters of a profile matched anything.
#[derive(Debug, Default)]
pub(super) struct Passed {
    censuses: AtomicU64,
    anything: AtomicBool,
}

impl Passed {
    fn note(&self, census: &Census) {
        self.censuses.fetch_add(1, Ordering::Relaxed);
        if census.bands.iter().any(|band| band.objects > 0) {
            self.anything.store(true, Ordering::Relaxed);
        }
    }

    /// Reports, at the end of a run, if the profile is empty because of its filters.
    pub(super) fn report_if_empty(&self) {
        let censuses = self.censuses.load(Ordering::Relaxed);
        if censuses > 0 && !self.anything.load(Ordering::Relaxed) {
            eprintln!(
                "stopworld: --only matched nothing in {censuses} censuses, so the profile is empty; NAME must equal a full name from a profile by that KIND"
            );
        }
    }
}

impl Profiling {
    fn filters(&self) -> Filters {
        let mut filters = Filters::none();
        for Only { kind, names } in &self.only {
            let names = names.iter().cloned();
            match kind {
                Filter::Module => filters.modules.extend(names),
                Filter::Description => filters.descriptions.extend(names),
                Filter::Type => filters.types.extend(names),
                Filter::Centre => filters.centres.extend(names),
                Filter::Stack => filters.stacks.extend(names),
                Filter::Retainer => filters.retainers.extend(names),
                Filter::Biography => filters.biography.extend(names.filter_map(|name| Stage::from_name(&name))),
            }
        }
        filters
    }

    /// Returns whether a heap profile takes its censuses by time.
    pub(super) fn is_by_time(&self) -> bool {
        self.profile.is_some() && matches!(self.interval, Some(Every::Time(_)))
    }

    /// Returns the requested heap profile.
    fn heap_profile(&self) -> Option<HeapProfile> {
        let every = self.interval.unwrap_or(Every::Collections(1));
        self.profile.map(|breakdown| HeapProfile::by(breakdown).every(every).filters(self.filters()))
    }

    /// Refuses options of a profile that is not requested, and profiles that this build does not support.
    pub(super) fn check(&self) -> Result<(), String> {
        let without =
            |option: &str, profile: &str| Err(format!("{option}: it configures a profile: request one with {profile}"));
        match self {
            Profiling { profile: None, interval: Some(_), .. } => return without("--interval", "--profile"),
            Profiling { profile: None, only, .. } if !only.is_empty() => return without("--only", "--profile"),
            Profiling { time_profile: None, tick: Some(_), .. } => return without("--tick", "--time-profile"),
            _ => {}
        }
        let Some(profile) = self.heap_profile() else { return Ok(()) };
        let is_filter = profile.breakdown != Breakdown::Biography || !profile.filters.retainers.is_empty();
        let option = if is_filter { "--only" } else { "--profile" };
        profile.check().map_err(|error| format!("{option}: {error}"))
    }

    /// Profiles the world from its beginning on, and records in `passed` whether the filters match anything.
    pub(super) fn of_world(&self, mut builder: WorldBuilder, passed: &Arc<Passed>) -> WorldBuilder {
        if let Some(mut profile) = self.heap_profile() {
            if !self.only.is_empty() {
                let passed = Arc::clone(passed);
                profile = profile.on_census(move |census| passed.note(census));
            }
            let HeapProfile { breakdown, filters, .. } = &profile;
            let by_charge = matches!(breakdown, Breakdown::CostCentre | Breakdown::Module);
            let asks_for_charges = [&filters.modules, &filters.centres, &filters.stacks].iter().any(|f| !f.is_empty());
            if by_charge || asks_for_charges {
                builder = builder.charge_allocations(Charging::On);
            }
            builder = builder.profile(profile);
        }
        if let Some(clock) = self.time_profile {
            let clock = match clock {
                Clock::Cpu => TickClock::Cpu,
                Clock::Wall => TickClock::Wall,
            };
            let interval = self.tick.unwrap_or(TimeProfile::default().interval);
            builder = builder.time_profile(TimeProfile { interval, clock });
        }
        builder
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("5gc", Ok(Every::Collections(5)))]
    #[case("0.25", Ok(Every::Time(Duration::from_millis(250))))]
    #[case("0gc", Err(()))]
    #[case("-1", Err(()))]
    #[case("gc", Err(()))]
    fn an_interval_is_of_seconds_or_of_collections(#[case] text: &str, #[case] expected: Result<Every, ()>) {
        assert_eq!(every(text).map_err(drop), expected);
    }

    #[rstest]
    #[case("type=Tree,Node", None)]
    #[case("biography=lag,drag", None)]
    #[case("biography=late", Some("not one of void lag"))]
    #[case("colour=red", Some("not one of module"))]
    #[case("type=", Some("the names to match"))]
    #[case("Tree", Some("such as type=Tree"))]
    fn a_filter_is_a_kind_and_names(#[case] text: &str, #[case] complaint: Option<&str>) {
        match (only(text), complaint) {
            (Ok(only), None) => assert_eq!(only.names.len(), 2),
            (Err(error), Some(complaint)) => assert!(error.contains(complaint), "{error}"),
            (result, _) => panic!("{result:?}"),
        }
    }
}
