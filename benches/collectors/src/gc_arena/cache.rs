//! The cache: a doubly linked list of collected entries, and a map.

use std::collections::HashMap;
use std::rc::Rc;

use gc_arena::barrier::unlock;
use gc_arena::lock::{Lock, RefLock};
use gc_arena::{Arena, Collect, Gc, Mutation, Rootable};

use super::DEBT_GCS;
use crate::work::{Cache, Meter, Size, drive_cache, sum};

#[derive(Collect)]
#[collect(no_drop)]
struct Entry<'gc> {
    key: Rc<str>,
    value: Box<str>,
    newer: Lock<Option<Gc<'gc, Entry<'gc>>>>,
    older: Lock<Option<Gc<'gc, Entry<'gc>>>>,
}

#[derive(Collect)]
#[collect(no_drop)]
struct Lru<'gc> {
    capacity: usize,
    entries: Gc<'gc, RefLock<HashMap<Rc<str>, Gc<'gc, Entry<'gc>>>>>,
    newest: Gc<'gc, Lock<Option<Gc<'gc, Entry<'gc>>>>>,
    oldest: Gc<'gc, Lock<Option<Gc<'gc, Entry<'gc>>>>>,
}

impl<'gc> Lru<'gc> {
    fn link(&self, mc: &Mutation<'gc>, entry: Gc<'gc, Entry<'gc>>) {
        unlock!(Gc::write(mc, entry), Entry, older).set(self.newest.get());
        match self.newest.get() {
            Some(newest) => unlock!(Gc::write(mc, newest), Entry, newer).set(Some(entry)),
            None => self.oldest.set(mc, Some(entry)),
        }
        self.newest.set(mc, Some(entry));
    }

    fn unlink(&self, mc: &Mutation<'gc>, entry: Gc<'gc, Entry<'gc>>) {
        let (newer, older) = (entry.newer.get(), entry.older.get());
        unlock!(Gc::write(mc, entry), Entry, newer).set(None);
        unlock!(Gc::write(mc, entry), Entry, older).set(None);
        match newer {
            Some(newer) => unlock!(Gc::write(mc, newer), Entry, older).set(older),
            None => self.newest.set(mc, older),
        }
        match older {
            Some(older) => unlock!(Gc::write(mc, older), Entry, newer).set(newer),
            None => self.oldest.set(mc, newer),
        }
    }

    fn delete(&self, mc: &Mutation<'gc>, key: &str) -> bool {
        let removed = self.entries.borrow_mut(mc).remove(key);
        removed.inspect(|&entry| self.unlink(mc, entry)).is_some()
    }
}

struct Cached {
    arena: Arena<Rootable![Lru<'_>]>,
}

impl Cached {
    fn collect(&mut self) {
        if self.arena.metrics().allocation_debt() > DEBT_GCS {
            self.arena.collect_debt();
        }
    }
}

impl Cache for Cached {
    fn get(&mut self, key: &str) -> Option<u64> {
        self.arena.mutate(|mc, lru| {
            let entry = *lru.entries.borrow().get(key)?;
            lru.unlink(mc, entry);
            lru.link(mc, entry);
            Some(sum(&entry.value))
        })
    }

    fn set(&mut self, key: &str, value: &str) {
        self.arena.mutate(|mc, lru| {
            let key: Rc<str> = key.into();
            let (newer, older) = (Lock::new(None), Lock::new(None));
            let entry = Gc::new(mc, Entry { key: Rc::clone(&key), value: value.into(), newer, older });
            let former = lru.entries.borrow_mut(mc).insert(key, entry);
            if let Some(former) = former {
                lru.unlink(mc, former);
            }
            lru.link(mc, entry);
            if lru.entries.borrow().len() > lru.capacity {
                let oldest = lru.oldest.get().unwrap();
                lru.delete(mc, &oldest.key);
            }
        });
        self.collect();
    }

    fn delete(&mut self, key: &str) -> bool {
        self.arena.mutate(|mc, lru| lru.delete(mc, key))
    }
}

pub fn run(size: Size) -> Meter {
    let capacity = size.capacity();
    let arena = Arena::new(|mc| Lru {
        capacity,
        entries: Gc::new(mc, RefLock::new(HashMap::new())),
        newest: Gc::new(mc, Lock::new(None)),
        oldest: Gc::new(mc, Lock::new(None)),
    });
    drive_cache(size, &mut Cached { arena })
}
