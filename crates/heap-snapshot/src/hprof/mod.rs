//! HPROF: heap dumps of Java's virtual machines, for VisualVM, Eclipse MAT and other tools of Java.
//!
//! ```text
//!   "JAVA PROFILE 1.0.2\0", size of an id, time
//!   string …  load class …  stack trace                              a name; a class and its name
//!   heap dump segment: root …  class …  object …                     up to about a megabyte each
//!   heap dump end
//! ```
//!
//! The format has classes with fields; a heap whose objects are untyped memory has neither. So the writer makes a class for each type and
//! size, with the fields in which objects of the type have references:
//!
//! | in the model | in the file |
//! |---|---|
//! | type | a class; if its objects have several sizes, a class for each size, `Name (48 bytes)` |
//! | type with more than 64 sizes, or more than 64 different labels, or a label twice in an object | an array class: `Name[]` if the type has this name, otherwise `Name (array)[]` |
//! | [`Label`](crate::Label) | a field: `+16`, `[2]`, or its name; in an array the references come first, then nulls |
//! | size | the size in the class; the length of the array |
//! | root | handle: JNI global; static: sticky class; on a stack: Java frame, or native stack if the thread is unknown; another root of a thread: thread block; else unknown |
//! | group of roots | an array of the class `stopworld.Roots[]`, which is a root, with the objects to which the roots refer |
//! | thread of a group of roots, on its stack or others | a thread with one frame, and three objects: the thread, its name, the characters of the name |
//!
//! Readers compute the size of an array from its length, as 24 + 8 × length. So an array that has no null is 8 bytes larger than the
//! object that it stands for. A size below 16 bytes becomes 16.
//!
//! VisualVM computes retained sizes from references alone, and overlooks a root of an object to which another object refers. The array of a
//! group is a reference for each root, so the object has two and is not retained by the other one.
//!
//! VisualVM also requires some classes of Java, which are written and have no objects except those of threads and of groups of roots. The class
//! `java.lang.Object` has the size 16: so it knows that the sizes of classes include a header.

mod plan;
mod read;
mod record;
mod threads;
mod write;

pub use read::read;
pub use write::write;

/// The beginning of a file, before its NUL.
const MAGIC: &[u8] = b"JAVA PROFILE 1.0";
/// Tags of records.
const STRING: u8 = 0x01;
const LOAD_CLASS: u8 = 0x02;
const STACK_FRAME: u8 = 0x04;
const STACK_TRACE: u8 = 0x05;
const START_THREAD: u8 = 0x0a;
const HEAP_DUMP: u8 = 0x0c;
const HEAP_DUMP_SEGMENT: u8 = 0x1c;
const HEAP_DUMP_END: u8 = 0x2c;
/// Tags in a heap dump.
const ROOT_JNI_GLOBAL: u8 = 0x01;
const ROOT_JAVA_FRAME: u8 = 0x03;
const ROOT_NATIVE_STACK: u8 = 0x04;
const ROOT_STICKY_CLASS: u8 = 0x05;
const ROOT_THREAD_BLOCK: u8 = 0x06;
const ROOT_THREAD_OBJECT: u8 = 0x08;
const ROOT_UNKNOWN: u8 = 0xff;
const CLASS: u8 = 0x20;
const INSTANCE: u8 = 0x21;
const OBJECT_ARRAY: u8 = 0x22;
const PRIMITIVE_ARRAY: u8 = 0x23;
/// The type of a field that is a reference.
const REFERENCE: u8 = 2;
/// The bytes of an object before its fields: two words.
const HEADER: u64 = 16;
/// The bytes of an array before its elements.
const ARRAY_HEADER: u64 = 24;
const OBJECT_CLASS: &str = "java/lang/Object";
/// How the name of an array type ends in the model, and in viewers, which append it to an array class of the type's elements.
const BRACKETS: &str = "[]";
/// How the name of another type ends in the array class that stands for it.
const NO_ARRAY: &str = " (array)";
/// The class of the objects that stand for threads.
const THREAD_CLASS: &str = "stopworld/Thread";
/// The class of the arrays that stand for groups of roots.
const ROOTS_CLASS: &str = "[Lstopworld/Roots;";
/// The number of objects of a thread: it, its name, the characters of the name.
const THREAD_OBJECTS: usize = 3;
/// The distance of the ids of objects and classes that are not in the heap.
const ID_STEP: u64 = 16;
