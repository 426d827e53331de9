//! The cache: a doubly linked list of collected entries, and a map.

use stopworld::{Gc, GcCell, GcHashMap, Mutator, Trace, World};

use crate::work::{Cache, Meter, Size, drive_cache, sum};

#[derive(Trace)]
struct Entry {
    key: Gc<str>,
    value: Gc<str>,
    newer: GcCell<Option<Gc<Entry>>>,
    older: GcCell<Option<Gc<Entry>>>,
}

struct Lru<'m> {
    m: &'m Mutator,
    capacity: usize,
    entries: GcHashMap<Gc<str>, Gc<Entry>>,
    newest: Option<Gc<Entry>>,
    oldest: Option<Gc<Entry>>,
}

impl Lru<'_> {
    fn link(&mut self, entry: Gc<Entry>) {
        entry.older.set(self.newest);
        match self.newest {
            Some(newest) => newest.newer.set(Some(entry)),
            None => self.oldest = Some(entry),
        }
        self.newest = Some(entry);
    }

    fn unlink(&mut self, entry: Gc<Entry>) {
        let (newer, older) = (entry.newer.replace(None), entry.older.replace(None));
        match newer {
            Some(newer) => newer.older.set(older),
            None => self.newest = older,
        }
        match older {
            Some(older) => older.newer.set(newer),
            None => self.oldest = newer,
        }
    }
}

impl Cache for Lru<'_> {
    fn get(&mut self, key: &str) -> Option<u64> {
        let entry = *self.entries.get(key)?;
        self.unlink(entry);
        self.link(entry);
        Some(sum(&entry.value))
    }

    fn set(&mut self, key: &str, value: &str) {
        let (key, value) = (self.m.alloc_str(key).unwrap(), self.m.alloc_str(value).unwrap());
        let entry = Entry { key, value, newer: GcCell::new(None), older: GcCell::new(None) };
        let entry = self.m.alloc(entry).unwrap();
        if let Some(former) = self.entries.insert(self.m, key, entry).unwrap() {
            self.unlink(former);
        }
        self.link(entry);
        if self.entries.len() > self.capacity {
            let oldest = self.oldest.unwrap();
            self.delete(&oldest.key);
        }
    }

    fn delete(&mut self, key: &str) -> bool {
        let removed = self.entries.remove(key);
        removed.inspect(|&entry| self.unlink(entry)).is_some()
    }
}

pub fn run(world: &World, size: Size) -> Meter {
    // SAFETY: this thread keeps every `Gc` and every collection in local variables and in collected objects.
    let m = &unsafe { world.attach("main") }.unwrap();
    let capacity = size.capacity();
    drive_cache(size, &mut Lru { m, capacity, entries: GcHashMap::new(), newest: None, oldest: None })
}
