//! The cache: entries own the next older one, and know the next newer one by a weak reference.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::{Rc, Weak};

use crate::work::{Cache, Meter, Size, drive_cache, sum};

struct Entry {
    key: Rc<str>,
    value: Box<str>,
    newer: RefCell<Option<Weak<Entry>>>,
    older: RefCell<Option<Rc<Entry>>>,
}

struct Lru {
    capacity: usize,
    entries: HashMap<Rc<str>, Rc<Entry>>,
    newest: Option<Rc<Entry>>,
    oldest: Option<Rc<Entry>>,
}

impl Lru {
    fn link(&mut self, entry: Rc<Entry>) {
        match self.newest.take() {
            Some(newest) => {
                *newest.newer.borrow_mut() = Some(Rc::downgrade(&entry));
                *entry.older.borrow_mut() = Some(newest);
            }
            None => self.oldest = Some(Rc::clone(&entry)),
        }
        self.newest = Some(entry);
    }

    fn unlink(&mut self, entry: &Entry) {
        let newer = entry.newer.take().and_then(|newer| newer.upgrade());
        let older = entry.older.take();
        match &older {
            Some(older) => *older.newer.borrow_mut() = newer.as_ref().map(Rc::downgrade),
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
        let entry = Rc::clone(self.entries.get(key)?);
        self.unlink(&entry);
        let result = sum(&entry.value);
        self.link(entry);
        Some(result)
    }

    fn set(&mut self, key: &str, value: &str) {
        let key: Rc<str> = key.into();
        let (newer, older) = (RefCell::new(None), RefCell::new(None));
        let entry = Rc::new(Entry { key: Rc::clone(&key), value: value.into(), newer, older });
        if let Some(former) = self.entries.insert(key, Rc::clone(&entry)) {
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
