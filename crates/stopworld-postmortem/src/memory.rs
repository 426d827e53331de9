//! The memory of a process that is read from outside: one interface for core files, for stopped processes, and for tests.

/// The memory of a process. Nothing in it changes while it is read.
pub trait Memory {
    /// Reads the bytes from `at` on, as far as they are known and at most the length of the buffer. Returns the number of bytes; 0 if the
    /// first byte is unknown.
    fn read_some(&self, at: u64, into: &mut [u8]) -> usize;

    /// Returns the next address after the unknown one `at` that may be known, at most the end of memory.
    fn next_known(&self, at: u64) -> u64 {
        next_page(at)
    }

    /// Returns whether the memory was mapped from a file that cannot be used, so that it is not known although it was there.
    fn is_left_out(&self, at: u64) -> bool {
        let _ = at;
        false
    }
}

/// A thread that does not run any more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoppedThread {
    /// Its id.
    pub tid: i32,
    /// The signal that it received, or 0.
    pub signal: i32,
    /// Its stack pointer.
    pub rsp: u64,
    /// Its instruction pointer.
    pub rip: u64,
    /// The words of its general registers.
    pub general: Vec<u64>,
    /// The words of its vector registers, with the bytes that precede them.
    pub extended: Vec<u64>,
}

/// Memory that is not known: it was not mapped, or the core file does not have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{bytes} bytes at {at:#x} are not in the core")]
pub struct Unreadable {
    /// The first address.
    pub at: u64,
    /// The number of bytes.
    pub bytes: usize,
}

/// Reads all bytes of a buffer.
///
/// # Errors
/// Some of them are not known.
pub fn read(memory: &dyn Memory, at: u64, into: &mut [u8]) -> Result<(), Unreadable> {
    let mut done = 0;
    while done < into.len() {
        match memory.read_some(at.wrapping_add(done as u64), &mut into[done..]) {
            0 => return Err(Unreadable { at: at.wrapping_add(done as u64), bytes: into.len() - done }),
            read => done += read,
        }
    }
    Ok(())
}

/// Reads an array of bytes.
///
/// # Errors
/// Some of them are not known.
pub fn array<const N: usize>(memory: &dyn Memory, at: u64) -> Result<[u8; N], Unreadable> {
    let mut bytes = [0; N];
    read(memory, at, &mut bytes)?;
    Ok(bytes)
}

/// Reads a word of 64 bits.
///
/// # Errors
/// Its memory is not known.
pub fn word(memory: &dyn Memory, at: u64) -> Result<u64, Unreadable> {
    array(memory, at).map(u64::from_le_bytes)
}

/// The number of unknown parts of a range after which the rest of it is left out.
const MOST_HOLES: usize = 1 << 14;
/// The size of a page, and of a piece that is read at once, in bytes.
pub(crate) const PAGE: u64 = 4096;
const PIECE: usize = 64 << 10;

/// Returns the beginning of the next page.
pub(crate) fn next_page(at: u64) -> u64 {
    (at | (PAGE - 1)).saturating_add(1)
}

/// Calls `visit` with the address and the value of each aligned word of a range that is known. Returns the number of bytes that are not.
pub(crate) fn for_each_word(memory: &dyn Memory, low: u64, high: u64, mut visit: impl FnMut(u64, u64)) -> u64 {
    let Some(mut at) = low.checked_next_multiple_of(8) else { return 0 };
    let (mut unknown, mut holes) = (0, 0);
    let mut piece = vec![0; high.saturating_sub(at).min(PIECE as u64) as usize];
    while high.saturating_sub(at) >= 8 {
        if holes == MOST_HOLES {
            return unknown + (high - at);
        }
        let wanted = ((high - at) & !7).min(PIECE as u64) as usize;
        let known = memory.read_some(at, &mut piece[..wanted]);
        for (index, word) in piece[..known].as_chunks::<8>().0.iter().enumerate() {
            visit(at + index as u64 * 8, u64::from_le_bytes(*word));
        }
        at += known as u64 & !7;
        if known < 8 {
            let next = memory.next_known(at).max(next_page(at)).min(high);
            unknown += next - at;
            at = next;
            holes += 1;
        }
    }
    unknown
}

/// Reads what is known of a range, page by page; the rest becomes 0. Returns whether all of it is known.
pub(crate) fn read_pages(memory: &dyn Memory, at: u64, into: &mut [u8]) -> bool {
    let (mut done, mut is_whole) = (0, true);
    while done < into.len() {
        let here = at.wrapping_add(done as u64);
        done += match memory.read_some(here, &mut into[done..]) {
            0 => {
                let left = (PAGE - here % PAGE).min((into.len() - done) as u64) as usize;
                into[done..done + left].fill(0);
                is_whole = false;
                left
            }
            known => known,
        };
    }
    is_whole
}

/// Returns the word of 64 bits at an offset of bytes; 0 beyond their end.
pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    let word = offset.checked_add(8).and_then(|end| bytes.get(offset..end));
    word.and_then(|word| word.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// As [`u64_at`], for 32 bits.
pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    let word = offset.checked_add(4).and_then(|end| bytes.get(offset..end));
    word.and_then(|word| word.try_into().ok()).map_or(0, u32::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages of memory by address.
    struct Pages(Vec<(u64, Vec<u8>)>);

    impl Memory for Pages {
        fn read_some(&self, at: u64, into: &mut [u8]) -> usize {
            let found = self.0.iter().find(|(low, bytes)| at >= *low && at - low < bytes.len() as u64);
            let Some((low, bytes)) = found else { return 0 };
            let rest = &bytes[(at - low) as usize..];
            let count = rest.len().min(into.len());
            into[..count].copy_from_slice(&rest[..count]);
            count
        }
    }

    #[test]
    fn a_read_continues_in_the_next_piece_and_names_the_first_unknown_byte() {
        let memory = Pages(vec![(0x1000, vec![1; 4096]), (0x2000, vec![2; 4096])]);
        assert_eq!(word(&memory, 0x1ffc), Ok(0x0202_0202_0101_0101));
        assert_eq!(word(&memory, 0x2ffc), Err(Unreadable { at: 0x3000, bytes: 4 }));
        assert_eq!(word(&memory, u64::MAX - 2), Err(Unreadable { at: u64::MAX - 2, bytes: 8 }));
    }

    /// Memory that knows where its next piece is.
    struct Pieces(Pages);

    impl Memory for Pieces {
        fn read_some(&self, at: u64, into: &mut [u8]) -> usize {
            self.0.read_some(at, into)
        }

        fn next_known(&self, at: u64) -> u64 {
            self.0.0.iter().map(|(low, _)| *low).find(|low| *low > at).unwrap_or(u64::MAX)
        }
    }

    /// Below the stack of the main thread, its range has megabytes that were never mapped.
    #[test]
    fn words_are_visited_after_a_hole_of_any_size() {
        let memory = Pieces(Pages(vec![(0x1000, vec![1; 8]), (1 << 44, vec![2; 8])]));
        let mut seen = Vec::new();
        for_each_word(&memory, 0, 1 << 46, |at, word| seen.push((at, word & 0xff)));
        assert_eq!(seen, [(0x1000, 1), (1 << 44, 2)]);
    }

    #[test]
    fn words_are_visited_on_both_sides_of_a_hole() {
        let memory = Pages(vec![(0x1000, vec![1; 4096]), (0x4000, vec![2; 4096])]);
        let mut seen = Vec::new();
        let unknown = for_each_word(&memory, 0x1ff1, 0x4010, |at, word| seen.push((at, word & 0xff)));
        assert_eq!(seen, [(0x1ff8, 1), (0x4000, 2), (0x4008, 2)]);
        assert_eq!(unknown, 0x2000);
        assert_eq!(for_each_word(&memory, 8, u64::MAX, |_, _| ()), u64::MAX - 8 - 2 * 4096);
        assert_eq!(for_each_word(&memory, u64::MAX - 3, u64::MAX, |_, _| ()), 0);
    }
}
