//! `stopworld heap`: what is in a heap snapshot or a heap dump: objects by type, retained sizes, paths from roots, growth.
//!
//! The report goes to standard output. Exit codes: 0; 1 for a file without a heap, a damaged trace, or an object that does not exist or is not reached;
//! 141 if standard output was closed.

use std::io::{self, Write};
use std::path::Path;

use anyhow::anyhow;

use super::arguments::Heap as Arguments;
use super::exit::{FAILED, Failure, PIPE_CLOSED, refuse_terminal, unwritten_report};
use super::snapshot::{check_options, damaged, no_dumps};
use heap_snapshot::{Dominators, Graph, paths};
use stopworld_analysis::pprof;
use stopworld_analysis::report::{heap_map, heap_objects};
use stopworld_analysis::snapshot::{DumpChoice, OpenedHeap, TypeRow, census, growth};

/// `stopworld heap`.
pub(super) fn run(arguments: &Arguments) -> Result<u8, Failure> {
    let mut is_whole = true;
    let code = report(arguments, &mut is_whole)?;
    Ok(if code == 0 && !is_whole { FAILED } else { code })
}

/// Clears `is_whole` if a part of a core can't be read, or a trace is damaged.
fn report(arguments: &Arguments, is_whole: &mut bool) -> Result<u8, Failure> {
    if let Some([before, after]) = arguments.diff.as_deref() {
        if [before, after].iter().all(|file| file.as_os_str() == "-") {
            return Err(Failure::Usage(
                "--diff: both snapshots are `-`, but standard input can be only one of them: name a file for the other"
                    .to_owned(),
            ));
        }
        let before = types(before, arguments, is_whole)?;
        let growth = growth(&before, &types(after, arguments, is_whole)?);
        return print(&heap_objects::render_growth(&growth, arguments.top));
    }
    let Some(file) = &arguments.file else {
        return Err(Failure::Usage("no file given: `stopworld heap FILE` or `stopworld heap --diff A B`".to_owned()));
    };
    if arguments.pprof {
        refuse_terminal("heap --pprof", "FILE --pprof > objects.pb.gz")?;
        let census = types(file, arguments, is_whole)?;
        return write(|out| pprof::objects(&census, out));
    }
    let graph = read(file, arguments, is_whole)?;
    let dominators = Dominators::of(&graph);
    let Some(address) = arguments.why else {
        let census = census(&graph, &dominators);
        return print(&if arguments.html {
            heap_map::render(&graph, &dominators, &census, &file.display().to_string())
        } else {
            heap_objects::render(&graph, &dominators, &census, arguments.top)
        });
    };
    let name = file.display();
    let Some(object) = graph.find(address) else {
        return Err(anyhow!(
            "{name}: no object contains {address:#x}: `stopworld heap {name}` lists addresses of large objects"
        )
        .into());
    };
    match paths::shortest(&graph, object) {
        Some(path) => print(&heap_objects::render_path(&graph, &dominators, &path)),
        None => {
            eprintln!("heap: {name}: no root reaches the object at {address:#x}");
            Ok(FAILED)
        }
    }
}

fn read(file: &Path, arguments: &Arguments, is_whole: &mut bool) -> Result<Graph, Failure> {
    let name = file.display();
    let opened = super::heap_input::open(file)?;
    let core = super::post_mortem::core_graph(&opened, file, &arguments.core)?;
    if let Some(found) = core {
        // A comparison may be of a core and a trace.
        if arguments.collection.is_some() && arguments.diff.is_none() {
            return Err(no_dumps(&name));
        }
        *is_whole &= found.is_whole;
        return Ok(found.graph);
    }
    if arguments.diff.is_none() {
        check_options(file, &opened, &arguments.core, arguments.collection)?;
    }
    let choice = DumpChoice { collection: arguments.collection, world: arguments.core.world };
    let failed = |error| anyhow!("{name}: {error}");
    let opened = OpenedHeap::open(opened, choice).map_err(failed)?;
    if let OpenedHeap::Trace(trace) = &opened
        && let Some(damaged) = damaged(trace)
    {
        eprintln!("heap: {name}: {damaged}");
        *is_whole = false;
    }
    Ok(opened.into_graph().map_err(failed)?)
}

fn types(file: &Path, arguments: &Arguments, is_whole: &mut bool) -> Result<Vec<TypeRow>, Failure> {
    let graph = read(file, arguments, is_whole)?;
    Ok(census(&graph, &Dominators::of(&graph)))
}

fn print(text: &str) -> Result<u8, Failure> {
    write(|out| writeln!(out, "{text}"))
}

fn write(report: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<u8, Failure> {
    let mut out = io::stdout().lock();
    match report(&mut out).and_then(|()| out.flush()) {
        Ok(()) => Ok(0),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(PIPE_CLOSED),
        Err(error) => Err(unwritten_report(&error)),
    }
}
