//! The cache: a doubly linked list of leaked entries, and a map.

use std::cell::Cell;
use std::collections::HashMap;

use crate::work::{Cache, Meter, Size, drive_cache, sum};

type Gc<T> = &'static T;

struct Entry {
    key: Gc<str>,
    value: Gc<str>,
    newer: Cell<Option<Gc<Entry>>>,
    older: Cell<Option<Gc<Entry>>>,
}

struct Lru {
    capacity: usize,
    entries: HashMap<Gc<str>, Gc<Entry>>,
    newest: Option<Gc<Entry>>,
    oldest: Option<Gc<Entry>>,
}

impl Lru {
    fn link(&mut self, entry: Gc<Entry>) {
        entry.older.set(self.newest);
        match self.newest {
            Some(newest) => newest.newer.set(Some(entry)),
            None => self.oldest = Some(entry),
        }
        self.newest = Some(entry);
    }

    fn unlink(&mut self, entry: Gc<Entry>) {
        let (newer, older) = (entry.newer.take(), entry.older.take());
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

impl Cache for Lru {
    fn get(&mut self, key: &str) -> Option<u64> {
        let entry = *self.entries.get(key)?;
        self.unlink(entry);
        self.link(entry);
        Some(sum(entry.value))
    }

    fn set(&mut self, key: &str, value: &str) {
        let (key, value) = (String::from(key).leak(), String::from(value).leak());
        let entry = Entry { key, value, newer: Cell::new(None), older: Cell::new(None) };
        let entry: Gc<Entry> = Box::leak(Box::new(entry));
        if let Some(former) = self.entries.insert(entry.key, entry) {
            self.unlink(former);
        }
        self.link(entry);
        if self.entries.len() > self.capacity {
            let oldest = self.oldest.unwrap();
            self.delete(oldest.key);
        }
    }

    fn delete(&mut self, key: &str) -> bool {
        let removed = self.entries.remove(key);
        removed.inspect(|entry| self.unlink(entry)).is_some()
    }
}

pub fn run(size: Size) -> Meter {
    drive_cache(size, &mut Lru { capacity: size.capacity(), entries: HashMap::new(), newest: None, oldest: None })
}
