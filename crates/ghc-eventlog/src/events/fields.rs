//! The types of fields: how each is encoded, and how it is decoded.
//!
//! Numbers are big-endian. Texts are borrowed from the event as bytes, since those of a profile may contain any bytes. A text of a damaged
//! event may lack its terminating zero: it ends where the event ends.

use std::ops::Deref;

use super::descriptor::FieldKind;
use crate::format::{FILTERS, MOST_CENTRES};
use trace_io::bytes::Bytes;

/// A type of field.
pub(super) trait FieldType {
    const KIND: FieldKind;

    /// Appends the field.
    fn encode(&self, to: &mut Bytes);

    /// Returns how many bytes [`encode`](Self::encode) appends.
    #[inline]
    fn size(&self) -> usize {
        Self::KIND.least().into()
    }
}

/// A type of field with a fixed size.
pub(super) trait FixedField: FieldType {
    /// Fills `place`, which has the field's size.
    fn store(self, place: &mut [u8]);
}

/// Reads a field from the front of a payload.
pub(super) trait Decode<'a>: Sized {
    /// Returns `None` if the payload is too short. Removes the field from `payload`.
    fn decode(payload: &mut &'a [u8]) -> Option<Self>;
}

macro_rules! numbers {
    ($($type:ty = $kind:ident;)+) => {$(
        impl FieldType for $type {
            const KIND: FieldKind = FieldKind::$kind;

            #[inline(always)]
            fn encode(&self, to: &mut Bytes) {
                to.put(&self.to_be_bytes());
            }
        }

        impl FixedField for $type {
            #[inline(always)]
            fn store(self, place: &mut [u8]) {
                place.copy_from_slice(&self.to_be_bytes());
            }
        }

        impl<'a> Decode<'a> for $type {
            #[inline(always)]
            fn decode(payload: &mut &'a [u8]) -> Option<$type> {
                let (bytes, rest) = payload.split_first_chunk()?;
                *payload = rest;
                Some(<$type>::from_be_bytes(*bytes))
            }
        }
    )+};
}

numbers! {
    u8 = U8;
    u16 = U16;
    u32 = U32;
    u64 = U64;
}

/// Declares types of numbers in which some numbers have a defined meaning. A value of such a type may also be a number without a meaning.
macro_rules! codes {
    ($(
        $(#[doc = $doc:literal])+
        $name:ident($number:ty) { $($(#[doc = $cdoc:literal])+ $constant:ident = $value:literal $text:literal;)+ }
    )+) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $name(pub $number);

        impl $name {
            $(
                $(#[doc = $cdoc])+
                pub const $constant: $name = $name($value);
            )+

            /// Returns the text that `ghc-events` prints, if the number has a meaning.
            pub fn text(self) -> Option<&'static str> {
                Some(match self.0 {
                    $($value => $text,)+
                    _ => return None,
                })
            }
        }

        impl FieldType for $name {
            const KIND: FieldKind = FieldKind::$name;

            #[inline(always)]
            fn encode(&self, to: &mut Bytes) {
                self.0.encode(to);
            }
        }

        impl FixedField for $name {
            #[inline(always)]
            fn store(self, place: &mut [u8]) {
                self.0.store(place);
            }
        }

        impl<'a> Decode<'a> for $name {
            #[inline(always)]
            fn decode(payload: &mut &'a [u8]) -> Option<$name> {
                Decode::decode(payload).map($name)
            }
        }
    )+};
}

codes! {
    /// Why a thread stopped. The numbers from 7 on are blocked threads and state what the thread waits for; 19 and 20 are exceptions that
    /// are documented below.
    StopReason(u16) {
        /// No reason.
        NONE = 0 "No stop thread status";
        /// The thread needs more heap.
        HEAP_OVERFLOW = 1 "heap overflow";
        /// The thread needs a larger stack.
        STACK_OVERFLOW = 2 "stack overflow, size";
        /// The thread yields to others.
        YIELDING = 3 "thread yielding";
        /// The thread has ended.
        FINISHED = 5 "thread finished";
        /// The thread calls a foreign function.
        FOREIGN_CALL = 6 "making a foreign call";
        /// An empty `MVar`, or a full one.
        MVAR = 7 "blocked on an MVar";
        /// A value that another thread computes.
        BLACK_HOLE = 8 "blocked on black hole owned by thread";
        /// Input.
        READ = 9 "blocked on I/O read";
        /// Output.
        WRITE = 10 "blocked on I/O write";
        /// The end of a delay.
        DELAY = 11 "blocked on threadDelay";
        /// A change of a transaction's variables.
        STM = 12 "blocked in STM retry";
        /// An asynchronous operation (Windows).
        DO_PROC = 13 "blocked on asyncDoProc";
        /// A thread that must receive an exception.
        THROW_TO = 18 "blocked in throwTo";
        /// The thread moves to another capability.
        MIGRATING = 19 "No stop thread status";
        /// An `MVar` that is to be read, not taken.
        MVAR_READ = 20 "blocked reading an MVar";
    }

    /// What the capabilities of a set have in common.
    CapsetKind(u16) {
        /// Defined by the program.
        CUSTOM = 1 "CapsetCustom";
        /// The threads of a process.
        OS_PROCESS = 2 "CapsetOsProcess";
        /// Capabilities whose times come from one clock.
        CLOCK_DOMAIN = 3 "CapsetClockDomain";
    }

    /// The property of objects by which a heap profile groups live bytes.
    Breakdown(u32) {
        /// The cost centre stack under which the objects were allocated.
        COST_CENTRE = 1 "cost centre";
        /// The module of that cost centre stack.
        MODULE = 2 "module";
        /// The closure description.
        CLOSURE = 3 "closure description";
        /// The type.
        TYPE = 4 "type description";
        /// The retainer set.
        RETAINER = 5 "retainer";
        /// The stage in the life of an object.
        BIOGRAPHY = 6 "biography";
        /// The closure type.
        CLOSURE_TYPE = 7 "closure type";
        /// The info table.
        INFO_TABLE = 8 "info table";
        /// The era of the allocation.
        ERA = 9 "era";
    }

    /// The kind of a message between Eden machines.
    MessageTag(u8) {
        /// A machine is ready.
        READY = 0x50 "Ready";
        /// A new machine.
        NEW_PE = 0x51 "NewPE";
        /// The numbers of the machines.
        PE_TIDS = 0x52 "PETIDS";
        /// The end of the program.
        FINISH = 0x53 "Finish";
        /// A machine failed.
        FAIL_PE = 0x54 "FailPE";
        /// A process is created on another machine.
        R_FORK = 0x55 "RFork";
        /// A channel is connected.
        CONNECT = 0x56 "Connect";
        /// A value.
        DATA = 0x57 "DataMes";
        /// The head of a list.
        HEAD = 0x58 "Head";
        /// A constructor.
        CONSTR = 0x59 "Constr";
        /// A part of a large message.
        PART = 0x5a "Part";
        /// A process is to end.
        TERMINATE = 0x5b "Terminate";
        /// A packet.
        PACKET = 0x5c "Packet";
    }
}

macro_rules! bytes {
    ($($(#[doc = $doc:literal])+ $name:ident;)+) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name<'a>(pub &'a [u8]);

        impl Deref for $name<'_> {
            type Target = [u8];

            fn deref(&self) -> &[u8] {
                self.0
            }
        }

        impl<'a> From<&'a str> for $name<'a> {
            fn from(text: &'a str) -> $name<'a> {
                $name(text.as_bytes())
            }
        }
    )+};
}

bytes! {
    /// A text that ends where the event ends.
    Text;
    /// Bytes up to the end of the event.
    Raw;
    /// Texts up to the end of the event, each terminated by a zero.
    Items;
    /// A text terminated by a zero, which is not part of the value. Zeros in the value are left out when it is written.
    Ended;
}

macro_rules! rest_of_event {
    ($($name:ident)+) => {$(
        impl FieldType for $name<'_> {
            const KIND: FieldKind = FieldKind::$name;

            #[inline]
            fn encode(&self, to: &mut Bytes) {
                to.put(self.0);
            }

            fn size(&self) -> usize {
                self.0.len()
            }
        }

        impl<'a> Decode<'a> for $name<'a> {
            #[inline]
            fn decode(payload: &mut &'a [u8]) -> Option<$name<'a>> {
                Some($name(std::mem::take(payload)))
            }
        }
    )+};
}

rest_of_event! { Text Raw Items }

impl<'a> Items<'a> {
    /// Returns the texts.
    pub fn texts(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let texts = self.0.strip_suffix(&[0]).unwrap_or(self.0);
        (!self.0.is_empty()).then(|| texts.split(|&byte| byte == 0)).into_iter().flatten()
    }
}

impl FieldType for Ended<'_> {
    const KIND: FieldKind = FieldKind::Ended;

    #[inline]
    fn encode(&self, to: &mut Bytes) {
        self.0.split(|&byte| byte == 0).for_each(|part| to.put(part));
        to.put(&[0]);
    }

    fn size(&self) -> usize {
        self.0.iter().filter(|&&byte| byte != 0).count() + 1
    }
}

impl<'a> Decode<'a> for Ended<'a> {
    #[inline]
    fn decode(payload: &mut &'a [u8]) -> Option<Ended<'a>> {
        let length = payload.iter().position(|&byte| byte == 0).unwrap_or(payload.len());
        let text = &payload[..length];
        *payload = payload.get(length + 1..).unwrap_or_default();
        Some(Ended(text))
    }
}

/// A text that ends `AFTER` bytes before the end of the event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leading<'a, const AFTER: usize>(pub &'a [u8]);

impl<const AFTER: usize> FieldType for Leading<'_, AFTER> {
    const KIND: FieldKind = FieldKind::Leading;

    fn encode(&self, to: &mut Bytes) {
        to.put(self.0);
    }

    fn size(&self) -> usize {
        self.0.len()
    }
}

impl<'a, const AFTER: usize> Decode<'a> for Leading<'a, AFTER> {
    fn decode(payload: &mut &'a [u8]) -> Option<Leading<'a, AFTER>> {
        let (text, rest) = payload.split_at(payload.len().checked_sub(AFTER)?);
        *payload = rest;
        Some(Leading(text))
    }
}

/// The restrictions of a heap profile, in the order of the format. An empty restriction has no effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filters<'a>(pub [Ended<'a>; FILTERS]);

impl FieldType for Filters<'_> {
    const KIND: FieldKind = FieldKind::Filters;

    fn encode(&self, to: &mut Bytes) {
        self.0.iter().for_each(|filter| filter.encode(to));
    }

    fn size(&self) -> usize {
        self.0.iter().map(FieldType::size).sum()
    }
}

impl<'a> Decode<'a> for Filters<'a> {
    fn decode(payload: &mut &'a [u8]) -> Option<Filters<'a>> {
        let mut filters = Filters::default();
        for filter in &mut filters.0 {
            *filter = Ended::decode(payload)?;
        }
        Some(filters)
    }
}

/// The flags of a cost centre. No flag is set if the event is too short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CentreFlags(pub u8);

impl CentreFlags {
    /// The cost centre is that of a constant applicative form: it belongs to the whole program and not to a caller.
    pub const CAF: CentreFlags = CentreFlags(1);

    /// Returns whether the cost centre belongs to the whole program and not to a caller.
    pub fn is_caf(self) -> bool {
        self.0 & Self::CAF.0 != 0
    }
}

impl FieldType for CentreFlags {
    const KIND: FieldKind = FieldKind::CentreFlags;

    fn encode(&self, to: &mut Bytes) {
        self.0.encode(to);
    }
}

impl<'a> Decode<'a> for CentreFlags {
    fn decode(payload: &mut &'a [u8]) -> Option<CentreFlags> {
        Some(CentreFlags(u8::decode(payload).unwrap_or(0)))
    }
}

impl FieldType for Option<u64> {
    const KIND: FieldKind = FieldKind::OptionalU64;

    fn encode(&self, to: &mut Bytes) {
        if let Some(number) = self {
            number.encode(to);
        }
    }

    fn size(&self) -> usize {
        if self.is_some() { size_of::<u64>() } else { 0 }
    }
}

impl<'a> Decode<'a> for Option<u64> {
    fn decode(payload: &mut &'a [u8]) -> Option<Option<u64>> {
        Some(u64::decode(payload))
    }
}

/// A stack of cost centres. The outermost, MAIN, is left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stack<'a>(&'a [[u8; 4]]);

/// Memory for a [`Stack`] that is to be written.
#[derive(Clone, Debug)]
pub struct StackBuffer([[u8; 4]; MOST_CENTRES]);

impl Default for StackBuffer {
    fn default() -> StackBuffer {
        StackBuffer([[0; 4]; MOST_CENTRES])
    }
}

impl StackBuffer {
    /// Makes a stack of the first [`MOST_CENTRES`] of these cost centres, which come innermost first. Does not allocate.
    pub fn fill(&mut self, centres: impl IntoIterator<Item = u32>) -> Stack<'_> {
        let mut depth = 0;
        for (place, centre) in self.0.iter_mut().zip(centres) {
            *place = centre.to_be_bytes();
            depth += 1;
        }
        Stack(&self.0[..depth])
    }
}

impl<'a> Stack<'a> {
    /// Returns the numbers of the cost centres, innermost first.
    pub fn centres(&self) -> impl DoubleEndedIterator<Item = u32> + ExactSizeIterator + use<'a> {
        self.0.iter().map(|bytes| u32::from_be_bytes(*bytes))
    }
}

impl FieldType for Stack<'_> {
    const KIND: FieldKind = FieldKind::Stack;

    #[inline]
    fn encode(&self, to: &mut Bytes) {
        // The depth fits a byte: a stack comes from a buffer of at most MOST_CENTRES centres, or from an event, in which the depth is a
        // byte.
        to.put(&[self.0.len() as u8]);
        to.put(self.0.as_flattened());
    }

    fn size(&self) -> usize {
        1 + size_of_val(self.0)
    }
}

impl<'a> Decode<'a> for Stack<'a> {
    #[inline]
    fn decode(payload: &mut &'a [u8]) -> Option<Stack<'a>> {
        let depth = usize::from(u8::decode(payload)?);
        let (centres, rest) = payload.split_at_checked(size_of::<u32>() * depth)?;
        *payload = rest;
        let (centres, _) = centres.as_chunks();
        Some(Stack(centres))
    }
}
