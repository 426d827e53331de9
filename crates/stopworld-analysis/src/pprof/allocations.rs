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
            [] => vec![calls.location(&mut builder, None, &[])],
            frames => frames
                .iter()
                .map(|frame| calls.location(&mut builder, Some((frame, &allocations.modules)), &frame.calls))
                .collect(),
        };
        let label = builder.labels(site);
        let value = site.estimates.rounded().map(as_value).into();
        builder.profile.sample.push(Sample { location_id, value, label });
    }
    builder.write(out)
}

/// The name of a stack that is not known.
const UNKNOWN: &str = "(unknown)";

/// The locations and functions so far.
#[derive(Default)]
struct Calls {
    /// By the address, and the number of calls of a frame that are shown.
    locations: HashMap<(u64, usize), u64>,
    /// By name, file and line.
    functions: HashMap<(i64, i64), u64>,
}

impl Calls {
    fn location(
        &mut self,
        builder: &mut Builder,
        frame: Option<(&CallFrame, &[ProgramModule])>,
        calls: &[CodePlace],
    ) -> u64 {
        let address = frame.map_or(0, |(frame, _)| frame.address);
        if let Some(id) = self.locations.get(&(address, calls.len())) {
            return *id;
        }
        let is_in = |module: &ProgramModule| module.range.contains(&(address as usize));
        let mapping = frame.and_then(|(_, modules)| modules.iter().position(is_in));
        let line = match calls {
            [] => vec![self.line(builder, UNKNOWN, "", 0)],
            calls => calls
                .iter()
                .map(|call| self.line(builder, call.function(), call.file().unwrap_or(""), call.line().unwrap_or(0)))
                .collect(),
        };
        let id = builder.profile.location.len() as u64 + 1;
        let mapping_id = mapping.map_or(0, |index| index as u64 + 1);
        builder.profile.location.push(Location { id, mapping_id, address, line });
        self.locations.insert((address, calls.len()), id);
        id
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

impl Builder {
    fn mapping(&mut self, module: &ProgramModule, id: u64) {
        let build_id: String = module.build_id.iter().map(|byte| format!("{byte:02x}")).collect();
        let mapping = Mapping {
            id,
            memory_start: module.range.start as u64,
            memory_limit: module.range.end as u64,
            file_offset: 0,
            filename: self.text(&module.path.to_string_lossy()),
            build_id: self.text(&build_id),
            has_functions: true,
            has_filenames: true,
            has_line_numbers: true,
            has_inline_frames: true,
        };
        self.profile.mapping.push(mapping);
    }

    /// The type and size of a site's objects.
    fn labels(&mut self, site: &NamedSite) -> Vec<Label> {
        let type_name = Label { key: self.text("type"), str: self.text(site.type_name), num: 0, num_unit: 0 };
        let (key, num_unit) = (self.text("bytes"), self.text("bytes"));
        vec![type_name, Label { key, str: 0, num: as_value(site.object_bytes), num_unit }]
    }
}
