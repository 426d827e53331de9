//! A thread whose creation is in progress when its creator is seized.
//!
//! The kernel decides at the beginning of `clone` whether the new thread will be traced, and lists the thread at the end. In between it
//! writes the thread's pidfd to memory of the process. Here that memory is a page that a helper process supplies (userfaultfd), some time
//! after the creator has been seized. So a debugger that only reads the list of threads until it has nothing new misses the thread.

use std::time::Duration;

/// How long the creation continues after the creator has been seized: much longer than a pass over the list of threads takes.
const CONTINUES: Duration = Duration::from_millis(300);

const PAGE: usize = 4096;
/// `_IOWR(0xaa, 0x3f, struct uffdio_api)`, and two more requests from <linux/userfaultfd.h>.
const UFFDIO_API: libc::c_ulong = 0xc018_aa3f;
const UFFDIO_REGISTER: libc::c_ulong = 0xc020_aa00;
const UFFDIO_ZEROPAGE: libc::c_ulong = 0xc020_aa04;

/// Creates a thread that sleeps for ever. Prints `creating` when the creation is in progress. It ends some time after a tracer has seized the
/// calling thread; then prints `created TID`. Prints `cannot create` and the error if the kernel does not permit all that.
pub fn create_a_thread_slowly() {
    match supplied_later().and_then(create) {
        Ok(tid) => println!("\n:created {tid}"),
        Err(error) => println!("\n:cannot create {error}"),
    }
}

/// Returns a page that is missing. When it is accessed, a helper process prints `creating`; it supplies the page some time after the calling
/// thread has been seized.
fn supplied_later() -> Result<*mut i32, std::io::Error> {
    let check = |result: i64| if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(result) };
    // SAFETY: system calls with arguments of the kernel's layout; the page is a new mapping. The helper process has one thread, and only reads
    // files and writes a line.
    unsafe {
        let faults = check(libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC))? as i32;
        let mut api = [0xaa_u64, 0, 0];
        check(libc::ioctl(faults, UFFDIO_API, api.as_mut_ptr()).into())?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let page = libc::mmap(std::ptr::null_mut(), PAGE, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        check(if page == libc::MAP_FAILED { -1 } else { 0 })?;
        // The range; mode 1: missing pages; the result.
        let mut register = [page as u64, PAGE as u64, 1, 0];
        check(libc::ioctl(faults, UFFDIO_REGISTER, register.as_mut_ptr()).into())?;
        let status = format!("/proc/{}/task/{}/status", std::process::id(), libc::gettid());
        if check(libc::fork().into())? == 0 {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            let mut fault = [0_u64; 4];
            libc::read(faults, fault.as_mut_ptr().cast(), size_of_val(&fault));
            // Without the lock of std, which another thread may have held at the fork.
            let said = "\n:creating\n";
            libc::write(libc::STDOUT_FILENO, said.as_ptr().cast(), said.len());
            while !is_traced(&status) {
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(CONTINUES);
            let mut supply = [page as u64, PAGE as u64, 0, 0];
            libc::ioctl(faults, UFFDIO_ZEROPAGE, supply.as_mut_ptr());
            // Its end would be a signal, for which a tracer stops the process.
            loop {
                libc::pause();
            }
        }
        Ok(page.cast())
    }
}

fn is_traced(status: &str) -> bool {
    let status = std::fs::read_to_string(status).unwrap_or_default();
    status.lines().any(|line| line.strip_prefix("TracerPid:").is_some_and(|tracer| tracer.trim() != "0"))
}

/// Creates a thread that uses no memory and sleeps until the process ends. Returns its id.
fn create(pidfd: *mut i32) -> Result<i64, std::io::Error> {
    let flags = libc::CLONE_VM
        | libc::CLONE_FS
        | libc::CLONE_FILES
        | libc::CLONE_SIGHAND
        | libc::CLONE_THREAD
        | libc::CLONE_SYSVSEM
        | libc::CLONE_PIDFD;
    let result: i64;
    // SAFETY: the new thread has registers of its own and uses no memory, so sharing the stack does no harm.
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 3f",
            "2: mov eax, 34", // pause
            "syscall",
            "jmp 2b",
            "3:",
            inlateout("rax") libc::SYS_clone => result,
            in("rdi") i64::from(flags),
            in("rsi") 0_u64,
            in("rdx") pidfd,
            in("r10") 0_u64,
            in("r8") 0_u64,
            out("rcx") _,
            out("r11") _,
        );
    }
    if result < 0 { Err(std::io::Error::from_raw_os_error(-result as i32)) } else { Ok(result) }
}
