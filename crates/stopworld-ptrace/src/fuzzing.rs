//! Parsing of a hostile target's data, for `fuzz/`: the target is this process, and its memory is a page into which the input is copied.

use std::mem::{offset_of, size_of};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::frame::{self, Places};
use super::memory::{Address, Memory};
use super::modules::{self, Candidate, Mapping};
use super::sys;
use super::target::Library;
use stopworld::OFFSETS;
use stopworld::debugger::WORLD_OFFSETS;
use stopworld::debugger::contract::{Descriptor, stopworld_debugger};
use stopworld::debugger::notify::{REQUEST_MAGIC, REQUEST_OFFSETS};
use stopworld_platform::os::Tid;

/// The address of the image: the addresses in an input refer to the input itself from this address on.
const IMAGE: usize = 0x2000_0000;
/// The size of the image in bytes.
const IMAGE_BYTES: usize = 16 << 10;

// Offsets in the image of [`hostile_seed`].
const HEADERS: usize = 64;
const NOTE: usize = 0x100;
const DESCRIPTOR: usize = 0x200;
const CODE: usize = 0x800;
const WORLD: usize = 0xa00;
const RECORDS: usize = 0x1000;
const RECORD_STEP: usize = 0x400;
const REQUEST: usize = 0x3000;
/// At the end of the image: the address of the request, a stack pointer, a thread id.
const REGISTERS: usize = IMAGE_BYTES - 24;

/// Returns the address of the page, which the first call maps. The thread that holds the lock has exclusive use of the page.
fn page() -> &'static Mutex<usize> {
    static PAGE: OnceLock<Mutex<usize>> = OnceLock::new();
    PAGE.get_or_init(|| {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, which replaces no existing one.
        let at = unsafe {
            libc::mmap(IMAGE as *mut libc::c_void, IMAGE_BYTES, access, flags | libc::MAP_FIXED_NOREPLACE, -1, 0)
        };
        assert_eq!(at as usize, IMAGE, "the image's address is already mapped");
        Mutex::new(IMAGE)
    })
}

/// Parses an image as a debugger parses its target's data: modules, notes, descriptor, worlds, records, requests, frames.
pub fn hostile_target(input: &[u8]) {
    let page = page().lock().unwrap_or_else(PoisonError::into_inner);
    let mut image = vec![0; IMAGE_BYTES];
    let length = input.len().min(IMAGE_BYTES);
    image[..length].copy_from_slice(&input[..length]);
    // SAFETY: the page has `IMAGE_BYTES` bytes, and only the lock's holder writes there.
    unsafe { std::ptr::copy_nonoverlapping(image.as_ptr(), *page as *mut u8, IMAGE_BYTES) };
    let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| image[at + i]));
    let (request, stack_pointer, tid) = (number(REGISTERS), number(REGISTERS + 8), number(REGISTERS + 16));
    let pid = std::process::id() as i32;
    let memory = Memory::open(pid, pid).expect("a process reads its own memory");
    let mapping = Mapping {
        start: IMAGE as u64,
        end: (IMAGE + IMAGE_BYTES) as u64,
        readable: true,
        executable: true,
        offset: 0,
        inode: 0,
        path: String::new(),
    };
    let maps = [mapping];
    let mut candidates = modules::find(pid, &memory, &maps);
    candidates.push(Candidate { descriptor: Address((IMAGE + DESCRIPTOR) as u64), module: String::new() });
    for candidate in candidates.iter().take(4) {
        match Library::read(&memory, &maps, candidate) {
            Ok(library) => look_at(&library, &memory, request, tid),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    let mut registers = sys::no_registers();
    (registers.rsp, registers.rip, registers.rax, registers.orig_rax) = (stack_pointer, request, tid, tid);
    for size in [0, 512, 2440] {
        let mut bytes = Vec::new();
        if let Some(places) = Places::below(registers.rsp, size) {
            let image = frame::build(&registers, places, size, &mut bytes);
            frame::sign(&mut bytes, image);
        }
    }
}

fn look_at(library: &Library, memory: &Memory, request: u64, tid: u64) {
    const ALIVE: usize = 8;
    for world in library.worlds(memory).unwrap_or_default() {
        let guesses: Vec<Address> = (0..4).map(|i| Address((IMAGE + RECORDS + i * RECORD_STEP) as u64)).collect();
        let records = library.records(memory, world.threads, &guesses, ALIVE);
        let stacks = library.stacks(memory, world.threads, &[], ALIVE);
        let (Ok(records), Ok(stacks)) = (records, stacks) else { continue };
        assert_eq!(records.len(), stacks.len(), "the same list, with guesses and without");
        for record in &records {
            let _ = (record.handshake_state(), library.record(memory, record.address));
        }
    }
    let _ = library.world(memory, Address(request));
    let _ = library.request(memory, Tid(tid as i32), Address(request));
}

/// Returns a valid memory image of a debugged process, to be the first input of a corpus.
pub fn hostile_seed() -> Vec<u8> {
    let mut image = vec![0; IMAGE_BYTES];
    let address = |at: usize| (IMAGE + at) as u64;
    let mut put = |at: usize, bytes: &[u8]| image[at..at + bytes.len()].copy_from_slice(bytes);
    // An ELF header with a loaded segment and one of notes.
    put(0, b"\x7fELF\x02\x01\x01");
    put(18, &62u16.to_le_bytes());
    put(32, &(HEADERS as u64).to_le_bytes());
    put(54, &56u16.to_le_bytes());
    put(56, &2u16.to_le_bytes());
    put(HEADERS, &1u32.to_le_bytes());
    put(HEADERS + 56, &4u32.to_le_bytes());
    put(HEADERS + 56 + 16, &(NOTE as u64).to_le_bytes());
    put(HEADERS + 56 + 40, &32u64.to_le_bytes());
    put(NOTE, &[10, 0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0]);
    put(NOTE + 12, b"stopworld\0");
    put(NOTE + 24, &((DESCRIPTOR - NOTE - 24) as u64).to_le_bytes());
    // The descriptor of this very program, with other addresses.
    let descriptor = &raw const stopworld_debugger;
    // SAFETY: a static of this size; its atomics are not changed while no world exists, and are read as bytes.
    let bytes = unsafe { std::slice::from_raw_parts(descriptor.cast::<u8>(), size_of::<Descriptor>()) };
    put(DESCRIPTOR, bytes);
    put(CODE, &[0x90, 0xc3, 0xcc, 0x90]);
    for (field, at) in [
        (offset_of!(Descriptor, notify), CODE),
        (offset_of!(Descriptor, park), CODE + 3),
        (offset_of!(Descriptor, call_return), CODE + 2),
        (offset_of!(Descriptor, worlds), WORLD),
        (offset_of!(Descriptor, scratch), REQUEST),
    ] {
        put(DESCRIPTOR + field, &address(at).to_le_bytes());
    }
    put(DESCRIPTOR + offset_of!(Descriptor, notify_signal), &40u32.to_le_bytes());
    put(DESCRIPTOR + offset_of!(Descriptor, scratch_size), &4096u64.to_le_bytes());
    for call in 1..7 {
        put(DESCRIPTOR + offset_of!(Descriptor, calls) + 8 * call, &address(CODE).to_le_bytes());
    }
    put(WORLD + WORLD_OFFSETS.number, &1u64.to_le_bytes());
    put(WORLD + WORLD_OFFSETS.threads, &address(RECORDS).to_le_bytes());
    put(WORLD + WORLD_OFFSETS.stopper, b"\x06bridge");
    for index in 0..3 {
        let at = RECORDS + index * RECORD_STEP;
        put(at + OFFSETS.tid, &(100 + index as u32).to_le_bytes());
        put(at + OFFSETS.name, b"\x04main");
        if index < 2 {
            put(at + OFFSETS.next, &address(at + RECORD_STEP).to_le_bytes());
        }
    }
    put(REQUEST + REQUEST_OFFSETS.magic, &REQUEST_MAGIC.to_le_bytes());
    put(REQUEST + REQUEST_OFFSETS.world, &address(WORLD).to_le_bytes());
    put(REGISTERS, &address(REQUEST).to_le_bytes());
    put(REGISTERS + 8, &0x7fff_0000u64.to_le_bytes());
    put(REGISTERS + 16, &100u64.to_le_bytes());
    image
}

/// Parses the text of /proc/PID/maps.
pub fn mappings(text: &str) {
    for mapping in modules::parse_maps(text) {
        assert!(text.contains(&mapping.path));
    }
}
