//! Reads HPROF files: those of this crate, of HotSpot and of Android.
//!
//! A reference names its object by address, and an object its class, both of which may come later in the file. So the file is read twice:
//! first names, classes, and the addresses of objects, then the objects.

use std::collections::{HashMap, HashSet};
use std::io::{Read, Seek};

use trace_io::source::Source;

use super::{
    BRACKETS, CLASS, HEAP_DUMP, HEAP_DUMP_END, HEAP_DUMP_SEGMENT, ID_STEP, INSTANCE, LOAD_CLASS, MAGIC, NO_ARRAY,
    OBJECT_ARRAY, OBJECT_CLASS, PRIMITIVE_ARRAY, REFERENCE, ROOT_JAVA_FRAME, ROOT_JNI_GLOBAL, ROOT_NATIVE_STACK,
    ROOT_STICKY_CLASS, ROOT_THREAD_BLOCK, ROOT_THREAD_OBJECT, ROOTS_CLASS, START_THREAD, STRING, THREAD_CLASS,
    THREAD_OBJECTS,
};
use crate::addresses::{Addresses, AddressesBuilder};
use crate::error::{Error, Result};
use crate::graph::{Builder, Graph};
use crate::heap::{Label, RootGroup, RootKind};

const BUFFER: usize = 256 << 10;
/// The longest name in bytes.
const LONGEST: u64 = 16 << 20;
/// The longest name of a thread in bytes. Each root on a stack has a copy of the name while it is read.
const LONGEST_THREAD: usize = 2048;
/// The longest chain of superclasses.
const DEEPEST: usize = 256;

/// Reads a heap dump.
///
/// Classes with static fields are roots of the kind static. The size of an object is that of its class, of an array 24 + 8 × length.
/// References to objects that the file does not have are left out, and so are the objects with which [`write`](super::write) describes threads
/// and groups of roots.
///
/// # Errors
/// The input can't be read, or it is damaged.
pub fn read(mut input: impl Read + Seek) -> Result<Graph> {
    let mut first = First::default();
    File::open(&mut input)?.records(&mut first)?;
    let addresses = std::mem::take(&mut first.objects).finish()?;
    input.rewind().map_err(Error::Input)?;
    let mut second = Second { first, addresses, builder: Builder::default(), layouts: HashMap::new(), seen: 0 };
    File::open(&mut input)?.records(&mut second)?;
    Ok(second.builder.finish().0)
}

/// What a pass over the file wants.
trait Pass {
    /// A record outside the heap dump, of this length. The pass may leave any part of it unread.
    fn record<R: Read>(&mut self, file: &mut File<R>, tag: u8, length: u64) -> Result<()>;

    /// A root.
    fn root(&mut self, _root: Found) {}

    /// A class. `statics` are the references in its static fields.
    fn class(&mut self, id: u64, class: Class, statics: &[u64]);

    /// An object. The pass consumes `length` bytes of contents.
    fn object<R: Read>(&mut self, file: &mut File<R>, object: &Dumped) -> Result<()>;
}

/// A root in the file.
struct Found {
    object: u64,
    kind: RootKind,
    address: u64,
    thread: Option<u32>,
}

#[derive(Debug, Default)]
struct Class {
    parent: u64,
    size: u64,
    /// The id of the name, and the type, of each field.
    fields: Vec<(u64, u8)>,
}

enum Contents {
    Instance,
    References,
    /// Elements of this size.
    Primitives(u64, u8),
}

struct Dumped {
    id: u64,
    class: u64,
    contents: Contents,
    /// The number of elements, of an array.
    elements: u64,
    /// The bytes of its contents.
    length: u64,
}

/// The first pass.
#[derive(Debug, Default)]
struct First {
    strings: HashMap<u64, String>,
    /// The id of the name of each class.
    names: HashMap<u64, u64>,
    classes: HashMap<u64, Class>,
    threads: HashMap<u32, u64>,
    objects: AddressesBuilder,
    /// The class of the objects with which this crate describes threads.
    thread_class: Option<u64>,
    /// The class of the arrays with which it describes groups of roots.
    roots_class: Option<u64>,
    /// The ids of these objects and of those that belong to them.
    of_threads: HashSet<u64>,
    /// The places in the file of the objects that are left out.
    left_out: HashSet<u64>,
    /// The number of objects in the file so far.
    seen: u64,
}

/// The second pass.
struct Second {
    first: First,
    addresses: Addresses,
    builder: Builder,
    layouts: HashMap<u64, Layout>,
    /// The number of objects in the file so far.
    seen: u64,
}

/// What an instance of a class has.
struct Layout {
    type_index: u32,
    size: u64,
    /// The offset in the contents, and the label, of each reference.
    references: Vec<(usize, Label)>,
}

/// A file, as it is read.
struct File<R> {
    source: Source<R>,
    id_bytes: usize,
}

impl<R: Read> File<R> {
    fn open(input: R) -> Result<File<R>> {
        let mut file = File { source: Source::new(input, BUFFER), id_bytes: 8 };
        let is_dump = file.source.has(MAGIC.len()).map_err(Error::Input)? && file.source.bytes().starts_with(MAGIC);
        if !is_dump {
            return Error::damaged(0, "expected `JAVA PROFILE 1.0`: this is not an HPROF file");
        }
        file.source.take(MAGIC.len());
        while file.u8()? != 0 {}
        file.id_bytes = match file.u32()? {
            size @ (4 | 8) => size as usize,
            size => {
                return Error::damaged(
                    file.source.offset() - 4,
                    format!("ids have {size} bytes; possible are 4 and 8"),
                );
            }
        };
        file.skip(8)?;
        Ok(file)
    }

    fn need(&mut self, count: usize) -> Result<&[u8]> {
        if self.source.has(count).map_err(Error::Input)? {
            return Ok(self.source.take(count));
        }
        let missing = count - self.source.bytes().len();
        Error::damaged(
            self.source.reached(),
            format!("the file is truncated: {}", trace_io::more_bytes(missing as u64)),
        )
    }

    fn skip(&mut self, count: u64) -> Result<()> {
        match self.source.skip(count).map_err(Error::Input)? {
            0 => Ok(()),
            missing => Error::damaged(
                self.source.reached(),
                format!("the file is truncated: {}", trace_io::more_bytes(missing)),
            ),
        }
    }

    fn u8(&mut self) -> Result<u8> {
        Ok(self.need(1)?[0])
    }

    fn u16(&mut self) -> Result<u16> {
        Ok(self.need(2)?.iter().fold(0, |number, byte| number << 8 | u16::from(*byte)))
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(big_endian(self.need(4)?) as u32)
    }

    fn id(&mut self) -> Result<u64> {
        let bytes = self.id_bytes;
        Ok(big_endian(self.need(bytes)?))
    }

    /// The size of a value of this type.
    fn size_of(&self, kind: u8) -> Result<u64> {
        Ok(match kind {
            REFERENCE => self.id_bytes as u64,
            4 | 8 => 1,
            5 | 9 => 2,
            6 | 10 => 4,
            7 | 11 => 8,
            _ => return Error::damaged(self.source.offset() - 1, format!("{kind} is no type of a value")),
        })
    }

    fn string(&mut self, length: u64) -> Result<String> {
        if length > LONGEST {
            return Error::damaged(
                self.source.offset(),
                format!("a name has {length} bytes; at most 16 MiB are possible"),
            );
        }
        Ok(String::from_utf8_lossy(self.need(length as usize)?).into_owned())
    }

    fn records(&mut self, pass: &mut impl Pass) -> Result<()> {
        // A heap dump in segments ends with a record of its own. A dump in one record does not.
        let mut is_open = false;
        while self.source.has(1).map_err(Error::Input)? {
            let tag = self.u8()?;
            self.skip(4)?;
            let length = u64::from(self.u32()?);
            let end = self.source.offset() + length;
            is_open = tag == HEAP_DUMP_SEGMENT || is_open && tag != HEAP_DUMP_END;
            match tag {
                HEAP_DUMP | HEAP_DUMP_SEGMENT => {
                    while self.source.offset() < end {
                        self.part(pass)?;
                    }
                }
                _ => pass.record(self, tag, length)?,
            }
            match end.checked_sub(self.source.offset()) {
                Some(rest) => self.skip(rest)?,
                None => return Error::damaged(end, "the contents of a record exceed its length"),
            }
        }
        if is_open {
            let what = "the file is truncated: the record that ends the heap dump is missing";
            return Error::damaged(self.source.offset(), what);
        }
        Ok(())
    }

    /// Reads a root, a class or an object.
    fn part(&mut self, pass: &mut impl Pass) -> Result<()> {
        let tag = self.u8()?;
        let found = |object, kind| Found { object, kind, address: 0, thread: None };
        match tag {
            ROOT_JNI_GLOBAL => {
                let (object, address) = (self.id()?, self.id()?);
                pass.root(Found { address, ..found(object, RootKind::Handle) });
            }
            // JNI local, Java frame.
            0x02 | ROOT_JAVA_FRAME => {
                let (object, thread) = (self.id()?, self.u32()?);
                self.skip(4)?;
                pass.root(Found { thread: Some(thread), ..found(object, RootKind::Stack) });
            }
            ROOT_NATIVE_STACK | ROOT_THREAD_BLOCK => {
                let (object, thread) = (self.id()?, self.u32()?);
                let kind = if tag == ROOT_NATIVE_STACK { RootKind::Stack } else { RootKind::Other };
                pass.root(Found { thread: Some(thread), ..found(object, kind) });
            }
            ROOT_STICKY_CLASS => pass.root(found(self.id()?, RootKind::Static)),
            // Thread object; Android's JNI monitor.
            ROOT_THREAD_OBJECT | 0x8e => {
                let object = self.id()?;
                self.skip(8)?;
                pass.root(found(object, RootKind::Other));
            }
            // Android's finalizing objects.
            0x8a => pass.root(found(self.id()?, RootKind::Finalizer)),
            // Monitor in use, unknown; Android's interned strings, debugger, reference cleanup, VM internal, unreachable.
            0x07 | 0xff | 0x89 | 0x8b | 0x8c | 0x8d | 0x90 => pass.root(found(self.id()?, RootKind::Other)),
            // Android: which heap the following objects are in.
            0xfe => self.skip(4 + self.id_bytes as u64)?,
            CLASS => self.class(pass)?,
            INSTANCE => {
                let id = self.id()?;
                self.skip(4)?;
                let (class, length) = (self.id()?, u64::from(self.u32()?));
                self.object(pass, Dumped { id, class, contents: Contents::Instance, elements: 0, length })?;
            }
            OBJECT_ARRAY => {
                let id = self.id()?;
                self.skip(4)?;
                let (elements, class) = (u64::from(self.u32()?), self.id()?);
                let length = elements * self.id_bytes as u64;
                self.object(pass, Dumped { id, class, contents: Contents::References, elements, length })?;
            }
            // Android's arrays without contents have the tag 0xc3.
            PRIMITIVE_ARRAY | 0xc3 => {
                let id = self.id()?;
                self.skip(4)?;
                let elements = u64::from(self.u32()?);
                let kind = self.u8()?;
                let size = self.size_of(kind)?;
                let length = if tag == PRIMITIVE_ARRAY { elements * size } else { 0 };
                self.object(
                    pass,
                    Dumped { id, class: 0, contents: Contents::Primitives(size, kind), elements, length },
                )?;
            }
            _ => return Error::damaged(self.source.offset() - 1, format!("{tag:#04x} is no tag of a heap dump")),
        }
        Ok(())
    }

    fn object(&mut self, pass: &mut impl Pass, object: Dumped) -> Result<()> {
        let end = self.source.offset() + object.length;
        pass.object(self, &object)?;
        self.skip(end - self.source.offset())
    }

    fn class(&mut self, pass: &mut impl Pass) -> Result<()> {
        let id = self.id()?;
        self.skip(4)?;
        let parent = self.id()?;
        self.skip(5 * self.id_bytes as u64)?;
        let size = u64::from(self.u32()?);
        for _ in 0..self.u16()? {
            self.skip(2)?;
            let kind = self.u8()?;
            let size = self.size_of(kind)?;
            self.skip(size)?;
        }
        let mut statics = Vec::new();
        for _ in 0..self.u16()? {
            self.id()?;
            match self.u8()? {
                REFERENCE => statics.push(self.id()?),
                kind => {
                    let size = self.size_of(kind)?;
                    self.skip(size)?;
                }
            }
        }
        let mut fields = Vec::new();
        for _ in 0..self.u16()? {
            let field = (self.id()?, self.u8()?);
            self.size_of(field.1)?;
            fields.push(field);
        }
        pass.class(id, Class { parent, size, fields }, &statics);
        Ok(())
    }
}

fn big_endian(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

impl Pass for First {
    fn record<R: Read>(&mut self, file: &mut File<R>, tag: u8, length: u64) -> Result<()> {
        match tag {
            STRING => {
                let at = file.source.offset();
                let id = file.id()?;
                let Some(rest) = length.checked_sub(file.id_bytes as u64) else {
                    return Error::damaged(at, "the record of a name is shorter than an id");
                };
                let text = file.string(rest)?;
                self.strings.insert(id, text);
            }
            LOAD_CLASS => {
                file.skip(4)?;
                let id = file.id()?;
                file.skip(4)?;
                let name = file.id()?;
                self.names.insert(id, name);
                // The first one: a type of the heap may have the same name.
                match self.strings.get(&name).map(String::as_str) {
                    Some(THREAD_CLASS) => drop(self.thread_class.get_or_insert(id)),
                    Some(ROOTS_CLASS) => drop(self.roots_class.get_or_insert(id)),
                    _ => {}
                }
            }
            START_THREAD => {
                let serial = file.u32()?;
                file.id()?;
                file.skip(4)?;
                let name = file.id()?;
                self.threads.insert(serial, name);
            }
            _ => {}
        }
        Ok(())
    }

    fn class(&mut self, id: u64, class: Class, _statics: &[u64]) {
        self.classes.insert(id, class);
    }

    fn object<R: Read>(&mut self, _file: &mut File<R>, object: &Dumped) -> Result<()> {
        if self.thread_class.is_some_and(|class| class == object.class) {
            let ids = (0..THREAD_OBJECTS as u64).map(|index| object.id.wrapping_add(index * ID_STEP));
            self.of_threads.extend(ids);
        }
        let is_of_roots = self.roots_class.is_some_and(|class| class == object.class);
        if is_of_roots || self.of_threads.contains(&object.id) {
            self.left_out.insert(self.seen);
        } else {
            self.objects.push(object.id);
        }
        self.seen += 1;
        Ok(())
    }
}

impl First {
    fn name(&self, class: u64) -> &str {
        self.names.get(&class).and_then(|name| self.strings.get(name)).map_or("", String::as_str)
    }

    /// The name of the type of a class: in a file of this crate that of the type for which the class was made, otherwise as Java programs
    /// show it.
    fn type_name(&self, class: u64) -> String {
        let name = self.name(class);
        if self.thread_class.is_none() {
            return if name.starts_with('[') { array(name) } else { java(name) };
        }
        if let Some(of_array) = name.strip_prefix("[L").and_then(|name| name.strip_suffix(';')) {
            return of_array.strip_suffix(NO_ARRAY).map_or_else(|| format!("{of_array}{BRACKETS}"), str::to_owned);
        }
        let of_size = name.strip_suffix(" bytes)").and_then(|name| name.rsplit_once(" ("));
        of_size.filter(|(_, size)| size.parse::<u64>().is_ok()).map_or(name, |(of_size, _)| of_size).to_owned()
    }

    /// Whether the sizes of classes include the header, as in dumps of newer machines.
    fn sizes_are_whole(&self) -> bool {
        self.classes.iter().any(|(id, class)| class.size > 0 && self.name(*id) == OBJECT_CLASS)
    }
}

impl Pass for Second {
    fn record<R: Read>(&mut self, _file: &mut File<R>, _tag: u8, _length: u64) -> Result<()> {
        Ok(())
    }

    fn root(&mut self, root: Found) {
        let Some(target) = self.addresses.find(root.object) else { return };
        let name = root.thread.and_then(|thread| self.first.threads.get(&thread));
        let name = name.and_then(|name| self.first.strings.get(name));
        let thread = name.map(|name| name[..name.floor_char_boundary(LONGEST_THREAD)].to_owned());
        self.builder.root(RootGroup { kind: root.kind, thread }, root.address, target);
    }

    fn class(&mut self, id: u64, _class: Class, statics: &[u64]) {
        for target in statics.iter().filter_map(|object| self.addresses.find(*object)) {
            self.builder.root(RootGroup { kind: RootKind::Static, thread: None }, id, target);
        }
    }

    fn object<R: Read>(&mut self, file: &mut File<R>, object: &Dumped) -> Result<()> {
        let place = self.seen;
        self.seen += 1;
        if self.first.left_out.contains(&place) {
            return Ok(());
        }
        let header = 2 * file.id_bytes as u64 + 4;
        match object.contents {
            Contents::Primitives(size, kind) => {
                let names = ["boolean", "char", "float", "double", "byte", "short", "int", "long"];
                let name = names.get(usize::from(kind).wrapping_sub(4)).copied().unwrap_or("unknown");
                let bytes = (header + size * object.elements).next_multiple_of(8);
                self.builder.object(object.id, &format!("{name}[]"), bytes).map(drop)
            }
            Contents::References => {
                let name = self.first.type_name(object.class);
                let bytes = (header + object.length).next_multiple_of(8);
                self.builder.object(object.id, &name, bytes)?;
                for index in 0..object.elements {
                    let target = file.id()?;
                    if let Some(target) = self.addresses.find(target).filter(|_| target != 0) {
                        self.builder.reference(Label::Index(index as u32), target);
                    }
                }
                Ok(())
            }
            Contents::Instance => self.instance(file, object),
        }
    }
}

impl Second {
    fn instance<R: Read>(&mut self, file: &mut File<R>, object: &Dumped) -> Result<()> {
        if !self.layouts.contains_key(&object.class) {
            let layout = self.layout(file, object)?;
            self.layouts.insert(object.class, layout);
        }
        let layout = &self.layouts[&object.class];
        let start = file.source.offset();
        self.builder.object_of(object.id, layout.type_index, layout.size)?;
        for (offset, label) in &layout.references {
            let at = start + *offset as u64;
            if at + file.id_bytes as u64 > start + object.length {
                return Error::damaged(start, format!("an instance has {} bytes, fewer than its class", object.length));
            }
            file.skip(at - file.source.offset())?;
            let target = file.id()?;
            if let Some(target) = self.addresses.find(target).filter(|_| target != 0) {
                self.builder.reference(*label, target);
            }
        }
        Ok(())
    }

    /// The layout of a class: its own fields, then those of its superclasses.
    fn layout<R: Read>(&mut self, file: &File<R>, object: &Dumped) -> Result<Layout> {
        let at = file.source.offset();
        let Some(class) = self.first.classes.get(&object.class) else {
            return Error::damaged(
                at,
                format!("an instance has the class {:#x}, which the file does not have", object.class),
            );
        };
        let whole = self.first.sizes_are_whole();
        let size = if whole { class.size } else { (2 * file.id_bytes as u64 + class.size).next_multiple_of(8) };
        let (mut offset, mut references, mut depth) = (0, Vec::new(), 0);
        let mut next = Some(class);
        while let Some(class) = next {
            for (name, kind) in &class.fields {
                if *kind == REFERENCE {
                    let name = self.first.strings.get(name).map_or("", String::as_str);
                    references.push((offset, label(name, &mut self.builder)));
                }
                offset += file.size_of(*kind)? as usize;
            }
            depth += 1;
            if depth > DEEPEST {
                return Error::damaged(at, "a class has more than 256 superclasses, or is its own");
            }
            next = self.first.classes.get(&class.parent);
        }
        let type_index = self.builder.type_index(&self.first.type_name(object.class));
        Ok(Layout { type_index, size, references })
    }
}

/// The name of an array class as Java programs show it: `[[I` is `int[][]`, `[LNode;` is `Node[]`.
fn array(name: &str) -> String {
    const PRIMITIVES: [(&str, &str); 8] = [
        ("Z", "boolean"),
        ("C", "char"),
        ("F", "float"),
        ("D", "double"),
        ("B", "byte"),
        ("S", "short"),
        ("I", "int"),
        ("J", "long"),
    ];
    let element = name.trim_start_matches('[');
    let brackets = "[]".repeat((name.len() - element.len()).min(255));
    if let Some(class) = element.strip_prefix('L').and_then(|element| element.strip_suffix(';')) {
        return java(class) + &brackets;
    }
    match PRIMITIVES.iter().find(|(letter, _)| *letter == element) {
        Some((_, primitive)) => format!("{primitive}{brackets}"),
        None => java(name),
    }
}

/// A name as Java programs show it. Names of this crate's types may contain slashes only in paths.
fn java(name: &str) -> String {
    if name.contains(' ') || name.contains("::") { name.to_owned() } else { name.replace('/', ".") }
}

/// The label of a field: what this crate has written for it, or a field.
fn label(name: &str, builder: &mut Builder) -> Label {
    if let Some(offset) = name.strip_prefix('+').and_then(|offset| offset.parse().ok()) {
        return Label::Offset(offset);
    }
    let index = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).and_then(|index| index.parse().ok());
    index.map_or_else(|| builder.field(name), Label::Index)
}
