//! A heap in memory, for questions that follow references: 28 bytes for each object, and 8 to 12 for each reference.

use std::collections::HashMap;

use super::error::{Error, Result};
use super::heap::{Heap, Label, Object, Reference, Root, RootGroup};

/// A heap in memory.
#[derive(Debug, Default)]
pub struct Graph {
    types: Vec<String>,
    names: Vec<String>,
    groups: Vec<RootGroup>,
    roots: Vec<Root>,
    addresses: Vec<u64>,
    type_of: Vec<u32>,
    sizes: Vec<u64>,
    /// For each object the position of its first reference, and at the end the number of references.
    first: Vec<u64>,
    references: Vec<Reference>,
}

impl Graph {
    /// Reads a heap into memory.
    ///
    /// # Errors
    /// The heap can't be visited.
    pub fn of(heap: &dyn Heap) -> Result<Graph> {
        let mut graph = Graph {
            types: heap.types().to_vec(),
            names: heap.names().to_vec(),
            groups: heap.groups().to_vec(),
            roots: heap.roots().to_vec(),
            ..Graph::default()
        };
        heap.visit(&mut |object| {
            graph.push(heap.address(object.index), object.type_index, object.size);
            graph.references.extend_from_slice(object.references);
            Ok(())
        })?;
        graph.close();
        Ok(graph)
    }

    fn push(&mut self, address: u64, type_index: u32, size: u64) {
        self.addresses.push(address);
        self.type_of.push(type_index);
        self.sizes.push(size);
        self.first.push(self.references.len() as u64);
    }

    fn close(&mut self) {
        self.first.push(self.references.len() as u64);
    }

    /// Returns the index of the type of an object.
    ///
    /// # Panics
    /// If there is no object with this index.
    pub fn type_of(&self, object: u32) -> u32 {
        self.type_of[object as usize]
    }

    /// Returns the name of the type of an object.
    ///
    /// # Panics
    /// If there is no object with this index.
    pub fn type_name(&self, object: u32) -> &str {
        &self.types[self.type_of(object) as usize]
    }

    /// Returns the size of an object in bytes, without the objects to which it refers.
    ///
    /// # Panics
    /// If there is no object with this index.
    pub fn size(&self, object: u32) -> u64 {
        self.sizes[object as usize]
    }

    /// Returns the references of an object.
    ///
    /// # Panics
    /// If there is no object with this index.
    pub fn references_of(&self, object: u32) -> &[Reference] {
        let (from, to) = (self.first[object as usize], self.first[object as usize + 1]);
        &self.references[from as usize..to as usize]
    }

    /// Returns the index of the object at this address, or of the object that contains it.
    pub fn find(&self, address: u64) -> Option<u32> {
        let contains = |index: &u32| {
            let start = self.addresses[*index as usize];
            start == address || (start..start.saturating_add(self.size(*index))).contains(&address)
        };
        let exact = self.addresses.iter().position(|start| *start == address).map(|index| index as u32);
        exact.or_else(|| (0..self.objects()).find(contains))
    }
}

impl Heap for Graph {
    fn types(&self) -> &[String] {
        &self.types
    }

    fn names(&self) -> &[String] {
        &self.names
    }

    fn groups(&self) -> &[RootGroup] {
        &self.groups
    }

    fn roots(&self) -> &[Root] {
        &self.roots
    }

    fn objects(&self) -> u32 {
        self.addresses.len() as u32
    }

    fn references(&self) -> u64 {
        self.references.len() as u64
    }

    fn address(&self, index: u32) -> u64 {
        self.addresses[index as usize]
    }

    fn visit(&self, visit: &mut dyn FnMut(&Object<'_>) -> Result<()>) -> Result<()> {
        (0..self.objects()).try_for_each(|index| {
            let (type_index, size) = (self.type_of(index), self.size(index));
            visit(&Object { index, type_index, size, references: self.references_of(index) })
        })
    }
}

/// Builds a [`Graph`] object by object.
#[derive(Debug, Default)]
pub struct Builder {
    graph: Graph,
    types: HashMap<String, u32>,
    names: HashMap<String, u32>,
    groups: HashMap<RootGroup, u32>,
}

impl Builder {
    /// Adds an object. Its references follow by [`reference`](Self::reference), before the next object.
    ///
    /// # Errors
    /// There are too many objects to number them in 32 bits.
    pub fn object(&mut self, address: u64, type_name: &str, size: u64) -> Result<u32> {
        let type_index = interned(&mut self.types, &mut self.graph.types, type_name);
        self.object_of(address, type_index, size)
    }

    /// Adds an object of a type that [`type_index`](Self::type_index) has returned.
    ///
    /// # Errors
    /// There are too many objects to number them in 32 bits.
    pub fn object_of(&mut self, address: u64, type_index: u32, size: u64) -> Result<u32> {
        let index = self.graph.addresses.len();
        if index as u64 + 1 >= u64::from(u32::MAX) {
            return Err(Error::TooLarge("the heap has more than 4,294,967,294 objects"));
        }
        self.graph.push(address, type_index, size);
        Ok(index as u32)
    }

    /// Returns the index of the type with this name.
    pub fn type_index(&mut self, name: &str) -> u32 {
        interned(&mut self.types, &mut self.graph.types, name)
    }

    /// Returns the label of a field with this name.
    pub fn field(&mut self, name: &str) -> Label {
        Label::Field(interned(&mut self.names, &mut self.graph.names, name))
    }

    /// Adds a reference of the last object. Its target may be an object that has not been added yet.
    pub fn reference(&mut self, label: Label, target: u32) {
        self.graph.references.push(Reference { target, label });
    }

    /// Adds a root.
    pub fn root(&mut self, group: RootGroup, address: u64, target: u32) {
        let next = self.graph.groups.len() as u32;
        let index = *self.groups.entry(group).or_insert_with_key(|group| {
            self.graph.groups.push(group.clone());
            next
        });
        self.graph.roots.push(Root { target, group: index, address });
    }

    /// Ends the heap. References and roots whose target was not added are left out; their number is returned, too.
    pub fn finish(mut self) -> (Graph, u64) {
        self.graph.close();
        let Graph { first, references, roots, addresses, .. } = &mut self.graph;
        let objects = addresses.len();
        let before = references.len() + roots.len();
        let (mut from, mut kept) = (0, 0);
        for object in 0..objects {
            let to = first[object + 1] as usize;
            first[object] = kept as u64;
            for position in from..to {
                if (references[position].target as usize) < objects {
                    references[kept] = references[position];
                    kept += 1;
                }
            }
            from = to;
        }
        first[objects] = kept as u64;
        references.truncate(kept);
        roots.retain(|root| (root.target as usize) < objects);
        let left_out = before - references.len() - roots.len();
        (self.graph, left_out as u64)
    }
}

fn interned(known: &mut HashMap<String, u32>, all: &mut Vec<String>, name: &str) -> u32 {
    if let Some(index) = known.get(name) {
        return *index;
    }
    let index = all.len() as u32;
    all.push(name.to_owned());
    known.insert(name.to_owned(), index);
    index
}
