//! The page in a browser.

use std::collections::BTreeMap;

use nettrace::clr::SuspendReason;
use nettrace::clr::write::{GCRestartEEEnd, GCSuspendEEBegin};
use serde_json::Value;
use stopworld_analysis::gcstats::{Rules, analyse};

use crate::diagnostics_support::subject::{Subject, until};
use crate::line::Line;
use crate::page_support::{self, Browser};
use crate::played::{Played, fixture};
use crate::watched::{Events, Run, Watched};
use crate::written::Written;

/// The nanoseconds of the pauses in the page's table, by the number of the collection.
fn latest(browser: &mut Browser) -> BTreeMap<u64, f64> {
    let rows = browser.eval(
        "[...document.querySelectorAll('#latest tbody tr')].map((row) => [+row.cells[1].textContent, +row.dataset.ns])",
    );
    let rows = rows.as_array().expect("a list").iter();
    rows.map(|row| (row[0].as_u64().expect("a number"), row[1].as_f64().expect("a time"))).collect()
}

fn text(browser: &mut Browser, id: &str) -> String {
    browser.eval(&format!("document.getElementById('{id}').textContent")).as_str().expect("a text").to_owned()
}

/// The page shows the collections that happened, with the pauses that the report of the run's own trace has; and it survives the end of the
/// process.
#[test]
fn the_page_shows_the_collections_of_the_report() {
    let Some(mut browser) = page_support::browser() else { return };
    let mut run = Run::start();
    let watched = Watched::start(run.pid());
    browser.visit(&watched.url);
    browser.until("document.getElementById('state').textContent === 'Live' && +document.body.dataset.next > 10");
    for chart in ["pauses", "stops", "heap", "phases", "events"] {
        browser.until(&format!("document.querySelector('#{chart}-chart canvas') !== null"));
    }
    let trace = run.end();
    browser.until("document.body.dataset.ended !== ''");
    let ended = format!("process {} has ended: this is what was seen until then", run.pid());
    assert_eq!(text(&mut browser, "state"), ended);
    browser.until(&format!(
        "document.querySelectorAll('#latest tbody tr').length === Math.min(50, {})",
        "+document.body.dataset.next"
    ));
    let shown = latest(&mut browser);
    let (processes, _) = analyse(nettrace::Reader::new(trace), Rules::Ours).unwrap();
    let mut report = BTreeMap::new();
    let each = processes[0].for_each(|collection, _| -> std::io::Result<()> {
        report.insert(collection.number as u64, collection.pause * 1e6);
        Ok(())
    });
    each.unwrap();
    // From the first collection that the page shows, it has all up to the last one of the process.
    let first = *shown.keys().next().expect("a pause");
    let expected: BTreeMap<u64, f64> = report.range(first..).map(|(number, ns)| (*number, *ns)).collect();
    assert!(shown.len() > 10);
    assert_eq!(shown.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (number, ns) in &shown {
        let differs = (ns - expected[number]).abs();
        assert!(differs < 1000.0, "collection {number}: {ns} ns, and {} in the report", expected[number]);
    }
    for name in ["collect", "snapshot", "record"] {
        assert_eq!(browser.eval(&format!("document.getElementById('{name}').disabled")), true);
        let reason = browser.eval(&format!("document.getElementById('{name}').title"));
        assert_eq!(reason, format!("process {} has ended", run.pid()));
    }
    assert_eq!(browser.complaints(), Vec::<&Value>::new());
}

/// A page that loses its connection keeps its data, connects again, and has then missed nothing and nothing twice.
#[test]
fn the_page_connects_again() {
    let Some(mut browser) = page_support::browser() else { return };
    let mut subject = Subject::start();
    let watched = Watched::start(subject.pid());
    let mut line = Line::to(watched.port);
    browser.visit(&watched.url.replace(&watched.port.to_string(), &line.port.to_string()));
    browser.until("document.getElementById('state').textContent === 'Live'");
    subject.tell("collect 5");
    browser.until("document.body.dataset.next === '5'");
    line.cut();
    browser.until("document.body.dataset.connected === 'no'");
    assert!(text(&mut browser, "state").contains("the page keeps its data and tries again"));
    assert_eq!(latest(&mut browser).len(), 5);
    subject.tell("collect 7");
    line.mend();
    browser.until("document.body.dataset.next === '12'");
    browser.until("document.querySelectorAll('#latest tbody tr').length === 12");
    assert_eq!(latest(&mut browser).into_keys().collect::<Vec<_>>(), (1..=12).collect::<Vec<_>>());
    assert_eq!(text(&mut browser, "state"), "Live");
    // When the server has ended, the page still has its data.
    assert_eq!(watched.end(libc::SIGTERM), Some(0));
    browser.until("document.body.dataset.connected === 'no'");
    assert_eq!(latest(&mut browser).len(), 12);
}

/// A page whose tab is hidden holds no stream. When it is shown, it has missed nothing and has nothing twice.
#[test]
fn a_hidden_page_closes_its_stream() {
    let Some(mut browser) = page_support::browser() else { return };
    let mut subject = Subject::start();
    let watched = Watched::start(subject.pid());
    browser.visit(&watched.url);
    subject.tell("collect 2");
    browser.until("document.body.dataset.next === '2'");
    let others: Vec<Events> = (0..15).map(|_| watched.events("")).collect();
    assert_eq!(watched.own("HEAD", "events").status, 503, "the page has the last place");
    let hide = |browser: &mut Browser, is_hidden: bool| {
        browser
            .eval(&format!("Object.defineProperty(document, 'hidden', {{ value: {is_hidden}, configurable: true }})"));
        browser.eval("document.dispatchEvent(new Event('visibilitychange'))");
    };
    hide(&mut browser, true);
    until("the hidden page has closed its stream", || watched.own("HEAD", "events").status == 200);
    subject.tell("collect 3");
    drop(others);
    assert_eq!(browser.eval("document.body.dataset.next"), "2");
    hide(&mut browser, false);
    browser.until("document.body.dataset.next === '5'");
    browser.until("document.querySelectorAll('#latest tbody tr').length === 5");
    assert_eq!(latest(&mut browser).into_keys().collect::<Vec<_>>(), (1..=5).collect::<Vec<_>>());
    assert_eq!(browser.eval("document.body.dataset.losses ?? 0"), 0, "that is no loss of the connection");
}

#[test]
fn the_buttons_collect_and_the_charts_zoom() {
    let Some(mut browser) = page_support::browser() else { return };
    let mut subject = Subject::start();
    let watched = Watched::start(subject.pid());
    browser.visit(&watched.url);
    subject.tell("keep 100");
    browser.until("document.getElementById('collect').disabled === false");
    browser.eval("document.getElementById('collect').click()");
    browser.until("document.getElementById('answer').textContent === 'Collect: done'");
    browser.until("document.body.dataset.next === '1'");
    assert_eq!(subject.tell("collections"), "1");
    browser.eval("document.getElementById('snapshot').click()");
    let file = format!("Snapshot: process-{}.heapsnapshot", subject.pid());
    browser.until(&format!("document.getElementById('answer').textContent.startsWith('{file}')"));

    let range = "(({ from, to }) => [+from, +to])(document.getElementById('pauses-chart').dataset)";
    browser.until("document.getElementById('pauses-chart').dataset.to !== undefined");
    let place = browser.eval(
        "(() => { const { left, top, width, height } = document.querySelector('#pauses-chart .u-over').getBoundingClientRect(); \
         return [left + width / 4, left + width / 2, top + height / 2]; })()",
    );
    let at = |index: usize| place[index].as_f64().expect("a position");
    browser.drag((at(0), at(2)), (at(1), at(2)));
    let zoomed = browser.eval(range);
    assert!(zoomed[0].as_f64() > Some(0.0) && zoomed[1].as_f64() > zoomed[0].as_f64(), "{zoomed}");
    subject.tell("collect 2");
    browser.until("document.body.dataset.next >= '3'");
    assert_eq!(browser.eval(range), zoomed, "what arrives does not change a zoom");
    browser.eval("document.getElementById('whole').click()");
    browser.until("+document.getElementById('heap-chart').dataset.from === 0");
    assert_eq!(browser.complaints(), Vec::<&Value>::new());
}

#[test]
fn the_page_asks_which_heap_a_snapshot_is_to_show() {
    let Some(mut browser) = page_support::browser() else { return };
    let mut subject = Subject::start();
    subject.tell("world");
    let watched = Watched::start(subject.pid());
    browser.visit(&watched.url);
    browser.until("document.getElementById('snapshot').disabled === false");
    browser.eval("document.getElementById('snapshot').click()");
    browser.until("document.querySelectorAll('#answer button').length === 2");
    let question = "Snapshot: the process has several heaps; take that of World 2World 1";
    assert_eq!(browser.eval("document.getElementById('answer').textContent"), question);
    browser.eval("document.querySelector('#answer button:last-child').click()");
    let file = format!("Snapshot: process-{}.heapsnapshot", subject.pid());
    browser.until(&format!("document.getElementById('answer').textContent.startsWith('{file}')"));
    assert_eq!(browser.complaints(), Vec::<&Value>::new());
}

/// A pause of a world may begin before a pause of another world and end after it. The page has them in the order of their beginnings.
#[test]
fn the_pauses_of_two_worlds_are_in_order() {
    let Some(mut browser) = page_support::browser() else { return };
    let mut written = Written::new(true);
    let begin = GCSuspendEEBegin { reason: SuspendReason::SuspendForGC, count: 0 };
    for (us, thread, world, is_begin) in
        [(1_000, 1, 0, true), (2_000, 2, 1, true), (3_000, 2, 1, false), (9_000, 1, 0, false)]
    {
        match is_begin {
            true => written.event(us, thread, world, &begin),
            false => written.event(us, thread, world, &GCRestartEEEnd {}),
        };
    }
    let played = Played::start_with(written.end());
    let watched = Watched::start(played.pid());
    browser.visit(&watched.url);
    browser.until("document.querySelectorAll('#latest tbody tr').length === 2");
    let times = "[...document.querySelectorAll('#latest tbody tr')].map((row) => row.cells[0].textContent).join(' ')";
    assert_eq!(browser.eval(times), "0.002 0.001");
    assert_eq!(browser.complaints(), Vec::<&Value>::new());
}

/// A page of another origin, even one that knows the token, gets nothing and cannot act: the server refuses, whatever the browser does.
#[test]
fn a_page_of_another_origin_gets_nothing() {
    let Some(mut browser) = page_support::browser() else { return };
    let mut subject = Subject::start();
    let watched = Watched::start(subject.pid());
    let line = Line::to(watched.port);
    browser.open("<!doctype html><title>another origin</title>");
    let url = watched.url.replace(&watched.port.to_string(), &line.port.to_string());
    let read = format!("fetch('{url}').then(() => 'read', () => 'refused')");
    assert_eq!(browser.eval(&read), "refused");
    let stream = format!(
        "new Promise((done) => {{ const stream = new EventSource('{url}events'); stream.onmessage = () => done('read'); \
         stream.onerror = () => {{ stream.close(); done('refused'); }}; }})"
    );
    assert_eq!(browser.eval(&stream), "refused");
    let blind =
        format!("fetch('{url}collect', {{ method: 'POST', mode: 'no-cors' }}).then(() => 'sent', () => 'refused')");
    browser.eval(&blind);
    until("the server has answered all three", || line.answers().len() >= 3);
    assert!(line.answers().iter().all(|answer| answer == "HTTP/1.1 403 Forbidden"), "{:?}", line.answers());
    assert_eq!(subject.tell("collections"), "0");
}

#[test]
fn a_process_of_net_says_what_it_does_not_report() {
    let Some(mut browser) = page_support::browser() else { return };
    let played = Played::start(&fixture("gcapp-3.1-gc-info.nettrace"));
    let watched = Watched::start(played.pid());
    browser.visit(&watched.url);
    browser.until("+document.body.dataset.next > 0");
    browser.until("document.querySelector('#stops-chart .none').textContent.startsWith('.NET does not report')");
    browser.until("document.querySelector('#heap-chart .u-legend').textContent.includes('generation 2')");
    assert_eq!(browser.complaints(), Vec::<&Value>::new());
}
