//! The picture on a terminal.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use rstest::rstest;
use stopworld_watch::feed::Target;
use stopworld_watch::model::{History, Observation, Runtime};
use stopworld_watch::screen::draw;

use super::{begin, collection, counter, history};

fn target() -> Target {
    Target { pid: 4711, command_line: "a program\x1b[31m with a colour".into() }
}

/// The picture as lines of text.
fn picture(width: u16, height: u16, history: &History) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    terminal.draw(|frame| draw(frame, &target(), history)).expect("it can be drawn");
    let buffer = terminal.backend().buffer().clone();
    let line = |row| (0..width).map(|column| buffer[(column, row)].symbol()).collect::<String>();
    (0..height).map(|row| line(row) + "\n").collect()
}

fn busy() -> History {
    let mut events = vec![(0, Observation::ThreadNamed { thread: 21, name: "worker\x1b[2J".into() })];
    events.extend((0..50).flat_map(|number| collection(u64::try_from(number).unwrap() * 1000, number)));
    let mut history = history(&events);
    history.runtime = Runtime::Stopworld;
    history
}

#[test]
fn the_picture_has_the_newest_pause_the_heap_the_phases_and_the_threads() {
    let text = picture(140, 40, &busy());
    let newest = text.lines().find(|line| line.contains("0.049")).expect("the pause at 49.1 ms");
    for part in ["49", "100", "10.0", "5.00 KiB", "requested"] {
        assert!(newest.contains(part), "{part}: {newest}");
    }
    for part in [
        "process 4711 (stopworld) a program",
        "50 pauses",
        "10.16 % of the time",
        "longest 100 µs",
        "0 lost",
        "small        4.00 KiB",
        "large        1.00 KiB",
        "mark         41.0 █",
        "worker",
        "q, Esc or Ctrl-C ends",
    ] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
    assert!(!text.contains('\x1b'), "control characters of the program stay out of the terminal");
    assert!(!text.contains("generation 0"), "stopworld has no generations");
}

/// Not every process has a counter of its threads.
#[test]
fn the_number_of_threads_is_shown_if_it_is_known() {
    let mut history = busy();
    let summary = |history: &History| picture(140, 40, history).lines().nth(1).expect("a line").to_owned();
    assert!(!summary(&history).contains("threads"), "{}", summary(&history));
    history.add(0, 1, 0, counter("thread-count", 17.0));
    assert!(summary(&history).contains("; 17 threads"), "{}", summary(&history));
}

#[test]
fn losses_are_shown() {
    let mut history = busy();
    history.add_lost(12);
    assert!(picture(140, 40, &history).contains("12 lost "));
    history.add(0, 1, 0, begin());
    history.interrupt(1);
    assert!(picture(140, 40, &history).contains("12 lost, incomplete pauses: 1"));
}

#[test]
fn a_runtime_that_does_not_report_threads_says_so() {
    let mut history = History::default();
    history.runtime = Runtime::DotNet;
    let text = picture(140, 40, &history);
    assert!(text.contains(".NET does not report which thread") && text.contains("generation 0"), "{text}");
}

/// Names are the program's own: what a terminal would obey is escaped.
#[rstest]
#[case::colours("a\x1b[31mb", "a\\u{1b}[31mb")]
#[case::a_new_line("a\nb", "a\\nb")]
#[case::right_to_left("a\u{202e}b", "a\\u{202e}b")]
#[case::isolated("a\u{2066}b", "a\\u{2066}b")]
#[case::of_no_width("a\u{200b}b", "a\\u{200b}b")]
#[case::letters("Grüße, e\u{301}ï \"x\" 'y' \\z", "Grüße, e\u{301}ï \"x\" 'y' \\z")]
fn names_are_printed_and_not_obeyed(#[case] name: &str, #[case] printed: &str) {
    let mut events = vec![(0, Observation::ThreadNamed { thread: 21, name: name.into() })];
    events.extend(collection(0, 1));
    let history = history(&events);
    let mut terminal = Terminal::new(TestBackend::new(140, 40)).expect("a terminal");
    let target = Target { pid: 4711, command_line: name.into() };
    terminal.draw(|frame| draw(frame, &target, &history)).expect("it can be drawn");
    let cells = terminal.backend().buffer().content();
    let text: String = cells.iter().map(|cell| cell.symbol()).collect();
    assert_eq!(text.matches(printed).count(), 2, "the command line and the thread: {text}");
}

/// Every size of a terminal has a picture: none panics.
#[rstest]
fn any_size_can_be_drawn(
    #[values(1, 2, 5, 19, 20, 59, 60, 61, 80, 300)] width: u16,
    #[values(1, 2, 3, 15, 16, 17, 24, 100)] height: u16,
) {
    for history in [History::default(), busy()] {
        picture(width, height, &history);
    }
}

#[test]
fn a_small_terminal_shows_the_summary() {
    let text = picture(50, 8, &busy());
    assert!(text.contains("50 pauses") && text.contains("0 lost"), "{text}");
}
