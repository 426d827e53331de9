//! The ptrace part of the simulated Linux.
//!
//! There is one tracer at a time. It traces all threads, or all but one ([`Kernel::miss`]). If the tracer stops a thread, the thread stops at its next step, or where it sleeps: so it can be
//! stopped between any two steps of any protocol, also in its handler. A resumed thread first takes its pending signal, as in the real
//! kernel. A thread whose registers the tracer has set to `park` enters `park` first, even before it takes its signal.
//!
//! A notification ([`notify`]) represents a stop of the thread by a signal that the process ignores. Without a tracer it has no effect;
//! with a tracer the thread stops until the tracer resumes it, or dies.
//!
//! When a tracer dies ([`Kernel::tracer_dies`]), all its threads resume at once, wherever they are. The real kernel resumes one after the
//! other: [`Kernel::tracer_begins_to_exit`] is the moment at which only one thread is still traced.

use super::{AT_PARK, CURRENT, Kernel, PENDING, STOPPED, current_tid, kernel, run_as_handler};
use crate::checker::atomic::Ordering;

/// The kernel's record of the tracer.
#[derive(Default)]
pub(super) struct Ptrace {
    /// The tracer's number; 0 if there is none.
    tracer: u32,
    /// Whether the tracer ends: it is set before the first thread resumes.
    exiting: bool,
    /// The thread that no tracer traces; 0 if there is none.
    missed: u32,
    /// The threads that are stopped at a step.
    ack_state: Vec<u32>,
    /// The threads that have ended.
    ended: Vec<u32>,
    /// The threads that wait in a notification, and the addresses of their requests.
    notifying: Vec<(u32, usize)>,
    no_more: bool,
}

impl Ptrace {
    fn tracer_of(&self, tid: u32) -> u32 {
        if tid == self.missed { 0 } else { self.tracer }
    }
}

impl Kernel {
    /// Simulates PTRACE_SEIZE: the calling thread becomes the tracer, with this number. Returns `false` if there is another tracer.
    pub(crate) fn attach_tracer(&self, number: u32) -> bool {
        let mut inside = self.sleepers.lock().expect("not poisoned");
        if inside.ptrace.tracer != 0 {
            return false;
        }
        inside.ptrace.tracer = number;
        true
    }

    /// Makes every tracer miss this thread: its creation is in progress when tracers attach. They never stop it.
    pub(crate) fn miss(&self, tid: u32) {
        self.sleepers.lock().expect("not poisoned").ptrace.missed = tid;
    }

    /// Simulates TracerPid in /proc: returns the number of the calling thread's tracer, 0 if there is none.
    pub(crate) fn tracer(&self) -> u32 {
        self.sleepers.lock().expect("not poisoned").ptrace.tracer_of(current_tid())
    }

    /// Simulates the flags in /proc/PID/stat: returns whether this tracer ends.
    pub(crate) fn is_exiting(&self, tracer: u32) -> bool {
        let inside = self.sleepers.lock().expect("not poisoned");
        inside.ptrace.tracer == tracer && inside.ptrace.exiting
    }

    /// Simulates TracerPid of all threads: returns whether any thread is traced.
    pub(crate) fn is_any_traced(&self) -> bool {
        self.sleepers.lock().expect("not poisoned").ptrace.tracer != 0
    }

    /// Simulates /proc/PID/task/TID/stat: returns whether the tracer has stopped the thread.
    pub(crate) fn is_stopped(&self, tid: u32) -> bool {
        let _inside = self.sleepers.lock().expect("not poisoned");
        self.task(tid).flags.load(Ordering::Relaxed) & STOPPED != 0
    }

    /// Returns whether the thread has ended.
    pub(crate) fn has_ended(&self, tid: u32) -> bool {
        self.sleepers.lock().expect("not poisoned").ptrace.ended.contains(&tid)
    }

    /// Simulates PTRACE_INTERRUPT, and the wait for the stop. Returns `false` if the thread has ended.
    pub(crate) fn stop_thread(&self, tid: u32) -> bool {
        let mut inside = self.sleepers.lock().expect("not poisoned");
        self.task(tid).flags.fetch_or(STOPPED, Ordering::Relaxed);
        loop {
            if inside.ptrace.ended.contains(&tid) {
                return false;
            }
            let asleep = inside.queue.iter().any(|sleeper| sleeper.tid == tid && sleeper.ended.is_none());
            if asleep
                || inside.ptrace.ack_state.contains(&tid)
                || inside.ptrace.notifying.iter().any(|(notifying, _)| *notifying == tid)
            {
                return true;
            }
            inside = self.tracer_waits.wait(inside).expect("not poisoned");
        }
    }

    /// Points a stopped thread's registers at the entry of `park`.
    pub(crate) fn point_at_park(&self, tid: u32) {
        self.task(tid).flags.fetch_or(AT_PARK, Ordering::Relaxed);
    }

    /// Restores the registers.
    pub(crate) fn point_back(&self, tid: u32) {
        self.task(tid).flags.fetch_and(!AT_PARK, Ordering::Relaxed);
    }

    /// Simulates PTRACE_CONT.
    pub(crate) fn continue_thread(&self, tid: u32) {
        let _inside = self.sleepers.lock().expect("not poisoned");
        self.let_go(tid);
    }

    /// Simulates PTRACE_CONT of a thread that stops at once for its pending signal, and the death of the tracer before the second
    /// PTRACE_CONT, which would pass the signal on. The kernel drops the signal. (Observed on Linux 6.18, if the tracer had waited for the
    /// stop.)
    pub(crate) fn swallow_signal(&self, tid: u32) {
        self.task(tid).flags.fetch_and(!PENDING, Ordering::Relaxed);
    }

    /// Waits for a notification. Returns the thread's number and the address of its request; `None` if there will be no more notifications.
    pub(crate) fn next_notification(&self) -> Option<(u32, usize)> {
        let mut inside = self.sleepers.lock().expect("not poisoned");
        loop {
            if let Some(first) = inside.ptrace.notifying.first() {
                return Some(*first);
            }
            if inside.ptrace.no_more {
                return None;
            }
            inside = self.tracer_waits.wait(inside).expect("not poisoned");
        }
    }

    /// Returns whether a thread waits in a notification.
    pub(crate) fn has_notification(&self) -> bool {
        !self.sleepers.lock().expect("not poisoned").ptrace.notifying.is_empty()
    }

    /// Resumes a notifying thread, without the signal.
    pub(crate) fn end_notification(&self, tid: u32) {
        let mut inside = self.sleepers.lock().expect("not poisoned");
        inside.ptrace.notifying.retain(|(notifying, _)| *notifying != tid);
        self.task(tid).wakeup.notify_one();
    }

    /// Declares that there will be no more notifications.
    pub(crate) fn no_more_notifications(&self) {
        self.sleepers.lock().expect("not poisoned").ptrace.no_more = true;
        self.tracer_waits.notify_all();
    }

    /// Simulates the beginning of the tracer's end, up to the moment at which all threads but `last` have resumed.
    pub(crate) fn tracer_begins_to_exit(&self, last: u32) {
        let mut inside = self.sleepers.lock().expect("not poisoned");
        inside.ptrace.exiting = true;
        (1..=self.tasks.len() as u32).filter(|tid| *tid != last).for_each(|tid| self.let_go(tid));
    }

    /// Simulates SIGKILL of the tracer, or PTRACE_DETACH of all threads.
    pub(crate) fn tracer_dies(&self) {
        let mut inside = self.sleepers.lock().expect("not poisoned");
        inside.ptrace.tracer = 0;
        inside.ptrace.exiting = false;
        let notifying = std::mem::take(&mut inside.ptrace.notifying);
        notifying.iter().for_each(|(tid, _)| self.task(*tid).wakeup.notify_one());
        (1..=self.tasks.len() as u32).for_each(|tid| self.let_go(tid));
    }

    /// Resumes a thread. The caller holds the lock.
    fn let_go(&self, tid: u32) {
        if self.task(tid).flags.fetch_and(!STOPPED, Ordering::Relaxed) & STOPPED != 0 {
            self.task(tid).wakeup.notify_one();
        }
    }

    pub(super) fn ended(&self, tid: u32) {
        self.sleepers.lock().expect("not poisoned").ptrace.ended.push(tid);
        self.tracer_waits.notify_all();
    }
}

/// Stops the calling thread until the tracer, if there is one, has served the request at address `what`.
pub(crate) fn notify(what: usize) {
    let (kernel, tid) = (kernel(), current_tid());
    let mut inside = kernel.sleepers.lock().expect("not poisoned");
    if inside.ptrace.tracer_of(tid) == 0 {
        return;
    }
    inside.ptrace.notifying.push((tid, what));
    kernel.tracer_waits.notify_all();
    while inside.ptrace.notifying.iter().any(|(notifying, _)| *notifying == tid) {
        inside = kernel.task(tid).wakeup.wait(inside).expect("not poisoned");
    }
    drop(inside);
    super::interrupt_point();
}

/// Called at a step if the tracer has stopped the thread or pointed it at `park`: waits, and then enters `park`. Returns the thread's
/// flags.
pub(super) fn stand() -> u32 {
    let (kernel, tid) = (kernel(), current_tid());
    let task = kernel.task(tid);
    let mut inside = kernel.sleepers.lock().expect("not poisoned");
    let mut flags = task.flags.fetch_or(0, Ordering::AcqRel);
    if flags & STOPPED != 0 {
        inside.ptrace.ack_state.push(tid);
        kernel.tracer_waits.notify_all();
        while flags & STOPPED != 0 {
            inside = task.wakeup.wait(inside).expect("not poisoned");
            flags = task.flags.fetch_or(0, Ordering::AcqRel);
        }
        inside.ptrace.ack_state.retain(|ack_state| *ack_state != tid);
    }
    drop(inside);
    if flags & AT_PARK != 0 {
        task.flags.fetch_and(!AT_PARK, Ordering::AcqRel);
        let park = CURRENT.with(|current| current.handler.borrow().clone());
        run_as_handler(&park.expect("a traced thread has a handler"));
    }
    flags
}
