//! `run --alloc-stacks`: sampled allocations with their call stacks, written at the end of the run.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;

use super::atomic_output::Output;
use super::exit::Failure;
use super::flame_graph;
use super::size::Size;
use stopworld::profile::allocations::{AllocationProfile, AllocationSampling};
use stopworld_analysis::allocations::Allocations;
use stopworld_analysis::pprof;

#[derive(Debug, Args)]
pub(super) struct AllocStacksOptions {
    /// Sample the allocations with their call stacks, and write what was allocated and what is in use: FILE.pb.gz for pprof, FILE.folded
    /// for flame graph tools, FILE.svg, FILE.json for speedscope, or FILE.txt
    #[arg(long, value_name = "FILE", value_parser = AllocStacks::named)]
    pub(super) alloc_stacks: Option<AllocStacks>,

    /// The mean number of bytes between two sampled allocations, such as 64KiB [default: 512KiB]. Samples are taken for --alloc-stacks, for
    /// a .nettrace with GC@Verbose, and, if this option is given, for the clients of --diagnostics
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub(super) alloc_interval: Option<Size>,

    /// The seed of the random distances between sampled allocations, to repeat a run [default: random]
    #[arg(long, value_name = "N")]
    pub(super) alloc_seed: Option<u64>,
}

/// The format of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Pprof,
    Folded,
    Svg,
    Speedscope,
    Text,
}

/// The formats by the endings of file names.
const FORMATS: [(&str, Format); 6] = [
    (".pb.gz", Format::Pprof),
    (".pprof", Format::Pprof),
    (".folded", Format::Folded),
    (".svg", Format::Svg),
    (".json", Format::Speedscope),
    (".txt", Format::Text),
];

/// The only frame of a drawing of a run without samples.
const NO_SAMPLES: &str = "(no samples)";

/// The requested file.
#[derive(Clone, Debug)]
pub(super) struct AllocStacks {
    path: PathBuf,
    format: Format,
}

impl AllocStacksOptions {
    /// Returns how the world samples its allocations, if that is requested: by these options, or by a trace that is to have the samples. The
    /// clients of the diagnostics socket do not request it by themselves, because the world may exist before they do.
    pub(super) fn sampling(&self, is_traced: bool, has_clients: bool) -> Result<Option<AllocationSampling>, Failure> {
        let option = match (self.alloc_interval, self.alloc_seed) {
            (Some(_), _) => Some("--alloc-interval"),
            (None, Some(_)) => Some("--alloc-seed"),
            (None, None) => None,
        };
        match option {
            _ if self.alloc_stacks.is_some() || is_traced => {}
            None => return Ok(None),
            Some(_) if has_clients => {}
            Some(option) => {
                return Err(Failure::Usage(format!(
                    "{option}: nothing has a use for samples: add --alloc-stacks FILE, --trace FILE.nettrace --events GC@Verbose, or \
                     --diagnostics"
                )));
            }
        }
        let interval = self.alloc_interval.map_or(AllocationSampling::DEFAULT_INTERVAL, |size| size.bytes() as u64);
        let random = AllocationSampling::every(interval);
        Ok(Some(AllocationSampling { seed: self.alloc_seed.unwrap_or(random.seed), ..random }))
    }

    /// Returns the requested file. Checks that it can be written.
    pub(super) fn output(&self) -> anyhow::Result<Option<AllocStacks>> {
        self.alloc_stacks.as_ref().map_or(Ok(()), |file| Output::check(&file.path))?;
        Ok(self.alloc_stacks.clone())
    }
}

impl AllocStacks {
    /// Returns the file with this name, which selects the format.
    fn named(name: &str) -> Result<Self, String> {
        let known = FORMATS.iter().find(|(ending, _)| name.ends_with(ending));
        let &(_, format) = known.ok_or_else(|| {
            let endings = FORMATS.map(|(ending, _)| ending).join(" ");
            match name {
                "-" => format!(
                    "call stacks are not written to standard output: name a file that ends with one of {endings}"
                ),
                _ => format!("its name must select a format: end it with one of {endings}"),
            }
        })?;
        Ok(Self { path: PathBuf::from(name), format })
    }

    /// The name of the file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the file.
    pub(super) fn write(&self, profile: &AllocationProfile) -> anyhow::Result<()> {
        let name = self.path.display();
        let mut output = Output::open(&self.path)?;
        let writing = || format!("--alloc-stacks: can't write {name}");
        self.write_to(&Allocations::of(profile), &mut &mut output).with_context(writing)?;
        output.finish().with_context(writing)
    }

    fn write_to(&self, allocations: &Allocations, out: &mut dyn Write) -> io::Result<()> {
        let title = self.path.file_name().unwrap_or_default().to_string_lossy();
        match self.format {
            Format::Pprof => pprof::allocations(allocations, out),
            Format::Folded => allocations.folded(out),
            // A drawing needs a frame.
            Format::Svg if allocations.sites.is_empty() => {
                flame_graph::draw(&[format!("{NO_SAMPLES} 1")], "bytes", &title, out)
            }
            Format::Svg => flame_graph::draw(&allocations.folded_lines(), "bytes", &title, out),
            Format::Speedscope => allocations.speedscope(&title, out),
            Format::Text => out.write_all(allocations.text().as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("run.pb.gz", Some(Format::Pprof))]
    #[case("a.b/run.folded", Some(Format::Folded))]
    #[case("run.speedscope.json", Some(Format::Speedscope))]
    #[case("run.gz", None)]
    #[case("folded", None)]
    fn the_ending_selects_the_format(#[case] name: &str, #[case] expected: Option<Format>) {
        assert_eq!(AllocStacks::named(name).ok().map(|file| file.format), expected);
    }
}
