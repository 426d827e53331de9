//! `.heapsnapshot`: the JSON that V8 writes, for Chrome DevTools, memlab and other tools of JavaScript.
//!
//! ```text
//!   {"snapshot": {"meta": {names of the fields of nodes and edges}, "node_count", "edge_count"},
//!    "nodes":   [type, name, id, self_size, edge_count, …,     the fields of node 0, then of node 1 …
//!    "edges":   [type, name_or_index, to_node,                 the edges of node 0, then of node 1 …
//!    "strings": ["", …]}                                       the names
//! ```
//!
//! Node 0 is the root. A node is referred to by the position of its first field in `nodes`, a name by its position in `strings`.
//!
//! | in the model | in the file |
//! |---|---|
//! | object | a node of type object; its name is that of its type |
//! | group of roots | a node of type synthetic, which the root refers to: `(stacks)` |
//! | root | an edge of its group; its name is the root's address |
//! | [`Label::Offset`](crate::Label::Offset) | a property `+16`; from offset 65,536 on an element, whose index is the offset |
//! | [`Label::Index`](crate::Label::Index), [`Label::Field`](crate::Label::Field) | an element; a property |
//!
//! The tools keep each number in 32 bits, so an address can't be the id of its object. Nodes have one more field than in a snapshot of V8:
//! `address`. The tools find fields by name, and ignore it.

mod json;
mod read;
mod write;

pub use read::read;
pub use write::write;

/// From this offset on, references are elements: every name is in the file, and an array of a gigabyte would have 100 million.
const UNNAMED_FROM: u32 = 1 << 16;
/// The field with the address, which V8 does not write.
const ADDRESS: &str = "address";
