//! Allocation profiles.

use std::collections::HashMap;
use std::io::{self, Write};

use stopworld::profile::allocations::ProgramModule;
use stopworld_platform::symbols::CodePlace;

use super::messages::{Function, Label, Line, Location, Mapping, Sample};
use super::{Builder, as_value};
use crate::allocations::{Allocations, CallFrame, NamedSite};

/// Writes an allocation profile. What is in use is shown by default, as in the heap profiles of Go.
///
/// # Errors
/// Writing failed.
pub fn allocations(allocations: &Allocations, out: &mut dyn Write) -> io::Result<()> {
    let mut builder = Builder::new();
    for (name, unit) in [("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count")] {
        builder.sample_type(name, unit);
    }
    builder.profile.default_sample_type = builder.sample_type("inuse_space", "bytes").r#type;
    let period = builder.value_type("space", "bytes");
    (builder.profile.period_type, builder.profile.period) = (Some(period), as_value(allocations.interval_bytes));
    if allocations.dropped > 0 {
        builder.comment(&format!("{} samples are missing: the table of samples was full", allocations.dropped));
    }
    if allocations.untracked > 0 {
        let untracked = allocations.untracked;
        builder.comment(&format!("{untracked} samples count as allocated only: the table of live objects was full"));
    }
    for (module, id) in allocations.modules.iter().zip(1..) {
        builder.mapping(module, id);
    }
    let mut calls = Calls::default();
    for site in &allocations.sites {
        let location_id = match &site.frames[..] {
            [] => vec![calls.unknown(&mut builder)],
            frames => frames.iter().map(|frame| calls.location(&mut builder, frame, &allocations.modules)).collect(),
        };
        let label = builder.labels(site);
        let value = site.estimates.values().map(as_value).into();
        builder.profile.sample.push(Sample { location_id, value, label });
    }
    builder.write(out)
}

/// The name of a stack that is not known.
const UNKNOWN: &str = "(unknown)";

/// The locations and functions so far.
#[derive(Default)]
struct Calls {
    /// By the mapping, the address and the lines: stacks show different numbers of the calls of a frame.
    locations: HashMap<(u64, u64, Vec<Line>), u64>,
    /// By name and file.
    functions: HashMap<(i64, i64), u64>,
}

impl Calls {
    /// Returns the location of a frame.
    fn location(&mut self, builder: &mut Builder, frame: &CallFrame, modules: &[ProgramModule]) -> u64 {
        let lines = frame
            .calls
            .iter()
            .map(|call| self.line(builder, call.function(), call.file().unwrap_or(""), call.line().unwrap_or(0)))
            .collect();
        let mapping = modules.iter().position(|module| module.range.contains(&(frame.address as usize)));
        if let Some(index) = mapping {
            builder.profile.mapping[index].found(&frame.calls);
        }
        self.location_of(builder, mapping.map_or(0, |index| index as u64 + 1), frame.address, lines)
    }

    /// Returns the location of a stack that is not known.
    fn unknown(&mut self, builder: &mut Builder) -> u64 {
        let line = self.line(builder, UNKNOWN, "", 0);
        self.location_of(builder, 0, 0, vec![line])
    }

    fn location_of(&mut self, builder: &mut Builder, mapping_id: u64, address: u64, line: Vec<Line>) -> u64 {
        let locations = &mut builder.profile.location;
        *self.locations.entry((mapping_id, address, line)).or_insert_with_key(|(_, _, line)| {
            let id = locations.len() as u64 + 1;
            locations.push(Location { id, mapping_id, address, line: line.clone() });
            id
        })
    }

    fn line(&mut self, builder: &mut Builder, name: &str, file: &str, line: u32) -> Line {
        let (name, filename) = (builder.text(name), builder.text(file));
        let functions = &mut builder.profile.function;
        let function_id = *self.functions.entry((name, filename)).or_insert_with(|| {
            let id = functions.len() as u64 + 1;
            functions.push(Function { id, name, filename, start_line: 0 });
            id
        });
        Line { function_id, line: i64::from(line) }
    }
}

impl Mapping {
    /// Notes what is known of some calls: a reader looks up what no call of a mapping has. Line tables come with the inlined functions.
    fn found(&mut self, calls: &[CodePlace]) {
        self.has_functions |= calls.iter().any(CodePlace::has_symbol);
        self.has_filenames |= calls.iter().any(|call| call.file().is_some());
        self.has_line_numbers |= calls.iter().any(|call| call.line().is_some());
        self.has_inline_frames = self.has_line_numbers;
    }
}

impl Builder {
    fn mapping(&mut self, module: &ProgramModule, id: u64) {
        let build_id: String = module.build_id.iter().map(|byte| format!("{byte:02x}")).collect();
        let mapping = Mapping {
            id,
            memory_start: module.range.start as u64,
            memory_limit: module.range.end as u64,
            filename: self.text(&module.path.to_string_lossy()),
            build_id: self.text(&build_id),
            ..Mapping::default()
        };
        self.profile.mapping.push(mapping);
    }

    /// The type and size of a site's objects, and the cost centres of the thread. A reader that is asked to use a label as frames takes one
    /// text for each label, so the stack of centres is one text, and the innermost centre another.
    fn labels(&mut self, site: &NamedSite) -> Vec<Label> {
        let texts = [
            ("type", site.type_name),
            ("cost_centre", &site.cost_centres.innermost),
            ("cost_centre_stack", &site.cost_centres.path),
        ];
        let mut labels: Vec<Label> = Vec::with_capacity(texts.len() + 1);
        for (key, text) in texts {
            labels.push(Label { key: self.text(key), str: self.text(text), num: 0, num_unit: 0 });
        }
        let (key, num_unit) = (self.text("bytes"), self.text("bytes"));
        labels.push(Label { key, str: 0, num: as_value(site.object_bytes), num_unit });
        labels
    }
}
