"""The contract between stopworld's collector and a debugger, as a debugger sees it.

Both scripts, for gdb and for lldb, begin with this text. It uses neither debugger: it gets a `target`
with `read(address, size)`, `write(address, data)` and `modules()`. Invalid data is rejected with an error of
one line (`Trouble`), since a target's memory may contain anything.

Terms: a *world* is a garbage-collected heap with its threads; a *record* is the collector's data of a thread; a
*notification* is a message of the collector to the debugger, for whose acknowledgement it waits.
"""

import os
import struct
import subprocess

FULL, ASSISTED = 1, 2
BREAKPOINT, TELL_PHASES = 1 << 8, 1 << 9

STOP_WORLD, START_WORLD, THREAD_CREATED, THREAD_EXITED, PHASE, AGAIN = range(1, 7)

PHASES = (
    "running", "suspend-begin", "suspend-end", "gc-start", "roots-begin", "roots-end", "mark-begin", "mark-end",
    "weak-end", "sweep-begin", "sweep-end", "gc-end", "restart-begin", "restart-end",
)

DETACHED, RUNNING, BLOCKING, PARKED = range(4)
PLACES = ("detached", "running", "blocking", "parked")

# The number of bytes below the stack pointer in which x86-64 code may keep data.
RED_ZONE = 128

# More than a valid target has. A longer list is damaged, or made to keep a debugger busy.
MOST_WORLDS, MOST_THREADS = 1 << 10, 1 << 17

# How often a list is read that seems to be damaged.
WALKS = 5


class Trouble(Exception):
    """An error message for the user, in one line."""


def mode_name(mode):
    return {0: "no debugger", FULL: "full", ASSISTED: "assisted"}.get(mode & 0xff, "unknown (%d)" % (mode & 0xff))


def phase_name(phase):
    return PHASES[phase] if phase < len(PHASES) else "phase %d" % phase


def count(number, thing):
    """`1 thread`, `2 threads`."""
    return "%d %s%s" % (number, thing, "" if number == 1 else "s")


def text_of(raw):
    """A byte with the length, then that number of bytes of text."""
    return raw[1:1 + min(raw[0], len(raw) - 1)].decode("utf-8", "replace") if raw else ""


def chain(first, next_of, most, what):
    """The addresses of a linked list."""
    seen = set()
    while first:
        if first in seen:
            raise Trouble("the list of %s has a cycle at %#x" % (what, first))
        if len(seen) >= most:
            raise Trouble("the list of %s has more than %d entries" % (what, most))
        seen.add(first)
        yield first
        first = next_of(first)


def read_again(read):
    """The result of `read`, which walks a list that a running program may change meanwhile: then the walk may go wrong, and is repeated."""
    for _ in range(WALKS - 1):
        try:
            return read()
        except Trouble:
            continue
    return read()


class Fields:
    """A published table of offsets: the size of a structure, then the offset of each of its fields."""

    def __init__(self, what, kinds, words):
        self.what, self.kinds, self.size = what, kinds, words[0]
        self.offsets = dict(zip(kinds, words[1:]))
        if not 0 < self.size <= 1 << 16:
            raise Trouble("the descriptor has an invalid size of a %s: %d bytes" % (what, self.size))
        for name, offset in self.offsets.items():
            if offset + struct.calcsize(kinds[name]) > self.size:
                raise Trouble("the descriptor has an invalid offset of `%s` in a %s" % (name, what))

    def of(self, raw):
        """The fields of a structure from its bytes."""
        return {name: struct.unpack_from("<" + kind, raw, self.offsets[name])[0] for name, kind in self.kinds.items()}

    def at(self, target, address):
        return self.of(target.read(address, self.size))

    def write(self, target, address, name, value):
        target.write(address + self.offsets[name], struct.pack("<" + self.kinds[name], value))

    def read(self, target, address, name):
        kind = "<" + self.kinds[name]
        return struct.unpack(kind, target.read(address + self.offsets[name], struct.calcsize(kind)))[0]


REQUEST = dict(
    magic="8s", sequence="Q", acknowledged="Q", answer="Q", event="I", detail="I", tid="i", world="Q", thread="Q",
    slot="Q", epoch="Q",
)
WORLD = dict(
    next="Q", number="Q", threads="Q", bridged="I", phase="I", collecting="i", epoch="Q", collections="Q",
    heap_low="Q", heap_high="Q", collector="Q", stopper="32s",
)
THREAD = dict(
    stack_ptr="Q", saved_sp="Q", state="Q", tid="i", stack_low="Q", stack_high="Q", save_area="Q",
    save_area_size="Q", save_area_used="I", name="32s", frozen="Q", next="Q", serial="Q",
)
CALLS = ("describe", "fields", "referrers", "path", "request_collection", "census")


class Structure:
    """Fields of a structure in the target, as attributes."""

    def __init__(self, address, fields):
        self.address = address
        self.__dict__.update(fields)


class Thread(Structure):
    def __init__(self, address, fields):
        super().__init__(address, fields)
        self.name = text_of(self.name)
        self.place = self.state & 3
        self.held = bool(self.state & 4)
        self.suspended = bool(self.state & 8)

    def describe(self):
        parts = [PLACES[self.place]]
        if self.held:
            parts.append("held by a collection")
        if self.suspended:
            parts.append("suspended by a user")
        return ", ".join(parts)


class World(Structure):
    def __init__(self, address, fields):
        super().__init__(address, fields)
        self.stopper = text_of(self.stopper)

    def describe(self):
        doing = "running" if self.phase == 0 else "collecting (%s)" % phase_name(self.phase)
        by = ", by thread %d" % self.collecting if self.collecting else ""
        return "world %d: %s%s, %s, stopped by %s" % (
            self.number, doing, by, count(self.collections, "collection"),
            "the bridge" if self.bridged else self.stopper or "an unnamed vtable")


class Contract:
    """The descriptor of one copy of the library in the target."""

    HEAD = struct.Struct("<8sIIQII")
    WORDS = ("notify", "park", "call_return", "worlds", "scratch", "scratch_size")

    def __init__(self, target, address):
        self.target, self.address = target, address
        magic, version, size, _, _, _ = self.HEAD.unpack(target.read(address, self.HEAD.size))
        if magic != b"STOPWRLD":
            raise Trouble("there is no descriptor at %#x: its magic is %r" % (address, magic))
        if version != 1:
            raise Trouble("the target's contract has version %d; this script supports version 1" % version)
        self.needs(size)
        words = struct.unpack("<%dQ" % ((size - self.HEAD.size) // 8), target.read(address, size)[self.HEAD.size:])
        for name, word in zip(self.WORDS, words):
            setattr(self, name, word)
        rest = words[len(self.WORDS):]
        for name, kinds in (("request", REQUEST), ("world", WORLD), ("thread", THREAD)):
            setattr(self, name, Fields(name, kinds, rest))
            rest = rest[1 + len(kinds):]
        self.calls = dict(zip(CALLS, rest[1:1 + min(rest[0], len(rest) - 1)]))

    def needs(self, size):
        least = self.HEAD.size + 8 * (len(self.WORDS) + 3 + len(REQUEST) + len(WORLD) + len(THREAD) + 1)
        if size % 8 or not least <= size <= 1 << 16:
            raise Trouble("the descriptor at %#x has size %d; expected at least %d bytes" % (
                self.address, size, least))

    @property
    def is_relocated(self):
        """Whether the dynamic linker has relocated the descriptor: before that its pointers are invalid."""
        return self.notify != 0

    def signals(self):
        """The signals for notifications and for suspension; 0 before the first world."""
        return struct.unpack("<II", self.target.read(self.address + 24, 8))

    def control(self):
        return struct.unpack("<Q", self.target.read(self.address + 16, 8))[0]

    def set_control(self, word):
        self.target.write(self.address + 16, struct.pack("<Q", word))

    def worlds_now(self):
        return read_again(self.worlds_in_one_walk)

    def worlds_in_one_walk(self):
        head = struct.unpack("<Q", self.target.read(self.address + self.HEAD.size + 24, 8))[0]
        return [self.world_at(address) for address in chain(
            head, lambda a: self.world.read(self.target, a, "next"), MOST_WORLDS, "worlds")]

    def world_at(self, address):
        return World(address, self.world.at(self.target, address))

    def threads_of(self, world):
        """The records of a world's threads, by tid."""
        return read_again(lambda: self.threads_in_one_walk(world))

    def threads_in_one_walk(self, world):
        found = []

        def read(address):
            found.append(Thread(address, self.thread.at(self.target, address)))
            return found[-1].next

        for _ in chain(world.threads, read, MOST_THREADS, "threads"):
            pass
        return sorted(found, key=lambda thread: thread.tid)

    def request_at(self, address):
        request = Structure(address, self.request.at(self.target, address))
        if request.magic != b"STOPREQ1":
            raise Trouble("there is no request at %#x" % address)
        return request

    def acknowledge(self, request, answer=0):
        self.request.write(self.target, request.address, "answer", answer)
        self.request.write(self.target, request.address, "acknowledged", request.sequence)

    # ---- answering for threads

    def give_registers(self, thread, registers, stack_pointer):
        """Writes all registers into the record's save area, and the lowest address of the stack into the record."""
        if len(registers) > thread.save_area_size:
            raise Trouble("the registers of thread %s have %d bytes; its save area has %d" % (
                thread.name, len(registers), thread.save_area_size))
        self.target.write(thread.save_area, registers)
        self.thread.write(self.target, thread.address, "save_area_used", len(registers))
        self.thread.write(self.target, thread.address, "stack_ptr", stack_pointer - RED_ZONE)

    def take_back(self, thread):
        """Undoes `give_registers`."""
        self.thread.write(self.target, thread.address, "save_area_used", thread.save_area_used)
        self.thread.write(self.target, thread.address, "stack_ptr", thread.stack_ptr)

    def serve(self, request, registers_of):
        """Assisted: answers for the threads that the debugger holds; `registers_of` returns their registers.

        A thread that is resumed later takes the collector's signal, which is pending, before its next instruction.
        """
        served = 0
        for thread in self.threads_of(self.world_at(request.world)):
            if thread.place != RUNNING or thread.tid == request.tid or thread.frozen == request.epoch:
                continue
            found = registers_of(thread.tid)
            if found is not None:
                self.give_registers(thread, *found)
                self.thread.write(self.target, thread.address, "frozen", request.epoch)
                served += 1
        return served

    def serve_all(self, request, registers_of):
        """Full: answers for every thread except the collecting one, whatever its state."""
        served = 0
        for thread in self.threads_of(self.world_at(request.world)):
            found = registers_of(thread.tid) if thread.tid != request.tid else None
            if found is not None:
                self.give_registers(thread, *found)
                served += 1
        return served


# ---- finding the descriptor

NOTE_NAME, NOTE_TYPE = b"stopworld", 1


def descriptors_by_note(target):
    """The descriptors of all ELF modules in the target's memory, by a note that `strip` leaves alone."""
    found = []
    for base in target.modules():
        try:
            found += notes_of(target, base)
        except (Trouble, struct.error):
            continue
    return found


def notes_of(target, base):
    head = target.read(base, 64)
    if head[:6] != b"\x7fELF\x02\x01":
        return []
    table, (entry, entries) = struct.unpack_from("<Q", head, 32)[0], struct.unpack_from("<HH", head, 54)
    if entry != 56 or entries > 256:
        return []
    headers = [struct.unpack("<IIQQQQQQ", target.read(base + table + 56 * i, 56)) for i in range(entries)]
    loads = [h[3] - h[2] for h in headers if h[0] == 1 and h[2] == 0]
    if not loads:
        return []
    bias = base - loads[0]
    found = []
    for header in headers:
        if header[0] == 4 and header[5] <= 1 << 16:
            found += notes_in(target.read(bias + header[3], header[5]), bias + header[3], max(4, header[7]))
    return found


def notes_in(data, address, align):
    at, found = 0, []
    while at + 12 <= len(data):
        name_size, size, kind = struct.unpack_from("<III", data, at)
        name = data[at + 12:at + 12 + name_size].rstrip(b"\0")
        body = (at + 12 + name_size + align - 1) // align * align
        if name == NOTE_NAME and kind == NOTE_TYPE and body + 8 <= len(data):
            found.append(address + body + struct.unpack_from("<q", data, body)[0])
        at = (body + size + align - 1) // align * align
    return found


def modules_of(pid):
    """The base addresses of the ELF modules of a process: the first page of each mapped file."""
    with open("/proc/%d/maps" % pid, encoding="utf-8", errors="surrogateescape") as maps:
        lines = [line.split(None, 5) for line in maps]
    return [int(l[0].split("-")[0], 16) for l in lines if len(l) == 6 and l[2] == "00000000" and l[5][0] == "/"]
