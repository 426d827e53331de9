//! `.stop.registers`, `.stop.interior`, `.stop.own-stack`: an object whose only reference is in one register, in the red zone, points into
//! it or past its end, survives, whatever stops the world.
//!
//! A *keeper* is a function in assembly that gets an address with every bit flipped, undoes the disguise in one register only, reports that
//! it is ready, and spins. No copy is on any stack: the object was allocated on a thread that has ended, this thread never sees the
//! address, and the register that passed it is cleared. So if the object is alive after a collection, the collector has found the reference
//! there. It dies in the next collection, after the keeper has cleared the register: that shows that nothing else kept it.
//!
//! Cooperative stoppers stop threads at calls, where by the System V ABI only rbx, rbp and r12–r15 are preserved: a caller that needs an
//! address in another register, or in the red zone, across a call must have saved it in its frame. So they are tested with these six
//! registers; signals and the debugger are tested with all places.

use std::sync::Arc;

use crate::hazard::keepers::*;
use crate::hazard::{By, Flags, Hidden, PAYLOAD_BYTES, collection_kills, spawn, world};
use crate::skipped;
use rstest::rstest;
use stopworld::Mutator;

/// Collects while a thread keeps an object by a reference that points `offset` bytes into it; then once more after the thread has cleared
/// the reference. Returns whether the object survived, and whether it then died.
fn fate(by: By, keeper: KeepAliveFn, offset: usize) -> (bool, bool) {
    let world = world(by);
    let hidden = Hidden::new(&world);
    let (disguised, flags) = (hidden.disguised(offset), Flags::new());
    let inner = Arc::clone(&flags);
    let thread = spawn(&world, "keeper", move |_| keeper(disguised, &inner.end, &inner.ready));
    flags.wait_ready();
    let survived = !collection_kills(&world);
    flags.end();
    thread.join().unwrap();
    (survived, !survived || collection_kills(&world))
}

#[rstest]
#[case::rax(rax)]
#[case::rbx(rbx)]
#[case::rcx(rcx)]
#[case::rbp(rbp)]
#[case::r8(r8)]
#[case::r9(r9)]
#[case::r10(r10)]
#[case::r11(r11)]
#[case::r12(r12)]
#[case::r13(r13)]
#[case::r14(r14)]
#[case::r15(r15)]
fn an_object_whose_only_reference_is_in_a_general_register_survives(
    #[case] keeper: KeepAliveFn,
    #[values(By::Signals, By::Debugger)] by: By,
) {
    assert_eq!(fate(by, keeper, 0), (true, true), "(survived, then died)");
}

#[rstest]
#[case::xmm0(xmm0, Needs::Nothing)]
#[case::xmm0_high(xmm0_high, Needs::Nothing)]
#[case::xmm7(xmm7, Needs::Nothing)]
#[case::xmm15(xmm15, Needs::Nothing)]
#[case::ymm3_high(ymm3_high, Needs::Avx)]
#[case::ymm12_high(ymm12_high, Needs::Avx)]
#[case::zmm5_high(zmm5_high, Needs::Avx512)]
#[case::zmm20(zmm20, Needs::Avx512)]
fn an_object_whose_only_reference_is_in_a_vector_register_survives(
    #[case] keeper: KeepAliveFn,
    #[case] needs: Needs,
    #[values(By::Signals, By::Debugger)] by: By,
) {
    if !needs.are_met() {
        skipped::skipped(&format!("{needs:?}"));
        return;
    }
    assert_eq!(fate(by, keeper, 0), (true, true), "(survived, then died)");
}

#[rstest]
#[case::near(red_zone_near)]
#[case::far(red_zone_far)]
fn an_object_whose_only_reference_is_in_the_red_zone_survives(
    #[case] keeper: KeepAliveFn,
    #[values(By::Signals, By::Debugger)] by: By,
) {
    assert_eq!(fate(by, keeper, 0), (true, true), "(survived, then died)");
}

/// `.stop.interior`
#[rstest]
#[case::first_byte(1)]
#[case::in_the_middle(8)]
#[case::last_byte(PAYLOAD_BYTES - 1)]
fn an_object_whose_only_reference_points_into_it_survives(
    #[case] offset: usize,
    #[values(By::Signals, By::Debugger)] by: By,
) {
    assert_eq!(fate(by, r12, offset), (true, true), "(survived, then died)");
}

/// `.stop.interior`: a loop at the end of an array may hold only this pointer.
#[rstest]
fn an_object_whose_only_reference_points_one_past_its_end_survives(#[values(By::Signals, By::Debugger)] by: By) {
    assert_eq!(fate(by, r12, PAYLOAD_BYTES), (true, true), "(survived, then died)");
}

/// The control for all other tests: a disguised address keeps no object alive.
#[rstest]
fn an_object_whose_address_is_disguised_dies(#[values(By::Signals, By::Safepoints, By::Debugger)] by: By) {
    let world = world(by);
    let hidden = Hidden::new(&world);
    let disguised = hidden.disguised(0);
    let flags = Flags::new();
    let inner = Arc::clone(&flags);
    let thread = spawn(&world, "keeper of nothing", move |m| {
        inner.set_ready();
        while !inner.is_ended() {
            std::hint::black_box(disguised);
            m.safepoint();
        }
    });
    flags.wait_ready();
    assert!(collection_kills(&world));
    flags.end();
    thread.join().unwrap();
}

/// Calls `f(argument)` with the address in one callee-saved register.
type Caller = extern "C" fn(usize, extern "C" fn(*const ()), *const ());

macro_rules! callers {
    ($($name:ident = $register:literal),* $(,)?) => {
        $(
            #[unsafe(naked)]
            extern "C" fn $name(disguised: usize, f: extern "C" fn(*const ()), argument: *const ()) {
                std::arch::naked_asm!(
                    "push rbx", "push rbp", "push r12", "push r13", "push r14", "push r15",
                    "sub rsp, 8",
                    "not rdi",
                    concat!("mov ", $register, ", rdi"),
                    "mov rdi, rdx",
                    "xor edx, edx",
                    "call rsi",
                    "add rsp, 8",
                    "pop r15", "pop r14", "pop r13", "pop r12", "pop rbp", "pop rbx",
                    "ret",
                )
            }
        )*
    };
}

callers! {
    call_with_rbx = "rbx", call_with_rbp = "rbp", call_with_r12 = "r12", call_with_r13 = "r13", call_with_r14 = "r14",
    call_with_r15 = "r15",
}

/// The ways in which a thread stops by itself, without a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stands {
    AtASafepoint,
    InABlockingRegion,
}

struct Stand<'a> {
    mutator: &'a Mutator,
    flags: &'a Flags,
}

extern "C" fn poll(stand: *const ()) {
    // SAFETY: `own_fate` passes a `Stand` that outlives the call.
    let Stand { mutator, flags } = unsafe { &*stand.cast::<Stand<'_>>() };
    flags.set_ready();
    while !flags.is_ended() {
        mutator.safepoint();
        std::hint::spin_loop();
    }
}

extern "C" fn block(stand: *const ()) {
    // SAFETY: as in `poll`.
    let Stand { mutator, flags } = unsafe { &*stand.cast::<Stand<'_>>() };
    mutator.blocking(|| {
        flags.set_ready();
        while !flags.is_ended() {
            std::thread::yield_now();
        }
    });
}

#[rstest]
fn an_object_whose_only_reference_is_in_a_callee_saved_register_survives_at_a_safepoint_and_in_a_blocking_region(
    #[values(call_with_rbx, call_with_rbp, call_with_r12, call_with_r13, call_with_r14, call_with_r15)] caller: Caller,
    #[values(Stands::AtASafepoint, Stands::InABlockingRegion)] stands: Stands,
    #[values(By::Safepoints, By::Signals)] by: By,
) {
    let world = world(by);
    let hidden = Hidden::new(&world);
    let (disguised, flags) = (hidden.disguised(0), Flags::new());
    let inner = Arc::clone(&flags);
    let thread = spawn(&world, "caller", move |mutator| {
        let stand = Stand { mutator, flags: &inner };
        let f = if stands == Stands::AtASafepoint { poll } else { block };
        caller(disguised, f, (&raw const stand).cast());
    });
    flags.wait_ready();
    assert!(!collection_kills(&world));
    flags.end();
    thread.join().unwrap();
    assert!(collection_kills(&world));
}

extern "C" fn collect_here(kills: *const ()) {
    // SAFETY: the test below passes a `Cell` of the world and the result, which outlives the call.
    let (mutator, kills) = unsafe { &*kills.cast::<(&Mutator, std::cell::Cell<Option<bool>>)>() };
    kills.set(Some(mutator.collect().unwrap().weak_cleared > 0));
}

/// `.stop.own-stack`
#[rstest]
fn an_object_whose_only_reference_is_in_a_register_of_the_collecting_thread_survives(
    #[values(call_with_rbx, call_with_rbp, call_with_r12, call_with_r13, call_with_r14, call_with_r15)] caller: Caller,
    #[values(By::Signals, By::Safepoints, By::Debugger)] by: By,
) {
    let world = world(by);
    let hidden = Hidden::new(&world);
    let disguised = hidden.disguised(0);
    let thread = spawn(&world, "collecting", move |mutator| {
        let answer = (mutator, std::cell::Cell::new(None));
        caller(disguised, collect_here, (&raw const answer).cast());
        answer.1.get()
    });
    assert_eq!(thread.join().unwrap(), Some(false), "the object in the collecting thread's register died");
    assert!(collection_kills(&world));
}
