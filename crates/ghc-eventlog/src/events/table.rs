//! What is derived from the rows: a struct for each layout, the types by number, and the enum of all events.

use super::descriptor::{EventType, Field, Layout, Unit, least_of, size_of_fields};
use super::fields::{
    Breakdown, CapsetKind, CentreFlags, Decode, Ended, FieldType, Filters, FixedField, Items, Leading, MessageTag, Raw,
    Stack, StopReason, Text,
};
use trace_io::bytes::Bytes;

/// The payload of an event, which can be written.
pub trait Payload {
    /// Its layout.
    const LAYOUT: &'static Layout;

    /// Appends the payload, without the head of the event. Does not allocate. `to` must have room for it.
    fn encode(&self, to: &mut Bytes);

    /// Returns how many bytes [`encode`](Self::encode) appends.
    fn size(&self) -> usize;
}

/// Passes the whole table to a macro, as `macro! { {rows} }`.
macro_rules! for_each_event {
    ($macro:ident) => {
        thread_rows! { program_rows heap_rows profile_rows parallel_rows $macro {} }
    };
}

/// The text of an event; `-` if there is none.
macro_rules! text {
    (-) => {
        None
    };
    ($text:literal) => {
        Some($text)
    };
}

/// The unit of a field, for its documentation.
macro_rules! unit {
    (Bytes) => {
        " In bytes."
    };
    (Seconds) => {
        " In seconds."
    };
    (Nanoseconds) => {
        " In nanoseconds."
    };
    ($other:ident) => {
        ""
    };
}

/// Makes a layout's struct writable. A struct with a lifetime contains bytes of variable length.
macro_rules! encode {
    ($name:ident [] $($field:ident: $type:ty,)*) => {
        impl $name {
            /// The size of the payload, in bytes.
            pub const BYTES: usize = least_of($name::FIELDS) as usize;

            /// Returns the payload as it is in a file.
            #[inline]
            #[allow(unused_mut, unused_variables, unused_assignments, reason = "an event may have no fields")]
            pub fn to_bytes(&self) -> [u8; $name::BYTES] {
                let mut bytes = [0; $name::BYTES];
                let mut rest = &mut bytes[..];
                $(
                    let (place, behind) = rest.split_at_mut(<$type as FieldType>::KIND.least() as usize);
                    self.$field.store(place);
                    rest = behind;
                )*
                bytes
            }
        }

        impl Payload for $name {
            const LAYOUT: &'static Layout = &$name::THE_LAYOUT;

            #[inline]
            fn encode(&self, to: &mut Bytes) {
                to.put(&self.to_bytes());
            }

            #[inline]
            fn size(&self) -> usize {
                $name::BYTES
            }
        }
    };
    ($name:ident [$life:lifetime] $($field:ident: $type:ty,)*) => {
        impl<$life> Payload for $name<$life> {
            const LAYOUT: &'static Layout = &$name::THE_LAYOUT;

            #[inline]
            fn encode(&self, to: &mut Bytes) {
                $(self.$field.encode(to);)*
            }

            fn size(&self) -> usize {
                [$(self.$field.size()),*].into_iter().sum()
            }
        }
    };
}

macro_rules! structs {
    ({$(
        #[doc = $doc:literal]
        $constant:ident = $id:literal $description:literal {$(
            $(#[doc = $more:literal])*
            $name:ident $(<$life:lifetime>)? {$($field:ident: $type:ty [$unit:ident] $fdoc:literal),* $(,)?} $text:tt
        )+}
    )+}) => {$($(
        #[doc = $doc]
        $(#[doc = $more])*
        #[doc = ""]
        #[doc = concat!("Type ", $id, ", `", stringify!($constant), "`: \"", $description, "\".")]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name $(<$life>)? {$(
            #[doc = concat!($fdoc, ".", unit!($unit))]
            pub $field: $type,
        )*}

        impl $(<$life>)? $name $(<$life>)? {
            const FIELDS: &'static [Field] = &[$(Field {
                name: stringify!($field),
                kind: <$type as FieldType>::KIND,
                unit: Unit::$unit,
                doc: $fdoc,
            }),*];

            const THE_LAYOUT: Layout = Layout {
                id: $id,
                name: stringify!($name),
                size: size_of_fields(Self::FIELDS),
                least: least_of(Self::FIELDS),
                fields: Self::FIELDS,
                text: text!($text),
            };

            /// Reads a payload. Bytes after the last field are ignored. Returns `None` if the payload is too short.
            #[inline]
            #[allow(unused_mut, unused_variables, reason = "an event may have no fields")]
            pub fn decode(mut payload: &$($life)? [u8]) -> Option<Self> {
                Some($name { $($field: Decode::decode(&mut payload)?),* })
            }
        }

        encode! { $name [$($life)?] $($field: $type,)* }
    )+)+};
}

for_each_event!(structs);

macro_rules! types {
    ({$(
        #[doc = $doc:literal]
        $constant:ident = $id:literal $description:literal {$(
            $(#[doc = $more:literal])*
            $name:ident $(<$life:lifetime>)? {$($fields:tt)*} $text:tt
        )+}
    )+}) => {
        /// The numbers of the types.
        pub mod id {
            $(
                #[doc = $description]
                pub const $constant: u16 = $id;
            )+
        }

        /// All types, by subject.
        pub static EVENT_TYPES: [EventType; [$($id),+].len()] = [
            $(EventType {
                id: $id,
                name: stringify!($constant),
                description: $description,
                layouts: &[$(<$name as Payload>::LAYOUT),+],
            }),+
        ];

        /// The payload of an event of a known type.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Record<'a> {$($(
            #[doc = $doc]
            $(#[doc = $more])*
            $name($name $(<$life>)?),
        )+)+}

        impl<'a> Record<'a> {
            /// Reads a payload of this layout. Returns `None` if it is too short.
            pub fn decode(layout: &Layout, payload: &'a [u8]) -> Option<Record<'a>> {
                match layout.id {
                    $($id => {
                        $(if layout.size == <$name as Payload>::LAYOUT.size {
                            return $name::decode(payload).map(Record::$name);
                        })+
                        None
                    })+
                    _ => None,
                }
            }

            /// Returns the layout.
            pub fn layout(&self) -> &'static Layout {
                match self {
                    $($(Record::$name(_) => <$name as Payload>::LAYOUT,)+)+
                }
            }
        }
    };
}

for_each_event!(types);

/// One more than the largest number of a type.
const NUMBERS: usize = {
    let (mut most, mut next) = (0, 0);
    while next < EVENT_TYPES.len() {
        if EVENT_TYPES[next].id > most {
            most = EVENT_TYPES[next].id;
        }
        next += 1;
    }
    most as usize + 1
};

/// The index of each type in [`EVENT_TYPES`] plus one, by number; 0 if there is no such type.
static PLACES: [u8; NUMBERS] = {
    let (mut places, mut next) = ([0; NUMBERS], 0);
    while next < EVENT_TYPES.len() {
        let place = &mut places[EVENT_TYPES[next].id as usize];
        assert!(*place == 0, "two types with one number");
        next += 1;
        assert!(next <= u8::MAX as usize);
        *place = next as u8;
    }
    places
};

impl EventType {
    /// Returns the type with this number, if it is known.
    pub fn of(id: u16) -> Option<&'static EventType> {
        let place = PLACES.get(usize::from(id))?.checked_sub(1)?;
        EVENT_TYPES.get(usize::from(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{DATA_END, Size};

    #[test]
    fn types_are_found_by_their_numbers() {
        for known in &EVENT_TYPES {
            assert_eq!(EventType::of(known.id), Some(known));
            assert!(known.layouts.iter().all(|layout| layout.id == known.id));
        }
        assert_eq!((EventType::of(5), EventType::of(213), EventType::of(DATA_END)), (None, None, None));
    }

    /// The newest layout is the last and the longest: the one that is written.
    #[test]
    fn the_layouts_of_a_type_get_longer() {
        for known in &EVENT_TYPES {
            assert!(known.layouts.iter().is_sorted_by(|old, new| old.least < new.least), "{}", known.name);
        }
        assert_eq!(EventType::of(id::GC_STATS_GHC).unwrap().layout(), GcStats::LAYOUT);
    }

    #[test]
    fn a_payload_that_is_too_short_is_not_decoded() {
        for layout in EVENT_TYPES.iter().flat_map(|known| known.layouts) {
            let zeros = vec![0; usize::from(layout.least) + 1];
            let record = Record::decode(layout, &zeros).unwrap();
            assert_eq!(record.layout(), *layout);
            assert!(Record::decode(layout, &zeros[1..]).is_some(), "{}", layout.name);
            if let (Size::Fixed(bytes), [_, _, short @ ..]) = (layout.size, &zeros[..]) {
                assert_eq!(bytes, layout.least);
                assert_eq!(Record::decode(layout, short), None, "{}", layout.name);
            }
        }
    }
}
