# ---- values: Gc, Weak, GcCell, Array

class Depth:
    """The depth of references of the value that is being printed. Objects reference objects, often in cycles, so
    only the outermost reference shows what it refers to."""

    now = 0

    @classmethod
    def under(cls, children):
        cls.now += 1
        try:
            yield from children
        finally:
            cls.now -= 1


# The first word of a type descriptor.
TYPE_INFO_MAGIC = 0x6F66_6E69_7077_7473


def lives(address):
    """Whether an object is at this address: its header points to a type descriptor."""
    try:
        header = struct.unpack("<Q", TARGET.read(address - 8, 8))[0]
        return struct.unpack("<Q", TARGET.read(header, 8))[0] == TYPE_INFO_MAGIC
    except Trouble:
        return False


def plain(kind):
    """A type's name without the paths of well-known types."""
    return re.sub(r"\b(?:core|alloc|stopworld)::(?:\w+::)+(?=[A-Z])", "", str(kind))


def is_array(kind):
    return (kind.name or "").startswith("stopworld::heap::pointer::Array<")


def elements(array):
    """The elements of an `Array`, up to gdb's `print elements`."""
    element = array.type.template_argument(0)
    length = int(array["length"])
    most = gdb.parameter("print elements") or length
    first = (array.address.cast(gdb.lookup_type("u64").pointer()) + 1).cast(element.pointer())
    return ((str(index), first[index]) for index in range(min(length, most + 1)))


def reference(value, kind, address):
    """`Gc<kind>` as text."""
    if is_array(kind):
        name = "[%s]" % plain(kind.template_argument(0))
    else:
        name = plain(kind)
    if not lives(address):
        return "Gc(%#x) %s, but there is no live object" % (address, name)
    if is_array(kind):
        name = "[%s; %d]" % (plain(kind.template_argument(0)), int(value["length"]))
    return "Gc(%#x) %s" % (address, name)


class GcPrinter:
    """A reference, and the object that it refers to."""

    wraps = "%s"

    def __init__(self, value):
        self.address = word_in(value)
        self.kind = value.type.template_argument(0)
        self.object = gdb.Value(self.address).cast(self.kind.pointer()).dereference()

    def to_string(self):
        return self.wraps % reference(self.object, self.kind, self.address)

    def children(self):
        if Depth.now or not lives(self.address):
            return iter(())
        return Depth.under(self.inside())

    def inside(self):
        if is_array(self.kind):
            return elements(self.object)
        if self.kind.code == gdb.TYPE_CODE_STRUCT and self.kind.fields():
            return ((field.name, self.object[field]) for field in self.kind.fields())
        return iter([("*", self.object)])

    def display_hint(self):
        return "array" if is_array(self.kind) else None


class OptionPrinter(GcPrinter):
    """`Option<Gc<T>>`: one word, null for `None`."""

    wraps = "Some(%s)"

    def __init__(self, value):
        self.address = word_in(value)
        if self.address:
            gc = gdb.lookup_type(str(value.type)[len("core::option::Option<"):-1])
            self.kind = gc.template_argument(0)
            self.object = gdb.Value(self.address).cast(self.kind.pointer()).dereference()

    def to_string(self):
        return super().to_string() if self.address else "None"

    def children(self):
        return super().children() if self.address else iter(())

    def display_hint(self):
        return super().display_hint() if self.address else None


class WeakPrinter:
    """A weak reference, and the object that it refers to while that is alive."""

    def __init__(self, value):
        self.address = word_in(value)
        self.kind = value.type.template_argument(0).template_argument(0)

    def to_string(self):
        if not lives(self.address):
            return "Weak(%#x), but there is no live object" % self.address
        target = struct.unpack("<Q", TARGET.read(self.address, 8))[0]
        if not target:
            return "Weak(%#x) of %s, cleared" % (self.address, plain(self.kind))
        value = gdb.Value(target).cast(self.kind.pointer()).dereference()
        return "Weak(%#x) of %s" % (self.address, reference(value, self.kind, target))


class CellPrinter:
    """A mutable field: its value."""

    def __init__(self, value):
        self.value = value

    def to_string(self):
        kind = self.value.type.template_argument(0)
        if self.value.address is None or kind.sizeof > 8:
            return "GcCell(%#x)" % word_in(self.value)
        return self.value.address.cast(kind.pointer()).dereference()


class ArrayPrinter:
    """The elements of an array in the heap."""

    def __init__(self, value):
        self.value = value

    def to_string(self):
        return "[%s; %d]" % (plain(self.value.type.template_argument(0)), int(self.value["length"]))

    def children(self):
        return elements(self.value)

    def display_hint(self):
        return "array"


def install_printers():
    from gdb.printing import RegexpCollectionPrettyPrinter, register_pretty_printer
    printers = RegexpCollectionPrettyPrinter("stopworld")
    here = r"stopworld::heap::pointer::"
    printers.add_printer("Weak", "^%sGc<%sWeakCell<.*>>$" % (here, here), WeakPrinter)
    printers.add_printer("Gc", "^%sGc<.*>$" % here, GcPrinter)
    printers.add_printer("Option<Gc>", "^core::option::Option<%sGc<.*>>$" % here, OptionPrinter)
    printers.add_printer("GcCell", "^%sGcCell<.*>$" % here, CellPrinter)
    printers.add_printer("Array", "^%sArray<.*>$" % here, ArrayPrinter)
    register_pretty_printer(None, printers, replace=True)
