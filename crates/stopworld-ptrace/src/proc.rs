//! Information about the target in /proc.

use std::fmt;
use std::fs;
use std::io;

use stopworld_platform::os::proc_status::read_text;

/// Returns the process's present threads, by the process id.
pub(super) fn threads(pid: i32) -> io::Result<Vec<i32>> {
    let entries = fs::read_dir(format!("/proc/{pid}/task"))?;
    Ok(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect())
}

/// Returns the number of the process's threads, as the kernel counts them; `None` if there is no such process.
pub(super) fn thread_count(pid: i32) -> Option<usize> {
    status(pid, pid, "Threads")?.parse().ok()
}

/// Returns whether the thread belongs to the process.
pub(super) fn has_thread(pid: i32, tid: i32) -> bool {
    fs::metadata(format!("/proc/{pid}/task/{tid}")).is_ok()
}

/// Returns the thread's name in the kernel.
pub(super) fn comm(pid: i32, tid: i32) -> String {
    let text = read_text(format!("/proc/{pid}/task/{tid}/comm")).unwrap_or_default();
    text.trim_end().to_owned()
}

/// Returns one field of the thread's status.
fn status(pid: i32, tid: i32, field: &str) -> Option<String> {
    let text = read_text(format!("/proc/{pid}/task/{tid}/status")).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    Some(value.trim().to_owned())
}

/// Returns the thread's tracer; 0: none.
pub(super) fn tracer(pid: i32, tid: i32) -> i32 {
    status(pid, tid, "TracerPid").and_then(|value| value.parse().ok()).unwrap_or(0)
}

/// Returns the parent process's id.
pub(super) fn parent(pid: i32) -> i32 {
    status(pid, pid, "PPid").and_then(|value| value.parse().ok()).unwrap_or(0)
}

/// Returns whether the thread has ended and is only still listed.
pub(super) fn is_zombie(pid: i32, tid: i32) -> bool {
    status(pid, tid, "State").is_none_or(|state| state.starts_with(['Z', 'X']))
}

/// Why a thread has not stopped on request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Silence {
    /// The thread has created a process by vfork and sleeps until this process has ended or executed another program.
    Vfork,
    /// The thread is in uninterruptible sleep in the kernel; in this function, if the kernel reports it.
    Uninterruptible(String),
    /// The thread has ended, and is still listed.
    Zombie,
    /// The thread can stop, but has not done so yet.
    Slow(String),
}

impl Silence {
    pub(super) fn of(pid: i32, tid: i32) -> Self {
        let state = status(pid, tid, "State").unwrap_or_else(|| "Z".to_owned());
        let place = read_text(format!("/proc/{pid}/task/{tid}/wchan")).unwrap_or_default();
        match state.as_bytes().first() {
            Some(b'Z' | b'X') => Self::Zombie,
            // Some kernels report the function only for other users' threads; the system call is reported in any case.
            Some(b'D') if place.contains("vfork") || has_vfork_child(pid, tid) => Self::Vfork,
            Some(b'D') => Self::Uninterruptible(place),
            _ => Self::Slow(state),
        }
    }
}

fn has_vfork_child(pid: i32, tid: i32) -> bool {
    let call = read_text(format!("/proc/{pid}/task/{tid}/syscall")).unwrap_or_default();
    let number = call.split(' ').next().and_then(|word| word.parse::<i64>().ok());
    [libc::SYS_vfork, libc::SYS_clone, libc::SYS_clone3].into_iter().any(|call| number == Some(call))
}

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vfork => write!(f, "waits for the child of its vfork to end or to run another program"),
            Self::Uninterruptible(place) if place.is_empty() || place == "0" => {
                write!(f, "is in uninterruptible sleep")
            }
            Self::Uninterruptible(place) => write!(f, "is in uninterruptible sleep in {place}"),
            Self::Zombie => write!(f, "has ended"),
            Self::Slow(state) => write!(f, "has not stopped yet, state {state}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_whose_name_is_not_utf8_is_no_zombie() {
        let zombie = std::thread::spawn(|| {
            // SAFETY: sets the name of this thread from a string that ends with a NUL.
            assert_eq!(unsafe { libc::prctl(libc::PR_SET_NAME, c"\xff\xfe".as_ptr()) }, 0);
            let tid = crate::sys::this_thread();
            is_zombie(std::process::id() as i32, tid)
        });
        assert!(!zombie.join().unwrap());
    }
}
