//! The table as people read it: a page for a terminal, a page in Markdown, one event by itself.
//!
//! All three are made from [`DESCRIPTORS`], so they can't be wrong about it; `docs/events.md` is the second, and a test
//! holds it equal to what comes out here.

use std::fmt::Write;

use super::table::{DESCRIPTORS, Descriptor, EventId, GhcEvent, Group, MpsEvent, NetEvent};
use stopworld_platform::suggest::nearest;

/// The event of this name; letter case, `-` and `_` don't matter.
///
/// # Errors
/// There is none: then the nearest, if one is near.
pub fn find(name: &str) -> Result<EventId, Option<&'static str>> {
    let plain = |name: &str| name.replace(['-', '_'], "").to_ascii_lowercase();
    let found = DESCRIPTORS.iter().find(|descriptor| plain(descriptor.name) == plain(name));
    found.map(|descriptor| descriptor.id).ok_or_else(|| nearest(name, DESCRIPTORS.iter().map(|d| d.name)))
}

/// Every event in a line, by group: what it carries, and what it becomes.
pub fn text() -> String {
    let mut page = String::new();
    for group in Group::ALL {
        let _ = writeln!(page, "{group:?}: {}", about(group));
        for descriptor in of(group) {
            let becomes = becomes(descriptor).join("; ");
            let becomes = if becomes.is_empty() { "for our own tools only" } else { &becomes };
            let _ = writeln!(page, "  {:<20}{becomes}", descriptor.name);
            let _ = writeln!(page, "  {:<20}{}", "", signature(descriptor));
        }
        page.push('\n');
    }
    page.push_str("`stopworld events NAME` tells what an event means and what its fields are.\n");
    page
}

/// All that there is to say about one event.
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

/// The page of the documentation.
pub fn markdown() -> String {
    let mut page = String::from(
        "# Events\n\nMade from the table in `src/events/table.rs` by `stopworld events --markdown`. A test holds this page equal to it.\n\n\
         A payload is serialized as its fields in order, little-endian, without padding; a field marked ² came with version 2.\n\
         To stop a debugger where an event is told of, break at `stopworld_` and the name of its fire function.\n\
         gdb, perf and bpftrace see an event marked ◉ at [its probe](probes.md).\n\n\
         Records that found no room are nobody's event: they are counted, by ring and by consumer, and each consumer is told how many\n\
         are missing where they are missing. An MPS stream tells it by `MessagesDropped` (25, Arena).\n",
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
        Group::World => "Worlds, threads, and the way they are stopped.",
        Group::Collection => "The phases of a collection, in their order.",
        Group::Memory => "The heap between collections: memory, large objects, handles, finalizers.",
        Group::Object => "One event per object or reference. Expect many.",
        Group::Block => "One event per block, per root that was scanned, per refill of an allocation cache.",
        Group::User => "Names: texts, and what they were given to.",
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
