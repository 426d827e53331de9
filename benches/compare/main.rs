//! Us, the peer and the bare limit, side by side: `cargo bench --bench compare`.
//!
//! The peer is bdwgc (Debian's libgc), running the same programs written in C (`benches/peers`). The *bare limit* is
//! the same work with no collector around it: a loop of tgkill and futex for stopping, a prefetch queue over a flat
//! mapping for marking. A row of the table is one number of ours, the same number of theirs, the ratios, the limit
//! that must hold, and whether it does.
//!
//! # How the comparison stays fair on a small and noisy machine
//!
//! Nothing is measured in one long block. A *contest* sets up its sides as separate processes, each with a heap and
//! threads of its own, and then runs them in turns, a short round each (us, peer, bare, bare, peer, us, …), while
//! the others use no processor. Each round gives one ratio; the row shows their median and, with `--spread`, the
//! middle half of them. What slows down the machine for a second slows down all sides of a round, and a round that
//! was hit harder is an outlier that the median ignores. Every few rounds the processes are started anew, so that
//! no lucky placement of memory or threads decides a row.
//!
//! Our side runs in this same binary as a child (`compare --child bintrees 18 1`), so that memory is counted per
//! program; the programs and their output are those of the peers, line by line.
//!
//! # Use
//!
//! ```text
//! cargo bench --bench compare                     every row, 30 rounds
//! cargo bench --bench compare -- stop mark        the rows of these groups
//! cargo bench --bench compare -- --quick          3 rounds: a smoke test, no verdict to quote
//! cargo bench --bench compare -- --list           the rows and what must hold
//! ```
//!
//! Groups: stop, restart, mark, allocate, programs, events. Needs cc and make for the C programs and libgc
//! (`apt-get install libgc-dev`) for the peers; what is missing is named and skipped.

mod child;
mod contest;
mod line;
mod options;
mod peers;
mod rows;
mod table;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(("--child", program)) = arguments.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        return child::run(program);
    }
    match options::Options::parse(&arguments) {
        Ok(options::Asked::Compare(options)) => compare(&options),
        Ok(options::Asked::Help) => {
            print!("{}", options::HELP);
            ExitCode::SUCCESS
        }
        Err(complaint) => {
            eprintln!("compare: {complaint}");
            ExitCode::from(2)
        }
    }
}

fn compare(options: &options::Options) -> ExitCode {
    let mut contests = rows::chosen(&options.rows);
    if options.calibrate {
        contests.retain_mut(rows::Contest::calibrate);
    }
    if contests.is_empty() {
        eprintln!("compare: no row matches {:?}; --list shows them", options.rows);
        return ExitCode::from(2);
    }
    if options.list {
        table::list(&contests);
        return ExitCode::SUCCESS;
    }
    let programs = peers::build();
    table::heading(options, &programs);
    let mut tally = table::Tally::default();
    for contest in &contests {
        let results = contest::run(contest, &programs, options);
        for row in &contest.rows {
            tally.count(table::show(row, &contest.sides, &results, options));
        }
    }
    if contests.iter().flat_map(|contest| &contest.rows).any(|row| row.group == "events") {
        child::show_machine_code();
    }
    tally.show();
    if options.strict && tally.fell_short() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
