# ---- values: Gc, Weak, GcCell

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


def marked(kind):
    """The type `M` of a structure with a `PhantomData<M>`: of a `Gc<T>` a pointer to `T`, of a `WeakCell<T>` a `Gc<T>`."""
    marker = next(field.type for field in kind.fields() if "PhantomData<" in str(field.type))
    return marker.template_argument(0)


class Pointee:
    """The type of an object: one with a size, a slice, a `str` or a trait object. Those without a size begin with a length or a
    method table."""

    def __init__(self, pointer):
        fields = {field.name: field.type for field in pointer.fields()} if pointer.code == gdb.TYPE_CODE_STRUCT else {}
        self.name = plain(str(pointer)[len("*mut "):])
        self.sized = pointer.target() if pointer.code == gdb.TYPE_CODE_PTR else None
        self.element = fields["data_ptr"].target() if "data_ptr" in fields else None
        self.is_text = self.name == "str"

    def value(self, address):
        """The object at this address, if its type has a size."""
        return gdb.Value(address).cast(self.sized.pointer()).dereference()

    def length(self, address):
        return struct.unpack("<Q", TARGET.read(address, 8))[0]

    def shown_length(self, address):
        """The number of elements to show: one more than `print elements`, so that gdb prints that there are more."""
        length = self.length(address)
        return min(length, (gdb.parameter("print elements") or length) + 1)

    def full_name(self, address):
        if self.element is None or self.is_text:
            return self.name
        return "[%s; %d]" % (plain(self.element), self.length(address))

    def text(self, address):
        shown = TARGET.read(address + 8, self.shown_length(address))
        return ' "%s"' % bytes(shown).decode("utf-8", "replace") if self.is_text else ""

    def children(self, address):
        if self.is_text:
            return iter(())
        if self.element is not None:
            first = gdb.Value(address + 8).cast(self.element.pointer())
            return ((str(index), first[index]) for index in range(self.shown_length(address)))
        if self.sized is None:
            return iter(())
        value = self.value(address)
        if self.sized.code == gdb.TYPE_CODE_STRUCT and self.sized.fields():
            return ((field.name, value[field]) for field in self.sized.fields())
        return iter([("*", value)])


def reference(pointee, address):
    """`Gc<T>` as text."""
    if not lives(address):
        return "Gc(%#x) %s, but there is no live object" % (address, pointee.name)
    return "Gc(%#x) %s%s" % (address, pointee.full_name(address), pointee.text(address))


class GcPrinter:
    """A reference, and the object that it refers to."""

    wraps = "%s"

    def __init__(self, value):
        self.address = word_in(value)
        # Without an address, gdb shows only the variant `None` of an `Option`.
        self.pointee = Pointee(marked(self.of_type(value.type))) if self.address else None

    @staticmethod
    def of_type(kind):
        return kind

    def to_string(self):
        return self.wraps % reference(self.pointee, self.address)

    def children(self):
        if Depth.now or not lives(self.address):
            return iter(())
        return Depth.under(self.pointee.children(self.address))

    def display_hint(self):
        return "array" if self.pointee.element is not None and not self.pointee.is_text else None


class OptionPrinter(GcPrinter):
    """`Option<Gc<T>>`: one word, null for `None`."""

    wraps = "Some(%s)"

    @staticmethod
    def of_type(kind):
        some = next(field.type for field in kind.fields() if field.name == "Some")
        return some.fields()[0].type

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
        self.pointee = Pointee(marked(marked(marked(value.type).target())))

    def to_string(self):
        if not lives(self.address):
            return "Weak(%#x), but there is no live object" % self.address
        target = struct.unpack("<Q", TARGET.read(self.address, 8))[0]
        if not target:
            return "Weak(%#x) of %s, cleared" % (self.address, self.pointee.name)
        return "Weak(%#x) of %s" % (self.address, reference(self.pointee, target))


class CellPrinter:
    """A mutable field: its value."""

    def __init__(self, value):
        self.value = value

    def to_string(self):
        kind = self.value.type.template_argument(0)
        if self.value.address is None or kind.sizeof > 8:
            return "GcCell(%#x)" % word_in(self.value)
        return self.value.address.cast(kind.pointer()).dereference()


def install_printers():
    from gdb.printing import RegexpCollectionPrettyPrinter, register_pretty_printer
    printers = RegexpCollectionPrettyPrinter("stopworld")
    here = r"stopworld::heap::pointer::"
    printers.add_printer("Weak", "^%sGc<%sWeakCell<.*>>$" % (here, here), WeakPrinter)
    printers.add_printer("Gc", "^%sGc<.*>$" % here, GcPrinter)
    printers.add_printer("Option<Gc>", "^core::option::Option<%sGc<.*>>$" % here, OptionPrinter)
    printers.add_printer("GcCell", "^stopworld::heap::cell::GcCell<.*>$", CellPrinter)
    register_pretty_printer(None, printers, replace=True)
