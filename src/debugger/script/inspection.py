# ---- objects: the results of functions in the target (src/debugger/inspect.rs), as text

FACTS = struct.Struct("<12Q4I")
FACTS_NAMES = (
    "base bytes cell_bytes block type_info type_name type_name_bytes rust_name rust_name_bytes fields length world "
    "space flags marked reserved").split()
FIELD, STEP, ROW = struct.Struct("<3Q"), struct.Struct("<Ii4Q"), struct.Struct("<5Q")

ARRAY, LEAF, WEAK, LARGE, PINNED, FREE_CELL, FREE_BLOCK, HALF_BUILT, DROPS = (1 << bit for bit in range(9))
FLAGS = ((ARRAY, "array"), (LEAF, "no references"), (WEAK, "weak reference"), (HALF_BUILT, "partially initialised"),
         (DROPS, "dropped when it dies"))
SPACES = ("small", "pinned", "large")

REFUSALS = {
    -1: "this address is in no world's heap",
    -2: "there is no object at this address",
    -3: "the program could not allocate memory for the search",
    -4: "the function rejected its buffer",
    -5: "other threads ran during the call: try again, or stop them",
    -6: "a thread was stopped in the middle of registering a stack: let the program run for a moment, and try again",
}

FIELD_STEP, STACK, REGISTERS, BUILDING, REGISTERED, RANGE, HANDLE, FINALIZER = range(8)
ROOTS = {
    STACK: "the stack of thread {tid}{name}, at {slot:#x}",
    REGISTERS: "the registers of thread {tid}{name}",
    BUILDING: "an object that thread {tid}{name} is initialising, at {slot:#x}",
    REGISTERED: "a registered stack, at {slot:#x}",
    RANGE: "a registered range, at {slot:#x}",
    HANDLE: "a Root handle, at {slot:#x}",
    FINALIZER: "the queue of objects with pending finalizers",
}

# Longer texts are truncated.
MOST_TEXT = 512


class Inspection:
    """Queries to one copy of the library. `call(function, arguments…)` calls a function in a stopped thread."""

    def __init__(self, contract, call):
        self.contract, self.target, self.call = contract, contract.target, call

    def ask(self, name, *arguments):
        function = self.contract.calls.get(name, 0)
        if not function:
            raise Trouble("the program's collector has no function for `%s`" % name)
        answer = self.call(function, *arguments)
        if answer < 0:
            raise Trouble(REFUSALS.get(answer, "the collector rejected the request (error %d)" % answer))
        return answer

    def rows(self, name, shape, before, after=()):
        """The rows that a function returned, as far as they fit the buffer, and their total number."""
        room = self.contract.scratch_size // shape.size
        total = self.ask(name, *before, self.contract.scratch, room, *after)
        data = self.target.read(self.contract.scratch, min(total, room) * shape.size)
        return [row for row in shape.iter_unpack(data)], total

    def text(self, address, size):
        if not address or not size:
            return ""
        return self.target.read(address, min(size, MOST_TEXT)).decode("utf-8", "replace")

    def facts(self, address):
        """The result of `describe`, for an object or a free cell."""
        self.ask("describe", address, self.contract.scratch)
        facts = Structure(address, dict(zip(FACTS_NAMES, FACTS.unpack(
            self.target.read(self.contract.scratch, FACTS.size)))))
        facts.type = self.text(facts.type_name, facts.type_name_bytes)
        facts.path = self.text(facts.rust_name, facts.rust_name_bytes)
        return facts

    def object(self, address):
        facts = self.facts(address)
        if facts.flags & (FREE_CELL | FREE_BLOCK):
            raise Trouble("there is no live object at %#x: %s" % (address, self.emptiness(facts)))
        return facts

    @staticmethod
    def emptiness(facts):
        if facts.flags & FREE_BLOCK:
            return "its block has no cells"
        building = ", in which a thread is initialising an object" if facts.flags & HALF_BUILT else ""
        return "it is in the free cell at %#x of %d bytes%s" % (facts.base, facts.cell_bytes, building)

    def short(self, address):
        """An object as address and type."""
        if not address:
            return "null"
        facts = self.facts(address)
        return "%#x %s" % (facts.base, facts.type or "?")

    # ---- the commands, each a list of lines

    def describe(self, address):
        facts = self.object(address)
        inside = "" if address == facts.base else "   (%#x is at +%d)" % (address, address - facts.base)
        traits = [words for flag, words in FLAGS if facts.flags & flag]
        if facts.flags & ARRAY and facts.length:
            traits[0] = "array of %d" % facts.length
        lines = [
            "%#x %s%s" % (facts.base, facts.type, inside),
            "  type    %s" % facts.path,
            "  size    %s in a cell of %d, %s space" % (
                count(facts.bytes, "byte"), facts.cell_bytes,
                SPACES[facts.space] if facts.space < len(SPACES) else "unknown"),
            "  marked  %s" % ("yes" if facts.marked else "no"),
        ]
        if traits:
            lines.append("  is      " + ", ".join(traits))
        return lines + (self.fields(facts.base) if facts.fields else [])

    def fields(self, address, most=64):
        facts = self.object(address)
        rows, total = self.rows("fields", FIELD, (facts.base,))
        lines = ["  +%-6d %s" % (offset, self.field(value, target)) for offset, value, target in rows[:most]]
        if not lines:
            return ["%#x %s has no fields that hold references" % (facts.base, facts.type)]
        return lines + self.more(total, most)

    def field(self, value, target):
        if target:
            return "-> " + self.short(target)
        return "%#x" % value if value else "null"

    @staticmethod
    def more(total, shown):
        return ["  … and %d more" % (total - shown)] if total > shown else []

    def referrers(self, address, most=64):
        facts = self.object(address)
        rows, total = self.rows("referrers", struct.Struct("<Q"), (facts.base,))
        if not rows:
            return ["no object refers to %#x %s" % (facts.base, facts.type)]
        lines = ["%s to %#x %s" % (
            count(total, "object") + (" refers" if total == 1 else " refer"), facts.base, facts.type)]
        return lines + ["  " + self.short(holder) for holder, in rows[:most]] + self.more(total, most)

    def why_alive(self, address, names, most=64):
        """A path from a root. `names` maps tids to the threads' names."""
        facts = self.object(address)
        rows, total = self.rows("path", STEP, (facts.base,))
        if not rows:
            return ["there is no path from a root to %#x %s: the next collection frees it" % (
                facts.base, facts.type)]
        steps = rows if len(rows) <= most else rows[:most // 2] + rows[-(most // 2):]
        lines = []
        for index, step in enumerate(steps):
            if len(rows) > most and index == most // 2:
                lines.append("  … %d steps …" % (len(rows) - len(steps)))
            lines += self.step(*step, names)
        return lines + self.more(total, len(rows))

    def step(self, kind, tid, slot, _value, target, offset, names):
        if kind == FIELD_STEP:
            return ["  +%d -> %s" % (offset, self.short(target))]
        name = " (%s)" % names[tid] if tid in names else ""
        root = ROOTS.get(kind, "a root of an unknown kind, at {slot:#x}").format(tid=tid, name=name, slot=slot)
        inside = " (%d bytes into it)" % offset if offset else ""
        return [root, "  -> %s%s" % (self.short(target), inside)]

    def heap(self, world, most=40):
        rows, total = self.rows("census", ROW, (world.address,))
        rows = sorted(rows, key=lambda row: -row[4])
        lines = ["%12s %14s  %s" % ("objects", "bytes", "type")]
        for info, name, size, objects, held in rows[:most]:
            lines.append("%12d %14d  %s" % (objects, held, self.text(name, size) if info else "(other types)"))
        lines += self.more(total, most)
        return lines + ["%12d %14d  in all" % (sum(row[3] for row in rows), sum(row[4] for row in rows))]


def thread_table(contract, world, number_of):
    """A world's threads as a table; `number_of` returns the debugger's own number of a tid."""
    rows = [("", "tid", "name", "stack_ptr", "stack", "state")]
    for thread in contract.threads_of(world):
        rows.append((
            number_of(thread.tid), str(thread.tid), thread.name,
            "%#x" % thread.stack_ptr if thread.stack_ptr and world.collecting else "-",
            "%#x-%#x" % (thread.stack_low, thread.stack_high), thread.describe()))
    return table(rows)


def table(rows):
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
