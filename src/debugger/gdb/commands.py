# ---- calls of functions in the program

def call(function, *arguments):
    """Calls a function of the program in the selected thread, alone."""
    thread = gdb.selected_thread()
    if connection() == "core":
        raise Trouble("a core file has no threads that can run: `stopworld core` shows its heap")
    if thread is None or not thread.is_stopped():
        raise Trouble("select a stopped thread first: it executes the function")
    # In non-stop mode the collecting thread runs, so the call returns after the collection.
    would_stop = not gdb.parameter("non-stop") and any(
        record.held and record.place == RUNNING for _, record in records_of(thread.ptid[1]))
    if would_stop and not is_native():
        raise Trouble("thread %d would stop for a collection instead: select another thread" % thread.num)
    words = ", ".join("%#xul" % argument for argument in arguments)
    kinds = ", ".join(["unsigned long"] * len(arguments))
    try:
        with gdb.with_parameter("language", "c"), gdb.with_parameter("unwindonsignal", True), \
                OnlyThisThread(), Unsuspended(thread.ptid[1] if would_stop else None):
            return int(gdb.parse_and_eval("((long (*)(%s)) %#x)(%s)" % (kinds, function, words)))
    except gdb.error as error:
        raise Trouble("the call in thread %d failed: %s" % (thread.num, str(error).splitlines()[0])) from None


class OnlyThisThread:
    """Keeps all other threads stopped during the call, so that its result is consistent."""

    def __enter__(self):
        self.before = gdb.parameter("scheduler-locking")
        gdb.execute("set scheduler-locking on", to_string=True)

    def __exit__(self, *_):
        gdb.execute("set scheduler-locking " + self.before, to_string=True)


class Unsuspended:
    """Withholds the pending suspend signal of a thread during a call, which would not return from the handler while the others are stopped."""

    def __init__(self, tid):
        self.tid = tid

    def __enter__(self):
        self.handle("nopass")

    def __exit__(self, *_):
        for suspend in self.handle("pass"):
            LIBC.tgkill(gdb.selected_inferior().pid, self.tid, suspend)

    def handle(self, how):
        signals = [contract.signals()[1] for contract in Session.current().contracts] if self.tid is not None else []
        for suspend in signals:
            handle(suspend, how)
        return signals


class StackPointers:
    """Writes registers and stack pointers of all stopped threads into their records, for a function that scans stacks."""

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
    """The address that the user's expression denotes: a number, a pointer, a variable that holds a `Gc`."""
    if not text.strip():
        raise Trouble("an argument is missing: an address, or a variable that holds a Gc")
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
    """The value of a structure of one word: `Gc`, `Option<Gc>`, `GcCell` …"""
    if value.type.sizeof != 8:
        raise Trouble("a value of type %s is not a reference" % value.type)
    if value.address is not None:
        return struct.unpack("<Q", TARGET.read(int(value.address), 8))[0]
    while value.type.strip_typedefs().code == gdb.TYPE_CODE_STRUCT:
        value = next(value[field] for field in value.type.fields() if field.type.sizeof == 8)
    return int(value) & MASK


def contract_for(address):
    """Returns the copy of the library whose heap contains the address; the first copy if none does."""
    contracts = Session.current().found()
    for contract in contracts:
        if any(world.heap_low <= address < world.heap_high for world in contract.worlds_now()):
            return contract
    return contracts[0]


def worlds():
    return [(contract, world) for contract in Session.current().found() for world in contract.worlds_now()]


def only_world(text):
    """Returns the world with this number; without a number, the only world."""
    found = worlds()
    if not found:
        raise Trouble("the program has no world yet")
    if not text.strip():
        if len(found) > 1:
            raise Trouble("the program has several worlds; give a number: " + ", ".join(str(world.number) for _, world in found))
        return found[0]
    for contract, world in found:
        if str(world.number) == text.strip():
            return contract, world
    raise Trouble("there is no world %s" % text.strip())


# ---- commands

def threads_command(_text):
    """Lists the threads of each world: gdb's number, tid, name, stack, state, and whether a collection or a user holds them."""
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
    """Takes part in the program's collections. This is automatic when a program with the collector is found."""
    session = Session.current()
    session.looked = False
    session.attach()
    yield SAY % ("attached to process %d, %s" % (session.pid, mode_name(session.mode)))


def detach_command(_text):
    """Stops taking part in the program's collections. A collection then waits for threads that gdb holds."""
    session = Session.current()
    session.found()
    session.detach()
    session.detached_by_user = True
    yield SAY % ("detached from process %d" % session.pid)


def mode_command(text):
    """Shows or sets how gdb takes part in collections: assisted or full.

assisted: the collector stops the threads, and gdb answers for those that it holds.
full: gdb stops all threads and writes where their stacks begin. It works in all-stop mode only, and a `next` that
runs into a collection ends there."""
    session = Session.current()
    wanted = {"": None, "assisted": ASSISTED, "full": FULL}.get(text.strip(), 0)
    if wanted == 0:
        raise Trouble("unknown mode: use assisted or full")
    if wanted == FULL and gdb.parameter("non-stop"):
        raise Trouble("full mode needs gdb's all-stop mode: `set non-stop off` before the program starts")
    if wanted is not None:
        session.mode = wanted
        if session.attached and session.bootstrap is None:
            session.write_control()
        elif session.attached:
            session.write_control(BREAKPOINT)
    yield "%s%s" % (mode_name(session.mode), "" if session.attached else ", not attached")


def phases_command(text):
    """Shows the phases of collections, or stops at some of them: on, off, stop NAME…

`stopworld phases stop mark-end sweep-begin` stops at these two, `stopworld phases stop none` at none.
The names: %s."""
    session = Session.current()
    words = text.split()
    if words[:1] == ["stop"]:
        unknown = [word for word in words[1:] if word not in PHASES and word != "none"]
        if unknown or len(words) == 1:
            raise Trouble("unknown or missing phase; a phase is one of: none " + " ".join(PHASES[1:]))
        session.stop_at = {PHASES.index(word) for word in words[1:] if word != "none"}
    elif words in (["on"], ["off"]):
        session.tell_phases = words == ["on"]
    elif words:
        raise Trouble("usage: phases on, phases off, or phases stop NAME…")
    if words and session.attached:
        session.write_control(BREAKPOINT if session.bootstrap is not None else 0)
    stops = ", ".join(PHASES[phase] for phase in sorted(session.stop_at)) or "none"
    yield "phases are %s; gdb stops at: %s" % ("shown" if session.tell_phases else "not shown", stops)


phases_command.__doc__ %= " ".join(PHASES[1:])


def collect_command(text):
    """Requests a collection (of world NUMBER, if there are several). It starts when the program continues."""
    contract, world = only_world(text)
    Inspection(contract, call).ask("request_collection", world.address)
    yield "world %d will collect when the program continues" % world.number


def object_command(text):
    """Shows the object that contains ADDR: type, size, mark, and the objects that its fields refer to. ADDR is an expression."""
    address = address_of(text)
    return Inspection(contract_for(address), call).describe(address)


def fields_command(text):
    """Shows the objects that the fields of the object at ADDR refer to."""
    address = address_of(text)
    return Inspection(contract_for(address), call).fields(address, 1 << 16)


def referrers_command(text):
    """Lists the objects that refer to the object at ADDR."""
    address = address_of(text)
    return Inspection(contract_for(address), call).referrers(address)


def why_alive_command(text):
    """Shows a shortest path from a root to the object at ADDR: what keeps it alive. In non-stop mode stop all threads first."""
    address = address_of(text)
    contract = contract_for(address)
    names = {thread.tid: thread.name for world in contract.worlds_now() for thread in contract.threads_of(world)}
    with StackPointers(contract):
        return Inspection(contract, call).why_alive(address, names)


def heap_command(text):
    """Shows the number of objects and bytes of each type in the heap (of world NUMBER, if there are several)."""
    contract, world = only_world(text)
    return Inspection(contract, call).heap(world)


def core_command(text):
    """Shows what `stopworld core` finds in the core file that gdb has loaded: worlds, threads, objects by type, damage."""
    if text.strip():
        raise Trouble("usage: stopworld core; for an object: stopworld object, referrers or why-alive ADDR")
    return of_core([])


def of_core(arguments):
    """The report of `stopworld core` about the core file that gdb has loaded."""
    if connection() != "core":
        raise Trouble("gdb has no core file: `core-file FILE` loads one")
    found = re.search(r"core dump file:\s+`(.*)', file type", gdb.execute("info target", to_string=True))
    if found is None:
        raise Trouble("gdb does not say where its core file is")
    return post_mortem(found.group(1), gdb.current_progspace().filename, arguments)


def status_command(_text):
    """Shows which debugger is in control, the signals, the worlds, and counts of what gdb has done."""
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
    yield "served %s (%s); answered for %s" % (
        count(session.notifications, "notification"), count(session.stops, "stop"),
        count(session.served, "held thread"))


COMMANDS = {
    "threads": threads_command, "attach": attach_command, "detach": detach_command, "mode": mode_command,
    "phases": phases_command, "collect": collect_command, "object": object_command, "fields": fields_command,
    "referrers": referrers_command, "why-alive": why_alive_command, "heap": heap_command, "core": core_command,
    "status": status_command,
    "exit-kill": exit_kill_command,
}
TAKES_EXPRESSION = ("object", "fields", "referrers", "why-alive")


class Prefix(gdb.Command):
    """The stop-the-world collector of the program: its threads, its objects, its collections.

gdb takes part in collections automatically; `stopworld status` shows how."""

    def __init__(self):
        super().__init__("stopworld", gdb.COMMAND_RUNNING, gdb.COMPLETE_NONE, True)


class Subcommand(gdb.Command):
    """One of COMMANDS: prints its lines; an error is one line."""

    def __init__(self, name, action):
        self.action = action
        self.__doc__ = action.__doc__
        complete = gdb.COMPLETE_EXPRESSION if name in TAKES_EXPRESSION else gdb.COMPLETE_NONE
        super().__init__("stopworld " + name, gdb.COMMAND_RUNNING, complete)

    def lines(self, text):
        if connection() != "core":
            return self.action(text)
        if self.action is heap_command:
            return of_core(["--world", text.strip()] if text.strip() else [])
        option = next((option for name, option in CORE_OPTIONS.items() if COMMANDS[name] is self.action), None)
        return self.action(text) if option is None else of_core([option, "%#x" % address_of(text)])

    def invoke(self, text, from_tty):
        self.dont_repeat()
        try:
            for line in self.lines(text):
                print(line)
        except (Trouble, gdb.error) as trouble:
            raise gdb.GdbError(str(trouble).splitlines()[0] if str(trouble) else "the command failed") from None
