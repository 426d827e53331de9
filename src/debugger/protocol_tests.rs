//! Tests of the bridge's protocol that need no model checker.

use super::protocol::*;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::world::handshake::{Handshake, HoldOutcome, Holder, StopState};

/// `.debug.acknowledged`
#[test]
fn an_acknowledgement_counts_only_with_its_own_number() {
    crate::sabotage::choose();
    let acknowledgement = Acknowledgement::new(7);
    assert_eq!(acknowledgement.answer(), Answer::Nobody);
    acknowledgement.acknowledged.store(6, Ordering::Relaxed);
    assert_eq!(acknowledgement.answer(), Answer::Nobody);
    acknowledgement.acknowledge(Answer::PARKED_ON_DEATH);
    assert_eq!(acknowledgement.answer(), Answer::Acknowledged(1));
}

/// `.debug.dies`
#[test]
fn a_word_that_another_debugger_has_written_is_not_taken_away() {
    let word = AtomicU64::new(2 | 5 << 32);
    let dead = in_control(&word);
    word.store(2 | 6 << 32, Ordering::Relaxed);
    assert!(!vacate(&word, dead));
    assert_eq!(in_control(&word).who(), 6);
    assert!(vacate(&word, in_control(&word)));
    assert_eq!(in_control(&word), Control::NOBODY);
}

/// `.debug.counted-twice`: one thread is frozen, resumed and parks; the other one runs all the time.
#[test]
fn a_thread_that_is_answered_for_and_then_answers_is_not_counted_for_another() {
    crate::sabotage::choose();
    let handshake = Handshake::new();
    let states = [StopState::new(), StopState::new()];
    let frozen = [AtomicU64::new(0), AtomicU64::new(0)];
    let counted = [AtomicU32::new(0), AtomicU32::new(0)];
    let undisturbed = AtomicU32::new(0);
    let member =
        |i: usize| Member { state: &states[i], frozen: &frozen[i], counted: &counted[i], undisturbed: &undisturbed };
    let members = || [member(0), member(1)].into_iter();
    states.iter().for_each(StopState::attach);
    let epoch = handshake.begin(Holder::Collection, 2);
    for state in &states {
        assert_eq!(state.hold(Holder::Collection, epoch), HoldOutcome::MustPark);
    }
    assert_eq!(newly_frozen(members(), 9), 0);
    member(0).freeze(9);
    // A thread that would not park yet if it were resumed does not count.
    undisturbed.store(1, Ordering::Relaxed);
    assert_eq!(newly_frozen(members(), 9), 0);
    undisturbed.store(0, Ordering::Relaxed);
    assert_eq!(newly_frozen(members(), 9), 1);
    assert_eq!(newly_frozen(members(), 9), 0);
    handshake.satisfied(Holder::Collection, epoch, 1);
    assert!(!all_stopped(members(), 9, 1));
    // Resumed, it enters a blocking region.
    states[0].enter_blocking(&handshake, || {});
    let outstanding = handshake.wait_slice(Holder::Collection, 1);
    assert_eq!(outstanding, 0);
    assert_eq!(member(0).ack_state(9), AckState::ByItself);
    assert!(!all_stopped(members(), 9, outstanding));
    states[1].enter_blocking(&handshake, || {});
    assert!(all_stopped(members(), 9, 0));
    // An answer for another stop does not count.
    assert_eq!(member(1).ack_state(9), AckState::ByItself);
    assert_eq!(newly_frozen(members(), 10), 0);
}

/// `.debug.lies`
#[test]
fn a_thread_that_the_kernel_does_not_hold_is_found() {
    crate::sabotage::choose();
    let is_held = |thread: u32| thread != 2 && thread != 3;
    assert_eq!(first_not_held([0, 1, 2, 3].into_iter(), is_held), Some(2));
    assert_eq!(first_not_held([0, 1, 4].into_iter(), is_held), None);
}

/// `.debug.lies`: the collector does not rely on a debugger's claim about a thread that had stopped by itself, nor on any claim from
/// before the present stop.
#[test]
fn a_thread_is_relied_on_for_one_stop() {
    let state = StopState::new();
    let (frozen, counted, undisturbed) = (AtomicU64::new(0), AtomicU32::new(0), AtomicU32::new(0));
    let member = Member { state: &state, frozen: &frozen, counted: &counted, undisturbed: &undisturbed };
    member.rely(true);
    assert!(member.is_relied_on());
    member.forget();
    assert!(!member.is_relied_on());
    member.rely(false);
    assert!(!member.is_relied_on());
}

/// `.debug.dies`
#[test]
fn a_debugger_that_is_lost_in_mid_stop_does_not_turn_the_stop_into_another_one() {
    let word = AtomicU64::new(1 | 5 << 32);
    let stop_contract = StopContract::new();
    stop_contract.begin(in_control(&word));
    assert!(stop_contract.is_in_force(&word));
    // The debugger may change its flags, and the mode for the next stop, without an effect on this stop.
    word.store(1 | Control::PHASES | 5 << 32, Ordering::Relaxed);
    assert!(stop_contract.is_in_force(&word));
    word.store(2 | 5 << 32, Ordering::Relaxed);
    assert!(stop_contract.is_in_force(&word));
    word.store(1 | 6 << 32, Ordering::Relaxed);
    assert!(!stop_contract.is_in_force(&word));
    word.store(5 << 32, Ordering::Relaxed);
    assert!(!stop_contract.is_in_force(&word));
    word.store(1 | 5 << 32, Ordering::Relaxed);
    stop_contract.lose();
    assert!(!stop_contract.is_in_force(&word));
    assert_eq!(stop_contract.control().mode(), Some(Mode::Full));
    // The end is reported to whichever debugger serves the stop now, or to none (`.debug.start`).
    assert_eq!(stop_contract.end().who(), 5);
    stop_contract.begin(in_control(&word));
    assert!(!stop_contract.is_lost());
    assert_eq!(stop_contract.end().who(), 5);
    assert_eq!(stop_contract.control(), Control::NOBODY);
}
