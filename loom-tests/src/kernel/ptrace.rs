//! What the small Linux has of ptrace.
//!
//! One tracer at a time. A thread that it stops stands at the next step of its own, or where it sleeps: it can be stopped between
//! any two steps of any protocol, in its handler too. One that is let go meets its pending signal before anything else, as the kernel
//! delivers it. A thread whose registers were left at `park` goes there first, even before its signal.
//!
//! A notification ([`notify`]) stands for the thread's stop by a signal that the process ignores: without a tracer it is nothing;
//! with one the thread stands until the tracer lets it go on, or dies.
//!
//! A tracer that dies ([`Kernel::tracer_dies`]) lets all go at once, in the middle of whatever it was at.

use super::{AT_PARK, CURRENT, Kernel, PENDING, STOPPED, current_tid, kernel, run_as_handler};
use crate::checker::atomic::Ordering;

/// The tracer, as the kernel knows it.
#[derive(Default)]
pub(super) struct Ptrace {
    /// Its number; 0: nobody.
    tracer: u32,
    /// Those that it has seen stop, or that have ended.
    standing: Vec<u32>,
    ended: Vec<u32>,
    /// Threads that stand in a notification, and the addresses of what they want to tell.
    notifying: Vec<(u32, usize)>,
    no_more: bool,
}

impl Kernel {
    /// PTRACE_SEIZE: the calling thread traces the process by this number. `false`: somebody else does.
    pub(crate) fn attach_tracer(&self, number: u32) -> bool {
        let mut inside = self.sleepers.lock().expect("no panic goes on");
        if inside.ptrace.tracer != 0 {
            return false;
        }
        inside.ptrace.tracer = number;
        true
    }

    /// TracerPid: 0 for nobody.
    pub(crate) fn tracer(&self) -> u32 {
        self.sleepers.lock().expect("no panic goes on").ptrace.tracer
    }

    /// /proc/PID/task/TID/stat: the thread stands for its tracer.
    pub(crate) fn is_stopped(&self, tid: u32) -> bool {
        let _inside = self.sleepers.lock().expect("no panic goes on");
        self.task(tid).flags.load(Ordering::Relaxed) & STOPPED != 0
    }

    /// There is no such thread any more.
    pub(crate) fn has_ended(&self, tid: u32) -> bool {
        self.sleepers.lock().expect("no panic goes on").ptrace.ended.contains(&tid)
    }

    /// PTRACE_INTERRUPT, and the wait for it. `false`: there is no such thread any more.
    pub(crate) fn stop_thread(&self, tid: u32) -> bool {
        let mut inside = self.sleepers.lock().expect("no panic goes on");
        self.task(tid).flags.fetch_or(STOPPED, Ordering::Relaxed);
        loop {
            if inside.ptrace.ended.contains(&tid) {
                return false;
            }
            let asleep = inside.queue.iter().any(|sleeper| sleeper.tid == tid && sleeper.ended.is_none());
            if asleep
                || inside.ptrace.standing.contains(&tid)
                || inside.ptrace.notifying.iter().any(|(notifying, _)| *notifying == tid)
            {
                return true;
            }
            inside = self.tracer_waits.wait(inside).expect("no panic goes on");
        }
    }

    /// Leaves a stopped thread's registers at the entry of `park`.
    pub(crate) fn point_at_park(&self, tid: u32) {
        self.task(tid).flags.fetch_or(AT_PARK, Ordering::Relaxed);
    }

    /// Puts the registers back.
    pub(crate) fn point_back(&self, tid: u32) {
        self.task(tid).flags.fetch_and(!AT_PARK, Ordering::Relaxed);
    }

    /// PTRACE_CONT.
    pub(crate) fn continue_thread(&self, tid: u32) {
        let _inside = self.sleepers.lock().expect("no panic goes on");
        self.let_go(tid);
    }

    /// PTRACE_CONT of a thread that stops at once by its pending signal, and then, instead of the second one that would pass the signal on,
    /// the tracer's death: the kernel forgets the signal. (Seen on Linux 6.18, if the tracer had waited for the stop.)
    pub(crate) fn swallow_signal(&self, tid: u32) {
        self.task(tid).flags.fetch_and(!PENDING, Ordering::Relaxed);
    }

    /// Sleeps until some thread notifies; its number, and what it wants to tell. `None`: the process has nobody left to notify.
    pub(crate) fn next_notification(&self) -> Option<(u32, usize)> {
        let mut inside = self.sleepers.lock().expect("no panic goes on");
        loop {
            if let Some(first) = inside.ptrace.notifying.first() {
                return Some(*first);
            }
            if inside.ptrace.no_more {
                return None;
            }
            inside = self.tracer_waits.wait(inside).expect("no panic goes on");
        }
    }

    /// Whether some thread stands in a notification.
    pub(crate) fn has_notification(&self) -> bool {
        !self.sleepers.lock().expect("no panic goes on").ptrace.notifying.is_empty()
    }

    /// Lets a notifying thread go on, without the signal.
    pub(crate) fn end_notification(&self, tid: u32) {
        let mut inside = self.sleepers.lock().expect("no panic goes on");
        inside.ptrace.notifying.retain(|(notifying, _)| *notifying != tid);
        self.task(tid).wakeup.notify_one();
    }

    /// Nobody notifies any more.
    pub(crate) fn no_more_notifications(&self) {
        self.sleepers.lock().expect("no panic goes on").ptrace.no_more = true;
        self.tracer_waits.notify_all();
    }

    /// SIGKILL of the tracer, or its detach from all threads.
    pub(crate) fn tracer_dies(&self) {
        let mut inside = self.sleepers.lock().expect("no panic goes on");
        inside.ptrace.tracer = 0;
        let notifying = std::mem::take(&mut inside.ptrace.notifying);
        notifying.iter().for_each(|(tid, _)| self.task(*tid).wakeup.notify_one());
        (1..=self.tasks.len() as u32).for_each(|tid| self.let_go(tid));
    }

    /// Under the lock.
    fn let_go(&self, tid: u32) {
        if self.task(tid).flags.fetch_and(!STOPPED, Ordering::Relaxed) & STOPPED != 0 {
            self.task(tid).wakeup.notify_one();
        }
    }

    pub(super) fn ended(&self, tid: u32) {
        self.sleepers.lock().expect("no panic goes on").ptrace.ended.push(tid);
        self.tracer_waits.notify_all();
    }
}

/// The thread stands until the tracer, if there is one, has heard of what lies at this address.
pub(crate) fn notify(what: usize) {
    let (kernel, tid) = (kernel(), current_tid());
    let mut inside = kernel.sleepers.lock().expect("no panic goes on");
    if inside.ptrace.tracer == 0 {
        return;
    }
    inside.ptrace.notifying.push((tid, what));
    kernel.tracer_waits.notify_all();
    while inside.ptrace.notifying.iter().any(|(notifying, _)| *notifying == tid) {
        inside = kernel.task(tid).wakeup.wait(inside).expect("no panic goes on");
    }
    drop(inside);
    super::interrupt_point();
}

/// What a thread does at a step when its tracer has stopped it, or has sent it elsewhere. Returns its flags.
pub(super) fn stand() -> u32 {
    let (kernel, tid) = (kernel(), current_tid());
    let task = kernel.task(tid);
    let mut inside = kernel.sleepers.lock().expect("no panic goes on");
    let mut flags = task.flags.fetch_or(0, Ordering::AcqRel);
    if flags & STOPPED != 0 {
        inside.ptrace.standing.push(tid);
        kernel.tracer_waits.notify_all();
        while flags & STOPPED != 0 {
            inside = task.wakeup.wait(inside).expect("no panic goes on");
            flags = task.flags.fetch_or(0, Ordering::AcqRel);
        }
        inside.ptrace.standing.retain(|standing| *standing != tid);
    }
    drop(inside);
    if flags & AT_PARK != 0 {
        task.flags.fetch_and(!AT_PARK, Ordering::AcqRel);
        let park = CURRENT.with(|current| current.handler.borrow().clone());
        run_as_handler(&park.expect("who is traced has a handler"));
    }
    flags
}
