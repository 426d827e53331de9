"""stopworld in gdb: the collector of the debugged program lets gdb have its word.

When the program is found to have the collector in it, gdb says so in the collector's control word (*attaches*).
From then on the collector tells gdb when it stops its world. gdb's side of the *assisted* contract is small: for
each thread that gdb holds (at a breakpoint in non-stop mode, or because `scheduler-locking` is on) it writes the
registers into the thread's record, and so the collection does not wait for a thread that can't answer. All other threads
stop by the collector's own signal. Nothing of this is a stop of gdb's: `next`, `finish` and calls of functions go on.

How gdb is told. The program sends itself a real-time signal that it ignores; its value is the address of a request.
`catch signal` with a condition catches it, the condition is a function of this script that does the work, acknowledges
and says "don't stop"; the signal is not passed on. Without gdb the kernel drops it, so a gdb that is killed leaves
nothing behind. A program that has not built a world yet has not chosen the signal: for its first notification gdb
has a breakpoint instead.

*Full* mode (all-stop only) is the original contract: gdb stops every thread of the process, writes all stack pointers,
and lets the collecting thread run alone. It needs real stops of gdb, so a `next` over a collection ends in it.
"""

import ctypes
import itertools
import os
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
            raise Trouble("can't read %d bytes at %#x" % (size, address)) from None

    @staticmethod
    def write(address, data):
        try:
            gdb.selected_inferior().write_memory(address, data)
        except (gdb.error, OverflowError):
            raise Trouble("can't write %d bytes at %#x" % (len(data), address)) from None

    @staticmethod
    def modules():
        try:
            return modules_of(gdb.selected_inferior().pid) if is_native() else []
        except OSError:
            return []


TARGET = GdbTarget()


def connection():
    """How gdb reaches the program: native, core, remote … or None if there is none."""
    inferior = gdb.selected_inferior()
    if not inferior.pid or inferior.connection is None:
        return None
    return inferior.connection.type


def is_native():
    return connection() == "native"


def descriptor_by_symbol():
    """The descriptor's address by its name. A number: Rust's syntax has no word for the address of a C symbol."""
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
    return [contract for contract in found if contract.is_relocated]


# ---- registers of a thread that stands

class IoVec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]


PTRACE_GETREGSET, NT_PRSTATUS, NT_X86_XSTATE = 0x4204, 1, 0x202
RSP_OFFSET, GENERAL_BYTES, XSTATE_BYTES = 19 * 8, 27 * 8, 1 << 14
LIBC = ctypes.CDLL(None)


def register_set(tid, kind, size):
    """gdb is the tracer, and this is its main thread, so the kernel answers; None if the thread is not stopped."""
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
    """The same when gdb reaches the program through a server: slower, and without the registers of the x87."""
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
    """The registers of a thread that gdb's user holds; None of one that runs, or that gdb itself stops for a moment."""
    thread = next((t for t in gdb.selected_inferior().threads() if t.ptid[1] == tid and t.is_stopped()), None)
    if thread is None:
        return None
    return registers_by_kernel(tid) if is_native() else registers_by_gdb(thread)


# ---- the session

ATTACHED = itertools.count(1)


def who():
    """A number that no debugger had before, nor this one."""
    return (os.getpid() ^ next(ATTACHED) << 22) & 0xffffffff


class Session:
    """gdb's part in one program, from its first look at it to its end. What the user has set is kept for the next run."""

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
        self.full_stop = None
        self.stopped_fully = set()
        self.notifications = self.served = self.stops = 0
        self.complained = set()

    @classmethod
    def current(cls):
        """The selected program's session; a new one when the program is a new one."""
        inferior = gdb.selected_inferior()
        session = SESSIONS.get(inferior.num)
        if session is None or session.pid != inferior.pid:
            before, session = session, cls(inferior.pid)
            SESSIONS[inferior.num] = session
            if before is not None:
                session.mode, session.tell_phases, session.stop_at = before.mode, before.tell_phases, before.stop_at
        return session

    def look(self):
        """Looks for the library, if that was not done since the last module came."""
        if not self.looked and connection() is not None:
            self.contracts = find_contracts()
            self.looked = bool(self.contracts)

    def found(self):
        if connection() is None:
            raise Trouble("no program is being debugged")
        self.look()
        if not self.contracts:
            raise Trouble("the program has no stopworld collector in it, or not yet")
        return self.contracts

    def attach(self):
        contracts = self.found()
        if connection() == "core":
            raise Trouble("a core file can be looked at, but nobody can attach to it")
        ready = all(contract.signals()[0] for contract in contracts)
        if ready:
            self.catch_signals()
        else:
            self.set_bootstrap()
        self.attached, self.detached_by_user = True, False
        self.who = who()
        self.write_control(0 if ready else BREAKPOINT)

    def write_control(self, channel=0):
        word = self.who << 32 | channel | self.mode
        if self.tell_phases or self.stop_at:
            word |= TELL_PHASES
        for contract in self.contracts:
            contract.set_control(word)

    def detach(self):
        for contract in self.contracts:
            contract.set_control(0)
        self.attached = False
        self.drop_bootstrap()

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
        for breakpoint in self.bootstrap or []:
            if breakpoint.is_valid():
                breakpoint.delete()
        self.bootstrap = None

    def first_notification(self):
        """The signals are chosen now: goes over to them."""
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
        raise Trouble("a notification comes from the unknown world at %#x" % world)

    def notified(self, address):
        """Does what a notification asks for. Whether gdb is to stop."""
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
        """Whether gdb has to stop for this: the start of a world goes by the contract by which it was stopped."""
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
        """Once for each kind of trouble: a collection comes hundreds of times in a second."""
        if str(trouble) not in self.complained:
            self.complained.add(str(trouble))
            say(trouble)

    # ---- the full contract

    def perform(self):
        """gdb has stopped all threads for this. Afterwards only the collecting one goes on, or all do."""
        contract, request = self.full_stop
        self.full_stop = None
        if request.event == START_WORLD:
            gdb.execute("set scheduler-locking " + self.locking)
        else:
            self.stops += 1
            self.served += contract.serve_all(request, registers_of)
            self.locking = gdb.parameter("scheduler-locking")
            gdb.execute("set scheduler-locking on")
        contract.acknowledge(request)


SESSIONS = {}


def after_stop():
    """What gdb does when it has stopped for a notification."""
    session = Session.current()
    goes_on = session.full_stop is not None
    gdb.set_convenience_variable("_stopworld_goes_on", int(goes_on))
    if goes_on:
        session.perform()
    else:
        gdb.execute("frame")


def signal_name(number):
    """gdb's name of a signal."""
    if number >= 32:
        return "SIG%d" % number
    return signal.Signals(number).name


def handle(number, how):
    gdb.execute("handle %s %s" % (signal_name(number), how), to_string=True)


class Catchpoint:
    """The catchpoints on the two signals. A user's `delete` or `disable` of all breakpoints meets them too."""

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
        """Catches a notification's signal."""
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
    """Where the collector calls before its signals are known."""

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


# ---- when to look: a program begins, a module comes, gdb stops

def look_again(_event=None):
    """A module came, or a program: what was not there may be there now."""
    for session in SESSIONS.values():
        session.looked = False
    attach_when_found()


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


def exited(_event):
    """The next program is another one; it may have the same pid."""
    STEPPING.end()
    session = SESSIONS.get(gdb.selected_inferior().num)
    if session is not None:
        session.pid, session.attached = None, False


def leave(_event):
    """gdb ends: a program that it leaves running needs nobody's answers."""
    for session in SESSIONS.values():
        try:
            if session.attached:
                session.detach()
        except (Trouble, gdb.error):
            continue


# ---- calls of functions in the program

def call(function, *arguments):
    """Calls a function of the program in the selected thread, alone."""
    thread = gdb.selected_thread()
    if connection() == "core":
        raise Trouble("a core file has no thread that could answer: only `threads` and `status` work on it")
    if thread is None or not thread.is_stopped():
        raise Trouble("select a thread that is stopped: it has to answer")
    words = ", ".join("%#xul" % argument for argument in arguments)
    kinds = ", ".join(["unsigned long"] * len(arguments))
    try:
        with gdb.with_parameter("language", "c"), gdb.with_parameter("unwindonsignal", True), OnlyThisThread():
            return int(gdb.parse_and_eval("((long (*)(%s)) %#x)(%s)" % (kinds, function, words)))
    except gdb.error as error:
        raise Trouble("the call in thread %d failed: %s" % (thread.num, str(error).splitlines()[0])) from None


class OnlyThisThread:
    """Nobody else runs during the call: what it tells is of one moment."""

    def __enter__(self):
        self.before = gdb.parameter("scheduler-locking")
        gdb.execute("set scheduler-locking on", to_string=True)

    def __exit__(self, *_):
        gdb.execute("set scheduler-locking " + self.before, to_string=True)


class StackPointers:
    """Registers and stack pointers of all threads that stand, for as long as somebody looks at stacks."""

    def __init__(self, contract):
        self.contract, self.written = contract, []

    def __enter__(self):
        for world in self.contract.worlds_now():
            for thread in self.contract.threads_of(world):
                found = registers_of(thread.tid) if thread.place == RUNNING else None
                if found is not None:
                    self.contract.give_registers(thread, *found)
                    self.written.append(thread)

    def __exit__(self, *_):
        for thread in self.written:
            self.contract.take_back(thread)


def address_of(text):
    """An address in the user's words: a number, a pointer, a variable that holds a `Gc`."""
    if not text.strip():
        raise Trouble("which object? an address, or a variable that holds a Gc")
    try:
        value = gdb.parse_and_eval(text)
        if value.type.strip_typedefs().code in (gdb.TYPE_CODE_REF, gdb.TYPE_CODE_RVALUE_REF):
            value = value.referenced_value()
        if value.type.strip_typedefs().code == gdb.TYPE_CODE_STRUCT:
            return word_in(value)
        return int(value) & MASK
    except gdb.error as error:
        raise Trouble(str(error).splitlines()[0]) from None


def word_in(value):
    """The word that a one-word structure is: `Gc`, `Option<Gc>`, `GcCell` …"""
    if value.type.sizeof != 8:
        raise Trouble("a %s is no reference" % value.type)
    if value.address is not None:
        return struct.unpack("<Q", TARGET.read(int(value.address), 8))[0]
    while value.type.strip_typedefs().code == gdb.TYPE_CODE_STRUCT:
        value = next(value[field] for field in value.type.fields() if field.type.sizeof == 8)
    return int(value) & MASK


def contract_for(address):
    """The copy of the library whose heap has the address; the first if none has."""
    contracts = Session.current().found()
    for contract in contracts:
        if any(world.heap_low <= address < world.heap_high for world in contract.worlds_now()):
            return contract
    return contracts[0]


def worlds():
    return [(contract, world) for contract in Session.current().found() for world in contract.worlds_now()]


def only_world(text):
    """The world with this number, or the one there is."""
    found = worlds()
    if not found:
        raise Trouble("the program has no world yet")
    if not text.strip():
        if len(found) > 1:
            raise Trouble("which world? " + ", ".join(str(world.number) for _, world in found))
        return found[0]
    for contract, world in found:
        if str(world.number) == text.strip():
            return contract, world
    raise Trouble("there is no world %s" % text.strip())


# ---- commands

def threads_command(_text):
    """The threads of each world: who they are, where they stand, whether a collection or a user holds them."""
    known = {thread.ptid[1]: thread for thread in gdb.selected_inferior().threads()}
    selected = gdb.selected_thread()

    def number_of(tid):
        thread = known.pop(tid, None)
        if thread is None:
            return "  -"
        return "%s%d%s" % ("* " if selected and thread.num == selected.num else "  ", thread.num,
                           "" if thread.is_stopped() else " running")

    for contract, world in worlds():
        yield world.describe()
        yield from thread_table(contract, world, number_of)
    if known:
        yield "not managed by a collector: " + ", ".join(
            "%d (tid %d)" % (thread.num, thread.ptid[1]) for thread in sorted(known.values(), key=lambda t: t.num))


def attach_command(_text):
    """Takes part in the program's collections. It happens by itself when a program is found to have the collector in it."""
    session = Session.current()
    session.looked = False
    session.attach()
    yield SAY % ("attached to process %d, %s" % (session.pid, mode_name(session.mode)))


def detach_command(_text):
    """Leaves the program's collections alone. Threads that gdb holds will keep them waiting."""
    session = Session.current()
    session.found()
    session.detach()
    session.detached_by_user = True
    yield SAY % ("detached from process %d" % session.pid)


def mode_command(text):
    """Shows how gdb takes part in collections, or sets it: assisted or full.

assisted: the collector stops the threads, and gdb answers for those that it holds.
full: gdb stops all threads and writes where their stacks begin; all-stop mode only, and a `next` over a
collection ends in it."""
    session = Session.current()
    wanted = {"": None, "assisted": ASSISTED, "full": FULL}.get(text.strip(), 0)
    if wanted == 0:
        raise Trouble("the mode is assisted or full")
    if wanted == FULL and gdb.parameter("non-stop"):
        raise Trouble("full mode needs gdb's all-stop mode: `set non-stop off` before the program is started")
    if wanted is not None:
        session.mode = wanted
        if session.attached and session.bootstrap is None:
            session.write_control()
        elif session.attached:
            session.write_control(BREAKPOINT)
    yield "%s%s" % (mode_name(session.mode), "" if session.attached else ", not attached")


def phases_command(text):
    """Shows the phases of collections as they come, or stops at some: on, off, stop NAME…

`stopworld phases stop mark-end sweep-begin` stops at these two, `stopworld phases stop none` at none.
The names: %s."""
    session = Session.current()
    words = text.split()
    if words[:1] == ["stop"]:
        unknown = [word for word in words[1:] if word not in PHASES and word != "none"]
        if unknown or len(words) == 1:
            raise Trouble("a phase is one of: none " + " ".join(PHASES[1:]))
        session.stop_at = {PHASES.index(word) for word in words[1:] if word != "none"}
    elif words in (["on"], ["off"]):
        session.tell_phases = words == ["on"]
    elif words:
        raise Trouble("phases on, phases off, or phases stop NAME…")
    if words and session.attached:
        session.write_control(BREAKPOINT if session.bootstrap is not None else 0)
    stops = ", ".join(PHASES[phase] for phase in sorted(session.stop_at)) or "none"
    yield "phases are %s; gdb stops at: %s" % ("shown" if session.tell_phases else "not shown", stops)


phases_command.__doc__ %= " ".join(PHASES[1:])


def collect_command(text):
    """Asks for a collection (of world NUMBER, if there are several). It happens when the program runs on."""
    contract, world = only_world(text)
    Inspection(contract, call).ask("request_collection", world.address)
    yield "world %d collects when the program runs on" % world.number


def object_command(text):
    """What is at ADDR, inside an object too: type, size, mark, and where its fields lead. ADDR is an expression."""
    address = address_of(text)
    return Inspection(contract_for(address), call).describe(address)


def fields_command(text):
    """Where the fields of the object at ADDR lead."""
    address = address_of(text)
    return Inspection(contract_for(address), call).fields(address, 1 << 16)


def referrers_command(text):
    """The objects that refer to the one at ADDR."""
    address = address_of(text)
    return Inspection(contract_for(address), call).referrers(address)


def why_alive_command(text):
    """A shortest way from a root to the object at ADDR: what keeps it alive. In non-stop mode stop all threads first."""
    address = address_of(text)
    contract = contract_for(address)
    names = {thread.tid: thread.name for world in contract.worlds_now() for thread in contract.threads_of(world)}
    with StackPointers(contract):
        return Inspection(contract, call).why_alive(address, names)


def heap_command(text):
    """How many objects of which type the heap holds, and their bytes (of world NUMBER, if there are several)."""
    contract, world = only_world(text)
    return Inspection(contract, call).heap(world)


def status_command(_text):
    """What gdb has to do with the program's collector now."""
    session = Session.current()
    for contract in session.found():
        word = contract.control()
        notify, suspend = contract.signals()
        ours = " (this gdb)" if word and word >> 32 == session.who else ""
        yield "collector at %#x: in control: %s%s" % (contract.address, mode_name(word), ours)
        yield "  signals: notifications %s, suspension %s" % tuple(
            signal_name(number) if number else "not chosen yet" for number in (notify, suspend))
        for world in contract.worlds_now():
            yield "  " + world.describe()
    yield "%s taken, %s under way of which %s" % (
        count(session.notifications, "notification"), count(session.stops, "stop"),
        count(session.served, "held thread") + " answered for")


COMMANDS = {
    "threads": threads_command, "attach": attach_command, "detach": detach_command, "mode": mode_command,
    "phases": phases_command, "collect": collect_command, "object": object_command, "fields": fields_command,
    "referrers": referrers_command, "why-alive": why_alive_command, "heap": heap_command, "status": status_command,
}
TAKES_EXPRESSION = ("object", "fields", "referrers", "why-alive")


class Prefix(gdb.Command):
    """The stop-the-world collector of the program: its threads, its objects, its collections.

gdb takes part in collections by itself; `stopworld status` says how."""

    def __init__(self):
        super().__init__("stopworld", gdb.COMMAND_RUNNING, gdb.COMPLETE_NONE, True)


class Subcommand(gdb.Command):
    """One of COMMANDS: prints its lines, and its trouble as one line."""

    def __init__(self, name, action):
        self.action = action
        self.__doc__ = action.__doc__
        complete = gdb.COMPLETE_EXPRESSION if name in TAKES_EXPRESSION else gdb.COMPLETE_NONE
        super().__init__("stopworld " + name, gdb.COMMAND_RUNNING, complete)

    def invoke(self, text, from_tty):
        self.dont_repeat()
        try:
            for line in self.action(text):
                print(line)
        except (Trouble, gdb.error) as trouble:
            raise gdb.GdbError(str(trouble).splitlines()[0] if str(trouble) else "it failed") from None


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
    if hasattr(gdb.events, "gdb_exiting"):
        gdb.events.gdb_exiting.connect(leave)
    install_printers()
    attach_when_found()
