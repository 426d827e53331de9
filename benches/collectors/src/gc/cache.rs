//! The cache: a doubly linked list of collected entries, and a map.

use std::collections::HashMap;
use std::rc::Rc;

use gc::{Finalize, Gc, GcCell, Trace};

use crate::work::{Cache, Meter, Size, drive_cache, sum};

#[derive(Trace, Finalize)]
struct Entry {
    key: Rc<str>,
    value: Box<str>,
    newer: GcCell<Option<Gc<Entry>>>,
    older: GcCell<Option<Gc<Entry>>>,
}

struct Lru {
    capacity: usize,
    entries: HashMap<Rc<str>, Gc<Entry>>,
    newest: Option<Gc<Entry>>,
    oldest: Option<Gc<Entry>>,
}

impl Lru {
    fn link(&mut self, entry: Gc<Entry>) {
        match self.newest.take() {
            Some(newest) => {
                *newest.newer.borrow_mut() = Some(Gc::clone(&entry));
                *entry.older.borrow_mut() = Some(newest);
            }
            None => self.oldest = Some(Gc::clone(&entry)),
        }
        self.newest = Some(entry);
    }

    fn unlink(&mut self, entry: &Entry) {
        let newer = entry.newer.borrow_mut().take();
        let older = entry.older.borrow_mut().take();
        match &older {
            Some(older) => *older.newer.borrow_mut() = newer.clone(),
            None => self.oldest = newer.clone(),
        }
        match newer {
            Some(newer) => *newer.older.borrow_mut() = older,
            None => self.newest = older,
        }
    }
}

impl Cache for Lru {
    fn get(&mut self, key: &str) -> Option<u64> {
        let entry = Gc::clone(self.entries.get(key)?);
        self.unlink(&entry);
        let result = sum(&entry.value);
        self.link(entry);
        Some(result)
    }

    fn set(&mut self, key: &str, value: &str) {
        let key: Rc<str> = key.into();
        let (newer, older) = (GcCell::new(None), GcCell::new(None));
        let entry = Gc::new(Entry { key: Rc::clone(&key), value: value.into(), newer, older });
        if let Some(former) = self.entries.insert(key, Gc::clone(&entry)) {
            self.unlink(&former);
        }
        self.link(entry);
        if self.entries.len() > self.capacity {
            let oldest = self.oldest.clone().unwrap();
            self.delete(&oldest.key);
        }
    }

    fn delete(&mut self, key: &str) -> bool {
        let removed = self.entries.remove(key);
        removed.inspect(|entry| self.unlink(entry)).is_some()
    }
}

pub fn run(size: Size) -> Meter {
    let mut lru = Lru { capacity: size.capacity(), entries: HashMap::new(), newest: None, oldest: None };
    let meter = drive_cache(size, &mut lru);
    // Dropping a long list by its first entry would need a deep stack.
    std::mem::forget(lru);
    meter
}
