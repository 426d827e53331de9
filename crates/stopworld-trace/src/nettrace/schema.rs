//! The events in a trace.
//!
//! There are two sorts. **.NET events** have the names, numbers and layouts that the .NET tools know; the crate `nettrace` declares
//! them. Those that are written are listed here. Their metadata have full names and fields, which the .NET runtime itself leaves
//! out; so even a reader that does not know them can print them. **Own events**, those without a .NET counterpart, are the rows of the
//! [event table](stopworld::events::table) under the provider `stopworld`. Their fields are those of the table, except that a label
//! is written as its text.

use std::borrow::Cow;

use nettrace::clr::{self, Encode, Kind as FieldType, write};
use nettrace::encode::{Describe, Identity};
use stopworld::events::table::{Field, FieldKind, Unit};
use stopworld::events::{EventId, Group, Level};

/// The name of the provider of the .NET events.
pub(super) const DEFAULT: &str = clr::Provider::Runtime.name();
pub(super) const PRIVATE: &str = clr::Provider::Private.name();
pub(super) const RUNDOWN: &str = clr::Provider::Rundown.name();
pub(super) const EVENT_PIPE: &str = clr::Provider::EventPipe.name();
/// The provider of the own events.
pub(super) const OWN: &str = "stopworld";

/// The fields of an event, in order.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fields {
    Declared(&'static clr::Definition),
    OfTheTable(&'static [Field]),
}

impl Fields {
    /// Iterates over their names and types.
    pub(super) fn iter(self) -> impl Iterator<Item = (&'static str, FieldType)> {
        let (declared, of_the_table) = match self {
            Fields::Declared(of) => (Some(of.fields()), &[][..]),
            Fields::OfTheTable(fields) => (None, fields),
        };
        declared.into_iter().flatten().chain(of_the_table.iter().map(|field| (field.name, type_of(field))))
    }
}

/// Returns the type of a table's field in a payload.
#[inline]
pub(super) fn type_of(field: &Field) -> FieldType {
    match (field.unit, field.kind) {
        (Unit::Label, _) => FieldType::Z16,
        (_, FieldKind::U32) => FieldType::U32,
        (_, FieldKind::U64 | FieldKind::Word) => FieldType::U64,
    }
}

/// The metadata of a kind of event in a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Definition {
    pub(super) provider: &'static str,
    pub(super) id: u32,
    pub(super) name: &'static str,
    pub(super) version: u8,
    pub(super) level: u8,
    pub(super) keywords: u64,
    pub(super) opcode: u8,
    pub(super) fields: Fields,
}

impl Describe for Definition {
    fn identity(&self) -> Identity<'_> {
        Identity {
            provider: self.provider,
            event: self.id,
            name: self.name,
            version: self.version.into(),
            level: self.level.into(),
            keywords: self.keywords,
            opcode: Some(self.opcode).filter(|opcode| *opcode != 0),
        }
    }

    fn fields(&self) -> impl Iterator<Item = nettrace::encode::Field<'_>> {
        self.fields.iter().filter_map(|(name, kind)| Some((name, Cow::Owned(kind.declared()?))))
    }
}

/// A kind of event in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Net(Net),
    Own(EventId),
}

impl Kind {
    /// An upper bound on the number of kinds.
    pub(super) const MOST: usize = 256;

    /// Returns its metadata id in the file.
    #[inline(always)]
    pub(super) fn id(self) -> u32 {
        match self {
            Kind::Net(net) => net as u32 + 1,
            Kind::Own(id) => (Net::COUNT + 1) as u32 + id as u32,
        }
    }

    pub(super) fn definition(self) -> Definition {
        match self {
            Kind::Net(net) => {
                let of = DEFINITIONS[net as usize];
                Definition {
                    provider: of.provider.name(),
                    id: of.event,
                    name: of.name,
                    version: of.version,
                    level: of.level as u8,
                    keywords: of.keywords,
                    opcode: of.opcode,
                    fields: Fields::Declared(of),
                }
            }
            Kind::Own(id) => {
                let row = id.descriptor();
                Definition {
                    provider: OWN,
                    id: id as u32 + 1,
                    name: row.name,
                    version: row.version,
                    level: own_level(row.group) as u8,
                    keywords: own_keyword(row.group),
                    opcode: 0,
                    fields: Fields::OfTheTable(row.fields),
                }
            }
        }
    }
}

const _: () = assert!(Net::COUNT + EventId::COUNT < Kind::MOST);

/// Returns whether an event is written under the own provider because .NET has no counterpart.
pub(super) fn is_own(id: EventId) -> bool {
    id.descriptor().net.is_empty()
}

/// Returns the keyword of the own events of this group.
pub(super) fn own_keyword(group: Group) -> u64 {
    1 << group as u64
}

/// Returns the level of the own events of this group. Events for each object, reference or block are too many for the default level.
pub(super) fn own_level(group: Group) -> Level {
    match group {
        Group::Object | Group::Block => Level::Verbose,
        _ => Level::Informational,
    }
}

/// A .NET event that is written.
pub(super) trait Written: Encode {
    /// The kind of event.
    const NET: Net;
}

macro_rules! net_events {
    ($($name:ident $(<$life:lifetime>)?,)+) => {
        /// The .NET events that are written, by their names in files.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub(super) enum Net {
            $($name),+
        }

        impl Net {
            /// All .NET events.
            pub(super) const ALL: &[Net] = &[$(Net::$name),+];
            /// The number of .NET events.
            pub(super) const COUNT: usize = Net::ALL.len();
        }

        const DEFINITIONS: [&clr::Definition; Net::COUNT] = [$(write::$name::DEFINITION),+];

        $(impl Written for write::$name $(<$life>)? {
            const NET: Net = Net::$name;
        })+
    };
}

// The order is that of the ids in a file.
net_events! {
    ProcessInfo<'_>,
    RuntimeInformationDCStart<'_>,
    GCSettingsRundown,
    ModuleDCEnd<'_>,
    MethodDCEndVerbose<'_>,
    Settings,

    GCSuspendEEBegin,
    GCSuspendEEEnd,
    GCTriggered,
    GCStart,
    GCMarkWithType,
    GCGlobalHeapHistory,
    GCPerHeapHistory,
    GCEnd,
    GCHeapStats,
    GCRestartEEBegin,
    GCRestartEEEnd,

    GCCreateSegment,
    GCFreeSegment,
    GCAllocationTick<'_>,
    GCSampledObjectAllocationHigh,
    GCSampledObjectAllocationLow,
    GCFinalizersBegin,
    GCFinalizersEnd,
    FinalizeObject,
    SetGCHandle,
    DestroyGCHandle,
    PinObjectAtGCTime<'_>,
    GCJoin,
    GCDynamicEvent<'_>,

    BulkType<'_>,
    GCBulkNode<'_>,
    GCBulkEdge<'_>,
    GCBulkRootEdge<'_>,
    GCBulkRootStaticVar<'_>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use stopworld::events::{DESCRIPTORS, Provider};

    /// Returns the provider of a .NET event, if it is one of those in the event table.
    fn provider_of(definition: &Definition) -> Option<Provider> {
        match definition.provider {
            DEFAULT => Some(Provider::Default),
            PRIVATE => Some(Provider::Private),
            _ => None,
        }
    }

    /// The .NET events of the event table are exactly those that are written.
    #[test]
    fn the_event_table_and_the_definitions_agree() {
        let rows: Vec<_> = DESCRIPTORS.iter().flat_map(|row| row.net).collect();
        for net in Net::ALL {
            let definition = Kind::Net(*net).definition();
            let Some(provider) = provider_of(&definition) else { continue };
            let row = rows.iter().find(|row| row.provider == provider && u32::from(row.id) == definition.id);
            let row = row.unwrap_or_else(|| panic!("no row of the table becomes {}", definition.name));
            assert_eq!(
                (row.version, row.opcode, row.keyword.0, row.level as u8),
                (definition.version, definition.opcode, definition.keywords, definition.level),
                "{}",
                definition.name
            );
            assert!(definition.name.starts_with(row.name), "{} is not {}", definition.name, row.name);
        }
        for row in rows {
            let is_same = |definition: Definition| {
                provider_of(&definition) == Some(row.provider) && definition.id == u32::from(row.id)
            };
            assert!(Net::ALL.iter().any(|net| is_same(Kind::Net(*net).definition())), "{} is never written", row.name);
        }
    }

    #[test]
    fn ids_are_unique_and_names_are_not_empty() {
        let kinds = Net::ALL.iter().map(|net| Kind::Net(*net)).chain(EventId::all().map(Kind::Own));
        let mut seen = std::collections::HashSet::new();
        for kind in kinds {
            assert!(kind.id() > 0 && (kind.id() as usize) < Kind::MOST && seen.insert(kind.id()), "{kind:?}");
            let definition = kind.definition();
            assert!(!definition.name.is_empty());
            for (name, kind) in definition.fields.iter() {
                assert!(!name.is_empty() && kind.declared().is_some(), "{kind:?} of {}: {name}", definition.name);
            }
        }
    }

    /// Every event that can be written is written.
    #[test]
    fn all_events_that_can_be_written_are_written() {
        let names = |definitions: &mut dyn Iterator<Item = &'static clr::Definition>| {
            let mut names: Vec<_> = definitions.map(|of| of.name).collect();
            names.sort_unstable();
            names
        };
        assert_eq!(names(&mut DEFINITIONS.into_iter()), names(&mut clr::definitions()));
    }
}
