//! Debuggers that take over stopping the world.
//!
//! | subject | where |
//! |---|---|
//! | the data that an external debugger reads, and where it finds them | [`contract`]; this process's own descriptor: `descriptor.rs` |
//! | how a debugger is notified | [`notify`]; the request that it then reads: `request.rs` |
//! | how its answers stop the world | [`bridge`]; the protocol without I/O, as the model checker runs it: `protocol.rs` |
//! | whether its answers are true | `claims.rs` |
//! | where threads wait if the debugger dies | `park.rs` |
//! | how the heap is read from outside, without a call | [`heap_layout`] |
//! | the functions that a debugger may call inside the process | [`inspect`] |
//! | the scripts for gdb and lldb | [`scripts`] |
//! | a debugger in the same process, without ptrace | [`mock`] |
//! | a debugger in a process of its own | the crate `stopworld-ptrace` |

pub mod bridge;
mod claims;
pub mod contract;
mod descriptor;
pub mod heap_layout;
pub mod inspect;
pub mod mock;
pub mod notify;
mod park;
pub(crate) mod protocol;
#[cfg(test)]
mod protocol_tests;
mod request;
pub mod scripts;
mod served_world;

pub use crate::world::{Phase, PublishedWorld, WORLD_OFFSETS, WorldList, WorldOffsets};

use crate::collector::Collector;

/// Publishes this world to debuggers.
pub(crate) fn publish(collector: &Collector) {
    scripts::keep();
    notify::choose_signal();
    descriptor::publish_suspend_signal();
    let memory = collector.heap.blocks.memory();
    let heap = (collector.heap.blocks.base(), collector.heap.blocks.base() + memory.len());
    let worlds = &descriptor::stopworld_debugger.worlds;
    let tables = collector.tables.get_or_init(|| Box::new(heap_layout::tables_of(collector)));
    collector.threads.published().set_tables(std::ptr::from_ref::<heap_layout::HeapTables>(tables).cast());
    collector.threads.published().publish(worlds, heap, std::ptr::from_ref(collector).cast());
}
