//! Errors of a call: a code for the program and a text for people, never unwinding (`.host.no-unwind`).

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use stopworld::events::LabelError;
use stopworld::events::host::HostError;
use stopworld::{AttachError, BuildError, CloseError, CollectError, DescribeError, OutOfMemory};

use crate::abi;

/// The error codes of the C header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Code {
    Null = 1,
    Version,
    Initialized,
    Argument,
    NotAttached,
    Attached,
    Blocking,
    Memory,
    Collect,
    Events,
    Timeout,
    System,
    Panic,
}

/// Why a call failed.
#[derive(Debug)]
pub(crate) struct Failure {
    code: Code,
    text: String,
}

impl Failure {
    pub(crate) fn is(&self, code: Code) -> bool {
        self.code == code
    }
}

pub(crate) fn failure(code: Code, text: impl Into<String>) -> Failure {
    Failure { code, text: text.into() }
}

macro_rules! failures {
    ($($error:ty => $code:ident),* $(,)?) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Failure {
                failure(Code::$code, error.to_string())
            }
        }
    )*};
}

failures! {
    OutOfMemory => Memory,
    CollectError => Collect,
    CloseError => Timeout,
    DescribeError => Argument,
    LabelError => Argument,
}

impl From<AttachError> for Failure {
    fn from(error: AttachError) -> Failure {
        let code = match error {
            AttachError::AlreadyAttached { .. } => Code::Attached,
            AttachError::Closed => Code::Argument,
            _ => Code::System,
        };
        failure(code, error.to_string())
    }
}

impl From<BuildError> for Failure {
    fn from(error: BuildError) -> Failure {
        let code = if matches!(error, BuildError::System(_)) { Code::System } else { Code::Argument };
        failure(code, error.to_string())
    }
}

impl From<HostError> for Failure {
    fn from(error: HostError) -> Failure {
        let code = if matches!(error, HostError::TimedOut(_)) { Code::Timeout } else { Code::Events };
        failure(code, error.to_string())
    }
}

thread_local! {
    static LAST: RefCell<Option<CString>> = const { RefCell::new(None) };
}

/// Runs a call of the interface with thread cancellation disabled: `catch_unwind` would end the process if it caught the unwinding of a
/// cancelled thread.
pub(crate) fn guarded(call: impl FnOnce() -> Result<(), Failure>) -> abi::Code {
    let _whole = NotCancelled::begin();
    caught(call)
}

/// Runs a call of the interface with thread cancellation unchanged. Only for frequent calls, and only if they reach no cancellation point of
/// libc.
pub(crate) fn caught(call: impl FnOnce() -> Result<(), Failure>) -> abi::Code {
    let caught = catch_unwind(AssertUnwindSafe(call));
    let outcome = caught.unwrap_or_else(|panic| Err(failure(Code::Panic, what_it_said(&*panic))));
    match outcome {
        Ok(()) => 0,
        Err(Failure { code, text }) => {
            let text = CString::new(text.replace('\0', "?")).unwrap_or_default();
            // This fails on a thread that is ending, whose thread-local storage has been destroyed: the text is lost then.
            let _ = LAST.try_with(|last| last.replace(Some(text)));
            code as abi::Code
        }
    }
}

unsafe extern "C" {
    fn pthread_setcancelstate(state: i32, old: *mut i32) -> i32;
}

const PTHREAD_CANCEL_DISABLE: i32 = 1;

/// A guard. While it exists, the calling thread cannot be cancelled.
struct NotCancelled(i32);

impl NotCancelled {
    fn begin() -> Self {
        let mut before = 0;
        // SAFETY: a valid state, and a valid pointer for the old one; the call can't fail.
        unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &mut before) };
        Self(before)
    }
}

impl Drop for NotCancelled {
    fn drop(&mut self) {
        // SAFETY: restores this thread's own state: the guard does not leave `guarded`.
        unsafe { pthread_setcancelstate(self.0, std::ptr::null_mut()) };
    }
}

fn what_it_said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("a failure inside the collector: {}", text.unwrap_or("a panic without a message"))
}

pub(crate) extern "C" fn last_error() -> *const c_char {
    let text = LAST.try_with(|last| last.borrow().as_ref().map(|text| text.as_ptr()));
    text.ok().flatten().unwrap_or(c"".as_ptr())
}

/// Checks the pointer for a result; `what` names it in the error.
///
/// # Safety
/// `place` is null, or a `T` may be written there while the returned reference lives.
pub(crate) unsafe fn place<'a, T>(place: *mut T, what: &str) -> Result<&'a mut T, Failure> {
    // SAFETY: the caller's promise.
    unsafe { place.as_mut() }.ok_or_else(|| is_null(what))
}

pub(crate) fn is_null(what: &str) -> Failure {
    failure(Code::Null, format!("{what} is null"))
}

/// Reads a text from the host; `what` names it in the error.
///
/// # Safety
/// `text` is null, or ends with a 0 and outlives the result.
pub(crate) unsafe fn text<'a>(text: *const c_char, what: &str) -> Result<&'a str, Failure> {
    if text.is_null() {
        return Err(is_null(what));
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|error| failure(Code::Argument, format!("{what} is not UTF-8: {error}")))
}
