//! The format of the debugger's output: tables whose cells never wrap, so that `grep` and `awk` work on them.

use std::fmt::Write;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use super::answer::PathStep;
use super::backtrace::Frame;
use super::command::{commands, usage};
use stopworld_analysis::report::{Bytes, Micros};
use stopworld_platform::os::signals;
use stopworld_postmortem::{ObjectFacts, Referrer};
use stopworld_ptrace::{
    Address, Debugger, Enrolment, HandshakeState, Mode, Registers, RunState, SignalRule, TargetState, ThreadState,
    WorldState,
};

fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = plain();
    table.set_header(header);
    table
}

fn plain() -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Disabled);
    table
}

fn right(table: &mut Table, columns: impl IntoIterator<Item = usize>) {
    for index in columns {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

pub(super) fn help() -> String {
    let commands = commands();
    let usages: Vec<_> = commands.iter().map(usage).collect();
    let width = usages.iter().map(|usage| usage.chars().count()).max().unwrap_or(0);
    let about = commands.iter().map(|command| command.get_about().unwrap_or_default());
    let lines: Vec<_> = usages.iter().zip(about).map(|(usage, about)| format!("{usage:width$}  {about}")).collect();
    lines.join("\n")
}

pub(super) fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Full => "full: the debugger stops the world",
        Mode::Assisted => "assisted: the collector stops the world with its own signals",
    }
}

fn run(state: RunState) -> &'static str {
    match state {
        RunState::Running => "runs",
        RunState::Frozen => "stopped by you",
        RunState::StoppedForCollection => "stopped for a collection",
        RunState::HeldAtPhase => "collects, held",
        RunState::GroupStopped => "job stopped",
        RunState::Notifying => "notifies",
        RunState::Exiting => "ends",
    }
}

fn handshake_state(enrolment: &Enrolment) -> String {
    let place = match enrolment.record.handshake_state() {
        HandshakeState::Detached => "detached",
        HandshakeState::Running => "running",
        HandshakeState::Blocking => "blocking",
        HandshakeState::Parked => "parked",
    };
    let held = |bit: u32, by: &'static str| if enrolment.record.state >> bit & 1 == 1 { by } else { "" };
    format!("{place}{}{}", held(2, ", in a collection"), held(3, ", suspended"))
}

pub(super) fn threads(threads: &[ThreadState]) -> Table {
    let mut table = table(["thread", "name", "", "world", "for the collector", "stack_ptr", "stack"]);
    for thread in threads {
        let managed = thread.managed.as_ref();
        let of = |text: &dyn Fn(&Enrolment) -> String| managed.map_or(String::new(), text);
        let pending = thread.pending.map_or(String::new(), |signal| format!(", before {}", signals::name(signal)));
        // Show that the user has stopped the thread, even if it is stopped for a collection.
        let held = if thread.frozen && thread.run != RunState::Frozen { ", and by you" } else { "" };
        table.add_row([
            thread.tid.to_string(),
            managed.map_or(thread.comm.clone(), |managed| managed.record.name.clone()),
            format!("{}{held}{pending}", run(thread.run)),
            of(&|managed| managed.world.to_string()),
            of(&handshake_state),
            of(&|managed| managed.record.stack_ptr.to_string()),
            of(&|managed| format!("{}-{}", managed.record.stack.0, managed.record.stack.1)),
        ]);
    }
    right(&mut table, [0]);
    table
}

pub(super) fn status(debugger: &Debugger, worlds: &[WorldState]) -> String {
    let mut lines = plain();
    let mut row = |name: &str, value: String| {
        lines.add_row([name.to_owned(), value]);
    };
    let state = match debugger.state() {
        TargetState::Alive => "alive".to_owned(),
        TargetState::Exited(code) => format!("has ended with {code}"),
        TargetState::Killed(signal) => format!("was killed by {}", signals::name(signal)),
        TargetState::Detached => "is detached".to_owned(),
    };
    row("process", format!("{} {state}", debugger.pid()));
    row("mode", mode(debugger.options().mode).to_owned());
    for library in debugger.libraries() {
        let [notifies, suspends] = [library.notify_signal, library.suspend_signal].map(signals::name);
        let signals = format!("notifies with {notifies}, suspends with {suspends}");
        row("collector", format!("{}, descriptor at {}, {signals}", library.module, library.descriptor));
    }
    if debugger.libraries().is_empty() {
        row("collector", "none was found in the process".to_owned());
    }
    if let Some(held) = debugger.held() {
        row("held", format!("world {} at {}, by thread {}", held.world, held.phase.name(), held.tid));
    }
    let done = debugger.statistics();
    row("stops served", format!("{}, {} starts", done.stops, done.starts));
    if let Some(median) = median(&done.stop_ns) {
        row("a stop takes", format!("{} µs (median)", Micros(median)));
    }
    row("threads", format!("{} created, {} exited", done.created, done.exited));
    let signals = (done.passed_signals, done.held_signals, done.withheld_signals);
    row("signals", format!("{} passed on, {} kept for later, {} withheld", signals.0, signals.1, signals.2));
    let mut text = lines.to_string();
    if !worlds.is_empty() {
        let _ = write!(text, "\n{}", self::worlds(worlds));
    }
    text
}

/// Formats the table of how signals are handled.
pub(super) fn signals(rules: impl Iterator<Item = (i32, SignalRule)>) -> Table {
    let mut table = table(["signal", "number", "stop", "print", "pass to program"]);
    let word = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    for (signal, rule) in rules {
        table.add_row([signals::name(signal), signal.to_string(), word(rule.stop), word(rule.print), word(rule.pass)]);
    }
    right(&mut table, [1]);
    table
}

fn median(samples: &[u64]) -> Option<u64> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied()
}

fn worlds(worlds: &[WorldState]) -> Table {
    let mut table = table(["world", "collections", "phase", "stopped by", "stopper", "heap"]);
    for world in worlds {
        table.add_row([
            world.number.to_string(),
            world.collections.to_string(),
            world.phase.map_or_else(|number| number.to_string(), |phase| phase.name().to_owned()),
            world.collecting.map_or(String::new(), |tid| format!("thread {tid}")),
            world.stopper.clone(),
            format!("{}-{}", world.heap.0, world.heap.1),
        ]);
    }
    table
}

/// Returns an object's type as one word.
fn type_name(facts: &ObjectFacts) -> String {
    facts.length.map_or_else(|| facts.type_name.clone(), |length| format!("[{}; {length}]", facts.type_name))
}

pub(super) fn object(facts: &ObjectFacts, is_half_built: bool, requested: Address, world: u64) -> Table {
    let mut table = plain();
    let inside = requested.0.wrapping_sub(facts.address);
    let inside = if inside == 0 { String::new() } else { format!(" ({requested} is {inside} bytes in)") };
    table.add_row(["object".to_owned(), format!("{}{inside}", Address(facts.address))]);
    table.add_row(["type".to_owned(), type_name(facts)]);
    table.add_row(["size".to_owned(), format!("{} bytes in a cell of {}", facts.bytes, facts.footprint)]);
    table.add_row(["space".to_owned(), format!("{}, world {world}", facts.space)]);
    table.add_row(["marked".to_owned(), if facts.is_marked { "yes" } else { "no" }.to_owned()]);
    let notes: Vec<&str> = [
        (facts.is_leaf, "holds no references"),
        (facts.is_weak, "does not keep its target alive"),
        (is_half_built, "is being constructed"),
        (facts.is_dropped, "is dropped when it is unreachable"),
    ]
    .into_iter()
    .filter(|(holds, _)| *holds)
    .map(|(_, note)| note)
    .collect();
    if !notes.is_empty() {
        table.add_row(["note".to_owned(), notes.join(", ")]);
    }
    if facts.field_count > 0 {
        table.add_row(["fields".to_owned(), facts.field_count.to_string()]);
    }
    table
}

fn with_rest(table: Table, count: u64, shown: usize) -> String {
    let rest = count - (shown as u64).min(count);
    if rest == 0 { table.to_string() } else { format!("{table}\nand {rest} more") }
}

pub(super) fn fields(facts: &ObjectFacts) -> String {
    let mut table = table(["offset", "value", "references", "type"]);
    for field in &facts.fields {
        let (target, name) =
            field.target.clone().map_or_else(Default::default, |(at, name)| (Address(at).to_string(), name));
        table.add_row([format!("+{}", field.offset), format!("{:#x}", field.value), target, name]);
    }
    right(&mut table, [0]);
    with_rest(table, facts.field_count, facts.fields.len())
}

pub(super) fn referrers(count: u64, referrers: &[Referrer]) -> String {
    let mut table = table(["object", "at", "type"]);
    for referrer in referrers {
        let (object, offset) = (Address(referrer.address), referrer.offset);
        table.add_row([object.to_string(), format!("+{offset}"), referrer.type_name.clone()]);
    }
    with_rest(table, count, referrers.len())
}

pub(super) fn path(steps: &[PathStep]) -> Table {
    let mut table = table(["", "keeps", "type"]);
    for step in steps {
        table.add_row([step.place.clone(), step.object.to_string(), step.name.clone()]);
    }
    table
}

pub(super) fn census(world: u64, mut rows: Vec<(String, u64, u64)>) -> String {
    rows.sort_by(|a, b| b.2.cmp(&a.2).then_with(|| a.0.cmp(&b.0)));
    let (objects, bytes) = rows.iter().fold((0, 0), |(objects, bytes), row| (objects + row.1, bytes + row.2));
    let mut table = table(["type", "objects", "bytes"]);
    for (name, objects, bytes) in rows {
        table.add_row([name, objects.to_string(), bytes.to_string()]);
    }
    right(&mut table, [1, 2]);
    format!("{table}\nworld {world}: {objects} objects, {}", Bytes(bytes))
}

pub(super) fn registers(registers: &Registers) -> String {
    let lines: Vec<_> = registers.iter().map(|(name, value)| format!("{name:<9}{value:#018x}")).collect();
    let rows: Vec<_> = lines.chunks(3).map(|row| row.join("   ")).collect();
    rows.join("\n")
}

pub(super) fn frames(frames: &[Frame]) -> String {
    let mut number = 0;
    let mut lines = Vec::new();
    for frame in frames {
        let address = if frame.inlined { " ".repeat(18) } else { format!("{:#018x}", frame.address) };
        let at = if frame.place.is_empty() { String::new() } else { format!(" at {}", frame.place) };
        lines.push(format!("#{number:<3}{address} {}{at}", frame.function));
        number += u32::from(!frame.inlined);
    }
    lines.join("\n")
}

pub(super) fn memory(at: Address, bytes: &[u8]) -> String {
    let words: Vec<_> =
        bytes.as_chunks::<8>().0.iter().map(|word| format!("{:#018x}", u64::from_le_bytes(*word))).collect();
    let rows = words.chunks(2).enumerate();
    let lines: Vec<_> = rows.map(|(index, row)| format!("{}  {}", at.offset(index * 16), row.join(" "))).collect();
    lines.join("\n")
}
