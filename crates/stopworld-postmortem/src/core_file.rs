//! ELF core files: the memory, the threads with their registers, and the mapped files of a process that has ended.
//!
//! A core has the memory that the process changed. What it only mapped from files (code, constants) is left out by default, so these
//! parts are read from the files. A file is used only if its beginning agrees with the page of it that the core has.
//!
//! A core may be damaged, or made to do harm: no number in it is believed (`.format.hostile`). A segment that reaches beyond the end of the
//! file is cut there, and bytes of the file count for one segment only, so the work is bounded by the size of the file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use object::LittleEndian;
use object::elf::{
    EM_X86_64, ET_CORE, FileHeader64, NT_AUXV, NT_FILE, NT_FPREGSET, NT_PRPSINFO, NT_PRSTATUS, NT_X86_XSTATE, PN_XNUM,
    PT_LOAD, PT_NOTE, ProgramHeader64, SectionHeader64,
};
use object::pod;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};

use super::memory::{Memory, StoppedThread, u32_at, u64_at};

/// Bytes at positions: a file, or a buffer.
pub trait Bytes {
    /// Returns the number of bytes.
    fn length(&self) -> u64;

    /// Reads bytes from `at` on. Returns their number, which is less than requested at the end or after an error.
    fn bytes_at(&self, at: u64, into: &mut [u8]) -> usize;
}

/// A file whose length is asked once.
#[derive(Debug)]
struct Disk {
    file: File,
    length: u64,
}

impl Disk {
    fn open(path: &Path) -> io::Result<Disk> {
        // To open a pipe would wait for its writer.
        if !std::fs::metadata(path)?.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        Disk::of(File::open(path)?)
    }

    fn of(file: File) -> io::Result<Disk> {
        let length = file.metadata()?.len();
        Ok(Disk { file, length })
    }
}

impl Bytes for Disk {
    fn length(&self) -> u64 {
        self.length
    }

    fn bytes_at(&self, at: u64, into: &mut [u8]) -> usize {
        let mut done = 0;
        while done < into.len() {
            match self.file.read_at(&mut into[done..], at.saturating_add(done as u64)) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        done
    }
}

impl Bytes for Vec<u8> {
    fn length(&self) -> u64 {
        self.len() as u64
    }

    fn bytes_at(&self, at: u64, into: &mut [u8]) -> usize {
        let rest = usize::try_from(at).ok().and_then(|at| self.get(at..)).unwrap_or_default();
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        count
    }
}

/// Why a file is not read as a core.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CoreError {
    /// The file can't be read.
    #[error("can't read the file: {0}")]
    Input(#[from] io::Error),
    /// The file is no ELF core.
    #[error("not an ELF core file of 64 bits: {0}")]
    NotCore(&'static str),
    /// The core of another machine.
    #[error("the core is of another machine (ELF machine {0}): only cores of x86-64 can be read")]
    Machine(u16),
}

/// A file that the process had mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedFile {
    /// The first address.
    pub start: u64,
    /// The address past the last byte.
    pub end: u64,
    /// The offset in the file, in bytes.
    pub offset: u64,
    /// The path.
    pub path: String,
}

/// A range of memory in the core.
#[derive(Clone, Copy, Debug)]
struct Segment {
    start: u64,
    offset: u64,
    /// The number of its bytes that are in the core.
    known: u64,
    is_writable: bool,
}

/// The file of a module, from which memory is read that the core does not have.
struct Module {
    /// By the path that the process had; the file itself may be another.
    path: String,
    contents: Result<Disk, String>,
}

/// A core file.
pub struct CoreFile {
    bytes: Box<dyn Bytes>,
    segments: Vec<Segment>,
    /// The memory that the core had before it was cut off, from the lowest address on. It was not as in the files.
    lost: Vec<Range<u64>>,
    /// The number of segments, those of which the core has nothing included.
    headers: usize,
    mapped: Vec<MappedFile>,
    modules: BTreeMap<String, Module>,
    threads: Vec<StoppedThread>,
    pid: i32,
    command: String,
    entry: u64,
    /// The number of bytes of notes that may still be read: segments of notes may overlap.
    notes_left: u64,
    complaints: Vec<String>,
}

/// The maximum number of program headers that are read.
const MOST_SEGMENTS: u64 = 1 << 20;
/// The maximum size of all segments of notes in bytes.
const LARGEST_NOTES: u64 = 256 << 20;
/// The maximum number of mapped files, and of threads.
const MOST_MAPPED: usize = 1 << 20;
const MOST_THREADS: usize = 1 << 20;
/// The maximum number of complaints that are kept.
const MOST_COMPLAINTS: usize = 64;
/// The maximum number of files that are open at a time. A process may map thousands, and the limit of descriptors is often 1024.
const MOST_OPEN: usize = 512;
/// The number of bytes at the beginning of a module that must agree with its file.
const COMPARED: usize = 4096;

/// In a note about a thread: the signal, the thread's id, and the general registers with their number.
const PR_SIGNAL: usize = 12;
const PR_TID: usize = 32;
const PR_REGISTERS: usize = 112;
const REGISTERS: usize = 27;
const RIP: usize = 16;
const RSP: usize = 19;
/// In the note about the process: its id, and its command line with the size in bytes.
const PS_PID: usize = 24;
const PS_ARGUMENTS: usize = 56;
const PS_ARGUMENTS_BYTES: usize = 80;
/// The key of the program's entry in the auxiliary vector.
const AT_ENTRY: u64 = 9;

type Header = FileHeader64<LittleEndian>;
type Programs = ProgramHeader64<LittleEndian>;
const LE: LittleEndian = LittleEndian;

impl std::fmt::Debug for CoreFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CoreFile")
            .field("segments", &self.segments.len())
            .field("pid", &self.pid)
            .finish_non_exhaustive()
    }
}

impl CoreFile {
    /// Opens a core. `program` is the file of the program, if it is not where the process had it.
    ///
    /// # Errors
    /// The file can't be read, or is no core of x86-64.
    pub fn open(path: &Path, program: Option<&Path>) -> Result<CoreFile, CoreError> {
        CoreFile::with_modules(Disk::open(path)?, program)
    }

    /// Reads a core from an open file, which must be seekable. `program` is as for [`open`](CoreFile::open).
    ///
    /// # Errors
    /// The file can't be read, or is no core of x86-64.
    pub fn of_file(file: File, program: Option<&Path>) -> Result<CoreFile, CoreError> {
        CoreFile::with_modules(Disk::of(file)?, program)
    }

    fn with_modules(disk: Disk, program: Option<&Path>) -> Result<CoreFile, CoreError> {
        let mut core = CoreFile::parse(Box::new(disk))?;
        core.open_modules(program);
        Ok(core)
    }

    /// Reads a core without its program and libraries.
    ///
    /// # Errors
    /// The bytes are no core of x86-64.
    pub fn parse(bytes: Box<dyn Bytes>) -> Result<CoreFile, CoreError> {
        let mut core = CoreFile {
            bytes,
            segments: Vec::new(),
            lost: Vec::new(),
            headers: 0,
            mapped: Vec::new(),
            modules: BTreeMap::new(),
            threads: Vec::new(),
            pid: 0,
            command: String::new(),
            entry: 0,
            notes_left: LARGEST_NOTES,
            complaints: Vec::new(),
        };
        let programs = core.program_headers()?;
        let programs: &[Programs] = pod::slice_from_all_bytes(&programs).unwrap_or_default();
        core.take_segments(programs);
        for notes in programs.iter().filter(|header| header.p_type(LE) == PT_NOTE) {
            core.take_notes(notes.p_offset(LE), notes.p_filesz(LE));
        }
        Ok(core)
    }

    fn complain(&mut self, complaint: String) {
        if self.complaints.len() < MOST_COMPLAINTS {
            self.complaints.push(complaint);
        }
    }

    /// Reads the table of program headers, as far as it is there.
    fn program_headers(&mut self) -> Result<Vec<u8>, CoreError> {
        let mut header = [0; size_of::<Header>()];
        let known = self.bytes.bytes_at(0, &mut header);
        if known < header.len() {
            return Err(CoreError::NotCore("it is shorter than an ELF header"));
        }
        let header = Header::parse(&header[..]).map_err(|_| CoreError::NotCore("it has no ELF header of 64 bits"))?;
        if header.endian().is_err() {
            return Err(CoreError::NotCore("it is big-endian"));
        }
        if header.e_type(LE) != ET_CORE {
            return Err(CoreError::NotCore("its ELF type is not ET_CORE"));
        }
        if header.e_machine(LE) != EM_X86_64 {
            return Err(CoreError::Machine(header.e_machine(LE)));
        }
        let mut count = u64::from(header.e_phnum(LE));
        if count == u64::from(PN_XNUM) {
            // The real number is in the first section header.
            let mut section = [0; size_of::<SectionHeader64<LittleEndian>>()];
            self.bytes.bytes_at(header.e_shoff(LE), &mut section);
            let section: Result<(&SectionHeader64<LittleEndian>, _), ()> = pod::from_bytes(&section);
            count = section.map_or(0, |(section, _)| u64::from(section.sh_info(LE)));
        }
        let size = size_of::<Programs>();
        if usize::from(header.e_phentsize(LE)) != size {
            return Err(CoreError::NotCore("its program headers have another size"));
        }
        let room = self.bytes.length().saturating_sub(header.e_phoff(LE)) / size as u64;
        if room < count {
            self.complain(format!("the file ends in its table of segments: {room} of {count} are there"));
            self.lost.push(0..u64::MAX);
        }
        let mut table = vec![0; room.min(count).min(MOST_SEGMENTS) as usize * size];
        let known = self.bytes.bytes_at(header.e_phoff(LE), &mut table);
        table.truncate(known / size * size);
        Ok(table)
    }

    fn take_segments(&mut self, programs: &[Programs]) {
        let length = self.bytes.length();
        let mut loads: Vec<Segment> = programs
            .iter()
            .filter(|header| header.p_type(LE) == PT_LOAD)
            .map(|header| Segment {
                start: header.p_vaddr(LE),
                offset: header.p_offset(LE),
                known: header.p_filesz(LE).min(header.p_memsz(LE)),
                is_writable: header.p_flags(LE) & object::elf::PF_W != 0,
            })
            .filter(|segment| segment.start.checked_add(segment.known).is_some())
            .collect();
        let (mut cut, mut missing) = (0_u64, 0_u64);
        for segment in &mut loads {
            let there = segment.known.min(length.saturating_sub(segment.offset));
            if there < segment.known {
                cut += 1;
                missing = missing.saturating_add(segment.known - there);
                self.lost.push(segment.start + there..segment.start + segment.known);
                segment.known = there;
            }
        }
        if cut > 0 {
            self.complain(format!(
                "the core is cut off at byte {length}: {missing} bytes of {cut} segments are missing"
            ));
        }
        // Bytes of the file count for one segment only, and so do addresses. One with a damaged size ends where the next begins.
        self.headers = loads.len();
        loads.retain(|segment| segment.known > 0);
        loads.sort_by_key(|segment| segment.offset);
        let mut twice = cut_overlaps(&mut loads, |segment| segment.offset);
        loads.sort_by_key(|segment| segment.start);
        twice += cut_overlaps(&mut loads, |segment| segment.start);
        if twice > 0 {
            self.complain(format!("{twice} segments overlap others, and end where those begin"));
        }
        self.segments = loads;
        self.lost.sort_by_key(|lost| lost.start);
        self.lost.dedup_by(|next, last| {
            let is_joined = next.start <= last.end;
            last.end = if is_joined { last.end.max(next.end) } else { last.end };
            is_joined
        });
    }

    fn take_notes(&mut self, offset: u64, bytes: u64) {
        let length = self.bytes.length();
        let there = bytes.min(length.saturating_sub(offset)).min(self.notes_left);
        self.notes_left -= there;
        if there < bytes {
            self.complain(format!("{} bytes of the notes at byte {offset} are missing", bytes - there));
        }
        let mut notes = vec![0; there as usize];
        let known = self.bytes.bytes_at(offset, &mut notes);
        let mut rest = &notes[..known];
        while rest.len() >= 12 {
            let (name, contents, kind) = (u32_at(rest, 0), u32_at(rest, 4), u32_at(rest, 8));
            let start = 12 + (name as usize).next_multiple_of(4);
            let Some(end) = start.checked_add(contents as usize).filter(|end| *end <= rest.len()) else {
                let at = offset + (known - rest.len()) as u64;
                self.complain(format!("the note at byte {at} is cut off, or damaged"));
                return;
            };
            let contents = &rest[start..end];
            self.take_note(kind, contents);
            rest = &rest[end.next_multiple_of(4).min(rest.len())..];
        }
    }

    fn take_note(&mut self, kind: u32, contents: &[u8]) {
        match kind {
            NT_PRSTATUS if contents.len() < PR_REGISTERS + 8 * REGISTERS => {
                self.complain("a note about a thread is too short".to_owned());
            }
            NT_PRSTATUS if self.threads.len() < MOST_THREADS => {
                let general: Vec<u64> = (0..REGISTERS).map(|i| u64_at(contents, PR_REGISTERS + 8 * i)).collect();
                self.threads.push(StoppedThread {
                    tid: u32_at(contents, PR_TID) as i32,
                    signal: (u32_at(contents, PR_SIGNAL) & 0xffff) as i32,
                    rsp: general[RSP],
                    rip: general[RIP],
                    general,
                    extended: Vec::new(),
                });
            }
            // Both follow the note about their thread; the second has what is in the first.
            NT_FPREGSET | NT_X86_XSTATE => {
                if let Some(thread) = self.threads.last_mut()
                    && contents.len() > thread.extended.len() * 8
                {
                    thread.extended =
                        contents.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
                }
            }
            NT_PRPSINFO => {
                self.pid = u32_at(contents, PS_PID) as i32;
                let arguments = contents.get(PS_ARGUMENTS..).unwrap_or_default();
                let arguments = &arguments[..arguments.len().min(PS_ARGUMENTS_BYTES)];
                let end = arguments.iter().position(|byte| *byte == 0).unwrap_or(arguments.len());
                self.command = String::from_utf8_lossy(&arguments[..end]).trim_end().to_owned();
            }
            NT_AUXV => {
                let pairs = contents.as_chunks::<16>().0.iter();
                let entry = pairs.map(|pair| (u64_at(pair, 0), u64_at(pair, 8))).find(|(key, _)| *key == AT_ENTRY);
                self.entry = entry.map_or(0, |(_, entry)| entry);
            }
            // There is one.
            NT_FILE if self.mapped.is_empty() => self.take_files(contents),
            _ => {}
        }
    }

    /// Reads the list of mapped files: their number, the size of a page, three words for each, then the paths.
    fn take_files(&mut self, contents: &[u8]) {
        let (count, page) = (u64_at(contents, 0), u64_at(contents, 8));
        let room = (contents.len() / 24).min(MOST_MAPPED) as u64;
        let mut paths = usize::try_from(count.saturating_mul(24).saturating_add(16))
            .ok()
            .and_then(|start| contents.get(start..))
            .unwrap_or_default()
            .split(|byte| *byte == 0);
        for index in 0..count.min(room) as usize {
            let Some(path) = paths.next() else { break };
            let at = 16 + 24 * index;
            let file = MappedFile {
                start: u64_at(contents, at),
                end: u64_at(contents, at + 8),
                offset: u64_at(contents, at + 16).saturating_mul(page),
                path: String::from_utf8_lossy(path).into_owned(),
            };
            if file.start < file.end {
                self.mapped.push(file);
            }
        }
        self.mapped.sort_by_key(|file| file.start);
    }

    /// Opens the files of the modules whose memory the core does not have.
    fn open_modules(&mut self, program: Option<&Path>) {
        let is_program = |mapped: &&MappedFile| mapped.start <= self.entry && self.entry < mapped.end;
        let program_path = self.mapped.iter().find(is_program).map(|mapped| mapped.path.clone());
        if let (Some(given), None) = (program, &program_path) {
            let given = given.display();
            self.complain(format!("the core does not say where its program was mapped: {given} is not used"));
        }
        let mut firsts: Vec<MappedFile> = self.mapped.iter().filter(|mapped| mapped.offset == 0).cloned().collect();
        firsts.sort_by_key(|mapped| program_path.as_ref() != Some(&mapped.path));
        let mut opened = 0;
        for mapped in firsts {
            if self.modules.contains_key(&mapped.path) {
                continue;
            }
            let is_program = program_path.as_ref() == Some(&mapped.path);
            let file = program.filter(|_| is_program).map_or_else(|| PathBuf::from(&mapped.path), Path::to_owned);
            let contents = match opened < MOST_OPEN {
                true => self.open_module(&mapped, &file),
                false => Err(format!("{}: {MOST_OPEN} files are open already", file.display())),
            };
            let contents = match contents {
                Ok(Some(disk)) => Ok(disk),
                // Memory that was mapped from data has no types.
                Ok(None) if !is_program => continue,
                Ok(None) => Err(format!("{}: it is not an ELF file", file.display())),
                Err(reason) => Err(reason),
            };
            opened += usize::from(contents.is_ok());
            let path = mapped.path.clone();
            self.modules.insert(path.clone(), Module { path, contents });
        }
    }

    /// Opens a file if it is the one that was mapped, as far as the core has its beginning. `None` if it is not an ELF file.
    fn open_module(&self, mapped: &MappedFile, file: &Path) -> Result<Option<Disk>, String> {
        let shown = file.display();
        let disk = Disk::open(file).map_err(|error| format!("{shown}: {error}"))?;
        let mut magic = [0; 4];
        // A file of length 0 is empty, or the kernel makes it up: to read that may wait.
        if disk.length == 0 || disk.bytes_at(0, &mut magic) < magic.len() || magic != object::elf::ELFMAG {
            return Ok(None);
        }
        let mut in_core = [0; COMPARED];
        let known = self.in_segments(mapped.start, &mut in_core);
        let mut in_file = [0; COMPARED];
        let there = disk.bytes_at(0, &mut in_file[..known]);
        match in_core[..known] == in_file[..there] {
            true => Ok(Some(disk)),
            false => Err(format!("{shown}: it is not the file that the process had mapped")),
        }
    }

    /// Returns the segment that covers an address.
    fn segment(&self, at: u64) -> Option<&Segment> {
        let next = self.segments.partition_point(|segment| segment.start <= at);
        self.segments[..next].last().filter(|segment| at - segment.start < segment.known)
    }

    /// Reads what the core itself has.
    fn in_segments(&self, at: u64, into: &mut [u8]) -> usize {
        let Some(segment) = self.segment(at) else { return 0 };
        let within = at - segment.start;
        let known = segment.known.saturating_sub(within).min(into.len() as u64) as usize;
        self.bytes.bytes_at(segment.offset.saturating_add(within), &mut into[..known])
    }

    /// Reads what the core never had from the file that was mapped.
    fn in_files(&self, at: u64, into: &mut [u8]) -> usize {
        let Some(mapped) = self.mapped_at(at) else { return 0 };
        let next_lost = self.lost.partition_point(|lost| lost.start <= at);
        if self.lost[..next_lost].last().is_some_and(|lost| lost.contains(&at)) {
            return 0;
        }
        let module = self.modules.get(&mapped.path);
        let Some(disk) = module.and_then(|module| module.contents.as_ref().ok()) else { return 0 };
        let within = at - mapped.start;
        let mut known = (mapped.end - at).min(into.len() as u64) as usize;
        // Where the core has the memory again, it counts.
        let next = self.segments.partition_point(|segment| segment.start <= at);
        let next = self.segments.get(next).map(|segment| segment.start);
        for next in next.into_iter().chain(self.lost.get(next_lost).map(|lost| lost.start)) {
            known = known.min((next - at).try_into().unwrap_or(usize::MAX));
        }
        disk.bytes_at(mapped.offset.saturating_add(within), &mut into[..known])
    }

    fn mapped_at(&self, at: u64) -> Option<&MappedFile> {
        let next = self.mapped.partition_point(|mapped| mapped.start <= at);
        self.mapped[..next].last().filter(|mapped| at < mapped.end)
    }

    /// Returns why memory is not known, if it was mapped from a file that could not be used.
    pub fn reason(&self, at: u64) -> Option<&str> {
        let module = self.modules.get(&self.mapped_at(at)?.path)?;
        module.contents.as_ref().err().map(String::as_str)
    }

    /// Returns the threads. The first is the one that the signal killed.
    pub fn threads(&self) -> &[StoppedThread] {
        &self.threads
    }

    /// Returns the process id; 0 if the core does not say.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Returns the beginning of the command line; empty if the core does not say.
    pub fn command(&self) -> &str {
        &self.command
    }

    /// Returns the mapped files, in the order of their addresses.
    pub fn mapped(&self) -> &[MappedFile] {
        &self.mapped
    }

    /// Returns the path of the program, if the core says.
    pub fn program(&self) -> Option<&str> {
        self.mapped_at(self.entry).map(|mapped| mapped.path.as_str())
    }

    /// Returns what could not be read of the core itself.
    pub fn complaints(&self) -> &[String] {
        &self.complaints
    }

    /// Returns the files that could not be used, each with the reason.
    pub fn unusable_files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.modules
            .values()
            .filter_map(|module| Some((module.path.as_str(), module.contents.as_ref().err()?.as_str())))
    }

    /// Returns the number of bytes of memory in the core, and the number of segments.
    pub fn size(&self) -> (u64, usize) {
        (self.segments.iter().map(|segment| segment.known).sum(), self.headers)
    }

    /// Returns the addresses at which ELF files may begin in memory.
    pub(crate) fn possible_images(&self) -> Vec<u64> {
        let firsts = self.mapped.iter().filter(|mapped| mapped.offset == 0).map(|mapped| mapped.start);
        let mut all: Vec<u64> = firsts.chain(self.segments.iter().map(|segment| segment.start)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Returns the addresses in writable memory at which these eight bytes are, aligned to 8.
    pub(crate) fn places_of(&self, wanted: u64) -> Vec<u64> {
        const MOST: usize = 64;
        let mut found = Vec::new();
        for segment in self.segments.iter().filter(|segment| segment.is_writable) {
            super::memory::for_each_word(self, segment.start, segment.start + segment.known, |at, word| {
                if word == wanted && found.len() < MOST {
                    found.push(at);
                }
            });
        }
        found
    }
}

/// Cuts each segment where the next one begins. They are sorted by `begin`. Returns the number of segments that were cut.
fn cut_overlaps(segments: &mut Vec<Segment>, begin: impl Fn(&Segment) -> u64) -> u64 {
    let mut cut = 0;
    for at in 1..segments.len() {
        let room = begin(&segments[at]) - begin(&segments[at - 1]);
        if segments[at - 1].known > room {
            segments[at - 1].known = room;
            cut += 1;
        }
    }
    segments.retain(|segment| segment.known > 0);
    cut
}

impl Memory for CoreFile {
    fn read_some(&self, at: u64, into: &mut [u8]) -> usize {
        match self.in_segments(at, into) {
            0 => self.in_files(at, into),
            known => known,
        }
    }

    fn is_left_out(&self, at: u64) -> bool {
        self.reason(at).is_some()
    }

    fn next_known(&self, at: u64) -> u64 {
        let segment = self.segments.partition_point(|segment| segment.start <= at);
        let mapped = self.mapped.partition_point(|mapped| mapped.start <= at);
        let segment = self.segments.get(segment).map_or(u64::MAX, |segment| segment.start);
        let mapped = self.mapped.get(mapped).map_or(u64::MAX, |mapped| mapped.start);
        // Within a mapped file, the bytes that are missing need not be the last.
        let page = super::memory::next_page(at);
        if self.mapped_at(at).is_some() { page } else { segment.min(mapped).max(page) }
    }
}
