//! A process, and what is in its worlds.

use heap_snapshot::{Builder, Error, Graph, Label};

use super::core_file::CoreFile;
use super::heap::Heap;
use super::image;
use super::library::{Library, LibraryError, ThreadRecord, World};
use super::memory::{Memory, StoppedThread};
use super::roots::Roots;
use stopworld::debugger::contract::MAGIC;

/// A process whose threads do not run.
#[derive(Debug)]
pub struct Process<'m> {
    memory: Memories<'m>,
    threads: Vec<StoppedThread>,
    libraries: Vec<Library>,
}

/// The memory of a process.
#[derive(Clone, Copy)]
struct Memories<'m>(&'m dyn Memory);

impl std::fmt::Debug for Memories<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("dyn Memory")
    }
}

impl<'m> Process<'m> {
    /// Finds the collector in a core: by the notes of its modules or, if none has the note, by the magic number of the descriptor.
    ///
    /// # Errors
    /// There is none, or it has another version.
    pub fn of_core(core: &'m CoreFile) -> Result<Process<'m>, LibraryError> {
        let mut places: Vec<u64> =
            core.possible_images().into_iter().flat_map(|start| image::descriptors(core, start)).collect();
        if places.is_empty() {
            places = core.places_of(u64::from_le_bytes(MAGIC));
        }
        Process::with(core, core.threads().to_vec(), &places)
    }

    /// Reads a process whose descriptors are at these addresses.
    ///
    /// # Errors
    /// None of them can be read.
    pub fn with(
        memory: &'m dyn Memory,
        threads: Vec<StoppedThread>,
        descriptors: &[u64],
    ) -> Result<Process<'m>, LibraryError> {
        let (mut libraries, mut wrong) = (Vec::new(), LibraryError::NotFound);
        let mut places = descriptors.to_vec();
        places.sort_unstable();
        places.dedup();
        for place in places {
            match Library::read(memory, place) {
                Ok(library) => libraries.push(library),
                Err(error) => wrong = error,
            }
        }
        if libraries.is_empty() { Err(wrong) } else { Ok(Process { memory: Memories(memory), threads, libraries }) }
    }

    /// Returns the worlds, newest first, and what is wrong with their lists.
    pub fn worlds(&self) -> (Vec<World>, Vec<LibraryError>) {
        let (mut worlds, mut wrong) = (Vec::new(), Vec::new());
        for library in &self.libraries {
            let (found, error) = library.worlds(self.memory.0);
            worlds.extend(found);
            wrong.extend(error);
        }
        (worlds, wrong)
    }

    /// Returns the mutators of a world, and what is wrong with their list.
    pub fn mutators(&self, world: &World) -> (Vec<ThreadRecord>, Option<LibraryError>) {
        world.threads(self.memory.0)
    }

    /// Returns the threads of the process.
    pub fn threads(&self) -> &[StoppedThread] {
        &self.threads
    }

    /// Returns whether an address is in the memory that a world reserved for its heap. Reads none of the heap.
    ///
    /// # Errors
    /// The addresses of the heap's tables can't be read.
    pub fn reserves(&self, world: &World, address: u64) -> Result<bool, LibraryError> {
        let tables = world.tables(self.memory.0)?;
        Ok(address.checked_sub(tables.low as u64).is_some_and(|offset| offset <= tables.reserved_bytes as u64))
    }

    /// Finds the objects of a world.
    ///
    /// # Errors
    /// The tables of its heap can't be read.
    pub fn heap(&self, world: &World) -> Result<Heap<'m>, LibraryError> {
        Heap::read(self.memory.0, world)
    }

    /// Finds the objects in the blocks of a world's heap that have these addresses.
    ///
    /// # Errors
    /// The tables of the heap can't be read.
    pub fn heap_near(&self, world: &World, addresses: &[u64]) -> Result<Heap<'m>, LibraryError> {
        Heap::near(self.memory.0, world, addresses)
    }

    /// Returns the objects of a world with their references and roots, and what is missing of them.
    ///
    /// # Errors
    /// There are too many objects.
    pub fn graph(&self, world: &World, heap: &Heap<'_>) -> Result<(Graph, Vec<String>), Error> {
        let mut builder = Builder::default();
        let (mut unknown, mut failed) = (0_u64, None);
        heap.for_each_object(|_, object| {
            let of_type = heap.types.get(object.type_number);
            let type_index = builder.type_index(&of_type.name);
            failed = failed.take().or(builder.object_of(object.address, type_index, object.footprint).err());
            unknown += heap.for_each_reference(object, &of_type, |offset, word| {
                if let Some(target) = heap.target(word) {
                    builder.reference(label(offset), target);
                }
            });
        });
        if let Some(error) = failed {
            return Err(error);
        }
        let (records, wrong) = self.mutators(world);
        let roots = Roots::of(heap, &records, &self.threads);
        for root in roots.found {
            builder.root(roots.groups[root.group].clone(), root.address, root.object);
        }
        let mut gaps = roots.gaps;
        gaps.extend(wrong.map(|error| error.to_string()));
        if unknown > 0 {
            gaps.push(format!("{unknown} bytes of objects are not in the core: their references are missing"));
        }
        Ok((builder.finish().0, gaps))
    }
}

fn label(offset: u64) -> Label {
    Label::Offset(offset.try_into().unwrap_or(u32::MAX))
}
