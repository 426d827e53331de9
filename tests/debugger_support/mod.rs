//! The smallest debugger that keeps both contracts: the steps of `docs/debugger-contract.md` as code. It traces a process that runs the
//! same program, so it knows where the descriptor is; everything else it reads by the descriptor's own offsets.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use stopworld::debugger::contract::{Control, Descriptor, Mode, stopworld_debugger};

type Registers = libc::user_regs_struct;

/// One traced thread.
#[derive(Default)]
struct Tracee {
    stopped: bool,
    /// The signal to deliver when it resumes.
    signal: i32,
    /// Whether a user has frozen the thread.
    frozen: bool,
    /// Whether the debugger has acknowledged for the thread in a stop that has not ended yet.
    answered: bool,
    /// Whether the thread is stopped at the border of user mode (PTRACE_EVENT_STOP): neither inside a system call, nor with a signal that
    /// would be delivered if this debugger died.
    at_border: bool,
    /// The address of the request in whose notification the thread is stopped, if this debugger has not served it yet.
    request: Option<u64>,
    /// Its registers and signal mask before it was redirected to `park`.
    before: Option<(Registers, u64)>,
}

/// Ways in which a debugger breaks its contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// In assisted mode, the debugger acknowledges for threads that run, and withholds their suspend signals.
    FrozenAndRuns,
    /// In full mode, the debugger acknowledges without having stopped any thread.
    NobodyStopped,
    /// In full mode, the debugger restores and resumes all threads during the collection.
    LetGoEarly,
    /// In full mode, the debugger restores and resumes all threads during the collection, and then stops them again.
    LetGoAndStopped,
}

/// Ways in which an honest debugger resumes a thread for which it has answered, before the end of the stop, in assisted mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resumption {
    /// By a single step, as gdb does with a thread that stands at a breakpoint: it ends at the first instruction of the handler of the pending
    /// suspend signal.
    IntoTheHandler,
    /// The same, when the collector has marked.
    IntoTheHandlerAfterMarking,
    /// A thread that masks the suspend signal is seen once more where its stack is deeper.
    Deeper,
}

/// The step after the acknowledgement of a stop in which the debugger has answered for a thread whose suspend signal it has taken.
pub const TAKEN: &str = "acknowledged-with-a-taken-signal";

/// A debugger. See the module's documentation.
pub struct Tracer {
    pid: i32,
    memory: File,
    descriptor: u64,
    mode: Mode,
    tracees: BTreeMap<i32, Tracee>,
    /// Kill this process at the n-th occurrence of this step.
    dies_at: Option<(String, u32)>,
    /// Whether a full stop is under way.
    in_stop: bool,
    /// Whether a thread was found inside a `clone` in this stop.
    met_a_clone: bool,
    /// A thread that this debugger does not trace.
    misses: Option<i32>,
    /// The way in which the debugger breaks its contract, if it does.
    pub lie: Option<Lie>,
    /// Whether the debugger resumes threads in the middle of a stop.
    pub resumes: Option<Resumption>,
    /// How often that was done.
    pub resumed: u32,
    pub stops: u32,
    pub answered_for: u32,
}

fn ptrace(request: u32, tid: i32, address: usize, data: usize) -> i64 {
    // SAFETY: requests of this file on its own tracees, with pointers that are valid during the call.
    unsafe { libc::ptrace(request, tid, address, data) }
}

/// Returns where the mapping of this program that contains the descriptor begins in a process.
fn base(pid: &str) -> u64 {
    let exe = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap();
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let line = maps.lines().find(|line| line.ends_with(exe.to_str().unwrap())).unwrap();
    u64::from_str_radix(line.split('-').next().unwrap(), 16).unwrap()
}

/// Returns one field of a thread's status.
fn field(pid: i32, tid: i32, name: &str) -> Option<String> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned())
}

fn is_traced_by_this_thread(pid: i32, tid: i32) -> bool {
    // SAFETY: no arguments, no failure.
    let me = unsafe { libc::gettid() };
    field(pid, tid, "TracerPid:").is_some_and(|tracer| tracer == me.to_string())
}

/// Returns an attach id: another one for each attach, also of the same process.
fn new_id() -> u64 {
    static TIMES: AtomicU32 = AtomicU32::new(1);
    // Process ids have 22 bits.
    u64::from(std::process::id() & 0x3f_ffff | TIMES.fetch_add(1, Ordering::Relaxed) << 22)
}

impl Tracer {
    /// Attaches to every thread of the process, and takes control of it.
    pub fn attach(pid: i32, mode: Mode, flags: u64, dies_at: Option<(String, u32)>) -> Self {
        Self::attach_without(None, pid, mode, flags, dies_at)
    }

    /// Like [`attach`](Self::attach), but leaves one thread untraced.
    pub fn attach_without(
        misses: Option<i32>,
        pid: i32,
        mode: Mode,
        flags: u64,
        dies_at: Option<(String, u32)>,
    ) -> Self {
        let here = std::ptr::from_ref(&stopworld_debugger) as u64;
        let memory = File::options().read(true).write(true).open(format!("/proc/{pid}/mem")).unwrap();
        let descriptor = here - base("self") + base(&pid.to_string());
        let mut tracer = Self {
            pid,
            memory,
            descriptor,
            mode,
            tracees: BTreeMap::new(),
            dies_at,
            in_stop: false,
            met_a_clone: false,
            misses,
            lie: None,
            resumes: None,
            resumed: 0,
            stops: 0,
            answered_for: 0,
        };
        assert_eq!(tracer.word(descriptor), u64::from_le_bytes(*b"STOPWRLD"));
        while tracer.seize_new() {
            tracer.stop_running();
        }
        tracer.step("attached");
        let mode = if mode == Mode::Full { Control::FULL } else { Control::ASSISTED };
        tracer.write(tracer.control(), &(mode | flags | new_id() << 32).to_le_bytes());
        tracer.step("control-written");
        let tids: Vec<_> = tracer.tracees.keys().copied().collect();
        for tid in tids {
            tracer.serve_stop(tid);
        }
        tracer
    }

    /// Seizes the threads that are not traced yet. Returns whether there may be others: if one was seized, or if the list is incomplete
    /// because a thread ended while it was read. The list of a process all of whose threads are traced and stopped is complete: a thread
    /// whose creation was in progress when its creator was seized, and which therefore is not traced, is in the list when its creator
    /// has stopped.
    fn seize_new(&mut self) -> bool {
        let pid = self.pid;
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        let tids = threads.map(|entry| entry.unwrap().file_name().to_str().unwrap().parse::<i32>().unwrap());
        let tids: Vec<_> = tids.collect();
        let mut may_be_others = field(pid, pid, "Threads:").and_then(|count| count.parse().ok()) != Some(tids.len());
        for tid in tids.into_iter().filter(|tid| Some(*tid) != self.misses) {
            if self.tracees.contains_key(&tid) {
                continue;
            }
            let seized = ptrace(libc::PTRACE_SEIZE, tid, 0, libc::PTRACE_O_TRACECLONE as usize) == 0;
            // A thread created by a thread that was seized already is traced from its birth, and cannot be seized again.
            if seized || is_traced_by_this_thread(pid, tid) {
                self.tracees.insert(tid, Tracee::default());
                may_be_others = true;
            }
        }
        may_be_others
    }

    /// Stops all threads that run. Notifications are not served.
    fn stop_running(&mut self) {
        let tids: Vec<_> = self.tracees.keys().copied().collect();
        for tid in tids {
            while self.tracees.get(&tid).is_some_and(|tracee| !tracee.stopped) {
                self.interrupt(tid);
                self.wait(tid, 0);
            }
        }
    }

    fn control(&self) -> u64 {
        self.descriptor + std::mem::offset_of!(Descriptor, control) as u64
    }

    /// Returns whether the control word has a value, which is this debugger's if there is no other one.
    pub fn is_in_control(&self) -> bool {
        self.word(self.control()) != 0
    }

    /// Serves notifications for this time.
    pub fn serve(&mut self, time: Duration) {
        let begin = Instant::now();
        while begin.elapsed() < time {
            if !self.look(-1, libc::WNOHANG) {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
    }

    /// Freezes one thread that is not the process's first. Returns its id.
    pub fn freeze_one(&mut self, nth: usize) -> i32 {
        let workers: Vec<_> = self.tracees.keys().copied().filter(|tid| *tid != self.pid).collect();
        let tid = workers[nth % workers.len()];
        self.freeze(tid);
        tid
    }

    /// Freezes a thread.
    pub fn freeze(&mut self, tid: i32) {
        self.tracees.get_mut(&tid).unwrap().frozen = true;
        self.interrupt(tid);
        while self.tracees.get(&tid).is_some_and(|tracee| !tracee.stopped) {
            self.look(-1, 0);
        }
    }

    /// Freezes a thread of the newest world, at a moment at which the thread runs its own code: a thread that is frozen in a blocking region or
    /// parked needs no answer.
    pub fn freeze_in_its_own_code(&mut self, tid: i32) {
        loop {
            self.freeze(tid);
            let world = self.word(self.descriptor + std::mem::offset_of!(Descriptor, worlds) as u64);
            let record = self.managed(world).into_iter().find(|(of, _)| *of == tid);
            if record.is_some_and(|(_, record)| self.word(record + stopworld_debugger.thread.state as u64) & 3 == 1) {
                return;
            }
            self.thaw(tid);
            self.serve(Duration::from_millis(1));
        }
    }

    /// Thaws a thread.
    pub fn thaw(&mut self, tid: i32) {
        // A thread that was acknowledged for stays stopped until the world resumes. A debugger that has lost control is not notified of that.
        while self.tracees.get(&tid).is_some_and(|tracee| tracee.answered) && self.is_in_control() {
            self.serve(Duration::from_micros(200));
        }
        let Some(tracee) = self.tracees.get_mut(&tid) else { return };
        tracee.frozen = false;
        self.go_on(tid);
    }

    /// Returns control to the collector and resumes every thread, when this debugger serves no stop.
    pub fn detach(mut self) {
        while (self.in_stop || self.tracees.values().any(|tracee| tracee.answered)) && self.is_in_control() {
            self.serve(Duration::from_micros(200));
        }
        // A thread that has stopped for a notification meanwhile finds no debugger.
        self.stop_running();
        self.write(self.control(), &0_u64.to_le_bytes());
        let tids: Vec<_> = self.tracees.keys().copied().collect();
        for tid in tids {
            if let Some(tracee) = self.tracees.get(&tid) {
                ptrace(libc::PTRACE_DETACH, tid, 0, tracee.signal as usize);
            }
        }
    }

    /// A hook for tests that kill the debugger here.
    fn step(&mut self, name: &str) {
        if let Some((step, times)) = &mut self.dies_at
            && step == name
        {
            *times -= 1;
            if *times == 0 {
                // SAFETY: ends this very process.
                unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
            }
        }
    }

    /// Requests a thread to stop. The request is repeated even if one was made before, because any other stop has cancelled that request.
    fn interrupt(&mut self, tid: i32) {
        if self.tracees.get(&tid).is_some_and(|tracee| !tracee.stopped) {
            ptrace(libc::PTRACE_INTERRUPT, tid, 0, 0);
        }
    }

    /// Moves a stopped thread on to the border of user mode: out of the system call inside which an event has stopped it, or into the
    /// handler of the signal before whose delivery it was stopped. It executes no instruction of the program.
    fn move_to_border(&mut self, tid: i32) {
        while let Some(tracee) = self.tracees.get_mut(&tid)
            && tracee.stopped
            && !tracee.at_border
        {
            ptrace(libc::PTRACE_INTERRUPT, tid, 0, 0);
            tracee.stopped = false;
            let signal = std::mem::take(&mut tracee.signal);
            ptrace(libc::PTRACE_CONT, tid, 0, signal as usize);
            self.wait(tid, 0);
        }
    }

    fn go_on(&mut self, tid: i32) {
        let tracee = self.tracees.get_mut(&tid).unwrap();
        if tracee.stopped && !tracee.frozen && tracee.request.is_none() && tracee.before.is_none() {
            tracee.stopped = false;
            let signal = std::mem::take(&mut tracee.signal);
            ptrace(libc::PTRACE_CONT, tid, 0, signal as usize);
        }
    }

    /// Waits for one stop of a thread, of any kind, and serves it. Returns whether there was one.
    fn look(&mut self, tid: i32, flags: i32) -> bool {
        let Some(tid) = self.wait(tid, flags) else { return false };
        self.serve_stop(tid);
        true
    }

    fn serve_stop(&mut self, tid: i32) {
        if let Some(request) = self.tracees.get_mut(&tid).and_then(|tracee| tracee.request.take()) {
            self.notified(tid, request);
        }
        if self.tracees.contains_key(&tid) {
            self.go_on(tid);
        }
    }

    /// Waits for one stop of a thread and records it.
    fn wait(&mut self, tid: i32, flags: i32) -> Option<i32> {
        let mut status = 0;
        // SAFETY: a valid place for the status.
        let tid = unsafe { libc::waitpid(tid, &mut status, libc::__WALL | flags) };
        if tid <= 0 {
            return None;
        }
        if !libc::WIFSTOPPED(status) {
            self.tracees.remove(&tid);
            return Some(tid);
        }
        let (signal, event) = (libc::WSTOPSIG(status), status >> 16);
        self.met_a_clone |= event == libc::PTRACE_EVENT_CLONE;
        let suspend = self.u32(self.descriptor + std::mem::offset_of!(Descriptor, suspend_signal) as u64) as i32;
        let swallows = self.lie == Some(Lie::FrozenAndRuns) && signal == suspend;
        let notify = self.u32(self.descriptor + std::mem::offset_of!(Descriptor, notify_signal) as u64) as i32;
        let tracee = self.tracees.entry(tid).or_default();
        tracee.stopped = true;
        tracee.at_border = event == libc::PTRACE_EVENT_STOP;
        match event {
            0 if swallows => {}
            0 if signal == notify => {
                let mut info = [0_u64; 16];
                ptrace(libc::PTRACE_GETSIGINFO, tid, 0, info.as_mut_ptr() as usize);
                tracee.request = Some(info[3]);
            }
            0 => tracee.signal = signal,
            _ => {}
        }
        Some(tid)
    }

    /// Serves a thread's notification.
    fn notified(&mut self, tid: i32, request: u64) {
        let offsets = &stopworld_debugger.request;
        let at = |offset: usize| request + offset as u64;
        assert_eq!(self.word(at(offsets.magic)), u64::from_le_bytes(*b"STOPREQ1"));
        let (event, epoch) = (self.u32(at(offsets.event)), self.word(at(offsets.epoch)));
        let world = self.word(at(offsets.world));
        let mut answer = 0_u64;
        let mut after = "";
        let mut resumed = Vec::new();
        if event == 1 || event == 2 {
            // The previous stop has ended.
            self.tracees.values_mut().for_each(|tracee| tracee.answered = false);
        }
        match (event, self.mode) {
            (1, Mode::Full) => {
                self.step("stop-notified");
                self.in_stop = true;
                if self.lie == Some(Lie::NobodyStopped) {
                    self.claim_all(world, tid, epoch);
                } else {
                    self.stop_all(tid, world);
                }
                answer = 1;
                after = "stop-acknowledged";
            }
            (1 | 6, Mode::Assisted) | (6, _) => {
                let took_a_signal = self.dies_at.as_ref().is_some_and(|(step, _)| step == TAKEN) && self.take_signals();
                self.step(if event == 1 { "stop-notified" } else { "again-notified" });
                if self.lie == Some(Lie::FrozenAndRuns) {
                    self.claim_all(world, tid, epoch);
                }
                self.answer(world, epoch);
                resumed = match self.resumes {
                    Some(Resumption::IntoTheHandler) => self.step_into_handlers(),
                    Some(Resumption::Deeper) => self.step_deeper(),
                    _ => Vec::new(),
                };
                // The collecting thread is not acknowledged for: only the collection itself waits for it.
                self.tracees.get_mut(&tid).unwrap().answered = false;
                self.step("frozen-served");
                after = if event == 1 { "stop-acknowledged" } else { "again-acknowledged" };
                if took_a_signal {
                    after = TAKEN;
                }
            }
            (2, mode) => {
                self.step("start-notified");
                if mode == Mode::Full {
                    self.restore();
                    self.in_stop = false;
                }
                self.stops += 1;
                after = "start-acknowledged";
            }
            (5, _) => match self.u32(at(offsets.detail)) {
                7 if self.resumes == Some(Resumption::IntoTheHandlerAfterMarking) => {
                    resumed = self.step_into_handlers()
                }
                6 => self.break_the_stop(tid),
                7 => self.step("phase"),
                8 => self.step("looking"),
                _ => {}
            },
            _ => {}
        }
        self.write(at(offsets.answer), &answer.to_le_bytes());
        self.write(at(offsets.acknowledged), &self.word(at(offsets.sequence)).to_le_bytes());
        self.step(after);
        if !resumed.is_empty() {
            self.go_on(tid);
            // The collecting thread looks at the claims now.
            std::thread::sleep(Duration::from_millis(5));
            resumed.into_iter().for_each(|tid| self.go_on(tid));
        }
        if event == 1 && self.met_a_clone {
            self.step("stop-with-a-clone-acknowledged");
        }
        if event == 1 {
            self.go_on(tid);
            if self.dies_at.as_ref().is_some_and(|(step, _)| step == "collecting") {
                std::thread::sleep(Duration::from_micros(300));
                self.step("collecting");
            }
        }
        if event == 2 {
            // All other threads, including those that have stopped for a notification of their own meanwhile.
            let tids: Vec<_> = self.tracees.keys().copied().filter(|other| *other != tid).collect();
            self.go_on(tid);
            for tid in tids {
                if self.mode == Mode::Full && self.tracees.get(&tid).is_some_and(|tracee| tracee.stopped) {
                    self.serve_stop(tid);
                }
            }
        }
    }

    /// In full mode: stops every thread except the collecting one, and pushes their registers.
    fn stop_all(&mut self, collecting: i32, world: u64) {
        self.met_a_clone = false;
        loop {
            let running: Vec<_> =
                self.tracees.iter().filter(|(tid, t)| **tid != collecting && !t.stopped).map(|(tid, _)| *tid).collect();
            if running.is_empty() {
                break;
            }
            for tid in &running {
                self.interrupt(*tid);
            }
            for tid in running {
                if self.tracees.get(&tid).is_some_and(|tracee| !tracee.stopped) {
                    self.wait(tid, 0);
                }
                self.step("some-stopped");
            }
        }
        let others: Vec<_> = self.tracees.keys().copied().filter(|tid| *tid != collecting).collect();
        for tid in others {
            self.move_to_border(tid);
        }
        self.step("all-stopped");
        for (tid, record) in self.managed(world) {
            if tid != collecting && self.tracees.contains_key(&tid) {
                self.push(tid, record);
            }
        }
        self.step("registers-written");
    }

    /// Claims that every thread of the world except the collecting one is stopped, and has hardly any stack.
    fn claim_all(&mut self, world: u64, collecting: i32, epoch: u64) {
        let offsets = &stopworld_debugger.thread;
        for (tid, record) in self.managed(world) {
            if tid != collecting {
                let top = self.word(record + offsets.stack_high as u64) - 64;
                self.write(record + offsets.stack_ptr as u64, &top.to_le_bytes());
                self.write(record + offsets.frozen as u64, &epoch.to_le_bytes());
            }
        }
    }

    /// Lets the threads of a full stop run before its end, if that is the configured violation.
    fn break_the_stop(&mut self, collecting: i32) {
        if !matches!(self.lie, Some(Lie::LetGoEarly | Lie::LetGoAndStopped)) {
            return;
        }
        self.restore();
        let tids: Vec<_> = self.tracees.keys().copied().filter(|tid| *tid != collecting).collect();
        for tid in &tids {
            self.go_on(*tid);
        }
        std::thread::sleep(Duration::from_millis(2));
        if self.lie == Some(Lie::LetGoAndStopped) {
            for tid in tids {
                self.interrupt(tid);
                if self.tracees.get(&tid).is_some_and(|tracee| !tracee.stopped) {
                    self.wait(tid, 0);
                }
            }
        }
    }

    /// Pushes a thread's registers as a signal frame and redirects it to `park`, in case this debugger's death resumes it.
    fn push(&mut self, tid: i32, record: u64) {
        let before = registers(tid);
        let extended = extended(tid);
        let mut mask = 0_u64;
        ptrace(libc::PTRACE_GETSIGMASK, tid, 8, &raw mut mask as usize);
        // The frame is placed as the kernel places one for a signal handler.
        let (mut rax, mut rip) = (before.rax, before.rip);
        if before.orig_rax as i64 >= 0 {
            match before.rax as i64 {
                -514..=-512 => {
                    rax = before.orig_rax;
                    rip -= 2;
                }
                -516 => rax = -i64::from(libc::EINTR) as u64,
                _ => {}
            }
        }
        let area = (before.rsp - 128 - extended.len() as u64 - 64) & !63;
        let frame = ((area - 440) & !15) - 8;
        let mut image = vec![0_u8; (area - frame) as usize];
        let mut put = |offset: usize, value: u64| image[offset..offset + 8].copy_from_slice(&value.to_le_bytes());
        put(8, 7);
        let general = [
            before.r8,
            before.r9,
            before.r10,
            before.r11,
            before.r12,
            before.r13,
            before.r14,
            before.r15,
            before.rdi,
            before.rsi,
            before.rbp,
            before.rbx,
            before.rdx,
            rax,
            before.rcx,
            before.rsp,
            rip,
            before.eflags,
            before.cs | before.ss << 48,
            0,
            0,
            0,
            0,
            area,
        ];
        for (i, value) in general.into_iter().enumerate() {
            put(48 + 8 * i, value);
        }
        put(8 + 296, mask);
        let mut state = extended;
        // The kernel's XCR0, at its offset in the image.
        let features: [u8; 8] = std::array::from_fn(|i| state[464 + i]);
        // The magic numbers that the kernel checks before it restores the extended state.
        state[464..468].copy_from_slice(&0x4650_5853_u32.to_le_bytes());
        let length = state.len() as u32;
        state[468..472].copy_from_slice(&(length + 4).to_le_bytes());
        state[472..480].copy_from_slice(&features);
        state[480..484].copy_from_slice(&length.to_le_bytes());
        state.extend(0x4650_5845_u32.to_le_bytes());
        self.write(area, &state);
        self.write(frame, &image);
        let all = u64::MAX;
        ptrace(libc::PTRACE_SETSIGMASK, tid, 8, &raw const all as usize);
        let mut parked = before;
        parked.orig_rax = u64::MAX;
        parked.rip = self.word(self.descriptor + std::mem::offset_of!(Descriptor, park) as u64);
        parked.rsp = frame;
        parked.eflags &= !0x400;
        set_registers(tid, &parked);
        self.tracees.get_mut(&tid).unwrap().before = Some((before, mask));
        self.write(record + stopworld_debugger.thread.stack_ptr as u64, &frame.to_le_bytes());
    }

    /// In full mode: restores every thread's registers.
    fn restore(&mut self) {
        let tids: Vec<_> = self.tracees.keys().copied().collect();
        for tid in tids {
            if let Some((before, mask)) = self.tracees.get_mut(&tid).unwrap().before.take() {
                set_registers(tid, &before);
                ptrace(libc::PTRACE_SETSIGMASK, tid, 8, &raw const mask as usize);
                self.step("some-restored");
            }
        }
    }

    /// Returns whether the suspend signal is in this set of a thread's status.
    fn suspension_is_in(&self, tid: i32, set: &str) -> bool {
        let suspend = self.u32(self.descriptor + std::mem::offset_of!(Descriptor, suspend_signal) as u64);
        let signals = field(self.pid, tid, set).and_then(|set| u64::from_str_radix(&set, 16).ok());
        signals.unwrap_or(0) >> (suspend - 1) & 1 == 1
    }

    /// Lets each frozen thread run to the delivery of the suspend signal that is pending for it, and waits for that stop. Now this debugger's
    /// death makes the kernel drop the signal. Returns whether there was such a thread.
    fn take_signals(&mut self) -> bool {
        let frozen = self.tracees.iter().filter(|(_, tracee)| tracee.frozen && tracee.stopped).map(|(tid, _)| *tid);
        let taking: Vec<_> = frozen
            .filter(|tid| self.suspension_is_in(*tid, "SigPnd:") && !self.suspension_is_in(*tid, "SigBlk:"))
            .collect();
        for tid in &taking {
            ptrace(libc::PTRACE_CONT, *tid, 0, 0);
            self.wait(*tid, 0);
        }
        !taking.is_empty()
    }

    /// Lets each thread for which the debugger has answered take one step, which is into the handler of its pending suspend signal. Returns
    /// these threads, which a user has thawed by that.
    fn step_into_handlers(&mut self) -> Vec<i32> {
        if !self.take_signals() {
            return Vec::new();
        }
        let answered = self.tracees.iter().filter(|(_, tracee)| tracee.answered && tracee.signal != 0);
        let stepped: Vec<_> = answered.map(|(tid, _)| *tid).collect();
        for tid in &stepped {
            self.tracees.get_mut(tid).unwrap().frozen = false;
            self.single_step(*tid);
            self.resumed += 1;
        }
        stepped
    }

    /// Lets each thread for which the debugger has answered, and that masks the suspend signal, take steps until its stack reaches below the
    /// stack pointer of the answer. Returns these threads, which a user has thawed by that.
    fn step_deeper(&mut self) -> Vec<i32> {
        /// More than a thread needs that is not at the deepest place already.
        const STEPS: u32 = 10_000;
        let answered = self.tracees.iter().filter(|(_, tracee)| tracee.answered).map(|(tid, _)| *tid);
        let masking: Vec<_> = answered.filter(|tid| self.suspension_is_in(*tid, "SigBlk:")).collect();
        for tid in &masking {
            self.tracees.get_mut(tid).unwrap().frozen = false;
            let deeper = registers(*tid).rsp - 128;
            let is_deeper = (0..STEPS).any(|_| {
                self.single_step(*tid);
                registers(*tid).rsp < deeper
            });
            self.resumed += u32::from(is_deeper);
        }
        masking
    }

    /// Lets a thread take one step, with the signal that it was to get.
    fn single_step(&mut self, tid: i32) {
        let signal = std::mem::take(&mut self.tracees.get_mut(&tid).unwrap().signal);
        ptrace(libc::PTRACE_SINGLESTEP, tid, 0, signal as usize);
        self.wait(tid, 0);
        let tracee = self.tracees.get_mut(&tid).unwrap();
        // The signal of the step itself is not for the program.
        if tracee.signal == libc::SIGTRAP {
            tracee.signal = 0;
        }
    }

    /// In assisted mode: acknowledges for the threads that this debugger holds.
    fn answer(&mut self, world: u64, epoch: u64) {
        let offsets = &stopworld_debugger.thread;
        for (tid, record) in self.managed(world) {
            let frozen = self.tracees.get(&tid).is_some_and(|tracee| tracee.frozen && tracee.stopped);
            let at = |offset: usize| record + offset as u64;
            if !frozen || self.word(at(offsets.state)) & 3 != 1 || self.word(at(offsets.frozen)) == epoch {
                continue;
            }
            let general = registers(tid);
            // SAFETY: plain words.
            let mut image =
                unsafe { std::slice::from_raw_parts((&raw const general).cast::<u8>(), size_of::<Registers>()) }
                    .to_vec();
            image.extend(extended(tid));
            assert!(image.len() as u64 <= self.word(at(offsets.save_area_size)));
            self.write(self.word(at(offsets.save_area)), &image);
            self.write(at(offsets.save_area_used), &(image.len() as u32).to_le_bytes());
            self.write(at(offsets.stack_ptr), &(general.rsp - 128).to_le_bytes());
            self.write(at(offsets.frozen), &epoch.to_le_bytes());
            self.answered_for += 1;
            self.tracees.get_mut(&tid).unwrap().answered = true;
        }
    }

    /// Returns the threads of a world: ids and records.
    fn managed(&self, world: u64) -> Vec<(i32, u64)> {
        let mut found = Vec::new();
        let mut record = self.word(world + stopworld_debugger.world.threads as u64);
        while record != 0 {
            found.push((self.u32(record + stopworld_debugger.thread.tid as u64) as i32, record));
            record = self.word(record + stopworld_debugger.thread.next as u64);
        }
        found
    }

    fn word(&self, address: u64) -> u64 {
        let mut bytes = [0; 8];
        self.memory.read_exact_at(&mut bytes, address).unwrap();
        u64::from_le_bytes(bytes)
    }

    fn u32(&self, address: u64) -> u32 {
        let mut bytes = [0; 4];
        self.memory.read_exact_at(&mut bytes, address).unwrap();
        u32::from_le_bytes(bytes)
    }

    fn write(&self, address: u64, bytes: &[u8]) {
        self.memory.write_all_at(bytes, address).unwrap();
    }
}

fn registers(tid: i32) -> Registers {
    // SAFETY: all-zero registers are valid registers.
    let mut registers: Registers = unsafe { std::mem::zeroed() };
    ptrace(libc::PTRACE_GETREGS, tid, 0, &raw mut registers as usize);
    registers
}

fn set_registers(tid: i32, registers: &Registers) {
    ptrace(libc::PTRACE_SETREGS, tid, 0, std::ptr::from_ref(registers) as usize);
}

/// Reads the xsave image.
fn extended(tid: i32) -> Vec<u8> {
    const NT_X86_XSTATE: usize = 0x202;
    let mut image = vec![0_u8; 16 << 10];
    let mut place = libc::iovec { iov_base: image.as_mut_ptr().cast(), iov_len: image.len() };
    ptrace(libc::PTRACE_GETREGSET, tid, NT_X86_XSTATE, &raw mut place as usize);
    image.truncate(place.iov_len);
    image
}
