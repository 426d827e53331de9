//! Compares stopworld ("us"), a peer and the bare limit: `cargo bench --bench compare`.
//!
//! The peer is bdwgc (Debian's libgc), running the same programs written in C (`benches/peers`). The *bare limit* is
//! the same work without a collector: a loop of tgkill and futex for stopping, a prefetch queue over a flat
//! mapping for marking. A row of the table shows one measurement of each side, the ratios, the required limit,
//! and whether it holds.
//!
//! # How the comparison stays fair on a small and noisy machine
//!
//! Nothing is measured in one long block. A *contest* starts its sides as separate processes, each with its own heap and
//! threads, and then runs them in turns, a short round each (us, peer, bare, bare, peer, us, …), while
//! the others use no CPU time. Each round gives one ratio; the row shows their median and, with `--spread`, the
//! middle half of them. A disturbance of the machine that lasts a second affects all sides of a round, and a round that
//! is affected unevenly is an outlier that the median ignores. The processes are restarted every few rounds, so that
//! a lucky placement of memory or threads does not decide a row.
//!
//! Our side runs in this same binary as a child (`compare --child bintrees 18 1`), so that memory is counted per
//! program. The programs and their output are the same as those of the peers.
//!
//! # Use
//!
//! ```text
//! cargo bench --bench compare                     every row, 30 rounds
//! cargo bench --bench compare -- stop mark        the rows of these groups
//! cargo bench --bench compare -- --quick          3 rounds: a smoke test, not for quoting
//! cargo bench --bench compare -- --list           the rows and their limits
//! ```
//!
//! Groups: stop, restart, mark, steps, allocate, programs, events. Needs cc and make for the C programs and libgc
//! (`apt-get install libgc-dev`) for the peers; rows that need a missing package are skipped, with the reason.

mod cache_line;
mod child;
mod contest;
mod line;
mod options;
mod peers;
mod rows;
mod table;
mod tools;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(("--child", program)) = arguments.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        return child::run(program);
    }
    match options::Options::parse(&arguments) {
        Ok(options::CommandLine::Compare(options)) => compare(&options),
        Ok(options::CommandLine::Help) => {
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
        eprintln!("compare: no row matches {:?}; --list shows the rows", options.rows);
        return ExitCode::from(2);
    }
    if options.list {
        table::list(&contests);
        return ExitCode::SUCCESS;
    }
    let programs = peers::build();
    table::heading(options, &programs);
    let mut tally = table::Tally::default();
    let mut moves = cache_line::Moves::default();
    for contest in &contests {
        moves.measure();
        let results = contest::run(contest, &programs, options);
        for row in &contest.rows {
            tally.count(table::show(row, &contest.sides, &results, options));
        }
    }
    if contests.iter().flat_map(|contest| &contest.rows).any(|row| row.group == "events") {
        child::show_machine_code();
    }
    moves.show();
    tally.show();
    if options.strict && tally.fell_short() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
