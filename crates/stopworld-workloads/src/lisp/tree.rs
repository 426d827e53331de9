//! The compiler's tree: a top-level form without its syntax, with its variables resolved.
//!
//! The tree is in malloc memory, which the collector does not scan, so **it holds no values**. Symbols and quoted
//! data stay in a growing collected array, the [`Pool`], and the tree holds their indices; variables are indices
//! into the compiler's table. The pool itself is kept on the Rust stack while a form is compiled.
//!
//! ```text
//!   text ──reader──▶ data ──expand, forms, macros──▶ tree ──resolve──▶ (captures, boxes) ──emit──▶ Code
//! ```

use stopworld::{Gc, GcCell, traced};

use super::objects::Row;
use super::store::{Allocated, Store};
use super::value::Value;

/// Index of a variable in the compiler's table.
pub type VariableId = usize;

/// Index of a function in the compiler's table; 0 is the top-level form.
pub type FunctionId = usize;

/// Index of a value in the pool.
pub type Constant = usize;

/// Line and column.
pub type At = (u32, u32);

/// A local variable.
pub struct Variable {
    /// Whether a `set!` changes the variable. It is then stored in a box, because a continuation that is entered again must see the new
    /// value.
    pub mutated: bool,
    /// Whether the variable is stored in a box, because it is assigned, or because it is captured before it has its value.
    pub boxed: bool,
    /// Whether the variable is not initialised yet at the resolver's current position.
    pub pending: bool,
    /// The function whose frame contains it.
    pub function: FunctionId,
    /// The variable's slot in the frame of `function`, once the emitter has assigned it.
    pub slot: usize,
    /// Whether the variable is the name of a loop; `slot` is then the position of the loop's start.
    pub is_loop: bool,
}

/// A procedure.
pub struct Lambda {
    pub name: Option<Constant>,
    pub parameters: Vec<VariableId>,
    pub rest: bool,
    pub body: Node,
    /// Filled in by the resolver.
    pub function: FunctionId,
    pub at: At,
}

/// Variables that get their values one after the other and may refer to each other: a body with definitions.
pub struct Body {
    pub variables: Vec<VariableId>,
    pub items: Vec<(Option<VariableId>, Node)>,
}

/// Variables with their values, and a body. Also a loop: calls of `label` then start the next iteration.
pub struct Let {
    pub label: Option<VariableId>,
    pub variables: Vec<VariableId>,
    pub values: Vec<Node>,
    pub body: Node,
}

/// Whether a call can return.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Returns {
    Maybe,
    /// A call of `error` or a similar procedure never returns. It is never compiled as a tail call, so that the failing frame can still be
    /// shown.
    Never,
}

/// An expression.
pub enum Node {
    Constant(Constant),
    Integer(i32),
    Reference(VariableId),
    Global(Constant, At),
    Assign(VariableId, Box<Node>),
    AssignGlobal(Constant, Box<Node>, At),
    Define(Constant, Box<Node>),
    If(Box<[Node; 3]>),
    Or(Box<[Node; 2]>),
    Sequence(Vec<Node>),
    Lambda(Box<Lambda>),
    Let(Box<Let>),
    Body(Box<Body>),
    Call(Box<Node>, Vec<Node>, At, Returns),
    /// A call of a built-in procedure that the program does not redefine.
    Primitive(usize, Vec<Node>, At),
}

/// Returns whether every mention of `label` is a call with `count` arguments in tail position, so that the `let` which it
/// names is a loop and needs no procedure. `tail` is whether `node` itself is in tail position.
pub fn only_loops(node: &Node, label: VariableId, count: usize, tail: bool) -> bool {
    let inner = |node: &Node| only_loops(node, label, count, false);
    let last = |node: &Node| only_loops(node, label, count, tail);
    match node {
        Node::Constant(_) | Node::Integer(_) | Node::Global(..) => true,
        Node::Reference(variable) => *variable != label,
        Node::Assign(variable, value) => *variable != label && inner(value),
        Node::AssignGlobal(_, value, _) | Node::Define(_, value) => inner(value),
        Node::If(parts) => inner(&parts[0]) && last(&parts[1]) && last(&parts[2]),
        Node::Or(parts) => inner(&parts[0]) && last(&parts[1]),
        Node::Sequence(nodes) => match nodes.split_last() {
            Some((end, before)) => before.iter().all(inner) && last(end),
            None => true,
        },
        Node::Lambda(lambda) => inner(&lambda.body),
        Node::Let(form) => form.values.iter().all(inner) && last(&form.body),
        Node::Body(body) => match body.items.split_last() {
            Some(((None, end), before)) => before.iter().all(|(_, node)| inner(node)) && last(end),
            _ => body.items.iter().all(|(_, node)| inner(node)),
        },
        Node::Primitive(_, arguments, _) => arguments.iter().all(inner),
        Node::Call(procedure, arguments, ..) => {
            let again = matches!(**procedure, Node::Reference(v) if v == label);
            (inner(procedure) || again && tail && arguments.len() == count) && arguments.iter().all(inner)
        }
    }
}

traced! {
    /// A collected array that grows: the constants of the form that is being compiled.
    pub struct Pool {
        items: GcCell<Gc<Row>>,
        length: GcCell<usize>,
    }
}

impl Pool {
    pub fn make(store: &Store<'_>) -> Allocated<Gc<Self>> {
        let items = store.row(16, |_| Value::UNSPECIFIED)?;
        store.mutator.alloc(Self { items: GcCell::new(items), length: GcCell::new(0) })
    }

    pub fn push(&self, store: &Store<'_>, value: Value) -> Allocated<Constant> {
        let (items, length) = (self.items.get(), self.length.get());
        if length == items.len() {
            let filler = |i: usize| items.get(i).map_or(Value::UNSPECIFIED, GcCell::get);
            self.items.set(store.row(length * 2, filler)?);
        }
        self.items.get()[length].set(value);
        self.length.set(length + 1);
        Ok(length)
    }

    pub fn get(&self, constant: Constant) -> Value {
        self.items.get()[constant].get()
    }
}
