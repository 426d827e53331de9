//! What a workload is, and what workloads share: threads that work together, disorder, errors.

use std::any::Any;

use super::shift::{Plan, Shift};
use stopworld::{CollectError, Mutator, OutOfMemory, SpawnError};

/// A program that the command and the examples can run.
pub struct Workload {
    /// What it is called on the command line.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// The default depth of its trees, for workloads with trees.
    pub default_depth: Option<u32>,
    /// About how many bytes of heap one pass needs.
    pub needs: fn(&Plan) -> usize,
    /// Does the work once; returns how many objects it looked at and found right.
    pub pass: fn(&Mutator, &Shift) -> Result<u64, WorkloadError>,
}

/// What a workload did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Passes that were begun; the last one may have been cut short.
    pub passes: u64,
    /// Objects that were looked at and found right.
    pub verified: u64,
}

/// Why a workload could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// The heap limit is too small for it.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// A collection that it asked for did not succeed.
    #[error(transparent)]
    Collect(Box<CollectError>),
    /// A thread could not be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// It found a wrong result: the collector freed or changed something that was alive.
    #[error("wrong result, so the heap is damaged: {0}")]
    Wrong(String),
    /// One of its threads panicked.
    #[error("a thread of the workload panicked: {0}")]
    Panicked(String),
}

impl From<CollectError> for WorkloadError {
    fn from(error: CollectError) -> WorkloadError {
        WorkloadError::Collect(Box::new(error))
    }
}

/// What each of several threads does: told which of them it is, counted from 0.
pub(super) type Part = fn(&Mutator, &Shift, usize) -> Result<u64, WorkloadError>;

/// Does a part of the work on each thread of the plan and adds up what they verified. A plan of one thread is done on
/// the calling thread.
pub(super) fn on_threads(m: &Mutator, shift: &Shift, role: &str, part: Part) -> Result<u64, WorkloadError> {
    match shift.plan().threads.get() {
        1 => part(m, shift, 0),
        threads => {
            let mut crew = Crew::default();
            for index in 0..threads {
                crew.start(m, shift, &format!("{role}-{index}"), move |m, shift| part(m, shift, index))?;
            }
            crew.join()
        }
    }
}

/// Threads at work on the same shift. When one fails the shift is over for all.
#[derive(Default)]
pub(super) struct Crew {
    members: Vec<stopworld::JoinHandle<Result<u64, WorkloadError>>>,
}

impl Crew {
    /// Starts a thread. If that fails, those already started are joined first.
    pub(super) fn start<F>(&mut self, m: &Mutator, shift: &Shift, name: &str, work: F) -> Result<(), WorkloadError>
    where
        F: FnOnce(&Mutator, &Shift) -> Result<u64, WorkloadError> + Send + 'static,
    {
        let their_shift = shift.clone();
        let whole = move |m: &Mutator| {
            let result = work(m, &their_shift);
            if result.is_err() {
                their_shift.end();
            }
            result
        };
        // SAFETY: the workloads keep every `Gc` on their threads' stacks or in collected objects.
        match unsafe { m.world().spawn(name, whole) } {
            Ok(member) => self.members.push(member),
            Err(error) => {
                shift.end();
                std::mem::take(self).join()?;
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// Waits for all (a mutator counts as blocking meanwhile) and adds up what they verified; or gives the first error.
    pub(super) fn join(self) -> Result<u64, WorkloadError> {
        let mut sum = Ok(0);
        for member in self.members {
            let verified = member.join().unwrap_or_else(|panic| Err(panicked(&*panic)));
            sum = sum.and_then(|sum| Ok(sum + verified?));
        }
        sum
    }
}

/// A panic's message as an error.
pub(super) fn panicked(payload: &(dyn Any + Send)) -> WorkloadError {
    let text = payload.downcast_ref::<&str>().map(|s| (*s).to_owned());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    WorkloadError::Panicked(text.unwrap_or_else(|| "without a message".to_owned()))
}

/// A small, fast generator (xorshift) for workloads that need disorder, not randomness.
pub(super) struct Disorder(u64);

impl Disorder {
    pub(super) fn new(seed: usize) -> Disorder {
        Disorder(88_172_645_463_325_252 ^ ((seed as u64 + 1) << 32))
    }

    /// A number below `limit`.
    pub(super) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}
