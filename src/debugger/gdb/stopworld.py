"""stopworld in gdb: gdb takes part in the garbage collections of the debugged program.

When the program contains the collector, gdb takes control by writing the collector's control word (it *attaches*).
From then on the collector notifies gdb when it stops its world. gdb's part in the *assisted* contract is small: for
each thread that gdb holds (at a breakpoint in non-stop mode, or because `scheduler-locking` is on) it writes the
registers into the thread's record. So the collection does not wait for a thread that cannot acknowledge. All other threads
are stopped by the collector's own signal. None of this is a stop of gdb: `next`, `finish` and calls of functions continue.

How gdb is notified: the program sends itself a real-time signal whose handler does nothing; its value is the address of a request.
`catch signal` with a condition catches it. The condition is a function of this script: it serves the request, acknowledges it,
and tells gdb not to stop. The signal is not passed on. Without gdb the empty handler runs, so a gdb that is killed leaves
nothing to clean up. A program that has not built a world yet has not chosen the signal: for its first notification gdb
uses a breakpoint instead.

*Full* mode (all-stop only) is the original contract: gdb stops every thread of the process, writes all stack pointers,
and resumes only the collecting thread. It needs real stops of gdb, so a `next` that runs into a collection ends there.
"""

import ctypes
import itertools
import re
import signal

import gdb

SAY = "[stopworld: %s]"


def say(line):
    print(SAY % line)


class GdbTarget:
    """The selected inferior's memory."""

    @staticmethod
    def read(address, size):
        try:
            return bytes(gdb.selected_inferior().read_memory(address, size))
        except (gdb.error, OverflowError):
            raise Trouble("cannot read %d bytes at %#x" % (size, address)) from None

    @staticmethod
    def write(address, data):
        try:
            gdb.selected_inferior().write_memory(address, data)
        except (gdb.error, OverflowError):
            raise Trouble("cannot write %d bytes at %#x" % (len(data), address)) from None

    @staticmethod
    def modules():
        try:
            return modules_of(gdb.selected_inferior().pid) if is_native() else []
        except OSError:
            return []


TARGET = GdbTarget()


def connection():
    """How gdb is connected to the program: native, core, remote …, or None without a program."""
    inferior = gdb.selected_inferior()
    if not inferior.pid or inferior.connection is None:
        return None
    return inferior.connection.type


def is_native():
    return connection() == "native"


def descriptor_by_symbol():
    """The descriptor's address, by its symbol. A number, since Rust's syntax cannot express the address of a C symbol."""
    try:
        with gdb.with_parameter("language", "c"):
            return int(gdb.parse_and_eval("(unsigned long) &stopworld_debugger"))
    except gdb.error:
        return None


def find_contracts():
    """Every copy of the library in the program."""
    addresses = [descriptor_by_symbol()] + descriptors_by_note(TARGET)
    found, troubles = [], []
    for address in dict.fromkeys(a for a in addresses if a is not None):
        try:
            found.append(Contract(TARGET, address))
        except Trouble as trouble:
            troubles.append(trouble)
    if troubles and not found:
        raise troubles[0]
    return found


# ---- registers of a stopped thread

class IoVec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]


PTRACE_GETREGSET, NT_PRSTATUS, NT_X86_XSTATE = 0x4204, 1, 0x202
RSP_OFFSET, GENERAL_BYTES, XSTATE_BYTES = 19 * 8, 27 * 8, 1 << 14
LIBC = ctypes.CDLL(None)


def register_set(tid, kind, size):
    """Asks the kernel, since gdb is the tracer and this is its main thread; None if the thread is not stopped."""
    buffer = ctypes.create_string_buffer(size)
    vector = IoVec(ctypes.addressof(buffer), size)
    if LIBC.ptrace(PTRACE_GETREGSET, tid, ctypes.c_void_p(kind), ctypes.byref(vector)) != 0:
        return None
    return buffer.raw[:vector.size]


def registers_by_kernel(tid):
    general = register_set(tid, NT_PRSTATUS, GENERAL_BYTES)
    extended = register_set(tid, NT_X86_XSTATE, XSTATE_BYTES)
    if general is None or extended is None or len(general) != GENERAL_BYTES:
        return None
    return general + extended, struct.unpack_from("<Q", general, RSP_OFFSET)[0]


GENERAL = "rax rbx rcx rdx rsi rdi rbp r8 r9 r10 r11 r12 r13 r14 r15 rip rsp fs_base gs_base".split()
VECTORS = (("zmm%d", 32, "v8_int64", 8), ("ymm%d", 16, "v4_int64", 4), ("xmm%d", 16, "v2_int64", 2))


def registers_by_gdb(thread):
    """The same if gdb is connected through a server: slower, and without the x87 registers."""
    selected = gdb.selected_thread()
    try:
        thread.switch()
        frame = gdb.newest_frame()
        words = [int(frame.read_register(name)) & MASK for name in GENERAL]
        for pattern, number, lanes, width in VECTORS:
            try:
                words += [int(frame.read_register(pattern % i)[lanes][lane]) & MASK
                          for i in range(number) for lane in range(width)]
                break
            except (ValueError, gdb.error):
                continue
        return struct.pack("<%dQ" % len(words), *words), words[GENERAL.index("rsp")]
    except gdb.error:
        return None
    finally:
        selected.switch()


MASK = (1 << 64) - 1


def registers_of(tid):
    """The registers of a thread that gdb's user holds; None for a thread that runs, or that gdb itself stops for a moment."""
    thread = next((t for t in gdb.selected_inferior().threads() if t.ptid[1] == tid and t.is_stopped()), None)
    if thread is None or INFERIOR_CALLS.resumed(tid):
        return None
    return registers_by_kernel(tid) if is_native() else registers_by_gdb(thread)


class InferiorCalls:
    """The calls of functions of the program in progress. gdb shows a thread that a call has resumed as stopped."""

    def __init__(self):
        self.tids = []

    def begin(self, event):
        self.tids.append(event.ptid[1])

    def end(self, _event):
        if self.tids:
            self.tids.pop()

    def resumed(self, tid):
        """Whether a call has resumed this thread: its own thread, or all threads unless gdb's settings keep the others stopped."""
        only_its_own = gdb.parameter("non-stop") or gdb.parameter("scheduler-locking") == "on"
        return tid in self.tids if only_its_own else bool(self.tids)


INFERIOR_CALLS = InferiorCalls()


def records_of(tid):
    """The worlds that a thread is attached to, each with the thread's record."""
    return [(world, record)
            for contract in Session.current().contracts
            for world in contract.worlds_now()
            for record in contract.threads_of(world) if record.tid == tid]


# ---- the session

ATTACHED = itertools.count(1)


def who():
    """A number that is new at each attach of any debugger."""
    return (os.getpid() ^ next(ATTACHED) << 22) & 0xffffffff


class Session:
    """gdb's state for one program, from finding it to its end. The user's settings are kept for the next run."""

    def __init__(self, pid):
        self.pid = pid
        self.contracts = []
        self.mode = ASSISTED
        self.tell_phases = False
        self.stop_at = set()
        self.attached = False
        self.detached_by_user = False
        self.who = 0
        self.looked = False
        self.bootstrap = None
        self.start = None
        self.full_stop = None
        self.stopped_fully = set()
        self.locking = None
        self.notifications = self.served = self.stops = 0
        self.complained = set()

    @classmethod
    def current(cls):
        """The selected program's session; a new one for a new program."""
        inferior = gdb.selected_inferior()
        session = SESSIONS.get(inferior.num)
        if session is None or session.pid != inferior.pid:
            before, session = session, cls(inferior.pid)
            SESSIONS[inferior.num] = session
            if before is not None:
                session.mode, session.tell_phases, session.stop_at = before.mode, before.tell_phases, before.stop_at
        return session

    def look(self):
        """Looks for the library, unless that was done since the last module was loaded."""
        if not self.looked and connection() is not None:
            found = find_contracts()
            self.contracts = [contract for contract in found if contract.is_relocated]
            self.looked = bool(self.contracts)
            if found and not self.contracts and self.start is None and is_native():
                self.start = Start.of(self.pid)

    def found(self):
        if connection() is None:
            raise Trouble("no program is being debugged")
        self.look()
        if not self.contracts:
            raise Trouble("the program contains no stopworld collector, or has not loaded it yet")
        return self.contracts

    def attach(self):
        contracts = self.found()
        if connection() == "core":
            raise Trouble("a core file can be inspected, but not attached to")
        ready = all(contract.signals()[0] for contract in contracts)
        if ready:
            self.catch_signals()
        else:
            self.set_bootstrap()
        self.attached, self.detached_by_user = True, False
        self.who = who()
        if is_native():
            KEEPER.watch(self.pid)
        self.write_control(0 if ready else BREAKPOINT)

    def write_control(self, channel=0):
        word = self.who << 32 | channel | self.mode
        if self.tell_phases or self.stop_at:
            word |= TELL_PHASES
        for contract in self.contracts:
            contract.set_control(word)

    def is_in_control(self):
        """Whether the program's control word is still this session's."""
        try:
            return all(contract.control() >> 32 == self.who for contract in self.contracts)
        except Trouble:
            return False

    def detach(self):
        KEEPER.release()
        for contract in self.contracts:
            contract.set_control(0)
        self.attached = False
        self.drop_bootstrap()
        self.let_all_run()

    def catch_signals(self):
        for contract in self.contracts:
            notify, suspend = contract.signals()
            if suspend:
                handle(suspend, "nostop noprint pass")
                CATCHPOINT.watch_suspension(suspend)
            handle(notify, "nostop noprint nopass")
            CATCHPOINT.watch(notify)

    def set_bootstrap(self):
        if self.bootstrap is None:
            self.bootstrap = [FirstNotification(contract) for contract in self.contracts]

    def drop_bootstrap(self):
        for breakpoint in (self.bootstrap or []) + [self.start]:
            if breakpoint is not None and breakpoint.is_valid():
                breakpoint.delete()
        self.bootstrap = self.start = None

    def first_notification(self):
        """Called once the signals are chosen: switches from the breakpoint to them."""
        self.catch_signals()
        self.write_control()
        gdb.post_event(self.drop_bootstrap)
        say("attached to process %d, %s" % (self.pid, mode_name(self.mode)))

    # ---- notifications

    def contract_of(self, world):
        if len(self.contracts) == 1:
            return self.contracts[0]
        for contract in self.contracts:
            if any(world == known.address for known in contract.worlds_now()):
                return contract
        raise Trouble("a notification comes from an unknown world at %#x" % world)

    def notified(self, address):
        """Serves a notification. Returns whether gdb is to stop."""
        request = self.contracts[0].request_at(address)
        contract = self.contract_of(request.world)
        self.notifications += 1
        if self.is_full(request):
            self.full_stop = (contract, request)
            return True
        stop = False
        if request.event in (STOP_WORLD, AGAIN):
            self.stops += request.event == STOP_WORLD
            try:
                self.served += contract.serve(
                    request, lambda tid: registers_of(tid) if STEPPING.may_answer_for(contract, tid) else None)
            except Trouble as trouble:
                self.complain(trouble)
        elif request.event == PHASE:
            stop = self.phase(contract, request)
        contract.acknowledge(request)
        return stop

    def is_full(self, request):
        """Whether gdb has to stop for this. A world is started by the contract by which it was stopped."""
        if request.event == STOP_WORLD and (request.detail or self.mode) == FULL:
            self.stopped_fully.add(request.world)
            return True
        if request.event == START_WORLD and request.world in self.stopped_fully:
            self.stopped_fully.discard(request.world)
            return True
        return False

    def phase(self, contract, request):
        if self.tell_phases or request.detail in self.stop_at:
            number = contract.world_at(request.world).number
            say("world %d: %s" % (number, phase_name(request.detail)))
        return request.detail in self.stop_at

    def complain(self, trouble):
        """Reports each error once: there may be hundreds of collections per second."""
        if str(trouble) not in self.complained:
            self.complained.add(str(trouble))
            say(trouble)

    # ---- the full contract

    def perform(self):
        """Called when gdb has stopped all threads for a request. Afterwards only the collecting thread continues, or all do.
        Returns whether the program waited for it."""
        contract, request = self.full_stop
        self.full_stop = None
        try:
            if request.event == START_WORLD:
                self.let_all_run()
            else:
                self.stops += 1
                self.served += contract.serve_all(request, registers_of)
                self.let_only_one_run()
            contract.acknowledge(request)
            return True
        except (Trouble, gdb.error) as trouble:
            # The collector continues without gdb if the request is not acknowledged. While gdb stopped the threads, the process may have
            # executed another program, or ended: then nothing waits for an acknowledgement.
            self.let_all_run()
            there = self.is_in_control()
            if there:
                self.complain(trouble)
            return there

    def let_only_one_run(self):
        if self.locking is None:
            self.locking = gdb.parameter("scheduler-locking")
        gdb.execute("set scheduler-locking on", to_string=True)

    def let_all_run(self):
        """Restores the setting from before the stop, however the stop ended."""
        if self.locking is not None:
            gdb.execute("set scheduler-locking " + self.locking, to_string=True)
            self.locking = None


SESSIONS = {}


def after_stop():
    """Called when gdb has stopped for a notification."""
    session = Session.current()
    goes_on = session.full_stop is not None
    if goes_on:
        if not session.perform() and an_exec_ended_threads():
            gdb.post_event(attach_anew)
            goes_on = False
    else:
        gdb.execute("frame")
    gdb.set_convenience_variable("_stopworld_goes_on", int(goes_on))


def an_exec_ended_threads():
    """Whether threads that gdb has just stopped are gone while the process is alive."""
    pid = gdb.selected_inferior().pid
    tids = [thread.ptid[1] for thread in gdb.selected_inferior().threads()]
    try:
        with open("/proc/%d/stat" % pid, encoding="utf-8", errors="replace") as stat:
            lives = stat.read().rpartition(")")[2].split()[0] not in "ZX"
        return lives and not all(os.path.exists("/proc/%d/task/%d" % (pid, tid)) for tid in tids)
    except OSError:
        return False


def attach_anew():
    """Attaches again to a process that executed another program while gdb stopped its threads.

    gdb 13 keeps the threads that the exec ended in its list permanently: it misses the next stop, and crashes at a later
    detach. At this point gdb has not processed the exec yet, and a detach still works.
    """
    pid = gdb.selected_inferior().pid

    def attached(_event):
        gdb.events.stop.disconnect(attached)
        gdb.post_event(lambda: gdb.execute("continue &"))

    gdb.execute("detach")
    say("process %d executed another program while gdb stopped it: attaching to it again" % pid)
    gdb.events.stop.connect(attached)
    gdb.execute("attach %d" % pid)


def signal_name(number):
    """gdb's name of a signal."""
    if number >= 32:
        return "SIG%d" % number
    return signal.Signals(number).name


def handle(number, how):
    gdb.execute("handle %s %s" % (signal_name(number), how), to_string=True)


class Catchpoint:
    """The catchpoints on the two signals. They are restored if the user deletes or disables all breakpoints."""

    STOPPED = """commands %d
silent
python sys.modules['stopworld'].after_stop()
if $_stopworld_goes_on
continue
end
end"""

    def __init__(self):
        self.notifications, self.suspensions = {}, {}

    def watch(self, number):
        """Catches the signal of notifications."""
        if number in self.notifications:
            self.restore()
            return
        self.notifications[number] = self.catch(number, "$_stopworld_notified()")
        gdb.execute(self.STOPPED % self.notifications[number], to_string=True)

    @staticmethod
    def catch(number, condition):
        gdb.execute("catch signal " + signal_name(number), to_string=True)
        catchpoint = int(gdb.convenience_variable("bpnum"))
        gdb.execute("condition %d %s" % (catchpoint, condition), to_string=True)
        return catchpoint

    def watch_suspension(self, number):
        """Prepares to catch the suspend signal."""
        if self.suspensions.get(number) not in self.present():
            self.suspensions[number] = self.catch(number, "$_stopworld_suspended()")
            self.present()[self.suspensions[number]].enabled = False

    def enable_suspensions(self, enabled):
        for number in list(self.suspensions):
            self.watch_suspension(number)
            self.present()[self.suspensions[number]].enabled = enabled

    @staticmethod
    def present():
        return {breakpoint.number: breakpoint for breakpoint in gdb.breakpoints()}

    def restore(self):
        present = self.present()
        for number, catchpoint in list(self.notifications.items()):
            if catchpoint not in present:
                del self.notifications[number]
                self.watch(number)
            elif not present[catchpoint].enabled:
                present[catchpoint].enabled = True


CATCHPOINT = Catchpoint()


class Notified(gdb.Function):
    """The condition of the catchpoint: 1 if gdb is to stop. Not for users."""

    def __init__(self):
        super().__init__("_stopworld_notified")

    def invoke(self):
        session = Session.current()
        try:
            if not session.contracts:
                return 0
            value = gdb.convenience_variable("_siginfo")["_sifields"]["_rt"]["si_sigval"]["sival_ptr"]
            return int(session.notified(int(value) & MASK))
        except (Trouble, gdb.error) as trouble:
            session.complain(trouble)
            return 0


class FirstNotification(gdb.Breakpoint):
    """A breakpoint at the notification function, until the collector has chosen its signals."""

    def __init__(self, contract):
        super().__init__("*%#x" % contract.notify, internal=True)
        self.silent = True

    def stop(self):
        session = Session.current()
        try:
            stop = session.notified(int(gdb.newest_frame().read_register("rdi")) & MASK)
            if session.attached and all(contract.signals()[0] for contract in session.contracts):
                session.first_notification()
            return stop
        except (Trouble, gdb.error) as trouble:
            session.complain(trouble)
            return False


class Start(gdb.Breakpoint):
    """A breakpoint at the program's entry point, where relocation is complete. A gdb that attaches earlier may get no event for later modules."""

    @classmethod
    def of(cls, pid):
        try:
            with open("/proc/%d/auxv" % pid, "rb") as auxv:
                entries = dict(struct.iter_unpack("<QQ", auxv.read()))
            return cls("*%#x" % entries[AT_ENTRY], internal=True)
        except (OSError, KeyError, gdb.error):
            return None

    def stop(self):
        self.enabled = False
        look_again()
        return False


AT_ENTRY = 9


# ---- when to look: a program starts, a module is loaded, gdb stops

def look_again(_event=None):
    """Called when a module or a program was loaded, which may contain the library."""
    for session in SESSIONS.values():
        session.looked = False
    follow_exec()
    attach_when_found()


def follow_exec():
    """Ends the session after an exec: the new program has its own control word, which is 0, and gets a new session."""
    session = SESSIONS.get(gdb.selected_inferior().num)
    if session is not None and session.attached and not session.is_in_control():
        session.drop_bootstrap()
        session.pid, session.attached = None, False


def attach_when_found(_event=None):
    if connection() in (None, "core"):
        return
    session = Session.current()
    if session.attached:
        CATCHPOINT.restore()
        return
    if session.detached_by_user or session.looked:
        return
    try:
        session.look()
        if session.contracts:
            session.attach()
            if session.bootstrap is None:
                say("attached to process %d, %s" % (session.pid, mode_name(session.mode)))
    except (Trouble, gdb.error) as trouble:
        session.complain(trouble)


def stopped(_event):
    STEPPING.end()
    attach_when_found()


def called(event):
    """Called when a call of a function of the program begins and when it is over, however it ended."""
    if isinstance(event, gdb.InferiorCallPreEvent):
        INFERIOR_CALLS.begin(event)
    else:
        INFERIOR_CALLS.end(event)


def exited(_event):
    """Called when the program has ended. The next program is another one, even if it has the same pid."""
    STEPPING.end()
    KEEPER.release()
    session = SESSIONS.get(gdb.selected_inferior().num)
    if session is not None:
        session.drop_bootstrap()
        session.let_all_run()
        session.pid, session.attached = None, False


def leave(_event):
    """Called when gdb ends: a program that it leaves running needs no debugger."""
    for session in SESSIONS.values():
        try:
            if session.attached:
                session.detach()
        except (Trouble, gdb.error):
            continue


def install():
    Prefix()
    for name, action in COMMANDS.items():
        Subcommand(name, action)
    Notified()
    Suspended()
    STEPPING.install()
    gdb.events.new_objfile.connect(look_again)
    gdb.events.cont.connect(attach_when_found)
    gdb.events.stop.connect(stopped)
    gdb.events.exited.connect(exited)
    gdb.events.inferior_call.connect(called)
    if hasattr(gdb.events, "gdb_exiting"):
        gdb.events.gdb_exiting.connect(leave)
    install_printers()
    attach_when_found()
