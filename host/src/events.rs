//! Describes events (numbers, names, fields) and makes labels.

use std::ffi::{CString, c_char, c_void};
use std::sync::OnceLock;

use stopworld::events::table::{Field, FieldKind, Unit};
use stopworld::events::{DESCRIPTORS, Descriptor, EventId, Label, Labels};

use crate::abi::{self, Header, MAX_FIELDS, Opaque};
use crate::failure::{Code, Failure, failure, guarded, place, text};
use crate::handles::world_of;
use crate::versions;

/// The texts of an event, as C strings.
struct Texts {
    name: CString,
    summary: CString,
    fields: Vec<(CString, CString)>,
}

fn c_text(text: &str) -> CString {
    // The table's texts contain no 0 byte.
    CString::new(text).unwrap_or_default()
}

/// Returns the texts of all events. The texts are made once and never freed, so a host may keep the pointers.
fn texts() -> &'static [Texts] {
    static TEXTS: OnceLock<Vec<Texts>> = OnceLock::new();
    TEXTS.get_or_init(|| {
        let field = |field: &Field| (c_text(field.name), c_text(Unit::name(field.unit)));
        let of = |event: &Descriptor| Texts {
            name: c_text(event.name),
            summary: c_text(&event.summary()),
            fields: event.fields.iter().map(field).collect(),
        };
        DESCRIPTORS.iter().map(of).collect()
    })
}

pub(crate) unsafe extern "C" fn event_count(count: *mut u32) -> abi::Code {
    guarded(|| {
        // SAFETY: the host's promise.
        *unsafe { place(count, "the output pointer for the count") }? = EventId::COUNT as u32;
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn event_by_name(name: *const c_char, event_id: *mut u32) -> abi::Code {
    guarded(|| {
        // SAFETY: the host's promise.
        let place = unsafe { place(event_id, "the output pointer for the event's number") }?;
        // SAFETY: as above.
        let name = unsafe { text(name, "the event's name") }?;
        let found = EventId::all().find(|id| id.descriptor().name == name);
        *place = found.ok_or_else(|| failure(Code::Argument, format!("there is no event named \"{name}\"")))? as u32;
        Ok(())
    })
}

fn describe(number: u32, header: Header) -> Result<abi::EventDescription, Failure> {
    let no_event =
        |_| failure(Code::Argument, format!("there is no event {number}: numbers are less than {}", EventId::COUNT));
    let id = EventId::try_from(number).map_err(no_event)?;
    let (event, texts) = (id.descriptor(), &texts()[id as usize]);
    let nothing =
        abi::Field { name: std::ptr::null(), unit: std::ptr::null(), offset: 0, kind: 0, since: 0, reserved: 0 };
    let mut fields = [nothing; MAX_FIELDS];
    for ((place, placed), (name, unit)) in fields.iter_mut().zip(event.layout()).zip(&texts.fields) {
        *place = abi::Field {
            name: name.as_ptr(),
            unit: unit.as_ptr(),
            offset: placed.offset as u32,
            kind: match placed.field.kind {
                FieldKind::U32 => 0,
                FieldKind::U64 => 1,
                FieldKind::Word => 2,
            },
            since: u32::from(placed.field.since),
            reserved: 0,
        };
    }
    Ok(abi::EventDescription {
        header,
        name: texts.name.as_ptr(),
        summary: texts.summary.as_ptr(),
        event_id: number,
        version: u32::from(event.version),
        net_id: event.net.first().map_or(0, |net| u32::from(net.id)),
        field_count: event.fields.len() as u32,
        fields,
    })
}

pub(crate) unsafe extern "C" fn event_describe(event_id: u32, event: *mut abi::EventDescription) -> abi::Code {
    // SAFETY: the host's promise.
    guarded(|| unsafe { versions::write(event, |header| describe(event_id, header)) })
}

pub(crate) unsafe extern "C" fn telemetry_intern(
    world: *mut Opaque,
    name: *const c_char,
    label: *mut u64,
) -> abi::Code {
    guarded(|| {
        // SAFETY: the host's promise.
        let place = unsafe { place(label, "the output pointer for the label") }?;
        let hosted = world_of(world)?;
        // SAFETY: as above.
        *place = hosted.world.telemetry_intern(unsafe { text(name, "the text") }?)?.get();
        Ok(())
    })
}

fn label_of(number: u64) -> Result<Label, Failure> {
    Label::from_raw(number)
        .ok_or_else(|| failure(Code::Argument, "0 is not a label: use the result of telemetry_intern"))
}

pub(crate) extern "C" fn telemetry_label(world: *mut Opaque, address: *const c_void, label: u64) -> abi::Code {
    guarded(|| Ok(world_of(world)?.world.telemetry_label(address as usize, label_of(label)?)?))
}

pub(crate) unsafe extern "C" fn telemetry_text(
    label: u64,
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> abi::Code {
    guarded(|| {
        let unknown = || failure(Code::Argument, format!("there is no label {label}"));
        let text = Labels::of_the_process().text(label_of(label)?).ok_or_else(unknown)?;
        if capacity > 0 {
            // SAFETY: the host's promise: `capacity` bytes may be written.
            let first = unsafe { place(buffer, "the buffer") }?;
            let used = text.len().min(capacity - 1);
            // SAFETY: as above.
            unsafe {
                std::ptr::copy_nonoverlapping(text.as_ptr().cast(), first, used);
                std::ptr::from_mut(first).add(used).write(0);
            }
        }
        // SAFETY: the host's promise: null, or a valid pointer.
        if let Some(length) = unsafe { length.as_mut() } {
            *length = text.len();
        }
        Ok(())
    })
}
