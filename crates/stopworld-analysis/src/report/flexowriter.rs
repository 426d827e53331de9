//! McCarthy's report.
//!
//! In 1960 John McCarthy showed LISP to an audience over closed-circuit television. The Flexowriter, ten characters a
//! second, was typing the results when free storage ran out, and it typed slowly, to general amusement:
//!
//! ```text
//! THE GARBAGE COLLECTOR HAS BEEN CALLED. SOME INTERESTING STATISTICS ARE AS FOLLOWS:
//! ```
//!
//! It continued, as McCarthy writes in *History of LISP* (1978), with the numbers of words marked and collected and the size of list
//! space: the report had not been switched off. Here `--flexowriter` switches it on, and it is printed after the world has restarted.

use std::fmt::{self, Write};

use stopworld::CollectionReport;

/// Bytes in a word of this machine: a car, or a cdr.
const WORD: u64 = 8;

/// Formats one collection in the style of the Flexowriter; ends with a newline.
pub fn render(report: &CollectionReport) -> String {
    let live = report.live.total();
    let mut page = String::new();
    // Writing to a String cannot fail.
    let _ = type_page(&mut page, report, live);
    page
}

fn type_page(page: &mut String, report: &CollectionReport, live: u64) -> fmt::Result {
    writeln!(page, "THE GARBAGE COLLECTOR HAS BEEN CALLED. SOME INTERESTING STATISTICS ARE AS FOLLOWS:")?;
    line(page, "THIS WAS CALL NUMBER", report.number)?;
    line(page, "CALLED BY", capitals(report.by))?;
    line(page, "THE REASON WAS", capitals(report.reason))?;
    line(page, "NUMBER OF WORDS MARKED", live / WORD)?;
    line(page, "NUMBER OF WORDS COLLECTED", report.freed_bytes / WORD)?;
    line(page, "NUMBER OF WORDS TAKEN SINCE THE LAST CALL", report.allocated_bytes / WORD)?;
    line(page, "SIZE OF LIST SPACE IN WORDS", report.committed_bytes / WORD)?;
    line(page, "NUMBER OF LIST STRUCTURES MARKED", report.live_objects)?;
    line(page, "PROGRAMS STOPPED", report.threads_stopped)?;
    if report.slowest_ns > 0 {
        line(page, "LAST TO STOP WAS", capitals(report.slowest))?;
    }
    line(page, "MICROSECONDS LOST", report.pause_ns / 1000)?;
    Ok(())
}

fn line(page: &mut String, what: &str, figure: impl fmt::Display) -> fmt::Result {
    // Dots lead the eye across. Padding needs the formatted text.
    let figure = format!(" {figure}");
    writeln!(page, "  {what} {figure:.>width$}", width = 62usize.saturating_sub(what.len()))
}

/// Converts to capitals: the Flexowriter had no small letters.
fn capitals(words: impl fmt::Display) -> String {
    words.to_string().to_uppercase()
}
