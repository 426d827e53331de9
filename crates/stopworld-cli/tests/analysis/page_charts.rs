//! The pages of `stopworld gcstats --html` and `stopworld heapprof --html` in a browser: they fit the window, and their charts react.

use crate::heapprof_page::HOSTILE;
use crate::{gcstats_page, heapprof_page, page_support};

use std::path::Path;

use page_support::{Browser, browser};
use rstest::rstest;
use serde_json::Value;

/// A page with all kinds of charts, and the widest tables.
fn collections() -> String {
    gcstats_page::page(Path::new("../../tests/fixtures/nettrace/gcapp-3.1-gc-info.nettrace"))
}

fn heap(log: &str) -> String {
    heapprof_page::page(&heapprof_page::log(log))
}

/// Scrolls the chart of this id into the window. Returns the middle of its plot, and half of the plot's width.
fn show(browser: &mut Browser, chart: &str) -> ((f64, f64), f64) {
    browser.eval(&format!("document.querySelector('#{chart} .u-over').scrollIntoView({{ block: 'center' }})"));
    let place = browser.eval(&format!(
        "(() => {{ const place = document.querySelector('#{chart} .u-over').getBoundingClientRect();
            return [place.left + place.width / 2, place.top + place.height / 2, place.width / 2]; }})()"
    ));
    let number = |index: usize| place[index].as_f64().unwrap();
    ((number(0), number(1)), number(2))
}

/// Returns the ends of the time axis that a chart shows.
fn shown(browser: &mut Browser, chart: &str) -> (f64, f64) {
    let ends = browser.eval(&format!(
        "(() => {{ const {{ from, to }} = document.getElementById('{chart}-chart').dataset; return [+from, +to]; }})()"
    ));
    (ends[0].as_f64().unwrap(), ends[1].as_f64().unwrap())
}

/// Returns the contents of a chart's legend: the position, and the values.
fn legend(browser: &mut Browser, chart: &str) -> (String, Vec<String>) {
    let texts = browser.eval(&format!(
        "[...document.querySelectorAll('#{chart} .when, #{chart} output')].map((part) => part.textContent.trim())"
    ));
    let mut texts = texts.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned());
    (texts.next().unwrap(), texts.filter(|text| !text.is_empty()).collect())
}

/// For each chart: the number of painted pixels, and the number of those at the left, right or lower edge. Labels that do not fit are
/// cut there.
const PAINTED: &str = "[...document.querySelectorAll('canvas')].map((canvas) => {
    const { width, height } = canvas;
    const copy = Object.assign(document.createElement('canvas'), { width, height });
    const context = copy.getContext('2d', { willReadFrequently: true });
    context.drawImage(canvas, 0, 0);
    const { data } = context.getImageData(0, 0, width, height);
    let painted = 0, cut = 0;
    for (let pixel = 0; pixel < width * height; pixel++) {
        if (data[pixel * 4 + 3] === 0) continue;
        const [x, y] = [pixel % width, Math.floor(pixel / width)];
        painted++;
        if (x === 0 || x === width - 1 || y === height - 1) cut++;
    }
    return [painted, cut];
})";

#[rstest]
fn a_page_fits_every_window(
    #[values("collections", "life2.hb.eventlog", "trees.p_hc.eventlog", "leak.hr.eventlog")] page: &str,
) {
    let Some(mut browser) = browser() else { return };
    browser.open(&if page == "collections" { collections() } else { heap(page) });
    for (width, density) in [(1400, 1), (1240, 1), (1240, 2), (390, 1), (390, 3), (1400, 1)] {
        browser.window(width, 1000, density);
        let page_width = browser.eval("document.documentElement.scrollWidth");
        assert!(page_width.as_u64().unwrap() <= u64::from(width), "{page_width} in {width}");
        for chart in browser.eval(PAINTED).as_array().unwrap() {
            assert!(chart[0].as_u64().unwrap() > 1000, "{chart} at {width}");
            assert_eq!(chart[1], 0, "{chart} at {width} with {density} pixels each");
        }
        let charts = browser.eval(
            "[...document.querySelectorAll('canvas')].every((canvas) =>
                Math.abs(canvas.getBoundingClientRect().width - canvas.closest('.plot').clientWidth) < 2)",
        );
        assert_eq!(charts, true, "the charts follow the width of the window");
        if width >= 1240 {
            let hidden = browser.eval(
                "[...document.querySelectorAll('.scroll')].map((table) => table.scrollWidth - table.clientWidth)",
            );
            assert!(hidden.as_array().unwrap().iter().all(|width| *width == 0), "{hidden} at {width}");
        }
    }
    browser.has_no_complaint();
}

#[test]
fn dragging_zooms_all_charts_of_time_and_a_double_click_shows_everything() {
    let Some(mut browser) = browser() else { return };
    browser.open(&collections());
    let (middle, half) = show(&mut browser, "pauses");
    let (from, to) = shown(&mut browser, "pauses");
    browser.drag((middle.0 - half / 2.0, middle.1), (middle.0 + half / 2.0, middle.1));
    let zoomed = shown(&mut browser, "pauses");
    let quarter = (to - from) / 4.0;
    assert!((zoomed.0 - (from + quarter)).abs() < quarter / 20.0, "{zoomed:?} of {from} to {to}");
    assert!((zoomed.1 - (to - quarter)).abs() < quarter / 20.0, "{zoomed:?} of {from} to {to}");
    for chart in ["heap", "rate"] {
        assert_eq!(shown(&mut browser, chart), zoomed, "{chart}");
    }
    assert_eq!(shown(&mut browser, "histogram").0, 0.0);
    let cut: Value = browser.eval(PAINTED);
    assert!(cut.as_array().unwrap().iter().all(|chart| chart[1] == 0), "{cut}");
    browser.double_click(middle);
    for chart in ["pauses", "heap", "rate"] {
        assert_eq!(shown(&mut browser, chart), (from, to), "{chart}");
    }

    let (middle, half) = show(&mut browser, "histogram");
    let classes = shown(&mut browser, "histogram");
    browser.drag(middle, (middle.0 + half / 2.0, middle.1));
    assert!(shown(&mut browser, "histogram").0 > 0.0);
    assert_eq!(shown(&mut browser, "pauses"), (from, to));
    browser.eval("document.querySelector('#histogram .tools button:first-child').click()");
    assert_eq!(shown(&mut browser, "histogram"), classes);
    browser.has_no_complaint();
}

#[rstest]
#[case::pauses("pauses", " ms", &["heap", "rate"])]
#[case::heap("heap", " MB", &["pauses", "rate"])]
#[case::rate("rate", " MB/s", &["pauses", "heap"])]
#[case::histogram("histogram", "", &[])]
fn the_legend_shows_the_values_under_the_mouse(#[case] chart: &str, #[case] unit: &str, #[case] peers: &[&str]) {
    let Some(mut browser) = browser() else { return };
    browser.open(&collections());
    let (middle, half) = show(&mut browser, chart);
    assert_eq!(legend(&mut browser, chart), (String::new(), vec![]));
    browser.mouse_moves(middle, 0);
    let (here, values) = legend(&mut browser, chart);
    let number = |value: &String| value.strip_suffix(unit).unwrap_or("?").replace(',', "").parse::<f64>();
    assert!(!values.is_empty() && values.iter().all(|value| number(value).is_ok()), "{values:?}");
    match peers {
        [] => assert!(here.ends_with(" ms") && here.contains(" to "), "{here}"),
        _ => assert!(here.starts_with("at ") && here.contains(" s"), "{here}"),
    }
    for peer in peers {
        assert!(!legend(&mut browser, peer).1.is_empty(), "{peer} has no cursor");
    }
    browser.mouse_moves((middle.0 + half / 2.0, middle.1), 0);
    assert_ne!(legend(&mut browser, chart).0, here);
    browser.mouse_moves((middle.0, 0.0), 0);
    assert_eq!(legend(&mut browser, chart).1, [""; 0]);
    browser.has_no_complaint();
}

#[test]
fn keys_move_the_cursor_and_announce_the_values() {
    let Some(mut browser) = browser() else { return };
    browser.open(&collections());
    browser.eval("document.querySelector('#pauses .plot').focus()");
    browser.key("ArrowRight", None);
    let says = |browser: &mut Browser| browser.eval("document.getElementById('says').textContent");
    let first = says(&mut browser);
    assert!(first.as_str().unwrap().contains("GC 1, "), "{first}");
    assert!(first.as_str().unwrap().ends_with(" ms"), "{first}");
    browser.key("ArrowRight", None);
    assert_ne!(says(&mut browser), first);
    browser.key("Home", None);
    assert_eq!(says(&mut browser), first);
    browser.key("End", None);
    let last = says(&mut browser);
    assert_ne!(last, first);

    let whole = shown(&mut browser, "pauses");
    browser.key("+", Some("+"));
    browser.key("+", Some("+"));
    let zoomed = shown(&mut browser, "pauses");
    assert!(zoomed.0 > whole.0 && zoomed.1 - zoomed.0 < (whole.1 - whole.0) * 0.6, "{zoomed:?} of {whole:?}");
    // The first collection is not in view: the chart moves to it.
    browser.key("Home", None);
    assert_eq!(says(&mut browser), first);
    assert!(shown(&mut browser, "pauses").0 < zoomed.0);
    browser.key("Escape", None);
    assert_eq!(shown(&mut browser, "pauses"), whole);
    browser.has_no_complaint();
}

#[test]
fn deselected_bands_leave_the_stack() {
    let Some(mut browser) = browser() else { return };
    browser.open(&heap("trees.p_hc.eventlog"));
    let (middle, _) = show(&mut browser, "chart");
    browser.mouse_moves(middle, 0);
    let all = |browser: &mut Browser| legend(browser, "chart").0.split("all ").nth(1).unwrap_or_default().to_owned();
    let sum = all(&mut browser);
    let picture = browser.eval("document.querySelector('canvas').toDataURL()");
    browser.eval("document.querySelector('#chart input[data-series=\"0\"]').click()");
    browser.mouse_moves((middle.0, middle.1 + 1.0), 0);
    assert_ne!(browser.eval("document.querySelector('canvas').toDataURL()"), picture);
    assert!(!sum.is_empty() && all(&mut browser) != sum, "{sum}");

    let search = |browser: &mut Browser, text: &str| {
        browser.eval(&format!(
            "(() => {{ const search = document.querySelector('input[type=search]');
                search.value = '{text}'; search.dispatchEvent(new Event('input')); }})()"
        ));
        browser
            .eval("[...document.querySelectorAll('#chart input:checked')].map((box) => box.parentElement.textContent)")
    };
    let found = search(&mut browser, "no band has this name");
    assert_eq!(found.as_array().unwrap().len(), 0);
    browser.mouse_moves(middle, 0);
    assert_eq!(all(&mut browser), "0 B");
    search(&mut browser, "");
    browser.mouse_moves((middle.0, middle.1 + 1.0), 0);
    assert_eq!(all(&mut browser), sum);
    browser.has_no_complaint();
}

#[rstest]
fn a_browser_draws_the_page_in_light_and_in_dark(#[values("collections", "life2.hb.eventlog")] page: &str) {
    let Some(mut browser) = browser() else { return };
    browser.prefer("light");
    browser.open(&if page == "collections" { collections() } else { heap(page) });
    let canvas = "document.querySelector('canvas').toDataURL()";
    let (light, light_chart) = (browser.picture(), browser.eval(canvas));
    // A picture of a single colour would have only some kilobytes.
    assert!(light.len() > 40_000, "{} bytes", light.len());
    browser.prefer("dark");
    assert_ne!(browser.picture(), light, "the dark page equals the light one");
    assert_ne!(browser.eval(canvas), light_chart, "the dark chart equals the light one");
    browser.prefer("light");
    assert_eq!(browser.eval(canvas), light_chart, "the chart is light again");
    browser.has_no_complaint();
}

#[test]
fn without_scripts_each_chart_is_a_table() {
    let Some(mut browser) = browser() else { return };
    browser.disable_scripts();
    for (page, count) in [(collections(), 4), (heap("leak.hc.eventlog"), 1)] {
        browser.open(&page);
        assert_eq!(browser.eval("document.querySelectorAll('canvas').length"), 0);
        let rows = browser.eval("[...document.querySelectorAll('.chart table')].map((table) => table.rows.length)");
        assert_eq!(rows.as_array().unwrap().len(), count);
        assert!(rows.as_array().unwrap().iter().all(|rows| rows.as_u64().unwrap() > 2), "{rows}");
    }
}

/// Names in a trace cannot run a script or end an element.
#[test]
fn hostile_names_are_shown_as_text() {
    let Some(mut browser) = browser() else { return };
    let texts = |browser: &mut Browser, of: &str| {
        let texts = browser.eval(&format!("[...document.querySelectorAll('{of}')].map((part) => part.textContent)"));
        texts.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    browser.open(&heapprof_page::page(heapprof_page::hostile_bands().path()));
    let names = texts(&mut browser, ".key");
    assert!(names.iter().any(|name| name == HOSTILE) && names.iter().any(|name| name == "<!--<script>"), "{names:?}");
    assert_eq!(browser.eval("document.scripts.length"), 3);
    // A dialog opened by a script would be reported, and would stop the page.
    browser.has_no_complaint();

    browser.open(&heapprof_page::page(heapprof_page::hostile_markers().path()));
    assert_eq!(browser.eval("document.scripts.length"), 3);
    let ((_, y), half) = show(&mut browser, "chart");
    let left = browser.eval("document.querySelector('#chart .u-over').getBoundingClientRect().left").as_f64().unwrap();
    // The time of the marker.
    let (from, to) = shown(&mut browser, "chart");
    browser.mouse_moves((left + 2.0 * half * (0.168566328 - from) / (to - from), y), 0);
    let here = texts(&mut browser, ".when").concat();
    assert!(here.contains(&format!("marker: {HOSTILE}")), "{here}");
    browser.has_no_complaint();
}

/// A trace may have a single collection, or none: the charts are empty, and do not fail.
#[rstest]
fn a_page_of_few_collections_is_drawn(#[values("tiny.nettrace", "handmade-v4-3gcs.nettrace")] trace: &str) {
    let Some(mut browser) = browser() else { return };
    browser.open(&gcstats_page::page(&Path::new("../../tests/fixtures/nettrace").join(trace)));
    assert_eq!(browser.eval("document.querySelectorAll('canvas').length"), 4);
    let painted = browser.eval(PAINTED);
    assert!(painted.as_array().unwrap().iter().all(|chart| chart[1] == 0), "{painted}");
    browser.has_no_complaint();
}
