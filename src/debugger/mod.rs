//! Debuggers that take over stopping.
//!
//! | to know | read |
//! |---|---|
//! | what a debugger outside of the process finds, and where | [`contract`], and that of this process, `descriptor.rs` |
//! | how it is told | [`notify`], and what it reads then, `request.rs` |
//! | how its answers become a stop | [`bridge`], and the protocol, pure, as the model checker runs it, `protocol.rs` |
//! | whether they are true | `claims.rs` |
//! | where threads wait if it dies | `park.rs` |
//! | what it may ask inside the process | [`inspect`] |
//! | what gdb and lldb make of it | [`scripts`] |
//! | the same in one process, without ptrace | [`mock`] |
//! | such a debugger, a process of its own | the crate `stopworld-ptrace` |

pub mod bridge;
mod claims;
pub mod contract;
mod descriptor;
pub mod inspect;
pub mod mock;
pub mod notify;
mod park;
pub(crate) mod protocol;
#[cfg(test)]
mod protocol_tests;
mod request;
pub mod scripts;

pub use crate::world::{Phase, PublishedWorld, WORLD_OFFSETS, WorldList, WorldOffsets};

use crate::collector::Collector;

/// From now on debuggers find this world.
pub(crate) fn publish(collector: &Collector) {
    scripts::keep();
    notify::choose_signal();
    descriptor::publish_suspend_signal();
    let memory = collector.heap.blocks.memory();
    let heap = (collector.heap.blocks.base(), collector.heap.blocks.base() + memory.len());
    let worlds = &descriptor::stopworld_debugger.worlds;
    collector.threads.published().publish(worlds, heap, std::ptr::from_ref(collector).cast());
}
