//! `#[derive(Trace)]`: describes to the collector which words of a type may hold references. `#[derive(Word)]`: enums without fields.
//!
//! `stopworld` re-exports the macro; its documentation is that of [`Trace`](macro@Trace) here. What the macro generates is data, not code:
//!
//! ```text
//!   struct Node { left: Option<Gc<Node>>, key: u64 }
//!
//!   LAYOUT = LEAF, with the layout of Option<Gc<Node>> at offset_of!(Node, left), with the layout of u64 at offset_of!(Node, key)
//! ```
//!
//! The offsets of the fields of an enum's variants are known to the compiler only. If a variant has references, each word of the enum
//! may be one (`Layout::any_word`), and the collector scans the object as it scans a stack.

mod attributes;
mod expand;
mod expand_word;
mod sample;
mod scoped;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Derives `stopworld::Trace`, so that values of the type can live in the collected heap.
///
/// It works for structs with named fields, tuple structs, unit structs, and enums, also with type parameters. Each field's type must be
/// `Trace` itself. In a generic type, each type parameter must be `Trace`; the macro adds this bound to the implementation. The type itself
/// needs the bound if it has a `GcCell`, which demands it.
///
/// ```
/// use stopworld::{Gc, GcCell, Trace, World};
///
/// #[derive(Trace)]
/// enum Expression {
///     Number(f64),
///     Sum(Gc<Expression>, Gc<Expression>),
/// }
///
/// #[derive(Trace)]
/// struct List<T: Trace> {
///     first: T,
///     rest: GcCell<Option<Gc<List<T>>>>,
/// }
///
/// let world = World::builder().build()?;
/// // SAFETY: this thread keeps every `Gc` in local variables and in collected objects.
/// let mutator = unsafe { world.attach("main") }?;
/// let two = mutator.alloc(Expression::Number(2.0))?;
/// let sum = mutator.alloc(Expression::Sum(two, two))?;
/// let list = mutator.alloc(List { first: sum, rest: GcCell::new(None) })?;
/// mutator.collect()?;
/// assert!(matches!(*list.first, Expression::Sum(left, _) if matches!(*left, Expression::Number(number) if number == 2.0)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A marker `PhantomData<T>` needs `T: Trace`, because values are shared by threads, and dropped on the finalizer thread: `PhantomData<*mut ()>`,
/// which says that a value must stay on its thread, is refused. A marker for any type is `PhantomData<fn() -> T>`.
///
/// # A lifetime
///
/// A type of objects in an `Arena` may have one lifetime, that of the scope, in fields like `Local<'gc, Node<'gc>>`. It then has no other
/// parameters. `Trace` is implemented for the type with `'static`, and `Scoped` for the type itself. For a type without a lifetime the macro
/// implements `Scoped` as well.
///
/// # Attributes
///
/// | attribute | on | meaning |
/// |---|---|---|
/// | `#[trace(skip = "reason")]` | a field | The field is not scanned, and its type need not be `Trace`. It must be `Send + Sync + 'static`, which excludes every `Gc`, unless a wrapper claims to be both. |
/// | `#[trace(bound = "T: Bound")]` | the type | These bounds replace `T: Trace` for each type parameter. |
/// | `#[trace(crate = "path")]` | the type, also for `#[derive(Word)]` | The path of the crate `stopworld`, if it has another name here or is re-exported: `"::gc"`, `"my_runtime::stopworld"`. |
///
/// # Layout
///
/// Marking reads an object from its header to its last reference. For a struct of more than a cache line, write `#[repr(C)]` and put
/// the references before all other fields, so that marking loads only one line.
///
/// If a variant of an enum has references, all words of the object that contains the enum are scanned, and a number that equals the
/// address of an object keeps that object alive. The same holds for a struct with references beyond its first 2 KiB. An allocation clears the
/// words that the variant does not use, so that what was on the stack before keeps nothing alive; but not if a field of the enum is
/// skipped, is a `Leaf`, or has a `Trace` written by hand, or if a variant has an explicit number.
///
/// # Compile errors
///
/// * A field whose type is not `Trace`; for example `String`, `Vec`, `Box` or `Cell`. The message says what to use instead.
/// * A type with references that has drop glue, by its own `Drop` or by that of a field: the collector would run it when the objects to
///   which it refers are gone. Use `Mutator::set_finalizer`, or put the field into an object of its own (`Gc<Leaf<T>>`).
/// * A reference of the language with a lifetime, `&'a str`: an object can't borrow.
/// * `#[repr(packed)]`, and an alignment of more than 16 bytes.
///
/// The errors appear in `cargo check`. Those about drop glue, `packed` and alignment appear there for a generic type, too, if they do not depend on
/// its parameters, and if these have only bounds of the standard library such as `Copy` or `Hash`; otherwise they appear in `cargo build`, for
/// each type of which an object is allocated.
///
/// A function whose parameters are references, `fn(&Node) -> u64`, has no `Trace`: the compiler says that the implementation is not general enough.
/// Such a field is a `Leaf<fn(&Node) -> u64>`.
#[proc_macro_derive(Trace, attributes(trace))]
pub fn derive_trace(input: TokenStream) -> TokenStream {
    expand::trace(&parse_macro_input!(input as DeriveInput)).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Derives `stopworld::Word` for an enum without fields, so that a `GcCell` can hold it. The enum must be `Copy`, and each variant a
/// value of at most 8 bytes without padding: `repr(align)` does not compile, nor does `repr(u128)`.
///
/// ```
/// use stopworld::{GcCell, Trace, Word};
///
/// #[derive(Clone, Copy, Debug, PartialEq, Trace, Word)]
/// enum Color {
///     White,
///     Gray,
///     Black,
/// }
///
/// #[derive(Trace)]
/// struct Node {
///     color: GcCell<Color>,
/// }
///
/// let node = Node { color: GcCell::new(Color::White) };
/// node.color.set(Color::Gray);
/// assert_eq!(node.color.replace(Color::Black), Color::Gray);
/// ```
///
/// ```compile_fail,E0080
/// #[derive(Clone, Copy, stopworld::Word)]
/// #[repr(u8, align(4))] // three bytes of padding
/// enum Padded {
///     One,
/// }
/// ```
#[proc_macro_derive(Word, attributes(trace))]
pub fn derive_word(input: TokenStream) -> TokenStream {
    expand_word::word(&parse_macro_input!(input as DeriveInput)).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Runs the example of the README as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
