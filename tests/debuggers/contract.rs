//! Debuggers find the contract in every kind of program, and its layout in C is the same as in Rust.

use std::fmt::Write;
use std::mem::offset_of;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tools::has;
use rstest::rstest;
use stopworld::debugger::contract::{Calls, Control, Descriptor, VERSION, stopworld_debugger};
use stopworld::debugger::heap_layout::{
    BlockOffsets, CacheOffsets, HEAP_LAYOUT_VERSION, HeapLayout, HeapTables, TypeOffsets,
};
use stopworld::debugger::inspect::{CensusRow, FieldFacts, ObjectFacts, Refusal, Step};
use stopworld::debugger::notify::{Notice, RequestOffsets};
use stopworld::debugger::{Phase, WorldOffsets, scripts};
use stopworld::{StopInfoOffsets, World};

/// The header, `contract.rs` and the published descriptor describe the same bytes.
#[test]
fn the_structures_lie_in_c_as_they_lie_in_rust() {
    if !has("cc") {
        return;
    }
    let mut checks = String::from("#include <stddef.h>\n#include \"stopworld-debugger.h\"\n");
    macro_rules! same {
        ($($rust:ty = $c:literal { $($member:ident),* })*) => {$(
            writeln!(checks, "_Static_assert(sizeof({}) == {}, \"\");", $c, size_of::<$rust>()).unwrap();
            let mut end = 0;
            $(
                let offset = offset_of!($rust, $member);
                assert!(offset >= end, "the members of {} are not in order", $c);
                end = offset + 1;
                let name = stringify!($member);
                writeln!(checks, "_Static_assert(offsetof({}, {name}) == {offset}, \"{name}\");", $c).unwrap();
            )*
            let _ = end;
        )*};
    }
    same! {
        Descriptor = "stopworld_descriptor" {
            magic, version, size, control, notify_signal, suspend_signal, notify, park, call_return, worlds, scratch,
            scratch_size, request, world, thread, calls, heap
        }
        RequestOffsets = "stopworld_request_offsets" {
            size, magic, sequence, acknowledged, answer, event, detail, tid, world, thread, slot, epoch
        }
        WorldOffsets = "stopworld_world_offsets" {
            size, next, number, threads, bridged, phase, collecting, epoch, collections, heap_low, heap_high, collector,
            stopper
        }
        StopInfoOffsets = "stopworld_thread_offsets" {
            size, stack_ptr, saved_sp, state, tid, stack_low, stack_high, save_area, save_area_size, save_area_used, name,
            frozen, next, serial
        }
        HeapLayout = "stopworld_heap_layout" {
            version, size, tables, thread_cache, thread_alternate_low, thread_alternate_high, thread_gone, type_magic,
            types, cache, blocks
        }
        TypeOffsets = "stopworld_type_offsets" {
            size, magic, name, name_bytes, value_bytes, shape, bitmaps, stride, element, is_array,
            drop_in_place
        }
        CacheOffsets = "stopworld_cache_offsets" {
            size, bins, cursor, cursor_stride, block, end, block_stride, sweeping, has_arena
        }
        BlockOffsets = "stopworld_block_offsets" {
            block_bytes, first_cell, header_bytes, marks_per_block, classes, head_bytes, head_state, head_space, tail_bytes,
            tail_first_run, tail_large_blocks, tail_large_bytes
        }
        HeapTables = "stopworld_heap_tables" {
            size, low, reserved_bytes, committed_bytes, epoch, swept_epoch, words, heads, tails, marks, kinds, kind_types,
            pointers, displacements, handles, handles_used, handles_most, ranges, ranges_used, ranges_most, ready,
            ready_first, ready_end, ready_most, ready_bytes, ready_object, stacks, stack_bytes, stack_low, stack_high
        }
        Calls = "stopworld_calls" { count, describe, fields, referrers, path, request_collection, census }
        ObjectFacts = "stopworld_object" {
            base, bytes, cell_bytes, block, type_info, type_name, type_name_bytes, rust_name, rust_name_bytes, fields,
            length, world, space, flags, marked, reserved
        }
        FieldFacts = "stopworld_field" { offset, value, target }
        Step = "stopworld_step" { kind, tid, slot, value, object, offset }
        CensusRow = "stopworld_census_row" { type_info, type_name, type_name_bytes, objects, bytes }
    }
    let mut equal = |c: &str, value: i128| writeln!(checks, "_Static_assert({c} == {value}, \"{c}\");").unwrap();
    equal("STOPWORLD_DEBUGGER_VERSION", VERSION.into());
    equal("STOPWORLD_HEAP_LAYOUT_VERSION", HEAP_LAYOUT_VERSION.into());
    equal("STOPWORLD_CONTROL_FULL", Control::FULL.into());
    equal("STOPWORLD_CONTROL_ASSISTED", Control::ASSISTED.into());
    equal("STOPWORLD_CONTROL_BREAKPOINT", Control::BREAKPOINT.into());
    equal("STOPWORLD_CONTROL_PHASES", Control::PHASES.into());
    equal("STOPWORLD_STOP_WORLD", Notice::StopWorld as i128);
    equal("STOPWORLD_AGAIN", Notice::Again as i128);
    let refusals = ["NO_WORLD", "NO_OBJECT", "NO_MEMORY", "NO_BUFFER", "CHANGED", "BUSY"];
    for (name, refusal) in refusals.into_iter().zip(Refusal::ALL) {
        equal(&format!("STOPWORLD_{name}"), refusal as i128);
    }
    for phase in Phase::ALL {
        equal(&format!("STOPWORLD_{}", phase.name().to_uppercase().replace('-', "_")), phase as i128);
    }
    writeln!(checks, "int main(void) {{ return 0; }}").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("layout.c");
    std::fs::write(&source, checks).unwrap();
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("debugger/include");
    let compiled = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I"])
        .args([&include, &source])
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
}

/// gdb and lldb show a text for each error of an inferior call, not its number.
#[test]
fn the_scripts_have_a_text_for_each_error_code() {
    for script in [scripts::GDB, scripts::LLDB] {
        for refusal in Refusal::ALL {
            let row = format!("\n    {}: \"", refusal as i64);
            assert_eq!(script.matches(&row).count(), 1, "{refusal:?}");
        }
    }
}

/// A list whose first walks find a cycle: a running program changes it. A list that stays so is an error.
#[rstest]
#[case::changes(4, "[1, 2]\n")]
#[case::is_damaged(5, "the list of threads has a cycle at 0x1000\n")]
fn the_scripts_read_a_list_again_that_changed_during_the_walk(#[case] cycles: u32, #[case] expected: &str) {
    const PROGRAM: &str = r#"
import sys
exec(open(sys.argv[1]).read())

class Target:
    cycles = int(sys.argv[2])
    def read(self, address, size):
        following = {0x1000: 0x2000, 0x2000: 0}[address]
        if not following and self.cycles:
            self.cycles, following = self.cycles - 1, 0x1000
        raw = bytearray(size)
        struct.pack_into("<Q", raw, OFFSETS["next"], following)
        struct.pack_into("<i", raw, OFFSETS["tid"], address >> 12)
        return bytes(raw)

OFFSETS = {name: 32 * i for i, name in enumerate(THREAD)}
contract = Contract.__new__(Contract)
contract.target, contract.thread = Target(), Fields("thread", THREAD, [32 * len(THREAD), *OFFSETS.values()])
try:
    print([thread.tid for thread in contract.threads_of(Structure(0, {"threads": 0x1000}))])
except Trouble as trouble:
    print(trouble)
"#;
    if !has("python3") {
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/debugger/script/contract.py");
    let output = Command::new("python3").args(["-c", PROGRAM]).arg(script).arg(cycles.to_string()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{}", String::from_utf8_lossy(&output.stderr));
}

/// The environment variable that is set for the inspected program.
const SHOWS: &str = "STOPWORLD_SHOWS";

/// The inspected program prints where its descriptor is; not a test by itself.
#[test]
fn the_program_that_shows_its_descriptor() {
    if std::env::var_os(SHOWS).is_none() {
        return;
    }
    let world = World::builder().build().unwrap();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let exe = std::fs::read_link("/proc/self/exe").unwrap();
    let line = maps.lines().find(|line| line.ends_with(exe.to_str().unwrap())).unwrap();
    let base = usize::from_str_radix(line.split('-').next().unwrap(), 16).unwrap();
    println!("\n:{}", std::ptr::from_ref(&stopworld_debugger) as usize - base);
    drop(world);
}

/// Finds the descriptor by the note, as an address in the file: walks the program headers, as a debugger does in memory or in the file,
/// without section headers.
fn by_note(file: &[u8]) -> Option<u64> {
    let word = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap());
    let half = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let (table, count) = (word(32) as usize, u16::from_le_bytes([file[56], file[57]]));
    for header in (0..usize::from(count)).map(|i| table + 56 * i).filter(|at| half(*at) == 4) {
        let (offset, address, size) = (word(header + 8) as usize, word(header + 16), word(header + 32) as usize);
        let align = (word(header + 48) as usize).max(4);
        let mut at = 0;
        while at + 12 <= size {
            let note = offset + at;
            let (name, contents, kind) = (half(note) as usize, half(note + 4) as usize, half(note + 8));
            let data = at + (12 + name).next_multiple_of(align);
            if kind == 1 && &file[note + 12..note + 12 + name] == b"stopworld\0" {
                return Some((address + data as u64).wrapping_add(word(offset + data)));
            }
            at = (data + contents).next_multiple_of(align);
        }
    }
    None
}

/// Finds the descriptor by `.dynsym`.
fn by_symbol(program: &Path) -> Option<u64> {
    let said = Command::new("readelf").args(["-W", "--dyn-syms"]).arg(program).output().ok()?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let line = said.lines().find(|line| line.ends_with(" stopworld_debugger"))?;
    u64::from_str_radix(line.split_whitespace().nth(1)?, 16).ok()
}

fn stripped(folder: &Path, program: &Path) -> PathBuf {
    let copy = folder.join("stripped");
    let done = Command::new("strip").arg("-o").args([&copy, &program.to_owned()]).status().unwrap();
    assert!(done.success());
    copy
}

/// This program, position-independent and stripped.
#[test]
fn a_stripped_program_leads_to_its_descriptor_by_symbol_and_by_note() {
    if !has("strip") || !has("readelf") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = stripped(folder.path(), &std::env::current_exe().unwrap());
    let said = Command::new(&program)
        .args(["--exact", "contract::the_program_that_shows_its_descriptor", "--nocapture"])
        .env(SHOWS, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let at: u64 = said.lines().find_map(|line| line.strip_prefix(':')).unwrap().parse().unwrap();
    assert_eq!(by_symbol(&program), Some(at));
    assert_eq!(by_note(&std::fs::read(&program).unwrap()), Some(at));
}
