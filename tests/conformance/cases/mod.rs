//! The cases: properties that must hold with every debugger.

mod attaching;
mod births;
mod calls;
mod registers;
mod rows;
mod stopping;

use std::collections::BTreeMap;

use crate::driver::{Ability, Driver, ThreadView, Which};
use crate::facts::TestResult;
use crate::program::{Program, wait_for};

/// A row of the table.
pub struct Case {
    pub name: &'static str,
    pub needs: &'static [Ability],
    pub run: fn(&mut Session) -> TestResult<()>,
    /// Whether the case takes minutes, so that it is run only on request.
    pub long: bool,
}

const fn case(name: &'static str, needs: &'static [Ability], run: fn(&mut Session) -> TestResult<()>) -> Case {
    Case { name, needs, run, long: false }
}

const fn long(name: &'static str, needs: &'static [Ability], run: fn(&mut Session) -> TestResult<()>) -> Case {
    Case { name, needs, run, long: true }
}

use Ability::*;

/// All cases.
pub static CASES: &[Case] = &[
    case("attach reads all existing threads", &[], attaching::reads_all_threads),
    case("attach races collections", &[], attaching::races_collections),
    case("created under lock, frozen owner named", &[FreezeOne], births::created_under_lock),
    case("exited before free", &[], births::exited_before_free),
    case("births and ends during stops", &[], births::during_stops),
    case("frozen waiter blocks no other thread", &[FreezeOne], births::frozen_waiter),
    case("nested: a user's stop survives collections", &[FreezeOne], stopping::nested),
    case("nested: a thaw in mid-stop", &[FreezeOne], stopping::thaw_in_mid_stop),
    case("exact restore of run state", &[FreezeOne], stopping::exact_restore),
    case("frozen in a blocking region", &[FreezeOne], stopping::frozen_while_blocking),
    case("a mutator collects", &[FreezeOne], stopping::a_mutator_collects),
    case("registers: general", &[], registers::general),
    case("registers: xmm, ymm, zmm", &[], registers::vectors),
    case("registers: red zone", &[], registers::red_zone),
    case("registers: interior, one past the end", &[], registers::interior),
    case("registers: asleep in the kernel", &[], registers::asleep),
    case("registers of a frozen thread", &[FreezeOne], registers::of_frozen_threads),
    case("restartable calls continue", &[], calls::restartable),
    case("no call is interrupted", &[LeaveCallsAlone], calls::none_interrupted),
    case("swap of the vtable under the debugger", &[StayBesideAnother], attaching::swap),
    case("detach in mid-stop", &[], attaching::detach_in_mid_stop),
    case("detach thaws", &[FreezeOne], attaching::detach_thaws),
    case("death in mid-stop", &[Die], attaching::death_in_mid_stop),
    case("fork", &[], births::fork),
    case("exec", &[FollowExec], births::exec),
    case("many worlds at once", &[ManyWorlds], stopping::many_worlds),
    case("cooperation: lisp", &[], rows::lisp),
    case("cooperation: churn", &[], rows::churn),
    case("cooperation: binary-trees", &[], rows::binary_trees),
    case("exactness of run states", &[FreezeOne], rows::exactness),
    case("attach and detach, again and again", &[], rows::attach_and_detach),
    long("long: cooperation: lisp", &[], rows::long_lisp),
    long("long: cooperation: churn", &[], rows::long_churn),
    long("long: cooperation: binary-trees", &[], rows::long_binary_trees),
    long("long: exactness of run states", &[FreezeOne], rows::long_exactness),
    long("long: attach and detach, again and again", &[], rows::long_attach_and_detach),
];

/// A program, and a debugger that is not yet attached to it.
pub struct Session {
    pub which: Which,
    pub driver: Box<dyn Driver>,
    pub program: Program,
}

impl Session {
    pub fn new(which: Which, driver: Box<dyn Driver>) -> TestResult<Self> {
        Ok(Self { which, driver, program: Program::start()? })
    }

    pub fn attach(&mut self) -> TestResult<()> {
        self.driver.attach(&mut self.program)
    }

    pub fn detach(&mut self) -> TestResult<()> {
        self.driver.detach(&mut self.program)
    }

    pub fn freeze(&mut self, tid: i32) -> TestResult<()> {
        self.driver.freeze(&mut self.program, tid)
    }

    pub fn thaw(&mut self, tid: i32) -> TestResult<()> {
        self.driver.thaw(&mut self.program, tid)
    }

    pub fn threads(&mut self) -> TestResult<BTreeMap<i32, ThreadView>> {
        self.driver.threads(&mut self.program)
    }

    pub fn stops(&mut self) -> TestResult<u64> {
        self.driver.stops(&mut self.program)
    }

    /// The debugger shows exactly the mutators that the program reports.
    pub fn knows_all_threads(&mut self) -> TestResult<()> {
        let mut told = String::new();
        // Threads that the program has just joined may still be exiting.
        let known = wait_for("the debugger to show the mutators", || {
            let own: BTreeMap<i32, String> = self
                .program
                .ask("threads")?
                .iter()
                .filter_map(|(name, tid)| Some((tid.parse().ok()?, name.to_owned())))
                .collect();
            let shown: BTreeMap<i32, String> =
                self.threads()?.into_iter().map(|(tid, seen)| (tid, seen.name)).collect();
            told = format!("the program has {own:?}, the debugger shows {shown:?}");
            Ok(own == shown)
        });
        known.map_err(|error| format!("{error}: {told}"))
    }

    /// Collects `times` times, and checks that the debugger served each of the stops. Returns the number of weak references that were
    /// cleared.
    pub fn collect(&mut self, times: u32) -> TestResult<u64> {
        let before = self.stops()?;
        let killed = self.program.collect(times)?;
        let served = self.stops()? - before;
        expect(served >= u64::from(times), || format!("{times} collections, and the debugger served {served} stops"))?;
        Ok(killed)
    }

    /// Checks at the end of a case that the heap is intact, and that the program runs without the debugger.
    pub fn ends_well(&mut self) -> TestResult<()> {
        self.detach()?;
        self.program.is_left_alone()?;
        self.program.collect(2)?;
        self.program.ask("verify").map(drop)
    }
}

pub fn expect(holds: bool, otherwise: impl FnOnce() -> String) -> TestResult<()> {
    if holds { Ok(()) } else { Err(otherwise()) }
}

pub fn equal<T: PartialEq + std::fmt::Debug>(what: &str, is: T, expected: T) -> TestResult<()> {
    expect(is == expected, || format!("{what}: {is:?}, not {expected:?}"))
}
