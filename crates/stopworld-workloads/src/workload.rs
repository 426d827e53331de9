//! The definition of a workload, and the code that workloads share: groups of threads, pseudo-random numbers, errors.

use std::any::Any;

use super::run_control::{RunControl, RunPlan};
use stopworld::{CollectError, Mutator, OutOfMemory, SpawnError};

/// A program that the command and the examples can run.
pub struct Workload {
    /// The name on the command line.
    pub name: &'static str,
    /// A description in one line.
    pub about: &'static str,
    /// The default depth of the trees, for workloads with trees.
    pub default_depth: Option<u32>,
    /// Returns the approximate number of bytes of heap that one pass needs.
    pub needs: fn(&RunPlan) -> usize,
    /// Does the work once. Returns the number of objects that were verified.
    pub pass: fn(&Mutator, &RunControl) -> Result<u64, WorkloadError>,
}

/// The result of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The number of passes that were begun; the last one may be incomplete.
    pub passes: u64,
    /// The number of objects that were verified.
    pub verified: u64,
}

/// The reason why a workload failed.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// The heap limit is too small for the workload.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// A collection that the workload requested failed.
    #[error(transparent)]
    Collect(Box<CollectError>),
    /// A thread could not be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// The workload found a wrong result: the collector freed or changed a live object.
    #[error("wrong result, so the heap is damaged: {0}")]
    Wrong(String),
    /// A thread of the workload panicked.
    #[error("a thread of the workload panicked: {0}")]
    Panicked(String),
}

impl From<CollectError> for WorkloadError {
    fn from(error: CollectError) -> WorkloadError {
        WorkloadError::Collect(Box::new(error))
    }
}

/// The work of one of several threads. The last argument is the index of the thread, from 0.
pub(super) type Part = fn(&Mutator, &RunControl, usize) -> Result<u64, WorkloadError>;

/// Runs a part of the work on each thread of the plan. Returns the total number of verified objects. If the plan has one
/// thread, runs the work on the calling thread.
pub(super) fn on_threads(m: &Mutator, run_control: &RunControl, role: &str, part: Part) -> Result<u64, WorkloadError> {
    match run_control.plan().threads.get() {
        1 => part(m, run_control, 0),
        threads => {
            let mut workers = WorkerGroup::default();
            for index in 0..threads {
                workers.start(m, run_control, &format!("{role}-{index}"), move |m, run_control| {
                    part(m, run_control, index)
                })?;
            }
            workers.join()
        }
    }
}

/// A group of threads that share a run. If one of them fails, the run ends for all.
#[derive(Default)]
pub(super) struct WorkerGroup {
    members: Vec<stopworld::JoinHandle<Result<u64, WorkloadError>>>,
}

impl WorkerGroup {
    /// Starts a thread. If that fails, joins the threads already started before returning the error.
    pub(super) fn start<F>(
        &mut self,
        m: &Mutator,
        run_control: &RunControl,
        name: &str,
        work: F,
    ) -> Result<(), WorkloadError>
    where
        F: FnOnce(&Mutator, &RunControl) -> Result<u64, WorkloadError> + Send + 'static,
    {
        let their_run_control = run_control.clone();
        let whole = move |m: &Mutator| {
            let result = work(m, &their_run_control);
            if result.is_err() {
                their_run_control.end();
            }
            result
        };
        // SAFETY: the workloads keep every `Gc` on their threads' stacks or in collected objects.
        match unsafe { m.world().spawn(name, whole) } {
            Ok(member) => self.members.push(member),
            Err(error) => {
                run_control.end();
                std::mem::take(self).join()?;
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// Joins all threads (a mutator is in a blocking region meanwhile). Returns the total number of verified objects, or the
    /// first error.
    pub(super) fn join(self) -> Result<u64, WorkloadError> {
        let mut sum = Ok(0);
        for member in self.members {
            let verified = member.join().unwrap_or_else(|panic| Err(panicked(&*panic)));
            sum = sum.and_then(|sum| Ok(sum + verified?));
        }
        sum
    }
}

/// Converts a panic to an error with its message.
pub(super) fn panicked(payload: &(dyn Any + Send)) -> WorkloadError {
    let text = payload.downcast_ref::<&str>().map(|s| (*s).to_owned());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    WorkloadError::Panicked(text.unwrap_or_else(|| "without a message".to_owned()))
}

/// A small, fast pseudo-random generator (xorshift) for workloads that need irregular patterns, not good randomness.
pub(super) struct Xorshift(u64);

impl Xorshift {
    pub(super) fn new(seed: usize) -> Xorshift {
        Xorshift(88_172_645_463_325_252 ^ ((seed as u64 + 1) << 32))
    }

    /// Returns a number below `limit`.
    pub(super) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}
