//! This process as one that is read from outside: its memory, and a core file of it.

#![allow(dead_code, reason = "each test program uses its part")]

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use stopworld_postmortem::Memory;

/// The memory of this process.
pub struct Own(File);

impl Own {
    pub fn open() -> Own {
        Own(File::open("/proc/self/mem").unwrap())
    }
}

impl Memory for Own {
    fn read_some(&self, at: u64, into: &mut [u8]) -> usize {
        self.0.read_at(into, at).unwrap_or(0)
    }
}

const PAGE: usize = 4096;

/// A mapping of this process.
struct Mapping<'a> {
    low: u64,
    high: u64,
    access: &'a str,
    offset: u64,
    path: &'a str,
}

fn mapping(line: &str) -> Mapping<'_> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (low, high) = words[0].split_once('-').unwrap();
    let [low, high, offset] = [low, high, words[2]].map(|number| u64::from_str_radix(number, 16).unwrap());
    Mapping { low, high, access: words[1], offset, path: words.get(5).copied().unwrap_or_default() }
}

/// Returns a core of this process: the pages that are not all zeros of its writable memory, of what the dynamic linker has relocated and
/// made read-only then, and the first page of each file.
pub fn core() -> Vec<u8> {
    let own = Own::open();
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let mappings: Vec<Mapping<'_>> = maps.lines().map(mapping).collect();
    let mut segments: Vec<(u64, Vec<u8>)> = Vec::new();
    for (index, Mapping { low, high, access, offset, path }) in mappings.iter().enumerate() {
        let is_file = path.starts_with('/');
        let next = mappings.get(index + 1);
        let is_relocated = is_file && next.is_some_and(|next| next.path == *path && next.access.starts_with("rw"));
        let high = match access {
            access if access.starts_with("rw") => *high,
            access if access.starts_with("r--") && is_relocated => *high,
            access if access.starts_with('r') && is_file && *offset == 0 => low + PAGE as u64,
            _ => continue,
        };
        let mut page = vec![0; PAGE];
        for at in (*low..high).step_by(PAGE) {
            if own.read_some(at, &mut page) < PAGE || page.iter().all(|byte| *byte == 0) {
                continue;
            }
            match segments.last_mut() {
                Some((start, bytes)) if *start + bytes.len() as u64 == at => bytes.extend_from_slice(&page),
                _ => segments.push((at, page.clone())),
            }
        }
    }
    written(&segments)
}

/// Writes a core with these segments, and without threads.
pub fn written(segments: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let headers = 64 + 56 * segments.len();
    let mut core = vec![0; headers.next_multiple_of(PAGE)];
    core[..16].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    let put = |core: &mut [u8], at: usize, bytes: &[u8]| core[at..at + bytes.len()].copy_from_slice(bytes);
    put(&mut core, 16, &4_u16.to_le_bytes());
    put(&mut core, 18, &62_u16.to_le_bytes());
    put(&mut core, 32, &64_u64.to_le_bytes());
    put(&mut core, 54, &56_u16.to_le_bytes());
    put(&mut core, 56, &u16::try_from(segments.len()).unwrap().to_le_bytes());
    for (index, (start, bytes)) in segments.iter().enumerate() {
        let (at, length) = (64 + 56 * index, (bytes.len() as u64).to_le_bytes());
        let offset = (core.len() as u64).to_le_bytes();
        put(&mut core, at, &1_u32.to_le_bytes());
        put(&mut core, at + 4, &6_u32.to_le_bytes());
        for (within, word) in [(8, offset), (16, start.to_le_bytes()), (32, length), (40, length)] {
            put(&mut core, at + within, &word);
        }
        core.extend_from_slice(bytes);
    }
    core
}
