//! Packs a collection into bytes, and back. Small numbers take few bytes. The format has only the fields in their order, because no other
//! process reads it.

use super::collection::{Collection, GlobalHistory, HeapHistory, HeapStats, Kind, Marks, Phases, Reason};
use nettrace::clr::gc::CommittedUsage;
use nettrace::clr::history::{FitBucket, GenerationData, LohCompaction};

/// A value that can be packed.
pub(super) trait Pack: Sized {
    fn pack(&self, to: &mut Vec<u8>);
    fn unpack(from: &mut Unpacker<'_>) -> Self;

    /// Replaces this value by an unpacked one, in the memory that it has.
    fn unpack_into(&mut self, from: &mut Unpacker<'_>) {
        *self = Self::unpack(from);
    }
}

/// Packed bytes that are still to be read. Missing bytes read as zeros.
pub(super) struct Unpacker<'a> {
    bytes: &'a [u8],
}

impl<'a> Unpacker<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Unpacker<'a> {
        Unpacker { bytes }
    }

    fn byte(&mut self) -> u8 {
        self.bytes.split_off_first().copied().unwrap_or(0)
    }
}

impl Pack for u64 {
    fn pack(&self, to: &mut Vec<u8>) {
        let mut rest = *self;
        while rest >= 0x80 {
            to.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        to.push(rest as u8);
    }

    fn unpack(from: &mut Unpacker<'_>) -> u64 {
        let mut value = 0;
        let mut shift = 0;
        loop {
            let byte = from.byte();
            value |= u64::from(byte & 0x7F) << shift;
            shift += 7;
            if byte < 0x80 || shift >= 64 {
                return value;
            }
        }
    }
}

impl Pack for u16 {
    fn pack(&self, to: &mut Vec<u8>) {
        u64::from(*self).pack(to);
    }

    fn unpack(from: &mut Unpacker<'_>) -> u16 {
        u64::unpack(from) as u16
    }
}

impl Pack for i64 {
    fn pack(&self, to: &mut Vec<u8>) {
        // Negative numbers are rare and small.
        ((*self << 1) ^ (*self >> 63)).cast_unsigned().pack(to);
    }

    fn unpack(from: &mut Unpacker<'_>) -> i64 {
        let value = u64::unpack(from);
        (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
    }
}

impl Pack for i32 {
    fn pack(&self, to: &mut Vec<u8>) {
        i64::from(*self).pack(to);
    }

    fn unpack(from: &mut Unpacker<'_>) -> i32 {
        i64::unpack(from) as i32
    }
}

impl Pack for bool {
    fn pack(&self, to: &mut Vec<u8>) {
        to.push(u8::from(*self));
    }

    fn unpack(from: &mut Unpacker<'_>) -> bool {
        from.byte() != 0
    }
}

impl Pack for f64 {
    fn pack(&self, to: &mut Vec<u8>) {
        to.extend(self.to_le_bytes());
    }

    fn unpack(from: &mut Unpacker<'_>) -> f64 {
        let Some((bytes, rest)) = from.bytes.split_first_chunk() else { return 0.0 };
        from.bytes = rest;
        f64::from_le_bytes(*bytes)
    }
}

impl<T: Pack> Pack for Option<T> {
    fn pack(&self, to: &mut Vec<u8>) {
        self.is_some().pack(to);
        if let Some(value) = self {
            value.pack(to);
        }
    }

    fn unpack(from: &mut Unpacker<'_>) -> Option<T> {
        bool::unpack(from).then(|| T::unpack(from))
    }

    fn unpack_into(&mut self, from: &mut Unpacker<'_>) {
        match (bool::unpack(from), &mut *self) {
            (true, Some(value)) => value.unpack_into(from),
            (true, None) => *self = Some(T::unpack(from)),
            (false, _) => *self = None,
        }
    }
}

impl<T: Pack> Pack for Vec<T> {
    fn pack(&self, to: &mut Vec<u8>) {
        (self.len() as u64).pack(to);
        self.iter().for_each(|item| item.pack(to));
    }

    fn unpack(from: &mut Unpacker<'_>) -> Vec<T> {
        (0..u64::unpack(from)).map(|_| T::unpack(from)).collect()
    }

    fn unpack_into(&mut self, from: &mut Unpacker<'_>) {
        let length = u64::unpack(from) as usize;
        self.truncate(length);
        self.iter_mut().for_each(|item| item.unpack_into(from));
        self.extend((self.len()..length).map(|_| T::unpack(from)));
    }
}

impl<T: Pack, const N: usize> Pack for [T; N] {
    fn pack(&self, to: &mut Vec<u8>) {
        self.iter().for_each(|item| item.pack(to));
    }

    fn unpack(from: &mut Unpacker<'_>) -> [T; N] {
        std::array::from_fn(|_| T::unpack(from))
    }

    fn unpack_into(&mut self, from: &mut Unpacker<'_>) {
        self.iter_mut().for_each(|item| item.unpack_into(from));
    }
}

/// Packs a struct field by field.
macro_rules! pack {
    ($($type:ident { $($field:tt),* $(,)? })*) => {$(
        impl Pack for $type {
            fn pack(&self, to: &mut Vec<u8>) {
                // The struct is destructured so that no field can be left out by mistake.
                let $type { $($field: _),* } = self;
                $(self.$field.pack(to);)*
            }

            fn unpack(from: &mut Unpacker<'_>) -> $type {
                $type { $($field: Pack::unpack(from)),* }
            }

            fn unpack_into(&mut self, from: &mut Unpacker<'_>) {
                $(self.$field.unpack_into(from);)*
            }
        }
    )*};
}

pack! {
    Collection {
        index, world, number, kind, reason, generation, pause_start, start, duration, pause, suspend, final_pause, since_last,
        complete, ticked, stats, global, heaps, marks, is_provisional, committed_before, committed_after, loh, free_buckets,
        plug_buckets, pinned_bytes, plug_bytes,
    }
    Kind { 0 }
    Reason { 0 }
    HeapStats {
        sizes, promoted, finalization_promoted, finalization_count, pinned_objects, sink_blocks, handles,
    }
    GlobalHistory {
        final_youngest_desired, heaps, condemned_generation, gen0_reductions, reason, mechanisms, memory_pressure, phases,
    }
    Phases { roots, short_weak, finalization, long_weak, plan, relocate, compact, sweep }
    HeapHistory { generations }
    Marks { heap, times, promoted }
    CommittedUsage { in_use, in_global_decommit, in_free, in_global_free, bookkeeping }
    LohCompaction { plan, compact, relocate, references, nulls }
    FitBucket { index, count, size }
}

/// The fields of a generation, in an array.
macro_rules! fields {
    (@ $data:expr, $($field:ident),*) => {{
        // The struct is destructured so that no field can be left out by mistake.
        let GenerationData { $($field),* } = $data;
        [$($field),*]
    }};
    ($data:expr) => {
        fields!(
            @ $data, size_before, free_list_before, free_objects_before, size_after, free_list_after,
            free_objects_after, into, pinned_survivors, other_survivors, budget
        )
    };
}

/// A bit for each field that is not 0, and those fields: of most generations, all are 0.
impl Pack for GenerationData {
    fn pack(&self, to: &mut Vec<u8>) {
        let fields = fields!(*self);
        let known = fields.iter().enumerate().fold(0_u64, |bits, (bit, field)| bits | u64::from(*field != 0) << bit);
        known.pack(to);
        fields.iter().filter(|field| **field != 0).for_each(|field| field.pack(to));
    }

    fn unpack(from: &mut Unpacker<'_>) -> GenerationData {
        let (mut data, mut known) = (GenerationData::default(), u64::unpack(from));
        for field in fields!(&mut data) {
            if known & 1 != 0 {
                *field = i64::unpack(from);
            }
            known >>= 1;
        }
        data
    }
}
