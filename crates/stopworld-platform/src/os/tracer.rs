//! Finds out from /proc whether a thread of this process runs, and whether a debugger has stopped it, by system calls only.
//!
//! Async-signal-safe, stop-safe, errno preserved: the answer is needed in the stopped world. A query takes about 10 µs (`stat`
//! and `syscall` take two thirds of the time of `status`).

use std::ffi::CStr;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;

use super::Tid;
use super::file::read_beginning;

/// The process that traces the calling thread; 0 if there is none, or /proc can't be read.
pub fn of_myself() -> i32 {
    let mut text = [0; 512];
    let length = read_beginning(c"/proc/thread-self/status", &mut text);
    tracer(&text[..length])
}

/// Returns whether the kernel has begun to end this process. It does so before it resumes the threads that the process traces. False if
/// /proc can't be read, or has no such process (any more).
pub fn is_exiting(process: i32) -> bool {
    let mut text = [0; 512];
    let length = read_at(format_args!("/proc/{process}/stat"), &mut text);
    exits(&text[..length])
}

/// Returns whether a line of `/proc/PID/stat` is that of a process that ends: the bit PF_EXITING of its flags, the seventh word after the
/// name. (`man 5 proc`; `include/linux/sched.h`.)
fn exits(line: &[u8]) -> bool {
    const PF_EXITING: u64 = 4;
    const FLAGS: usize = 6;
    let flags = after_name(line).and_then(|rest| rest.split(|byte| *byte == b' ').nth(FLAGS));
    let flags = flags.and_then(|digits| std::str::from_utf8(digits).ok()?.parse::<u64>().ok());
    flags.is_some_and(|flags| flags & PF_EXITING != 0)
}

/// A traced thread of this process, and the id of the process that traces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traced {
    /// The traced thread.
    pub tid: Tid,
    /// Its tracer.
    pub tracer: i32,
}

/// Returns a traced thread of this process, the oldest one; `None` if no thread is traced, or /proc can't be read. Reads one file for each
/// thread up to the one that it returns.
pub fn any_traced() -> Option<Traced> {
    super::preserving_errno(|| {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        first_traced(&open(c"/proc/self/task", flags, Mode::empty()).ok()?)
    })
}

/// Searches the threads that an open folder lists.
fn first_traced(folder: &OwnedFd) -> Option<Traced> {
    // The kernel aligns each entry to 8 bytes.
    let mut entries = [0_u64; 128];
    loop {
        let (fd, size) = (folder.as_raw_fd(), size_of_val(&entries));
        // SAFETY: an open folder, and `entries` has this many bytes.
        let length = unsafe { libc::syscall(libc::SYS_getdents64, fd, entries.as_mut_ptr(), size) };
        let length = usize::try_from(length).ok().filter(|length| *length > 0)?;
        // SAFETY: the kernel has written this many bytes, at most the size of `entries`.
        let mut rest = unsafe { std::slice::from_raw_parts(entries.as_ptr().cast::<u8>(), length) };
        while let Some((name, next)) = next_entry(rest) {
            rest = next;
            let Some(tid) = number(name).map(Tid) else { continue };
            let mut text = [0; 512];
            let length = read_of(tid, "status", &mut text);
            let tracer = tracer(&text[..length]);
            if tracer != 0 {
                return Some(Traced { tid, tracer });
            }
        }
    }
}

/// Splits the first entry off the result of getdents64. Returns its name, and the other entries.
fn next_entry(entries: &[u8]) -> Option<(&[u8], &[u8])> {
    // The inode and the offset, 64 bits each; the entry's length, 16 bits; the type, 8 bits; the name, which ends in 0.
    const LENGTH: usize = 16;
    const NAME: usize = 19;
    let length = usize::from(u16::from_ne_bytes([*entries.get(LENGTH)?, *entries.get(LENGTH + 1)?]));
    let name = entries.get(NAME..length)?;
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    Some((&name[..end], &entries[length..]))
}

fn number(digits: &[u8]) -> Option<i32> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Returns whether this thread of the process is stopped, by a tracer or by job control (states `t` and `T`).
pub fn holds(tid: Tid) -> bool {
    matches!(state_of(tid), Some(b't' | b'T'))
}

/// Whether a thread of this process runs or is ready to run: it neither sleeps nor is it stopped (uninterruptible sleep counts
/// as running). False if /proc can't be read.
pub fn is_runnable(tid: Tid) -> bool {
    matches!(state_of(tid), Some(b'R' | b'D'))
}

/// Returns the letter of a thread's state.
fn state_of(tid: Tid) -> Option<u8> {
    let mut text = [0; 512];
    let length = read_of(tid, "stat", &mut text);
    state(&text[..length])
}

/// Returns the state in a line of `/proc/PID/stat`. It follows the thread's name.
fn state(line: &[u8]) -> Option<u8> {
    after_name(line)?.first().copied()
}

/// Returns what follows the name in a line of `/proc/PID/stat`. The name is in parentheses and may contain parentheses.
fn after_name(line: &[u8]) -> Option<&[u8]> {
    let end_of_name = line.iter().rposition(|byte| *byte == b')')?;
    line.get(end_of_name + 2..)
}

/// The address and the stack pointer at which a thread continues in user mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserPlace {
    /// The stack pointer.
    pub stack_pointer: usize,
    /// The instruction pointer.
    pub instruction_pointer: usize,
}

/// Returns where a thread of this process that is not running will continue, from its registers in the kernel. `None` if the thread
/// runs, or has ended.
pub fn place_of(tid: Tid) -> Option<UserPlace> {
    let mut text = [0; 512];
    let length = read_of(tid, "syscall", &mut text);
    place(&text[..length])
}

/// Parses a line of `/proc/PID/syscall`: its last two words. The line of a running thread has only one word.
fn place(line: &[u8]) -> Option<UserPlace> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let mut words = line.rsplit(|byte| *byte == b' ').map(hexadecimal);
    let (instruction_pointer, stack_pointer) = (words.next()??, words.next()??);
    Some(UserPlace { stack_pointer, instruction_pointer })
}

fn hexadecimal(word: &[u8]) -> Option<usize> {
    let digits = word.strip_prefix(b"0x")?;
    digits.iter().try_fold(0_usize, |number, digit| {
        let value = char::from(*digit).to_digit(16)?;
        number.checked_mul(16).map(|number| number + value as usize)
    })
}

/// Reads the beginning of a thread's file in /proc. Returns the number of bytes read.
fn read_of(tid: Tid, file: &str, text: &mut [u8; 512]) -> usize {
    read_at(format_args!("/proc/self/task/{}/{file}", tid.0), text)
}

/// Reads the beginning of a file whose path is at most 40 bytes long. Returns the number of bytes read.
fn read_at(path: std::fmt::Arguments<'_>, text: &mut [u8; 512]) -> usize {
    use std::io::Write;
    let mut bytes = [0_u8; 48];
    // The last byte stays 0.
    let _ = (&mut bytes[..47]).write_fmt(path);
    CStr::from_bytes_until_nul(&bytes).map_or(0, |path| read_beginning(path, text))
}

fn tracer(text: &[u8]) -> i32 {
    let digits = after(text, b"TracerPid:\t");
    digits.iter().take_while(|byte| byte.is_ascii_digit()).fold(0, |pid, digit| pid * 10 + i32::from(digit - b'0'))
}

/// Returns the part of `text` after the first occurrence of `key`.
fn after<'a>(text: &'a [u8], key: &[u8]) -> &'a [u8] {
    text.windows(key.len()).position(|window| window == key).map_or(&[], |at| &text[at + key.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_and_stat_lines_are_parsed() {
        let text = b"Name:\tx\nUmask:\t0022\nState:\tt (tracing stop)\nTgid:\t7\nNgid:\t0\nPid:\t7\nPPid:\t1\nTracerPid:\t4711\n";
        assert_eq!(tracer(text), 4711);
        assert_eq!(state(b"7 (a) t) t 1 7 7 0 -1 4194368"), Some(b't'));
        for (line, expected) in
            [(&b"7 (t) S 1 7"[..], Some(b'S')), (b"7 (t)", None), (b"", None), (b"7 (t) R 1 t", Some(b'R'))]
        {
            assert_eq!(state(line), expected);
        }
        assert_eq!(tracer(b"Name:\tx\n"), 0);
        let of_a_zombie = b"7 (a) 0 0) Z 1 7 7 0 -1 4228172 44 0";
        assert!(
            exits(of_a_zombie)
                && !exits(b"7 (a) t) t 1 7 7 0 -1 4194368 4 4")
                && !exits(b"7 (4 4 4 4 4 4 4")
                && !exits(b"")
        );
    }

    #[test]
    fn a_process_that_has_ended_is_exiting_until_its_parent_has_waited() {
        assert!(!is_exiting(std::process::id().cast_signed()));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id().cast_signed();
        let begin = std::time::Instant::now();
        while !is_exiting(pid) {
            assert!(begin.elapsed().as_secs() < 60, "the end of the process was not seen");
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(!is_exiting(pid));
    }

    #[test]
    fn a_threads_place_is_the_end_of_its_line() {
        let expected = Some(UserPlace { stack_pointer: 0x7f_fd10, instruction_pointer: 0x401a });
        assert_eq!(place(b"-1 0x7ffd10 0x401a\n"), expected);
        assert_eq!(place(b"35 0x1 0x0 0x0 0x0 0x0 0x0 0x7ffd10 0x401a\n"), expected);
        for line in [&b"running\n"[..], b"", b"0 0x0", b"-1 0xzz 0x1", b"-1 0x7ffd10 0x1ffffffffffffffff"] {
            assert_eq!(place(line), None);
        }
    }

    #[test]
    fn a_thread_that_sleeps_has_a_place_on_its_stack() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let sleeper = std::thread::spawn(move || {
            let here = 0_u8;
            sender.send((crate::os::thread::gettid(), std::ptr::from_ref(&here) as usize)).unwrap();
            std::thread::park();
        });
        let (tid, on_its_stack) = receiver.recv().unwrap();
        let found = loop {
            if let Some(found) = place_of(tid) {
                break found;
            }
            std::thread::yield_now();
        };
        assert!(on_its_stack.abs_diff(found.stack_pointer) < 64 << 10, "{found:x?}, {on_its_stack:x}");
        sleeper.thread().unpark();
        sleeper.join().unwrap();
        assert_eq!(place_of(Tid(i32::MAX)), None);
    }

    #[test]
    fn the_entries_of_a_folder_are_split() {
        let entry = |name: &[u8], length: u16| {
            let mut bytes = vec![0_u8; usize::from(length)];
            bytes[16..18].copy_from_slice(&length.to_ne_bytes());
            bytes[19..19 + name.len()].copy_from_slice(name);
            bytes
        };
        let both = [entry(b"..", 24), entry(b"4711", 24)].concat();
        let (name, rest) = next_entry(&both).unwrap();
        assert_eq!((name, number(name)), (&b".."[..], None));
        let (name, rest) = next_entry(rest).unwrap();
        assert_eq!((number(name), rest), (Some(4711), &b""[..]));
        assert_eq!(next_entry(rest), None);
        // A length that is too small, or larger than what there is.
        for length in [0, 18, 25] {
            let mut wrong = entry(b"1", 24);
            wrong[16..18].copy_from_slice(&u16::to_ne_bytes(length));
            assert_eq!(next_entry(&wrong), None);
        }
    }

    #[test]
    fn a_traced_thread_is_found_among_others() {
        let described = crate::os::proc_status::describe(crate::os::thread::gettid());
        if described.tracer_pid != 0 {
            return;
        }
        assert_eq!(any_traced(), None);
        let (sender, receiver) = std::sync::mpsc::channel();
        let threads: Vec<_> = (0..100)
            .map(|_| {
                let sender = sender.clone();
                std::thread::spawn(move || {
                    sender.send(crate::os::thread::gettid()).unwrap();
                    std::thread::park();
                })
            })
            .collect();
        let traced = receiver.iter().take(threads.len()).last().unwrap();
        // SAFETY: the child makes system calls only, and ends by `_exit`.
        let child = unsafe { libc::fork() };
        assert!(child >= 0);
        if child == 0 {
            // SAFETY: seizes a thread of the parent, which continues to run, and ends with it.
            unsafe {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                let seized = libc::ptrace(libc::PTRACE_SEIZE, traced.0, 0, 0);
                if seized != 0 {
                    libc::_exit(1);
                }
                libc::pause();
                libc::_exit(0);
            }
        }
        let mut found = None;
        let mut status = 0;
        // SAFETY: a child of this process, and a place for its status.
        while found.is_none() && unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == 0 {
            found = any_traced();
        }
        // SAFETY: as above.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, &mut status, 0);
        }
        threads.iter().for_each(|thread| thread.thread().unpark());
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        // In a sandbox a process may not be allowed to trace its parent.
        if libc::WIFEXITED(status) && found.is_none() {
            return;
        }
        assert_eq!(found, Some(Traced { tid: traced, tracer: child }));
    }

    #[test]
    fn a_thread_that_runs_is_not_held() {
        let described = crate::os::proc_status::describe(crate::os::thread::gettid());
        assert_eq!(of_myself(), described.tracer_pid);
        assert!(!holds(crate::os::thread::gettid()));
        assert!(!holds(Tid(i32::MAX)));
    }

    #[test]
    fn a_sleeping_thread_is_not_runnable() {
        assert!(is_runnable(crate::os::thread::gettid()));
        let (sender, receiver) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            sender.send(crate::os::thread::gettid()).unwrap();
            let _ = ended.recv();
        });
        let tid = receiver.recv().unwrap();
        let sleeps = (0..1000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            !is_runnable(tid)
        });
        assert!(sleeps);
        drop(end);
        thread.join().unwrap();
        assert!(!is_runnable(Tid(i32::MAX)));
    }
}
