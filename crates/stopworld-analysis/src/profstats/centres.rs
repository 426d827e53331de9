//! Cost centres, and stacks of them.
//!
//! A stack is a chain: its innermost centre, and the stack of the outer centres. Equal stacks are stored once, so a stack is represented by
//! a number, and a profile of millions of samples needs memory only for the different stacks of the program.

use std::collections::HashMap;

/// A part of the program to which costs are charged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Centre {
    /// Its name.
    pub label: String,
    /// Its module.
    pub module: String,
    /// Its location in the source.
    pub place: String,
    /// Whether it belongs to the whole program and not to a caller.
    pub is_caf: bool,
}

impl Centre {
    /// Returns the name as it appears in stacks. A centre of the whole program (CAF) is prefixed with its module.
    pub fn name(&self) -> String {
        if self.label == "CAF" { format!("{}.CAF", self.module) } else { self.label.clone() }
    }

    /// Returns whether it is a built-in centre, which every program has.
    pub fn is_built_in(&self) -> bool {
        self.place == "<built-in>"
    }
}

/// Maximum number of centres, and of stacks.
const MOST_CENTRES: usize = 64 << 10;
const MOST_STACKS: usize = 1 << 20;

/// The cost centres of a log, by their numbers.
#[derive(Clone, Debug, Default)]
pub struct Centres {
    by_id: HashMap<u32, Centre>,
}

impl Centres {
    /// Adds a centre, or replaces the one with this number.
    pub fn insert(&mut self, id: u32, centre: Centre) {
        if self.by_id.len() < MOST_CENTRES {
            self.by_id.insert(id, centre);
        }
    }

    /// Returns the centre with this number.
    pub fn get(&self, id: u32) -> Option<&Centre> {
        self.by_id.get(&id)
    }

    /// Returns the centre's name, or a text with its number if the log does not define it.
    pub fn name(&self, id: u32) -> String {
        self.get(id).map_or_else(|| format!("centre {id}"), Centre::name)
    }

    /// Returns all centres, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Centre)> {
        self.by_id.iter().map(|(id, centre)| (*id, centre))
    }

    /// Returns the number of centres.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Returns whether there are no centres.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }
}

/// A stack of cost centres. 0 is the empty stack, MAIN, which is the program itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackId(u32);

impl StackId {
    /// The empty stack.
    pub const MAIN: StackId = StackId(0);

    /// Returns the index in a table of all stacks.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A set of stacks, without duplicates.
#[derive(Clone, Debug, Default)]
pub struct Stacks {
    /// The innermost centre and the outer stack, for the stacks from 1 on.
    chain: Vec<(u32, StackId)>,
    known: HashMap<(u32, StackId), StackId>,
}

impl Stacks {
    /// Returns the stack of these centres, outermost first.
    pub fn intern(&mut self, centres: impl Iterator<Item = u32>) -> StackId {
        centres.fold(StackId::MAIN, |around, centre| self.push(around, centre))
    }

    /// Returns the stack that consists of `around` and this innermost centre. If there are too many stacks, returns `around`.
    pub fn push(&mut self, around: StackId, centre: u32) -> StackId {
        if let Some(known) = self.known.get(&(centre, around)) {
            return *known;
        }
        if self.chain.len() >= MOST_STACKS {
            return around;
        }
        self.chain.push((centre, around));
        let stack = StackId(self.chain.len() as u32);
        self.known.insert((centre, around), stack);
        stack
    }

    /// Returns the innermost centre and the outer stack; `None` for the empty stack.
    pub fn top(&self, stack: StackId) -> Option<(u32, StackId)> {
        self.chain.get(stack.index().checked_sub(1)?).copied()
    }

    /// Returns the centres of a stack, innermost first.
    pub fn centres(&self, stack: StackId) -> impl Iterator<Item = u32> + '_ {
        let mut at = stack;
        std::iter::from_fn(move || {
            let (centre, around) = self.top(at)?;
            at = around;
            Some(centre)
        })
    }

    /// Returns the number of stacks, including the empty one.
    pub fn len(&self) -> usize {
        self.chain.len() + 1
    }

    /// Always false: there is always the empty stack.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Returns all stacks, each after its outer stack.
    pub fn iter(&self) -> impl Iterator<Item = StackId> + use<> {
        (0..self.len() as u32).map(StackId)
    }

    /// Formats a stack as GHC does: names innermost first, separated by slashes; MAIN for the empty stack.
    pub fn path(&self, stack: StackId, centres: &Centres) -> String {
        if stack == StackId::MAIN {
            return "MAIN".to_owned();
        }
        self.centres(stack).map(|centre| centres.name(centre)).collect::<Vec<_>>().join("/")
    }
}
