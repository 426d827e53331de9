//! What the library prints: warnings, and the reasons for which it ends the process.

use std::ffi::{CStr, CString, c_char, c_int, c_void};

use crate::hook::Hook;
use crate::sync::{AtomicI32, Ordering};

/// Gets a format for `printf` with one argument, and the argument.
pub(crate) type WarnFunction = unsafe extern "C-unwind" fn(*mut c_char, usize);

pub(crate) static WARN: Hook<WarnFunction> = Hook::new(print_warning as *const ());

/// The file descriptor that `GC_set_log_fd` has set.
static LOG: AtomicI32 = AtomicI32::new(libc::STDERR_FILENO);

/// Writes a line to the log.
pub(crate) fn log(line: &str) {
    write(LOG.load(Ordering::Relaxed), line);
}

/// Writes a line, with one system call if the kernel takes it whole.
pub(crate) fn write(descriptor: c_int, line: &str) {
    let mut rest = line.as_bytes();
    while !rest.is_empty() {
        // SAFETY: a readable buffer of this length.
        let written = unsafe { libc::write(descriptor, rest.as_ptr().cast(), rest.len()) };
        match usize::try_from(written) {
            Ok(count) if count > 0 => rest = &rest[count..],
            _ => return,
        }
    }
}

/// Warns the program, through its own function if it has set one.
pub(crate) fn warn(text: &str) {
    let Some(function) = WARN.get() else { return };
    // The text is a format for the program's function.
    let format = CString::new(text.replace('%', "%%")).unwrap_or_default();
    // SAFETY: the program's function, or the one below; a format without arguments.
    unsafe { function(format.as_ptr().cast_mut(), 0) };
}

/// Prints one line to standard error, and ends the process.
pub(crate) fn abort(reason: &str) -> ! {
    write(libc::STDERR_FILENO, &format!("stopworld libgc: {reason}\n"));
    std::process::abort()
}

/// As [`abort`], without memory from malloc: for the stopped world.
pub(crate) fn abort_in_stop(reason: &str) -> ! {
    ["stopworld libgc: ", reason, "\n"].into_iter().for_each(|part| write(libc::STDERR_FILENO, part));
    std::process::abort()
}

/// Prints one line to standard error, and exits the process with the code of a usage error: what was wrong is not the program's.
pub(crate) fn refuse(reason: &str) -> ! {
    write(libc::STDERR_FILENO, &format!("stopworld libgc: {reason}\n"));
    // SAFETY: has no precondition. No handler runs: the program has not begun, and the library is not complete.
    unsafe { libc::_exit(2) }
}

unsafe extern "C-unwind" fn print_warning(format: *mut c_char, argument: usize) {
    let mut line = [0_u8; 1024];
    // SAFETY: a buffer of this length. The library's and the program's warnings have formats with at most one argument, of this type.
    unsafe { libc::snprintf(line.as_mut_ptr().cast(), line.len(), format, argument) };
    let line = CStr::from_bytes_until_nul(&line).unwrap_or_default().to_string_lossy();
    log(&format!("GC Warning: {}\n", line.trim_end()));
}

/// The initial abort function: prints the message. `GC_abort_on_oom` and others then end the process.
pub(crate) unsafe extern "C-unwind" fn print_and_return(message: *const c_char) {
    if !message.is_null() {
        // SAFETY: a message of the program, which ends in 0.
        log(&format!("{}\n", unsafe { CStr::from_ptr(message) }.to_string_lossy()));
    }
}

pub(crate) unsafe extern "C-unwind" fn not_the_same_object(one: *mut c_void, other: *mut c_void) {
    abort(&format!("GC_same_obj: {one:p} and {other:p} are not in the same object"))
}

pub(crate) unsafe extern "C-unwind" fn not_a_displacement(pointer: *mut c_void) {
    abort(&format!("GC_is_valid_displacement: {pointer:p} does not count as a pointer to its object"))
}

pub(crate) unsafe extern "C-unwind" fn not_visible(pointer: *mut c_void) {
    abort(&format!("GC_is_visible: the collector does not look for pointers at {pointer:p}"))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_set_warn_proc(function: Option<WarnFunction>) {
    WARN.set(function);
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_get_warn_proc() -> Option<WarnFunction> {
    WARN.get()
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn GC_ignore_warn_proc(_: *mut c_char, _: usize) {}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_set_log_fd(descriptor: c_int) {
    LOG.store(descriptor, Ordering::Relaxed);
}

/// The variadic functions: each builds a `va_list` and calls its second part.
mod variadic {
    use super::*;
    use std::arch::naked_asm;

    /// # Safety
    /// `format` and `arguments` belong together, as for `vsnprintf`.
    unsafe fn print(descriptor: c_int, format: *const c_char, arguments: *mut c_void) {
        unsafe extern "C" {
            /// A `va_list` is passed as a pointer on x86-64.
            fn vsnprintf(buffer: *mut c_char, size: usize, format: *const c_char, arguments: *mut c_void) -> c_int;
        }
        let mut line = [0_u8; 1024];
        // SAFETY: a buffer of this length, and the caller's promise.
        unsafe { vsnprintf(line.as_mut_ptr().cast(), line.len(), format, arguments) };
        write(descriptor, &CStr::from_bytes_until_nul(&line).unwrap_or_default().to_string_lossy());
    }

    unsafe extern "C" fn print_out(format: *const c_char, arguments: *mut c_void) {
        // SAFETY: from a variadic call.
        unsafe { print(libc::STDOUT_FILENO, format, arguments) };
    }

    unsafe extern "C" fn print_err(format: *const c_char, arguments: *mut c_void) {
        // SAFETY: from a variadic call.
        unsafe { print(libc::STDERR_FILENO, format, arguments) };
    }

    unsafe extern "C" fn print_log(format: *const c_char, arguments: *mut c_void) {
        // SAFETY: from a variadic call.
        unsafe { print(LOG.load(Ordering::Relaxed), format, arguments) };
    }

    /// Stable Rust cannot define a variadic function. This is what a C compiler makes of one: the registers that may hold arguments
    /// are saved, and the `va_list` says where they are, and where the arguments on the stack begin.
    macro_rules! variadic {
        ($($name:ident => $second:ident;)*) => {$(
            #[unsafe(no_mangle)]
            #[unsafe(naked)]
            pub(crate) unsafe extern "C" fn $name(format: *const c_char) {
                naked_asm!(
                    "sub rsp, 216",
                    "mov [rsp + 40], rsi",
                    "mov [rsp + 48], rdx",
                    "mov [rsp + 56], rcx",
                    "mov [rsp + 64], r8",
                    "mov [rsp + 72], r9",
                    "movaps [rsp + 80], xmm0",
                    "movaps [rsp + 96], xmm1",
                    "movaps [rsp + 112], xmm2",
                    "movaps [rsp + 128], xmm3",
                    "movaps [rsp + 144], xmm4",
                    "movaps [rsp + 160], xmm5",
                    "movaps [rsp + 176], xmm6",
                    "movaps [rsp + 192], xmm7",
                    // gp_offset: the format is the first argument. fp_offset: behind the six general registers.
                    "mov dword ptr [rsp], 8",
                    "mov dword ptr [rsp + 4], 48",
                    "lea rax, [rsp + 224]",
                    "mov [rsp + 8], rax",
                    "lea rax, [rsp + 32]",
                    "mov [rsp + 16], rax",
                    "mov rsi, rsp",
                    "call {second}",
                    "add rsp, 216",
                    "ret",
                    second = sym $second,
                )
            }
        )*};
    }

    variadic! {
        GC_printf => print_out;
        GC_err_printf => print_err;
        GC_log_printf => print_log;
    }
}
