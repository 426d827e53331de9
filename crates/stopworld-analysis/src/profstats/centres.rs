//! Cost centres, and stacks of them.
//!
//! A stack is a chain: its innermost centre and the stack of the centres around it. Stacks that are equal are one, so a stack is
//! a number, and a profile of millions of samples has as many stacks as the program has.

use std::collections::HashMap;

/// A piece of the source to which costs are charged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Centre {
    /// Its name.
    pub label: String,
    /// The module that it is in.
    pub module: String,
    /// The place in the source.
    pub place: String,
    /// It belongs to the whole program and not to a caller.
    pub is_caf: bool,
}

impl Centre {
    /// The name as stacks are written with it: what belongs to the whole program is told apart by its module.
    pub fn name(&self) -> String {
        if self.label == "CAF" { format!("{}.CAF", self.module) } else { self.label.clone() }
    }

    /// Whether it is one of those that every program has.
    pub fn is_built_in(&self) -> bool {
        self.place == "<built-in>"
    }
}

/// The most centres that are kept, and the most stacks.
const MOST_CENTRES: usize = 64 << 10;
const MOST_STACKS: usize = 1 << 20;

/// The cost centres of a log, by their numbers.
#[derive(Clone, Debug, Default)]
pub struct Centres {
    by_id: HashMap<u32, Centre>,
}

impl Centres {
    /// Adds one; what is known of the number before is forgotten.
    pub fn insert(&mut self, id: u32, centre: Centre) {
        if self.by_id.len() < MOST_CENTRES {
            self.by_id.insert(id, centre);
        }
    }

    /// The centre of this number.
    pub fn get(&self, id: u32) -> Option<&Centre> {
        self.by_id.get(&id)
    }

    /// How it is called, or its number if the log does not say.
    pub fn name(&self, id: u32) -> String {
        self.get(id).map_or_else(|| format!("centre {id}"), Centre::name)
    }

    /// All of them, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Centre)> {
        self.by_id.iter().map(|(id, centre)| (*id, centre))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }
}

/// A stack of cost centres. 0 is the empty one: the program itself, MAIN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackId(u32);

impl StackId {
    /// The empty stack.
    pub const MAIN: StackId = StackId(0);

    /// As a place in a table of all stacks.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Stacks, each only once.
#[derive(Clone, Debug, Default)]
pub struct Stacks {
    /// The centre and what is around it, of the stacks from 1 on.
    chain: Vec<(u32, StackId)>,
    known: HashMap<(u32, StackId), StackId>,
}

impl Stacks {
    /// The stack of these centres, outermost first.
    pub fn intern(&mut self, centres: impl Iterator<Item = u32>) -> StackId {
        centres.fold(StackId::MAIN, |around, centre| self.push(around, centre))
    }

    /// The stack of this centre inside of another stack. With too many stacks it is that other one.
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

    /// The innermost centre and what is around it; none of the empty stack.
    pub fn top(&self, stack: StackId) -> Option<(u32, StackId)> {
        self.chain.get(stack.index().checked_sub(1)?).copied()
    }

    /// Its centres, innermost first.
    pub fn centres(&self, stack: StackId) -> impl Iterator<Item = u32> + '_ {
        let mut at = stack;
        std::iter::from_fn(move || {
            let (centre, around) = self.top(at)?;
            at = around;
            Some(centre)
        })
    }

    /// How many stacks there are, with the empty one. Each is behind the one around it.
    pub fn len(&self) -> usize {
        self.chain.len() + 1
    }

    /// Never: there is always the empty stack.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// All stacks, each behind the one around it.
    pub fn iter(&self) -> impl Iterator<Item = StackId> + use<> {
        (0..self.len() as u32).map(StackId)
    }

    /// As GHC writes a stack: names innermost first with slashes between, MAIN if there is none.
    pub fn path(&self, stack: StackId, centres: &Centres) -> String {
        if stack == StackId::MAIN {
            return "MAIN".to_owned();
        }
        self.centres(stack).map(|centre| centres.name(centre)).collect::<Vec<_>>().join("/")
    }
}
