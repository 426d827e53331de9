//! References where the collector does not look, and what the check of the promise reports.
//!
//!     cargo run --example hidden -- MISTAKE
//!
//! A mistake is one of hash-map, boxed, static, thread-local, future, leaf, sort and xored; hash-map-fixed is the first one, corrected. What to look at: each report
//! names the type of the object that would be freed, where it was allocated, and where the block was allocated that hides the reference.
//! A reference that is xored is not an address, and is not found.

use std::cell::{Cell, UnsafeCell};
use std::collections::HashMap;
use std::error::Error;
use std::future::Future;
use std::hint::black_box;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use stopworld::check::{Allocator, CheckPromise};
use stopworld::{Gc, GcHashMap, GcVec, Leaf, Mutator, OutOfMemory, Trace, World};

#[global_allocator]
static GLOBAL: Allocator = Allocator::new();

/// How many references each mistake hides. (A stale word on the stack may keep one or two of the objects alive.)
const COUNT: usize = 64;

#[derive(Trace)]
struct Account {
    number: u64,
    balance: u64,
}

fn open_account(m: &Mutator, number: u64) -> Result<Gc<Account>, OutOfMemory> {
    m.alloc(Account { number, balance: 10 * number })
}

fn hash_map(m: &Mutator) -> Result<u64, Box<dyn Error>> {
    let mut accounts = HashMap::new();
    for number in 0..COUNT as u64 {
        accounts.insert(number, open_account(m, number)?);
    }
    m.collect()?;
    Ok(accounts[&7].balance)
}

fn hash_map_fixed(m: &Mutator) -> Result<u64, Box<dyn Error>> {
    let mut accounts = GcHashMap::new();
    for number in 0..COUNT as u64 {
        accounts.insert(m, number, open_account(m, number)?)?;
    }
    m.collect()?;
    Ok(accounts.get(&7).map_or(0, |account| account.balance))
}

fn boxed(m: &Mutator) -> Result<u64, Box<dyn Error>> {
    let mut accounts = Vec::new();
    for number in 0..COUNT as u64 {
        accounts.push(Box::new(open_account(m, number)?));
    }
    m.collect()?;
    Ok(accounts[7].balance)
}

/// Used by one thread.
struct Cache(UnsafeCell<[Option<Gc<Account>>; COUNT]>);

// SAFETY: only the main thread uses it.
unsafe impl Sync for Cache {}

static CACHE: Cache = Cache(UnsafeCell::new([None; COUNT]));

fn in_a_static(m: &Mutator) -> Result<u64, Box<dyn Error>> {
    for number in 0..COUNT {
        // SAFETY: as above.
        unsafe { (*CACHE.0.get())[number] = Some(open_account(m, number as u64)?) };
    }
    m.collect()?;
    // SAFETY: as above.
    Ok(unsafe { (*CACHE.0.get())[7] }.map_or(0, |account| account.balance))
}

thread_local! {
    static LAST_USED: [Cell<Option<Gc<Account>>>; COUNT] = const { [const { Cell::new(None) }; COUNT] };
}

fn in_a_thread_local(m: &Mutator) -> Result<u64, Box<dyn Error>> {
    for number in 0..COUNT {
        let account = open_account(m, number as u64)?;
        LAST_USED.with(|last| last[number].set(Some(account)));
    }
    m.collect()?;
    Ok(LAST_USED.with(|last| last[7].get()).map_or(0, |account| account.balance))
}

/// Waits once.
async fn pause() {
    let mut waited = false;
    std::future::poll_fn(|_| if std::mem::replace(&mut waited, true) { Poll::Ready(()) } else { Poll::Pending }).await;
}

async fn audit(accounts: [Gc<Account>; COUNT]) -> u64 {
    pause().await;
    black_box(&accounts)[7].balance
}

fn in_a_future(m: &Mutator) -> Result<u64, Box<dyn Error>> {
    #[inline(never)]
    fn begin(m: &Mutator) -> Result<Pin<Box<dyn Future<Output = u64>>>, OutOfMemory> {
        let mut accounts = [open_account(m, 0)?; COUNT];
        for (number, account) in accounts.iter_mut().enumerate() {
            *account = open_account(m, number as u64)?;
        }
        Ok(Box::pin(audit(accounts)))
    }
    let mut future = begin(m)?;
    let mut context = Context::from_waker(Waker::noop());
    let first = future.as_mut().poll(&mut context);
    assert!(first.is_pending());
    forget_the_stack();
    m.collect()?;
    match pin!(future).poll(&mut context) {
        Poll::Ready(balance) => Ok(balance),
        Poll::Pending => Err("the future waits twice".into()),
    }
}

/// Claims to be `Send + Sync`, as a wrapper that only the thread which has made it can open.
struct Wrapped(Gc<Account>);

// SAFETY: only the main thread uses it.
unsafe impl Send for Wrapped {}
// SAFETY: as above.
unsafe impl Sync for Wrapped {}

fn in_a_leaf(m: &Mutator) -> Result<u64, Box<dyn Error>> {
    let mut accounts = GcVec::new();
    for number in 0..COUNT as u64 {
        let account = m.alloc(Leaf(Wrapped(open_account(m, number)?)))?;
        accounts.push(m, account)?;
    }
    m.collect()?;
    Ok(accounts[7].0.0.balance)
}

/// Sorts two sorted halves. Std's stable sort copies one half into a block, and merges the two into the array.
fn in_a_sort(m: &Mutator) -> Result<u64, Box<dyn Error>> {
    const LENGTH: usize = 1024;
    let mut accounts = [open_account(m, 0)?; LENGTH];
    for (index, account) in accounts.iter_mut().enumerate() {
        *account = open_account(m, (2 * index % LENGTH + 2 * index / LENGTH) as u64)?;
    }
    let (mut comparisons, mut collected) = (0, Ok(()));
    accounts.sort_by(|one, other| {
        comparisons += 1;
        if comparisons == LENGTH * 3 / 2 {
            collected = m.collect().map(drop);
        }
        one.number.cmp(&other.number)
    });
    collected?;
    Ok(accounts[7].balance)
}

/// Returns whether the recovered address is odd: the object is gone.
fn xored(m: &Mutator) -> Result<u64, Box<dyn Error>> {
    const KEY: usize = 0x5555_5555_5555_5555;
    let mut accounts = Vec::new();
    for number in 0..COUNT as u64 {
        accounts.push(Gc::as_ptr(open_account(m, number)?) as usize ^ KEY);
    }
    m.collect()?;
    Ok((accounts[7] ^ KEY) as u64 % 2)
}

/// Overwrites what earlier calls have left below this one on the stack.
#[inline(never)]
fn forget_the_stack() {
    black_box([0_u64; 4096]);
}

/// Makes the mistake of this name, in a world that panics for it. Returns what the program reads after the collection.
pub fn run(mistake: &str) -> Result<u64, Box<dyn Error>> {
    let world = World::builder().heap_limit(64 << 20).check_promise(CheckPromise::panic()).build()?;
    // SAFETY: not kept, except by `hash_map_fixed`: that is what the check finds.
    let m = unsafe { world.attach("main") }?;
    match mistake {
        "hash-map" => hash_map(&m),
        "hash-map-fixed" => hash_map_fixed(&m),
        "boxed" => boxed(&m),
        "static" => in_a_static(&m),
        "thread-local" => in_a_thread_local(&m),
        "future" => in_a_future(&m),
        "leaf" => in_a_leaf(&m),
        "sort" => in_a_sort(&m),
        "xored" => xored(&m),
        _ => Err("usage: hidden hash-map|hash-map-fixed|boxed|static|thread-local|future|leaf|sort|xored".into()),
    }
}

#[allow(dead_code, reason = "a test has its own")]
fn main() -> Result<(), Box<dyn Error>> {
    let mistake = std::env::args().nth(1).unwrap_or_else(|| "hash-map".into());
    println!("{}", run(&mistake)?);
    Ok(())
}
