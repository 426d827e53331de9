//! How long tests wait for what must happen, also on a machine that does other things.

use std::time::Duration;

/// So many seconds. Without a guard much never happens, and who takes the guards out waits for each: then so many.
pub fn patience(seconds: u64, without_a_guard: u64) -> Duration {
    let is_one_removed = std::env::var_os("STOPWORLD_SABOTAGE").is_some();
    Duration::from_secs(if is_one_removed { without_a_guard } else { seconds })
}
