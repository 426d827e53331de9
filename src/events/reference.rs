//! The event table for people to read: a page for a terminal, a page in Markdown, and a page about one event.
//!
//! All three are generated from [`DESCRIPTORS`], so they always agree with it. `docs/events.md` is the Markdown page; a test
//! checks that the file equals the generated page.

use std::fmt::Write;

use super::table::{DESCRIPTORS, Descriptor, EventId, GhcEvent, Group, MpsEvent, NetEvent};
use stopworld_platform::suggest::nearest;

/// Returns the event of this name. Letter case, `-` and `_` are ignored.
///
/// # Errors
/// There is no such event. The error contains the most similar name, if there is one.
pub fn find(name: &str) -> Result<EventId, Option<&'static str>> {
    let plain = |name: &str| name.replace(['-', '_'], "").to_ascii_lowercase();
    let found = DESCRIPTORS.iter().find(|descriptor| plain(descriptor.name) == plain(name));
    found.map(|descriptor| descriptor.id).ok_or_else(|| nearest(name, DESCRIPTORS.iter().map(|d| d.name)))
}

/// Returns the list of all events, by group, each with its fields and with its counterparts in other tools.
pub fn text() -> String {
    let mut page = String::new();
    for group in Group::ALL {
        let _ = writeln!(page, "{group:?}: {}", about(group));
        for descriptor in of(group) {
            let becomes = becomes(descriptor).join("; ");
            let becomes = if becomes.is_empty() { "only for stopworld's own tools" } else { &becomes };
            let _ = writeln!(page, "  {:<20}{becomes}", descriptor.name);
            let _ = writeln!(page, "  {:<20}{}", "", signature(descriptor));
        }
        page.push('\n');
    }
    page.push_str("`stopworld events NAME` explains an event and its fields.\n");
    page
}

/// Returns the full description of one event.
pub fn one(id: EventId) -> String {
    let descriptor = id.descriptor();
    let mut page = format!("{} (version {}, group {:?})\n\n", descriptor.name, descriptor.version, descriptor.group);
    let _ = writeln!(page, "  {}\n", descriptor.summary());
    for (family, events) in [(".NET", nets(descriptor)), ("MPS", mpss(descriptor)), ("GHC", ghcs(descriptor))] {
        for event in events {
            let _ = writeln!(page, "  {family:<6}{event}");
        }
    }
    if let Some(probe) = descriptor.probe {
        let _ = writeln!(page, "  {:<6}stopworld:{probe}", "probe");
    }
    let _ = writeln!(page, "  {:<6}{}\n", "break", symbol(descriptor));
    if descriptor.fields.is_empty() {
        page.push_str("  no fields\n");
    }
    for place in descriptor.layout() {
        let field = place.field;
        let since = if field.since > 1 { format!(" (since version {})", field.since) } else { String::new() };
        let (kind, unit) = (field.kind.name(), field.unit.name());
        let _ = writeln!(page, "  {:>3}  {:<18}{kind:<6}{unit:<9}{}{since}", place.offset, field.name, field.doc);
    }
    page
}

/// Returns the documentation page, `docs/events.md`.
pub fn markdown() -> String {
    let mut page = String::from(
        "# Events\n\nGenerated from the table in `src/events/table/rows` by `stopworld events --markdown`. A test checks that this page is up to \
         date.\n\n\
         A payload is serialized as its fields in order, little-endian, without padding. A field marked ² was added in version 2.\n\
         To stop in a debugger where an event is fired, set a breakpoint at `stopworld_` followed by the name of its fire function.\n\
         gdb, perf and bpftrace can trace an event marked ◉ by [its probe](probes.md).\n\n\
         A record that finds no room in a ring is dropped. Dropped records have no event of their own: they are counted, by ring and by\n\
         consumer, and each consumer is notified of their number at their position in the sequence of records. An MPS stream reports them as\n\
         `MessagesDropped` (25, Arena).\n",
    );
    for group in Group::ALL {
        let _ = writeln!(page, "\n## {group:?}\n\n{}\n", about(group));
        page.push_str("| event | what happened | fields | .NET | MPS | GHC |\n|---|---|---|---|---|---|\n");
        for descriptor in of(group) {
            let mark = if descriptor.probe.is_some() { " ◉" } else { "" };
            let cells = [
                format!("`{}`{mark}<br>`{}`", descriptor.name, descriptor.fire),
                descriptor.summary(),
                fields(descriptor),
                nets(descriptor).join("<br>"),
                mpss(descriptor).join("<br>"),
                ghcs(descriptor).join("<br>"),
            ];
            let _ = writeln!(page, "| {} |", cells.join(" | "));
        }
    }
    page
}

fn of(group: Group) -> impl Iterator<Item = &'static Descriptor> {
    DESCRIPTORS.iter().filter(move |descriptor| descriptor.group == group)
}

fn about(group: Group) -> &'static str {
    match group {
        Group::World => "Worlds, threads, and how they are stopped.",
        Group::Collection => "The phases of a collection, in order.",
        Group::Memory => "The heap between collections: memory, large objects, handles, finalizers.",
        Group::Object => "One event per object or reference. Expect many.",
        Group::Block => {
            "One event per block, per scanned root or piece of a large one, or per refill of an allocation cache."
        }
        Group::User => "Names, messages and markers of the program.",
        Group::Profile => "Heap dumps, censuses and the profiler's ticks.",
    }
}

fn symbol(descriptor: &Descriptor) -> String {
    format!("stopworld_{}", descriptor.fire)
}

/// `(number: u32, reason: u32)`
fn signature(descriptor: &Descriptor) -> String {
    let fields = descriptor.fields.iter().map(|field| format!("{}: {}", field.name, field.kind.name()));
    format!("({})", fields.collect::<Vec<_>>().join(", "))
}

fn fields(descriptor: &Descriptor) -> String {
    let field = |field: &super::table::Field| {
        let since = match field.since {
            0 | 1 => String::new(),
            2 => "²".to_owned(),
            later => format!(" (version {later})"),
        };
        format!("`{}`{since} {}, {}: {}", field.name, field.kind.name(), field.unit.name(), field.doc)
    };
    descriptor.fields.iter().map(field).collect::<Vec<_>>().join("<br>")
}

fn becomes(descriptor: &Descriptor) -> Vec<String> {
    let join = |family: &str, names: Vec<String>| (!names.is_empty()).then(|| format!("{family} {}", names.join(" ")));
    let net = descriptor.net.iter().map(|net| format!("{}/{}", net.name, net.id)).collect();
    let mps = descriptor.mps.iter().map(|mps| format!("{}/{:02X}", mps.name, mps.code)).collect();
    let ghc = descriptor.ghc.iter().map(|ghc| format!("{}/{}", ghc.name, ghc.tag)).collect();
    [join(".NET", net), join("MPS", mps), join("GHC", ghc)].into_iter().flatten().collect()
}

fn nets(descriptor: &Descriptor) -> Vec<String> {
    let line = |net: &NetEvent| {
        let NetEvent { name, id, version, opcode, provider, keyword, level } = net;
        format!("{name} {id} v{version} op {opcode}, {provider:?} {:#x} {level:?}", keyword.0)
    };
    descriptor.net.iter().map(line).collect()
}

fn mpss(descriptor: &Descriptor) -> Vec<String> {
    let line = |mps: &MpsEvent| format!("{} {:02X}, {}", mps.name, mps.code, mps.category.name());
    descriptor.mps.iter().map(line).collect()
}

fn ghcs(descriptor: &Descriptor) -> Vec<String> {
    descriptor.ghc.iter().map(|ghc: &GhcEvent| format!("{} {}", ghc.name, ghc.tag)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_found_by_its_name_and_a_mistyped_one_by_the_nearest() {
        assert_eq!(find("GcStart"), Ok(EventId::GcStart));
        assert_eq!(find("gc-start"), Ok(EventId::GcStart));
        assert_eq!(find("GcStrat"), Err(Some("GcStart")));
        assert_eq!(find("quux"), Err(None));
    }

    #[test]
    fn every_event_is_on_every_page() {
        let (text, markdown) = (text(), markdown());
        for descriptor in &DESCRIPTORS {
            assert!(text.contains(&format!("  {:<20}", descriptor.name)), "{}", descriptor.name);
            let mark = if descriptor.probe.is_some() { " ◉" } else { "" };
            assert!(markdown.contains(&format!("| `{}`{mark}<br>`{}` |", descriptor.name, descriptor.fire)));
            let page = one(descriptor.id);
            assert_eq!(descriptor.probe.is_some(), page.contains("\n  probe stopworld:"), "{page}");
            assert!(descriptor.fields.iter().all(|field| page.contains(field.name) && page.contains(field.doc)));
        }
    }
}
