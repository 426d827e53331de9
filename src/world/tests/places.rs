//! `.stop.registers`: the places in which a stopped thread may keep its only reference.

use rstest::rstest;

use super::*;
use crate::os::memory::conservative_word;

/// Spins until it is requested to end, with the word in one place only. The word is passed inverted, so that the caller's copies
/// are not found instead.
macro_rules! keeper {
    ($name:ident, [$($load:literal),*], [$($clear:literal),*]) => {
        #[unsafe(naked)]
        extern "C" fn $name(inverted: u64, flags: *const Flags) {
            std::arch::naked_asm!(
                "push rbx", "push r12", "push r13", "push r14", "push r15",
                "not rdi",
                $($load,)*
                "xor edi, edi",
                "mov byte ptr [rsi + 1], 1",
                "2:", "cmp byte ptr [rsi], 0", "je 2b",
                $($clear,)*
                "pop r15", "pop r14", "pop r13", "pop r12", "pop rbx",
                "ret",
            )
        }
    };
}
keeper!(rbx, ["mov rbx, rdi"], []);
keeper!(r12, ["mov r12, rdi"], []);
keeper!(r13, ["mov r13, rdi"], []);
keeper!(r14, ["mov r14, rdi"], []);
keeper!(r15, ["mov r15, rdi"], []);
keeper!(r9, ["mov r9, rdi"], []);
keeper!(xmm8, ["movq xmm8, rdi"], ["pxor xmm8, xmm8"]);
keeper!(
    ymm9_high,
    [
        "vmovq xmm9, rdi",
        "vinsertf128 ymm9, ymm9, xmm9, 1",
        "vextractf128 xmm10, ymm9, 1",
        "vpxor xmm11, xmm11, xmm11",
        "vinsertf128 ymm9, ymm11, xmm10, 1",
        "vpxor xmm10, xmm10, xmm10"
    ],
    ["vzeroall"]
);
keeper!(red_zone_near, ["mov [rsp - 8], rdi"], ["mov qword ptr [rsp - 8], 0"]);
keeper!(red_zone_far, ["mov [rsp - 128], rdi"], ["mov qword ptr [rsp - 128], 0"]);

/// Two flags: the first requests the keeper to end its loop; the keeper sets the second when the word is in its place.
pub(crate) type Flags = [AtomicBool; 2];

pub(crate) type KeepAliveFn = extern "C" fn(u64, *const Flags);

/// Runs a keeper on an attached thread, stops the world with the vtable of `threads`, and returns whether the word was found.
pub(crate) fn is_found(threads: &Arc<Threads>, keeper: KeepAliveFn) -> bool {
    is_found_between(threads, keeper, |_| {}, |_| {})
}

/// As [`is_found`], with functions that act on the keeper before the stop and after the start.
pub(crate) fn is_found_between(
    threads: &Arc<Threads>,
    keeper: KeepAliveFn,
    before: impl FnOnce(Tid),
    after: impl FnOnce(Tid),
) -> bool {
    let word = 0x5709_0000_0000_0000_u64 | keeper as usize as u64;
    let inverted = !word;
    let flags = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
    let (sender, receiver) = mpsc::channel();
    let handle = {
        let (threads, flags) = (threads.clone(), flags.clone());
        std::thread::spawn(move || {
            let info = threads.attach("keeper").unwrap();
            sender.send(info).unwrap();
            keeper(inverted, Arc::as_ptr(&flags));
            threads.detach(info);
        })
    };
    let info = receiver.recv().unwrap();
    assert!(within(LONG, || flags[1].load(Ordering::Acquire)));
    before(info.tid());
    let world = stop(threads);
    let mut found = false;
    world.scan_ranges(info, |low, high| {
        for address in (low..high).step_by(8) {
            // SAFETY: a range of a stopped thread.
            found |= unsafe { conservative_word(address) } as u64 == word;
        }
    });
    world.start();
    after(info.tid());
    flags[0].store(true, Ordering::Relaxed);
    handle.join().unwrap();
    found
}

#[rstest]
pub(crate) fn a_word_that_only_a_register_or_the_red_zone_holds_is_scanned(
    #[values(rbx, r12, r13, r14, r15, r9, xmm8, red_zone_near, red_zone_far)] keeper: KeepAliveFn,
) {
    assert!(is_found(&threads(By::Signals), keeper));
}

#[test]
fn a_word_in_the_upper_half_of_a_ymm_register_is_scanned() {
    if std::arch::is_x86_feature_detected!("avx") {
        assert!(is_found(&threads(By::Signals), ymm9_high));
    }
}

pub(crate) const ALL: [KeepAliveFn; 9] = [rbx, r12, r13, r14, r15, r9, xmm8, red_zone_near, red_zone_far];
