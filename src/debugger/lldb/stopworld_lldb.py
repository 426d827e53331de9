# ---- lldb
#
# lldb's part in collections, and the commands to inspect them. The program notifies through its breakpoint function: lldb has a breakpoint
# there, whose callback serves the request and returns "don't stop". (lldb does not report a signal to a script unless it stops at the
# signal.) lldb stops every thread for a breakpoint, so in *assisted* mode the callback answers for the threads that the user has suspended,
# and, at the notification AGAIN, for all threads that are stopped in their own code. In *full* mode it suspends all threads except the
# collecting one itself, and resumes them at the end.
#
# Use `command script import stopworld_lldb.py` in a session that has its program already, or `stopworld attach` if the program is created
# later. A program that is not running yet is attached to when it reaches its entry point.

import itertools
import shlex

import lldb


class LldbTarget:
    """The memory of a process."""

    def __init__(self, process):
        self.process = process

    def read(self, address, size):
        error = lldb.SBError()
        data = self.process.ReadMemory(address, size, error) if 0 < address < 1 << 63 else None
        if data is None or not error.Success() or len(data) != size:
            raise Trouble("cannot read %d bytes at %#x" % (size, address))
        return bytes(data)

    def write(self, address, data):
        error = lldb.SBError()
        if not 0 < address < 1 << 63 or self.process.WriteMemory(address, data, error) != len(data):
            raise Trouble("cannot write %d bytes at %#x" % (len(data), address))

    def modules(self):
        target = self.process.GetTarget()
        bases = (m.GetObjectFileHeaderAddress().GetLoadAddress(target) for m in target.module_iter())
        return [base for base in bases if base != lldb.LLDB_INVALID_ADDRESS]


def find_contracts(process):
    memory, target = LldbTarget(process), process.GetTarget()
    addresses = [context.GetSymbol().GetStartAddress().GetLoadAddress(target)
                 for context in target.FindSymbols("stopworld_debugger")]
    addresses = [a for a in addresses if a != lldb.LLDB_INVALID_ADDRESS] + descriptors_by_note(memory)
    found, troubles = [], []
    for address in dict.fromkeys(addresses):
        try:
            found.append(Contract(memory, address))
        except Trouble as trouble:
            troubles.append(trouble)
    if troubles and not found:
        raise troubles[0]
    return [contract for contract in found if contract.is_relocated]


# ---- registers

GENERAL = "rax rbx rcx rdx rsi rdi rbp r8 r9 r10 r11 r12 r13 r14 r15 rip rsp fs_base gs_base".split()


def registers_of(thread):
    """All registers of a thread and its stack pointer."""
    frame = thread.GetFrameAtIndex(0)
    general = struct.pack("<%dQ" % len(GENERAL), *(frame.FindRegister(name).GetValueAsUnsigned() for name in GENERAL))
    vectors = b"".join(raw(frame, pattern % i) for pattern, n in (("ymm%d", 16), ("zmm%d", 32), ("stmm%d", 8), ("k%d", 8))
                       for i in range(n))
    if not raw(frame, "ymm0"):
        vectors += b"".join(raw(frame, "xmm%d" % i) for i in range(16))
    return general + vectors + b"\0" * (-len(vectors) % 8), frame.GetSP()


def raw(frame, name):
    value, error = frame.FindRegister(name), lldb.SBError()
    if not value.IsValid():
        return b""
    data = value.GetData()
    return bytes(data.ReadRawData(error, 0, data.GetByteSize()) or b"")


# ---- the session

ATTACHED = itertools.count(1)


class Session:
    """lldb's state for one process."""

    def __init__(self, process):
        self.process = process
        self.contracts = []
        self.mode, self.who = ASSISTED, 0
        self.tell_phases = False
        self.stop_at = set()
        self.breakpoints = []
        self.suspended = []
        self.notifications = self.served = self.stops = 0
        self.complained = set()

    def found(self):
        if not self.contracts:
            self.contracts = find_contracts(self.process)
        if not self.contracts:
            raise Trouble("the program contains no stopworld collector, or has not loaded it yet")
        return self.contracts

    def attach(self):
        target = self.process.GetTarget()
        if not self.breakpoints:
            for contract in self.found():
                here = target.BreakpointCreateByAddress(contract.notify)
                here.SetScriptCallbackFunction(__name__ + ".notified")
                here.AddName("stopworld")
                self.breakpoints.append(here)
        self.pass_signals()
        # A number that is new at each attach of any debugger.
        self.who = (os.getpid() ^ next(ATTACHED) << 22) & 0xffffffff
        self.write_control()

    def pass_signals(self):
        for contract in self.contracts:
            for number in filter(None, contract.signals()):
                signals = self.process.GetUnixSignals()
                signals.SetShouldStop(number, False)
                signals.SetShouldNotify(number, False)

    def write_control(self):
        word = self.who << 32 | BREAKPOINT | self.mode
        if self.tell_phases or self.stop_at:
            word |= TELL_PHASES
        for contract in self.contracts:
            contract.set_control(word)

    def detach(self):
        for contract in self.found():
            contract.set_control(0)
        for here in self.breakpoints:
            self.process.GetTarget().BreakpointDelete(here.GetID())
        self.breakpoints = []

    @property
    def attached(self):
        return bool(self.breakpoints)

    def contract_of(self, world):
        for contract in self.contracts:
            if len(self.contracts) == 1 or any(world == known.address for known in contract.worlds_now()):
                return contract
        raise Trouble("a notification comes from an unknown world at %#x" % world)

    def notified(self, address):
        request = self.contracts[0].request_at(address)
        contract = self.contract_of(request.world)
        self.notifications += 1
        if self.notifications == 1:
            self.pass_signals()
        stop = False
        if request.event in (STOP_WORLD, AGAIN):
            self.stops += request.event == STOP_WORLD
            self.stop_world(contract, request)
        elif request.event == START_WORLD:
            self.start_world()
        elif request.event == PHASE:
            stop = self.phase(contract, request)
        contract.acknowledge(request)
        return stop

    def stop_world(self, contract, request):
        full = request.event == STOP_WORLD and (request.detail or self.mode) == FULL
        collecting = self.process.GetSelectedThread().GetThreadID()
        stopped = {}
        for thread in self.process:
            tid = thread.GetThreadID()
            if full or thread.IsSuspended() or request.event == AGAIN:
                stopped[tid] = thread
            if full and not thread.IsSuspended() and tid not in (request.tid, collecting):
                self.suspended.append(tid)
        try:
            serve = contract.serve_all if full else contract.serve
            self.served += serve(request, lambda tid: registers_of(stopped[tid]) if tid in stopped else None)
        finally:
            for tid in self.suspended:
                self.process.GetThreadByID(tid).Suspend()

    def start_world(self):
        for tid in self.suspended:
            thread = self.process.GetThreadByID(tid)
            if thread.IsValid():
                thread.Resume()
        self.suspended = []

    def phase(self, contract, request):
        if self.tell_phases or request.detail in self.stop_at:
            print("[stopworld: world %d: %s]" % (
                contract.world_at(request.world).number, phase_name(request.detail)))
        return request.detail in self.stop_at

    def complain(self, trouble):
        if str(trouble) not in self.complained:
            self.complained.add(str(trouble))
            print("[stopworld: %s]" % trouble)


SESSIONS = {}


def session_of(process):
    return SESSIONS.setdefault(process.GetUniqueID(), Session(process))


def notified(frame, _location, _names):
    """The callback of the breakpoint at the notification function. Returns whether to stop."""
    session = session_of(frame.GetThread().GetProcess())
    try:
        return session.notified(frame.FindRegister("rdi").GetValueAsUnsigned())
    except Trouble as trouble:
        session.complain(trouble)
        return False


def started(frame, _location, _names):
    """The callback at the program's entry point: the libraries that it is linked with are loaded."""
    session = session_of(frame.GetThread().GetProcess())
    try:
        session.attach()
    except Trouble as trouble:
        session.complain(trouble)
    return False


# ---- calls of functions in the program

def caller(process):
    """Calls a function of the program in the selected thread, alone."""
    def call(function, *arguments):
        words = ", ".join("%#xUL" % argument for argument in arguments)
        kinds = ", ".join(["unsigned long"] * len(arguments))
        options = lldb.SBExpressionOptions()
        options.SetLanguage(lldb.eLanguageTypeC_plus_plus)
        options.SetIgnoreBreakpoints(True)
        options.SetUnwindOnError(True)
        options.SetTryAllThreads(False)
        options.SetStopOthers(True)
        frame = process.GetSelectedThread().GetFrameAtIndex(0)
        value = frame.EvaluateExpression("((long (*)(%s)) %#xUL)(%s)" % (kinds, function, words), options)
        if not value.GetError().Success():
            raise Trouble("the call failed: %s" % str(value.GetError()).strip().splitlines()[0])
        return value.GetValueAsSigned()
    return call


class StackPointers:
    """Writes registers and stack pointers of all threads into their records, for a function that scans stacks."""

    def __init__(self, process, contract):
        self.process, self.contract, self.written = process, contract, []

    def __enter__(self):
        for world in self.contract.worlds_now():
            for thread in self.contract.threads_of(world):
                stopped = self.process.GetThreadByID(thread.tid)
                if thread.place == RUNNING and stopped.IsValid():
                    self.contract.give_registers(thread, *registers_of(stopped))
                    self.written.append(thread)

    def __exit__(self, *_):
        for thread in self.written:
            self.contract.take_back(thread)


# ---- commands: each gets the session and its arguments, and yields lines

def address_of(session, text):
    if not text:
        raise Trouble("an argument is missing: an address, or a variable that holds a Gc")
    frame = session.process.GetSelectedThread().GetSelectedFrame()
    try:
        return int(text, 0)
    except ValueError:
        value = frame.GetValueForVariablePath(text) if not text.startswith("$") else frame.FindRegister(text[1:])
    if not value.IsValid() or value.GetByteSize() != 8:
        raise Trouble("`%s` is not a number, nor a register or variable that holds a reference" % text)
    error = lldb.SBError()
    return value.GetData().GetUnsignedInt64(error, 0)


def inspection(session, address):
    """An `Inspection` of the copy of the library whose heap contains the address."""
    contracts = session.found()
    holders = [contract for contract in contracts for world in contract.worlds_now()
               if world.heap_low <= address < world.heap_high]
    return Inspection((holders or contracts)[0], caller(session.process))


def only_world(session, text):
    found = [(contract, world) for contract in session.found() for world in contract.worlds_now()]
    chosen = [pair for pair in found if not text or str(pair[1].number) == text]
    if len(chosen) != 1:
        raise Trouble("give the number of a world: " + (", ".join(str(world.number) for _, world in found) or "there is none yet"))
    return chosen[0]


def threads_command(session, _text):
    """Lists the threads of each world: lldb's number, tid, name, stack, state, and whether a collection or a user holds them."""
    known = {thread.GetThreadID(): thread for thread in session.process}
    selected = session.process.GetSelectedThread().GetThreadID()

    def number_of(tid):
        thread = known.pop(tid, None)
        if thread is None:
            return "  -"
        return "%s%d%s" % ("* " if tid == selected else "  ", thread.GetIndexID(),
                           " suspended" if thread.IsSuspended() else "")

    for contract in session.found():
        for world in contract.worlds_now():
            yield world.describe()
            yield from thread_table(contract, world, number_of)
    if known:
        yield "not managed by a collector: " + ", ".join(
            "%d (tid %d)" % (thread.GetIndexID(), tid) for tid, thread in sorted(known.items()))


def attach_command(session, _text):
    """Takes part in the program's collections; from its entry point if it does not run yet."""
    session.attach()
    yield "attached to process %d, %s" % (session.process.GetProcessID(), mode_name(session.mode))


def detach_command(session, _text):
    """Stops taking part in the program's collections. A collection then waits for suspended threads."""
    session.detach()
    yield "detached from process %d" % session.process.GetProcessID()


def mode_command(session, text):
    """Shows or sets how lldb takes part in collections: assisted or full."""
    wanted = {"": session.mode, "assisted": ASSISTED, "full": FULL}.get(text)
    if wanted is None:
        raise Trouble("unknown mode: use assisted or full")
    session.mode = wanted
    if session.attached:
        session.write_control()
    yield "%s%s" % (mode_name(session.mode), "" if session.attached else ", not attached")


def phases_command(session, text):
    """Shows the phases of collections (on, off), or stops at some of them (stop NAME…, stop none)."""
    words = text.split()
    if words[:1] == ["stop"] and len(words) > 1 and set(words[1:]) <= set(PHASES) | {"none"}:
        session.stop_at = {PHASES.index(word) for word in words[1:] if word != "none"}
    elif words in (["on"], ["off"]):
        session.tell_phases = words == ["on"]
    elif words:
        raise Trouble("usage: phases on, phases off, or phases stop with some of: none " + " ".join(PHASES[1:]))
    if words and session.attached:
        session.write_control()
    stops = ", ".join(PHASES[phase] for phase in sorted(session.stop_at)) or "none"
    yield "phases are %s; lldb stops at: %s" % ("shown" if session.tell_phases else "not shown", stops)


def collect_command(session, text):
    """Requests a collection (of world NUMBER, if there are several). It starts when the program continues."""
    contract, world = only_world(session, text)
    Inspection(contract, caller(session.process)).ask("request_collection", world.address)
    yield "world %d will collect when the program continues" % world.number


def object_command(session, text):
    """Shows the object that contains ADDR: type, size, mark, and the objects that its fields refer to."""
    address = address_of(session, text)
    return inspection(session, address).describe(address)


def fields_command(session, text):
    """Shows the objects that the fields of the object at ADDR refer to."""
    address = address_of(session, text)
    return inspection(session, address).fields(address, 1 << 16)


def referrers_command(session, text):
    """Lists the objects that refer to the object at ADDR."""
    address = address_of(session, text)
    return inspection(session, address).referrers(address)


def why_alive_command(session, text):
    """Shows a shortest path from a root to the object at ADDR: what keeps it alive."""
    address = address_of(session, text)
    asker = inspection(session, address)
    contract = asker.contract
    names = {thread.tid: thread.name for world in contract.worlds_now() for thread in contract.threads_of(world)}
    with StackPointers(session.process, contract):
        return asker.why_alive(address, names)


def heap_command(session, text):
    """Shows the number of objects and bytes of each type in the heap (of world NUMBER, if there are several)."""
    contract, world = only_world(session, text)
    return Inspection(contract, caller(session.process)).heap(world)


def is_of_core(process):
    return process.GetPluginName() == "elf-core"


def core_file(process):
    """The core file that lldb has loaded."""
    if hasattr(process, "GetCoreFile"):
        return process.GetCoreFile().fullpath
    # Older versions do not tell a script, but map the file.
    found = []
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        paths = dict.fromkeys(line[line.index("/"):].rstrip("\n") for line in maps if "/" in line)
    for path in paths:
        try:
            with open(path, "rb") as file:
                head = file.read(18)
        except OSError:
            continue
        if head[:4] == b"\x7fELF" and head[16:] == b"\x04\0":
            found.append(path)
    if len(found) != 1:
        raise Trouble("lldb %s: name the core file, and options of `stopworld core`" % (
            "has loaded several cores" if found else "does not show where its core file is"))
    return found[0]


def of_core(process, arguments):
    """The report of `stopworld core` about the core file that lldb has loaded."""
    return post_mortem(core_file(process), process.GetTarget().GetExecutable().fullpath, arguments)


def core_command(session, text):
    """Shows what `stopworld core` finds in the core file that lldb has loaded; or in FILE, with options of `stopworld core`."""
    words = shlex.split(text)
    if words:
        return post_mortem(words[0], session.process.GetTarget().GetExecutable().fullpath, words[1:])
    if not is_of_core(session.process):
        raise Trouble("lldb has no core file: `target create --core FILE` loads one")
    return of_core(session.process, [])


def lines_of(action, session, text):
    """The lines of a command. For a core, the commands about the heap are those of `stopworld core`."""
    if not is_of_core(session.process):
        return action(session, text)
    if action in (attach_command, detach_command, mode_command, phases_command, collect_command):
        raise Trouble("a core file has no threads that can run: `stopworld core` shows its heap")
    if action is heap_command:
        return of_core(session.process, ["--world", text] if text else [])
    option = next((option for name, option in CORE_OPTIONS.items() if COMMANDS[name] is action), None)
    return action(session, text) if option is None else of_core(session.process, [option, "%#x" % address_of(session, text)])


def status_command(session, _text):
    """Shows which debugger is in control, the signals, the worlds, and counts of what lldb has done."""
    for contract in session.found():
        word = contract.control()
        ours = " (this lldb)" if word and word >> 32 == session.who else ""
        yield "collector at %#x: in control: %s%s" % (contract.address, mode_name(word), ours)
        yield "  signals: notifications %s, suspension %s" % contract.signals()
        for world in contract.worlds_now():
            yield "  " + world.describe()
    yield "served %s (%s); answered for %s" % (
        count(session.notifications, "notification"), count(session.stops, "stop"),
        count(session.served, "held thread"))


COMMANDS = {
    "threads": threads_command, "attach": attach_command, "detach": detach_command, "mode": mode_command,
    "phases": phases_command, "collect": collect_command, "object": object_command, "fields": fields_command,
    "referrers": referrers_command, "why-alive": why_alive_command, "heap": heap_command, "core": core_command,
    "status": status_command,
}


def attach_at_entry(target):
    """Prepares to attach to a program that does not run yet, at its entry point."""
    entry = target.GetModuleAtIndex(0).GetObjectFileEntryPointAddress()
    if not entry.IsValid():
        raise Trouble("there is no program to attach to")
    here = target.BreakpointCreateBySBAddress(entry)
    here.SetScriptCallbackFunction(__name__ + ".started")
    here.AddName("stopworld")


def run_command(debugger, text, result, _names):
    """The stop-the-world collector of the program: its threads, its objects, its collections."""
    words = text.strip().split(None, 1)
    action = COMMANDS.get(words[0]) if words else None
    if action is None:
        lines = ["%-10s %s" % (name, command.__doc__) for name, command in COMMANDS.items()]
        result.AppendMessage("stopworld COMMAND:\n  " + "\n  ".join(lines))
        return
    target = debugger.GetSelectedTarget()
    process = target.GetProcess()
    try:
        if not process.IsValid() or process.GetState() in (lldb.eStateExited, lldb.eStateDetached):
            if action is not attach_command:
                raise Trouble("no program is being debugged")
            attach_at_entry(target)
            result.AppendMessage("will attach when the program reaches its entry point")
            return
        if process.GetState() != lldb.eStateStopped:
            raise Trouble("the program is running: use `process interrupt` first")
        for line in lines_of(action, session_of(process), words[1].strip() if len(words) > 1 else ""):
            result.AppendMessage(line)
    except Trouble as trouble:
        result.SetError(str(trouble).splitlines()[0])


# ---- values

def address_in(value):
    """The address in a `Gc<T>`."""
    return value.GetNonSyntheticValue().GetChildMemberWithName("payload").GetChildAtIndex(0).GetValueAsUnsigned()


def pointee_name(value):
    """The name of the `T` of a `Gc<T>`."""
    return value.GetType().GetName()[len("stopworld::heap::pointer::Gc<"):-1]


def gc_summary(value, _names):
    """Summary of a `Gc<T>`: the address and the type's name."""
    return "%#x %s" % (address_in(value), pointee_name(value))


class GcChildren:
    """Children of a `Gc<T>`: the object that it refers to, if `T` has a size."""

    def __init__(self, value, _names):
        self.value = value

    def update(self):
        kind = self.value.GetType().GetTemplateArgumentType(0)
        has_size = not pointee_name(self.value).startswith(("[", "dyn ")) and pointee_name(self.value) != "str"
        self.object = None
        if has_size and kind.IsValid():
            self.object = self.value.CreateValueFromAddress("object", address_in(self.value), kind)
        return False

    def num_children(self):
        return 0 if self.object is None else 1

    def has_children(self):
        return self.object is not None

    def get_child_index(self, _name):
        return 0

    def get_child_at_index(self, _index):
        return self.object


def __lldb_init_module(debugger, _names):
    debugger.HandleCommand("command script add -f %s.run_command stopworld" % __name__)
    kind = '-x "^stopworld::heap::pointer::Gc<.+>$"'
    debugger.HandleCommand("type summary add -w stopworld -e %s -F %s.gc_summary" % (kind, __name__))
    debugger.HandleCommand("type synthetic add -w stopworld %s -l %s.GcChildren" % (kind, __name__))
    debugger.HandleCommand("type category enable stopworld")
    target = debugger.GetSelectedTarget()
    if not target.IsValid():
        return
    process = target.GetProcess()
    try:
        if process.IsValid() and process.GetState() == lldb.eStateStopped:
            if not is_of_core(process):
                session_of(process).attach()
        elif target.GetNumModules():
            attach_at_entry(target)
    except Trouble as trouble:
        print("[stopworld: %s]" % trouble)
