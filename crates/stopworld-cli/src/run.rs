//! One run of a workload, from its arguments to its exit code.

use std::sync::Arc;

use anyhow::{Context, anyhow};

use super::arguments::Run;
use super::control::Control;
use super::exit::{FAILED, Failure};
use super::progress::{ProgramOutput, Progress};
use super::session::Session;
use super::trace_request::TraceRequest;
use stopworld::{BuildError, Exhausted, Mutator, OutOfMemory};
use stopworld_analysis::report::Bytes;
use stopworld_platform::suggest;
use stopworld_workloads::{self as workloads, Outcome, RunPlan, Until, WORKLOADS, Workload, WorkloadError, hammer};

/// The workload that runs programs from files. It is not one of the library's workloads.
pub(super) const LISP: &str = "lisp";

/// `stopworld run`.
pub(super) fn run(run: &Run) -> Result<u8, Failure> {
    let workload = find(&run.workload)?;
    let plan = plan(run, workload)?;
    if let Some(file) = run.files.first() {
        let file = file.display();
        return Err(Failure::Usage(format!(
            "'{file}': the workload {} reads no files; `stopworld run lisp {file}` runs a Scheme program",
            workload.name
        )));
    }
    let session = Session::begin(&run.settings, TraceRequest::by(&run.settings)?, plan)
        .map_err(|error| smallest_heap(error, &enough(workload, &plan)))?;
    let program_output = if workload.name == hammer::WORKLOAD.name || run.settings.flexowriter {
        ProgramOutput::Prints
    } else {
        ProgramOutput::Silent
    };
    let run_control = session.run_control.clone();
    perform(session, workload.name, program_output, |m| {
        let outcome = workloads::run(m, workload, &run_control).map_err(|error| explained(error, workload, &plan))?;
        super::exit::print(said(workload, &plan, outcome));
        Ok(())
    })
}

/// Runs `work` on an attached main thread, controlled by signals, and prints the figures whatever ended it.
pub(super) fn perform(
    session: Arc<Session>,
    name: &str,
    program_output: ProgramOutput,
    work: impl FnOnce(&Mutator) -> anyhow::Result<()>,
) -> Result<u8, Failure> {
    let control = Control::take(&session)?;
    let progress = Progress::show(&session, name, program_output);
    let result = attached(&session, work);
    drop(progress);
    let closed = session.close();
    let ended_by = control.end();
    let trace = Session::finish(session);
    result.and(closed)?;
    let without_trace = if trace.is_complete() { 0 } else { FAILED };
    Ok(ended_by.unwrap_or(without_trace))
}

fn attached(session: &Session, work: impl FnOnce(&Mutator) -> anyhow::Result<()>) -> anyhow::Result<()> {
    // SAFETY: the workloads keep each `Gc` on their stacks, in collected objects or in `Root`s, as `attach` requires;
    // this function holds none.
    let m = unsafe { session.world().attach("main") }.context("can't attach the main thread to its world")?;
    work(&m)
}

/// Returns the workload with this name, or an error that suggests the nearest name.
fn find(name: &str) -> Result<&'static Workload, Failure> {
    workloads::find(name).ok_or_else(|| {
        let known = WORKLOADS.iter().map(|w| w.name).chain([LISP]);
        let guess = suggest::nearest(name, known).map_or(String::new(), |n| format!("did you mean '{n}'? "));
        Failure::Usage(format!("unknown workload '{name}': {guess}`stopworld workloads` lists them"))
    })
}

fn plan(run: &Run, workload: &Workload) -> Result<RunPlan, Failure> {
    let depth = match (run.depth, workload.default_depth) {
        (given, Some(default)) => given.unwrap_or(default),
        (None, None) => 0,
        (Some(_), None) => {
            let with: Vec<&str> = WORKLOADS.iter().filter(|w| w.default_depth.is_some()).map(|w| w.name).collect();
            let name = workload.name;
            return Err(Failure::Usage(format!("--depth: {name} builds no trees; only {} do", with.join(" and "))));
        }
    };
    Ok(RunPlan { threads: run.threads, until: until(run), depth })
}

/// Returns the condition that ends the run, from its arguments.
pub(super) fn until(run: &Run) -> Until {
    match (run.seconds, run.collections) {
        (Some(time), _) => Until::Time(time),
        (None, Some(n)) => Until::Collections(n),
        (None, None) => Until::OnePass,
    }
}

/// Adds the remedy to an error of a workload.
fn explained(error: WorkloadError, workload: &Workload, plan: &RunPlan) -> anyhow::Error {
    match error {
        WorkloadError::OutOfMemory(error) => out_of_memory(error, workload, plan),
        error => anyhow!(error).context(workload.name),
    }
}

fn out_of_memory(error: OutOfMemory, workload: &Workload, plan: &RunPlan) -> anyhow::Error {
    let OutOfMemory { exhausted, live, limit, .. } = error;
    if exhausted != Exhausted::Heap {
        return anyhow!(error).context(workload.name);
    }
    let (live, limit, works) = (Bytes(live), Bytes(limit), enough(workload, plan));
    anyhow!("{}: out of memory: {live} are live and the heap limit is {limit}; {works}", workload.name)
}

/// Formats a heap limit that is sufficient for a workload, as an argument.
fn enough(workload: &Workload, plan: &RunPlan) -> String {
    let mebibytes = (workload.needs)(plan).div_ceil(1 << 20);
    match plan.threads.get() {
        1 => format!("--heap-limit {mebibytes}MiB works"),
        threads => format!("with {threads} threads --heap-limit {mebibytes}MiB works"),
    }
}

/// Extends the error of a world that could not be built: if its heap limit is too small for any world, adds a sufficient limit.
pub(super) fn smallest_heap(error: anyhow::Error, works: &str) -> anyhow::Error {
    match error.downcast_ref() {
        Some(&BuildError::HeapLimit { asked, smallest }) => {
            let (asked, smallest) = (Bytes(asked as u64), Bytes(smallest as u64));
            anyhow!("--heap-limit: {asked} is too small: the minimum is {smallest}; {works}")
        }
        _ => error,
    }
}

/// Formats the line that the program itself prints at its end.
fn said(workload: &Workload, plan: &RunPlan, outcome: Outcome) -> String {
    let depth = if workload.default_depth.is_some() { format!(" depth={}", plan.depth) } else { String::new() };
    let Outcome { passes, verified } = outcome;
    format!("{}{depth} threads={} passes={passes} verified={verified}\n", workload.name, plan.threads)
}
