//! Whether a debugger holds us: what /proc says, by system calls only.
//!
//! Async-signal-safe, stop-safe, errno preserved: the answer is needed in the stopped world. About 10 µs a question.

use super::Tid;

/// Room for the beginning of a status file: what we look for is in its first lines.
type Text = [u8; 512];

/// The process that traces the calling thread; 0 if there is none, or /proc can't be read.
pub(crate) fn of_myself() -> i32 {
    let mut text = [0; 512];
    let length = read(c"/proc/thread-self/status".to_bytes_with_nul(), &mut text);
    tracer(&text[..length])
}

/// Whether a tracer has stopped that thread of this process.
pub(crate) fn holds(tid: Tid) -> bool {
    let mut path = [0_u8; 48];
    {
        use std::io::Write;
        // The last byte stays 0: the path is at most 40 bytes long.
        let _ = write!(&mut path[..47], "/proc/self/task/{}/status", tid.0);
    }
    let mut text = [0; 512];
    let length = read(&path, &mut text);
    let text = &text[..length];
    tracer(text) != 0 && matches!(after(text, b"State:\t"), [b't' | b'T', ..])
}

fn tracer(text: &[u8]) -> i32 {
    let digits = after(text, b"TracerPid:\t");
    digits.iter().take_while(|byte| byte.is_ascii_digit()).fold(0, |pid, digit| pid * 10 + i32::from(digit - b'0'))
}

/// What comes after the key, to the end.
fn after<'a>(text: &'a [u8], key: &[u8]) -> &'a [u8] {
    text.windows(key.len()).position(|window| window == key).map_or(&[], |at| &text[at + key.len()..])
}

/// The beginning of a file. The path ends in 0.
fn read(path: &[u8], text: &mut Text) -> usize {
    super::preserving_errno(|| {
        // SAFETY: the path ends in 0.
        let file = unsafe { libc::open(path.as_ptr().cast(), libc::O_RDONLY | libc::O_CLOEXEC) };
        if file < 0 {
            return 0;
        }
        // SAFETY: our own file, and as many bytes as `text` has.
        let length = unsafe { libc::read(file, text.as_mut_ptr().cast(), text.len()) };
        // SAFETY: our own file, closed once.
        unsafe { libc::close(file) };
        usize::try_from(length).unwrap_or(0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_words_are_understood() {
        let text = b"Name:\tx\nUmask:\t0022\nState:\tt (tracing stop)\nTgid:\t7\nNgid:\t0\nPid:\t7\nPPid:\t1\nTracerPid:\t4711\n";
        assert_eq!(tracer(text), 4711);
        assert_eq!(after(text, b"State:\t")[0], b't');
        assert_eq!(tracer(b"Name:\tx\n"), 0);
    }

    #[test]
    fn a_thread_that_runs_is_not_held() {
        let described = crate::os::proc_status::describe(crate::os::thread::gettid());
        assert_eq!(of_myself(), described.tracer_pid);
        assert!(!holds(crate::os::thread::gettid()));
        assert!(!holds(Tid(i32::MAX)));
    }
}
