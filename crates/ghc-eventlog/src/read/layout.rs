//! The events that are known: their sizes, and their text.
//!
//! A layout is a row of [`KNOWN`]: the type's number, the size of its payload, and the text of `ghc-events show` with pieces
//! of the payload inserted. A type of fixed size may have several layouts, since GHC added fields to it. The log's declaration
//! selects the longest layout that is not longer than the declared size; the rest of the payload is skipped. A type that is declared
//! shorter than every layout, or variable where the layout is fixed, is printed with its description only. `ghc-events` does the same.

/// Offsets in the payload of a block marker.
pub(super) const BLOCK_SIZE: usize = 0;
pub(super) const BLOCK_CAP: usize = 12;

/// The types that the readers interpret themselves.
pub(super) const BLOCK_MARKER: u16 = 18;

/// The size of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    Fixed(u16),
    /// Stored in each event, but at least this.
    AtLeast(u16),
}

/// A known type of event.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) id: u16,
    pub(super) size: Size,
    /// Its text; braces enclose names of [pieces](Piece::named).
    pub(super) text: &'static str,
}

/// A piece of an event's text. Numbers are decimal unless stated otherwise; the `u8` is an offset in the payload.
#[derive(Clone, Copy, Debug)]
pub(super) enum Piece {
    Say(&'static str),
    Byte(u8),
    Short(u8),
    Word(u8),
    Long(u8),
    /// Eight bytes, plus one.
    OneMore(u8),
    /// Eight bytes, hexadecimal.
    Hex(u8),
    /// Four bytes, hexadecimal.
    HexWord(u8),
    /// Two to the power of a byte.
    Power(u8),
    /// The rest of the payload, a UTF-8 text.
    Rest(u8),
    /// The rest of the payload, a Latin-1 text.
    Latin(u8),
    /// A Latin-1 text, then its number.
    Interned,
    /// Texts separated by zeros, printed as a Haskell list.
    List(u8),
    /// Bytes; those that are not printable text are printed as dots.
    Printable,
    /// The offset at which zero-terminated texts begin.
    From(u8),
    /// The next zero-terminated text.
    Next,
    /// The eight bytes after the texts, hexadecimal; 0 if there are none.
    NextHex,
    /// The flags after the texts.
    Caf,
    /// The breakdown of a heap profile.
    Breakdown(u8),
    /// Seven texts; those that are empty are left out.
    Filters,
    /// The source of a closure's description.
    InfoTable,
    /// A number of cost centres, then that many numbers.
    Stack(u8),
    /// Why a thread stopped: the reason and its argument.
    Status(u8),
    /// The kind of a capability set.
    CapsetKind(u8),
    /// The kind of a message of a parallel machine.
    Tag(u8),
}

/// Reads this many bytes at this offset; zeros if they are missing.
#[inline(always)]
pub(super) fn bytes_at<const N: usize>(payload: &[u8], at: usize) -> [u8; N] {
    payload.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}

/// Returns whether the fields of this type's events mark their own ends: a text ends with a zero, a stack begins with its
/// depth. GHC's library reads these events by their fields and ignores the stored length, so it reads
/// a log to the end even if that length is damaged.
pub(super) fn ends_itself(id: u16) -> bool {
    matches!(id, 160 | 161 | 163 | 164 | 167 | 169)
}

/// Returns the length of the fields that these bytes begin with; `None` if the fields do not end within them.
pub(super) fn own_length(id: u16, payload: &[u8]) -> Option<usize> {
    let texts = |at: usize, count: usize| {
        (0..count).try_fold(at, |at, _| Some(at + payload.get(at..)?.iter().position(|&byte| byte == 0)? + 1))
    };
    let stack = |at: usize| Some(at + 1 + 4 * usize::from(*payload.get(at)?));
    let length = match id {
        160 => texts(13, 7),
        161 => texts(4, 3).map(|end| end + 1),
        163 => stack(9),
        164 => texts(9, 1),
        167 => stack(12),
        _ => texts(8, 6),
    };
    length.filter(|&length| length <= payload.len() && length <= usize::from(u16::MAX))
}

/// Returns the layout of a type that is declared with this size; `None` is a variable size.
pub(super) fn declared(id: u16, size: Option<u16>) -> Option<&'static Layout> {
    of(id)
        .filter(|layout| match (layout.size, size) {
            (Size::Fixed(known), Some(declared)) => known <= declared,
            (Size::AtLeast(_), None) => true,
            _ => false,
        })
        .last()
}

/// The layouts of a type, shortest first.
fn of(id: u16) -> impl Iterator<Item = &'static Layout> {
    let first = KNOWN.partition_point(|layout| layout.id < id);
    KNOWN[first..].iter().take_while(move |layout| layout.id == id)
}

const fn fixed(id: u16, bytes: u16, text: &'static str) -> Layout {
    Layout { id, size: Size::Fixed(bytes), text }
}

const fn variable(id: u16, least: u16, text: &'static str) -> Layout {
    Layout { id, size: Size::AtLeast(least), text }
}

/// Sorted by number, then by size.
pub(super) static KNOWN: &[Layout] = &[
    // Threads.
    fixed(0, 4, "creating thread {u32@0}"),
    fixed(1, 4, "running thread {u32@0}"),
    fixed(2, 10, "stopping thread {u32@0} ({status@4})"),
    fixed(3, 4, "thread {u32@0} is runnable"),
    fixed(4, 6, "migrating thread {u32@0} to cap {u16@4}"),
    fixed(8, 6, "waking up thread {u32@0} on cap {u16@4}"),
    fixed(9, 0, "starting GC"),
    fixed(10, 0, "finished GC"),
    fixed(11, 0, "requesting sequential GC"),
    fixed(12, 0, "requesting parallel GC"),
    fixed(15, 4, "creating spark thread {u32@0}"),
    variable(16, 0, "{text@0}"),
    fixed(17, 2, "startup: {u16@0} capabilities"),
    fixed(BLOCK_MARKER, 14, "event block: cap {u16@12}, end time: {u64@4}\n"),
    variable(19, 0, "{text@0}"),
    fixed(20, 0, "GC idle"),
    fixed(21, 0, "GC working"),
    fixed(22, 0, "GC done"),
    variable(23, 0, "compiler version is {latin@0}"),
    variable(24, 0, "program invocation: {latin@0}"),
    // The program and its capabilities.
    fixed(25, 6, "created capset {u32@0} of type {capset@4}"),
    fixed(26, 4, "deleted capset {u32@0}"),
    fixed(27, 6, "assigned cap {u16@4} to capset {u32@0}"),
    fixed(28, 6, "removed cap {u16@4} from capset {u32@0}"),
    variable(29, 4, "capset {u32@0}: RTS version \"{text@4}\""),
    variable(30, 4, "capset {u32@0}: args: {list@4}"),
    variable(31, 4, "capset {u32@0}: env: {list@4}"),
    fixed(32, 8, "capset {u32@0}: pid {u32@4}"),
    fixed(33, 8, "capset {u32@0}: parent pid {u32@4}"),
    fixed(
        34,
        56,
        "spark stats: {u64@0} created, {u64@24} converted, {u64@48} remaining ({u64@16} overflowed, {u64@8} dud, \
         {u64@32} GC'd, {u64@40} fizzled)",
    ),
    fixed(35, 0, "spark created"),
    fixed(36, 0, "dud spark discarded"),
    fixed(37, 0, "overflowed spark discarded"),
    fixed(38, 0, "running a local spark"),
    fixed(39, 2, "stealing a spark from cap {u16@0}"),
    fixed(40, 0, "spark fizzled"),
    fixed(41, 0, "spark GCed"),
    variable(42, 4, "{interned}"),
    fixed(43, 16, "capset {u32@0}: wall clock time {u64@4}s {u32@12}ns (unix epoch)"),
    variable(44, 4, "thread {u32@0} has label \"{text@4}\""),
    fixed(45, 2, "created cap {u16@0}"),
    fixed(46, 2, "deleted cap {u16@0}"),
    fixed(47, 2, "disabled cap {u16@0}"),
    fixed(48, 2, "enabled cap {u16@0}"),
    // Collections and the heap.
    fixed(49, 12, "allocated on heap capset {u32@0}: {u64@4} total bytes till now"),
    fixed(50, 12, "size of heap capset {u32@0}: {u64@4} bytes"),
    fixed(51, 12, "live data in heap capset {u32@0}: {u64@4} bytes"),
    fixed(
        52,
        38,
        "heap stats for heap capset {u32@0}: generations {u16@4}, {u64@6} bytes max heap size, {u64@14} bytes \
         alloc area size, {u64@22} bytes mblock size, {u64@30} bytes block size",
    ),
    fixed(
        53,
        50,
        "GC stats for heap capset {u32@0}: generation {u16@4}, {u64@6} bytes copied, {u64@14} bytes slop, \
         {u64@22} bytes fragmentation, {u32@30} par threads, {u64@34} bytes max par copied, {u64@42} bytes total \
         par copied",
    ),
    fixed(
        53,
        58,
        "GC stats for heap capset {u32@0}: generation {u16@4}, {u64@6} bytes copied, {u64@14} bytes slop, \
         {u64@22} bytes fragmentation, {u32@30} par threads, {u64@34} bytes max par copied, {u64@42} bytes total \
         par copied, {u64@50} bytes balanced par copied",
    ),
    fixed(54, 0, "all caps stopped for GC"),
    // Threads of the operating system.
    fixed(55, 18, "task 0x{hex64@0} created on cap {u16@8} with OS kernel thread {u64@10}"),
    fixed(56, 12, "task 0x{hex64@0} migrated from cap {u16@8} to cap {u16@10}"),
    fixed(57, 8, "task 0x{hex64@0} deleted"),
    variable(58, 0, "marker: {text@0}"),
    // Eden, a parallel Haskell.
    fixed(60, 0, "starting to receive"),
    fixed(61, 0, "stop receiving"),
    fixed(62, 4, "creating process {u32@0}"),
    fixed(63, 4, "killing process {u32@0}"),
    fixed(64, 8, "assigning thread {u32@0} to process {u32@4}"),
    fixed(65, 10, "creating machine {u16@0} at {u64@2}"),
    fixed(66, 2, "killing machine {u16@0}"),
    fixed(
        67,
        19,
        "sending message with tag {tag@0} from process {u32@1}, thread {u32@5} to machine {u16@9}, process \
         {u32@11} on inport {u32@15}",
    ),
    fixed(
        68,
        23,
        "receiving message with tag {tag@0} at process {u32@1}, inport {u32@5} from machine {u16@9}, process \
         {u32@11}, thread {u32@15} with size {u32@19}",
    ),
    fixed(
        69,
        17,
        "sending/receiving message with tag {tag@0} from process {u32@1}, thread {u32@5} to process {u32@9} on \
         inport {u32@13}",
    ),
    fixed(90, 16, "memory returned (mblocks): current({u32@4}) needed({u32@8}) returned({u32@12})"),
    fixed(91, 12, "blocks size of heap capset {u32@0}: {u64@4} bytes"),
    // Mercury.
    fixed(100, 12, "Start a parallel conjunction 0x{hex64@0}, static_id: {u32@8}"),
    fixed(101, 8, "End par conjunction: 0x{hex64@0}"),
    fixed(102, 8, "End par conjunct: 0x{hex64@0}"),
    fixed(103, 12, "Create spark for conjunction: 0x{hex64@0} spark: 0x{hex32@8}"),
    fixed(104, 12, "Create future 0x{hex64@0} named {u32@8}"),
    fixed(105, 8, "Wait didn't suspend for future: 0x{hex64@0}"),
    fixed(106, 8, "Wait suspended on future: 0x{hex64@0}"),
    fixed(107, 8, "Signaled future 0x{hex64@0}"),
    fixed(108, 0, "Looking for global thread to resume"),
    fixed(109, 0, "Trying to steal a spark"),
    fixed(110, 4, "Releasing thread {u32@0} to the free pool"),
    fixed(111, 0, "Capability going to sleep"),
    fixed(112, 0, "Looking for a local spark to execute"),
    fixed(113, 0, "About to call the program entry point"),
    // perf.
    variable(140, 4, "perf event {u32@0} named \"{text@4}\""),
    fixed(141, 20, "perf event counter {u32@0} incremented by {u64+1@12} in OS thread {u64@4}"),
    fixed(142, 12, "perf event tracepoint {u32@0} reached in OS thread {u64@4}"),
    // Heap and time profiles.
    variable(
        160,
        20,
        "start heap profiling {u8@0} at sampling period {u64@1} broken down by \
         {breakdown@9}{from@13}{next-filters}",
    ),
    variable(161, 8, "cost centre {u32@0} {from@4}{next} in {next} at {next}{next-caf}"),
    fixed(162, 8, "start heap prof sample {u64@0}"),
    variable(163, 10, "heap prof sample {u8@0}, residency {u64@1}, cost centre stack {stack@9}"),
    variable(164, 10, "heap prof sample {u8@0}, residency {u64@1}, label {from@9}{next}"),
    fixed(165, 8, "end prof sample {u64@0}"),
    fixed(166, 16, "start heap prof sample {u64@0} at time {u64@8}"),
    variable(167, 13, "cap no {u16@2}, prof sample {u64@4}, cost centre stack {stack@12}"),
    fixed(168, 8, "start time profiling, tick interval {u64@0} (ns)"),
    variable(169, 14, "{info-table}"),
    variable(181, 0, "binary message {printable}"),
    // The non-moving collector.
    fixed(200, 0, "concurrent mark began"),
    fixed(201, 4, "concurrent mark ended: marked {u32@0} objects"),
    fixed(202, 0, "post-mark synchronization began"),
    fixed(203, 0, "post-mark synchronization ended"),
    fixed(204, 0, "concurrent sweep began"),
    fixed(205, 0, "concurrent sweep ended"),
    fixed(206, 2, "update remembered set flushed by {u16@0}"),
    fixed(
        207,
        13,
        "nonmoving heap census {2^u8@0}: {u32@1} active segments, {u32@5} filled segments, {u32@9} live blocks",
    ),
    fixed(
        207,
        14,
        "nonmoving heap census {u16@0}: {u32@2} active segments, {u32@6} filled segments, {u32@10} live blocks",
    ),
    fixed(208, 8, "nonmoving segments pruned: {u32@0} pruned segments, {u32@4} free segments retained"),
    // Ticky-ticky counters.
    variable(
        210,
        12,
        "ticky counter definition {u64@0}, arity: {u16@8}, def kinds: {from@10}{next}, name: {next}, itbl: \
         {next-hex64}",
    ),
    fixed(211, 32, "ticky counter sample {u64@0}: entry count: {u64@8}, {u64@16} allocs, {u64@24} allocd"),
    fixed(212, 0, "ticky begin counter sample"),
];

impl Layout {
    /// Splits the text into its pieces.
    pub(super) fn pieces(&self) -> Box<[Piece]> {
        let mut pieces = Vec::new();
        let mut rest = self.text;
        while let Some((words, opened)) = rest.split_once('{') {
            let (name, behind) = opened.split_once('}').unwrap_or((opened, ""));
            pieces.extend((!words.is_empty()).then_some(Piece::Say(words)));
            pieces.extend(Piece::named(name));
            rest = behind;
        }
        pieces.extend((!rest.is_empty()).then_some(Piece::Say(rest)));
        pieces.into()
    }
}

impl Piece {
    fn named(name: &str) -> Option<Piece> {
        let (name, at) = name.split_once('@').unwrap_or((name, "0"));
        let at = at.parse().ok()?;
        Some(match name {
            "u8" => Piece::Byte(at),
            "u16" => Piece::Short(at),
            "u32" => Piece::Word(at),
            "u64" => Piece::Long(at),
            "u64+1" => Piece::OneMore(at),
            "hex64" => Piece::Hex(at),
            "hex32" => Piece::HexWord(at),
            "2^u8" => Piece::Power(at),
            "text" => Piece::Rest(at),
            "latin" => Piece::Latin(at),
            "interned" => Piece::Interned,
            "list" => Piece::List(at),
            "printable" => Piece::Printable,
            "from" => Piece::From(at),
            "next" => Piece::Next,
            "next-hex64" => Piece::NextHex,
            "next-caf" => Piece::Caf,
            "next-filters" => Piece::Filters,
            "breakdown" => Piece::Breakdown(at),
            "info-table" => Piece::InfoTable,
            "stack" => Piece::Stack(at),
            "status" => Piece::Status(at),
            "capset" => Piece::CapsetKind(at),
            "tag" => Piece::Tag(at),
            _ => return None,
        })
    }

    /// The end of the bytes that this piece needs.
    #[cfg(test)]
    fn end(self) -> usize {
        let (at, bytes) = match self {
            Piece::Byte(at) | Piece::Power(at) | Piece::Tag(at) | Piece::Stack(at) => (at, 1),
            Piece::Short(at) | Piece::CapsetKind(at) => (at, 2),
            Piece::Word(at) | Piece::HexWord(at) | Piece::Breakdown(at) => (at, 4),
            Piece::Status(at) => (at, 6),
            Piece::Long(at) | Piece::OneMore(at) | Piece::Hex(at) => (at, 8),
            Piece::Rest(at) | Piece::Latin(at) | Piece::List(at) | Piece::From(at) => (at, 0),
            _ => (0, 0),
        };
        usize::from(at) + bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_says_only_what_its_payload_has() {
        for layout in KNOWN {
            let size = match layout.size {
                Size::Fixed(size) | Size::AtLeast(size) => usize::from(size),
            };
            let pieces = layout.pieces();
            assert_eq!(
                pieces.iter().filter(|piece| !matches!(piece, Piece::Say(_))).count(),
                layout.text.matches('{').count()
            );
            for piece in pieces {
                assert!(piece.end() <= size, "{}: {piece:?}", layout.id);
            }
        }
        assert!(KNOWN.is_sorted_by_key(|layout| (
            layout.id,
            match layout.size {
                Size::Fixed(size) | Size::AtLeast(size) => size,
            }
        )));
    }

    /// A log's declaration selects the longest layout that is not longer.
    #[test]
    fn a_declared_size_chooses_the_layout() {
        let size = |size| declared(53, size).map(|layout| layout.size);
        assert_eq!(size(Some(49)), None);
        assert_eq!(size(Some(50)), Some(Size::Fixed(50)));
        assert_eq!(size(Some(57)), Some(Size::Fixed(50)));
        assert_eq!(size(Some(70)), Some(Size::Fixed(58)));
        assert_eq!(size(None), None);
        assert!(declared(16, Some(4)).is_none() && declared(16, None).is_some() && declared(59, Some(0)).is_none());
    }
}
