//! What the terminal shows, drawn from the history: nothing here knows a real terminal.

use std::cmp::Reverse;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Paragraph, Row, Sparkline, Table, Wrap};

use super::feed::Target;
use super::model::{History, PHASES, Pause, Phase, Runtime, SPACES, Thread};
use stopworld_analysis::report::{Bytes, Micros};

/// Below this width or height only the summary is shown.
const NARROW: u16 = 60;
const LOW: u16 = 16;
/// The number of latest pauses over which the phases are averaged.
const RECENT: usize = 100;
const KEYS: &str = " q, Esc or Ctrl-C ends ";

/// Draws everything.
pub fn draw(frame: &mut Frame<'_>, target: &Target, history: &History) {
    let area = frame.area();
    if area.width < NARROW || area.height < LOW {
        let lines = [title(target, history), summary(history), losses(history)];
        frame.render_widget(Paragraph::new(lines.to_vec()).wrap(Wrap { trim: true }), area);
        return;
    }
    let [head, top, bottom, foot] =
        Layout::vertical([Constraint::Length(3), Constraint::Fill(3), Constraint::Fill(2), Constraint::Length(1)])
            .areas(area);
    // The reasons of collections need more room than the bands.
    let [top_left, top_right] = Layout::horizontal([Constraint::Fill(11), Constraint::Fill(9)]).areas(top);
    let [bottom_left, bottom_right] = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).areas(bottom);
    let about = [title(target, history), summary(history), losses(history)];
    frame.render_widget(Paragraph::new(about.to_vec()), head);
    pauses(frame, top_left, history);
    heap(frame, top_right, history);
    phases(frame, bottom_left, history);
    threads(frame, bottom_right, history);
    frame.render_widget(Line::from(KEYS).dim(), foot);
}

fn title(target: &Target, history: &History) -> Line<'static> {
    let runtime = match history.runtime {
        Runtime::Unknown => "",
        Runtime::Stopworld => " (stopworld)",
        Runtime::DotNet => " (.NET)",
    };
    let command = printable(&target.command_line);
    Line::from(vec![format!("process {}{runtime} ", target.pid).bold(), Span::raw(command)])
}

/// Escapes the characters of a text that a terminal would obey instead of printing them: control characters, and those that change the
/// direction of the text or join it invisibly.
fn printable(text: &str) -> String {
    let mut printable = String::new();
    for char in text.chars() {
        match char {
            '"' | '\'' | '\\' => printable.push(char),
            // A mark that belongs to the letter before it is not escaped if there is one.
            _ => printable.extend(format!("x{char}").escape_debug().skip(1)),
        }
    }
    printable
}

fn summary(history: &History) -> Line<'static> {
    let share = match history.now {
        0 => 0.0,
        now => history.paused as f64 * 100.0 / now as f64,
    };
    let heap = history.heaps.last().map_or("–".to_owned(), |heap| Bytes(total(&heap.bytes)).to_string());
    let last = history.pauses.last().map_or("–".to_owned(), |pause| format!("{} µs", Micros(pause.ns)));
    // .NET has no such counter.
    let threads = history.counters.get("thread-count");
    let threads = threads.map_or_else(String::new, |threads| format!("; {} threads", threads.value));
    let text = format!(
        "{} pauses, {share:.2} % of the time; last {last}, longest {} µs; heap {heap}{threads}",
        history.pauses.next(),
        Micros(history.longest),
    );
    Line::from(text)
}

fn losses(history: &History) -> Line<'static> {
    // The newest second is not over.
    let rate = history.seconds.iter().rev().nth(1).map_or(0, |second| second.events);
    let events = format!("{} events, {rate} in the last second; ", history.events);
    let incomplete = match history.incomplete {
        0 => String::new(),
        pauses => format!(", incomplete pauses: {pauses}"),
    };
    let lost = Span::raw(format!("{} lost{incomplete}", history.lost));
    Line::from(vec![Span::raw(events), if history.lost > 0 { lost.fg(Color::Red).bold() } else { lost }])
}

fn framed(title: &str) -> Block<'static> {
    Block::bordered().title(format!(" {title} ")).border_style(Style::new().add_modifier(Modifier::DIM))
}

fn heading(cells: &[&'static str]) -> Row<'static> {
    Row::new(cells.iter().map(|cell| Cell::from(*cell)).collect::<Vec<_>>()).style(Style::new().bold())
}

/// The pauses, the newest first.
fn pauses(frame: &mut Frame<'_>, area: Rect, history: &History) {
    let rows = history.pauses.iter().rev().take(area.height.into()).map(|pause| {
        let number = pause.number.map_or_else(String::new, |number| number.to_string());
        let heap = pause.heap.map_or_else(String::new, |heap| Bytes(heap).to_string());
        let row = Row::new([
            format!("{:9.3}", pause.begin as f64 / 1e9),
            number,
            format!("{:>9}", Micros(pause.ns).to_string()),
            format!("{:>8}", Micros(pause.phases[Phase::Stop as usize]).to_string()),
            heap,
            why(pause, history.runtime),
        ]);
        if pause.failed { row.style(Style::new().fg(Color::Red)) } else { row }
    });
    let widths = [
        Constraint::Length(9),
        Constraint::Length(6),
        Constraint::Length(9),
        Constraint::Length(8),
        Constraint::Length(9),
        Constraint::Fill(1),
    ];
    let head = heading(&["   time s", "gc", " pause µs", " stop µs", "heap", "reason"]);
    let table = Table::new(rows, widths).header(head).block(framed("Pauses"));
    frame.render_widget(table, area);
}

/// Returns the generation and the reason of a pause, in words.
fn why(pause: &Pause, runtime: Runtime) -> String {
    let failed = if pause.failed { "abandoned: " } else { "" };
    let background = if pause.background && pause.number.is_some() { " background" } else { "" };
    match runtime {
        Runtime::DotNet if pause.number.is_some() => {
            format!("{failed}{}{background} {}", pause.generation, pause.reason)
        }
        _ => format!("{failed}{}", pause.reason),
    }
}

/// A band for each space: its size over time.
fn heap(frame: &mut Frame<'_>, area: Rect, history: &History) {
    let block = framed("Heap after collections");
    let inside = block.inner(area);
    frame.render_widget(block, area);
    let names = history.runtime.spaces();
    let latest = history.heaps.last().map_or([0; SPACES], |heap| heap.bytes);
    let shown: Vec<usize> = (0..SPACES).filter(|space| !names[*space].is_empty()).collect();
    let bands = Layout::vertical(shown.iter().map(|_| Constraint::Fill(1))).split(inside);
    const LABEL: u16 = 22;
    const COLOURS: [Color; SPACES] = [Color::Blue, Color::Green, Color::Yellow, Color::Magenta, Color::Cyan];
    for (band, space) in bands.iter().zip(shown) {
        let [label, chart] = Layout::horizontal([Constraint::Length(LABEL), Constraint::Fill(1)]).areas(*band);
        let size = Bytes(latest[space]).to_string();
        frame.render_widget(Paragraph::new(format!("{:<12}{size:>9} ", names[space])), label);
        let newest = history.heaps.iter().rev().take(chart.width.into());
        let mut values: Vec<u64> = newest.map(|heap| heap.bytes[space]).collect();
        values.reverse();
        frame.render_widget(Sparkline::default().data(values).style(Style::new().fg(COLOURS[space])), chart);
    }
}

/// A bar for each phase: its mean over the recent pauses.
fn phases(frame: &mut Frame<'_>, area: Rect, history: &History) {
    let recent = history.pauses.iter().rev().take(RECENT);
    let count = recent.len() as u64;
    let mut sums = [0u64; PHASES];
    for pause in recent {
        sums.iter_mut().zip(pause.phases).for_each(|(sum, ns)| *sum += ns);
    }
    let block = framed(&format!("Phases: mean of the last {count} pauses, µs"));
    let inside = block.inner(area);
    frame.render_widget(block, area);
    let most = sums.iter().copied().max().unwrap_or_default().max(1);
    const LABEL: usize = 18;
    let room = usize::from(inside.width).saturating_sub(LABEL);
    let used = Phase::ALL.into_iter().filter(|phase| sums[*phase as usize] > 0);
    let lines = used.map(|phase| {
        let sum = sums[phase as usize];
        let bar = "█".repeat((sum as f64 / most as f64 * room as f64).round() as usize);
        let mean = Micros(sum / count.max(1)).to_string();
        Line::from(vec![Span::raw(format!("{:<8}{mean:>9} ", phase.name())), bar.fg(Color::Blue)])
    });
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), inside);
}

/// The threads, those first for which stops waited most often.
fn threads(frame: &mut Frame<'_>, area: Rect, history: &History) {
    let block = framed("Threads: time to stop, µs");
    let reported = history.threads.values().any(|thread| thread.waited > 0);
    if !reported && history.runtime == Runtime::DotNet {
        let text = Paragraph::new(".NET does not report which thread a stop waits for.").wrap(Wrap { trim: true });
        frame.render_widget(text.block(block), area);
        return;
    }
    let mut threads: Vec<(&u64, &Thread)> = history.threads.iter().filter(|(_, thread)| !thread.left).collect();
    threads.sort_by_key(|(id, thread)| (Reverse(thread.last), Reverse(thread.slowest), **id));
    let rows = threads.into_iter().take(area.height.into()).map(|(id, thread)| {
        let name = printable(&thread.name);
        Row::new([
            if name.is_empty() { id.to_string() } else { name },
            format!("{:>7}", thread.last),
            format!("{:>9}", Micros(thread.latest).to_string()),
            format!("{:>9}", Micros(thread.slowest).to_string()),
        ])
    });
    let widths = [Constraint::Fill(1), Constraint::Length(7), Constraint::Length(9), Constraint::Length(9)];
    let head = heading(&["thread", "   last", "   latest", "  slowest"]);
    frame.render_widget(Table::new(rows, widths).header(head).block(block), area);
}

fn total(bytes: &[u64; SPACES]) -> u64 {
    bytes.iter().fold(0, |sum, size| sum.saturating_add(*size))
}
