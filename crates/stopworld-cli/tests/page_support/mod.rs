//! Checks of the properties that every HTML page must have.

#![allow(dead_code, reason = "each test program uses its part")]

use crate::skipped;

mod browser;

use std::time::Duration;

use serde_json::Value;

pub use browser::Browser;

/// The chart library, and its styles, as they are published.
const LIBRARY: &str = include_str!("../../../stopworld-analysis/src/report/uplot/uPlot.iife.min.js");
const LIBRARY_STYLES: &str = include_str!("../../../stopworld-analysis/src/report/uplot/uPlot.min.css");
const LIBRARY_LICENCE: &str = include_str!("../../../stopworld-analysis/src/report/uplot/LICENSE");

/// A time limit that is long enough for a browser on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(120);

/// Checks that the page loads nothing, follows the reader's choice of light or dark, and closes its elements in order.
pub fn needs_nothing_but_itself(page: &str) {
    // The library is unmodified, and names its project in a comment.
    for part in [LIBRARY, LIBRARY_STYLES, LIBRARY_LICENCE] {
        assert_eq!(page.matches(part).count(), 1, "{}", &part[..part.len().min(80)]);
    }
    assert!(page.contains("content=\"default-src 'none';"));
    let page = page.replace(LIBRARY, "").replace(LIBRARY_STYLES, "");
    for outside in ["http:", "https:", "src=", "url(", "@import", "<link", "<iframe"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.contains("prefers-color-scheme: dark"));
    let mut open = Vec::new();
    for (name, is_end) in tags(&page) {
        match (name, is_end) {
            ("meta" | "input", _) => {}
            (name, false) => open.push(name),
            (name, true) => assert_eq!(open.pop(), Some(name)),
        }
    }
    // The scripts are the last thing on the page, and may contain anything that looks like a tag.
    assert_eq!(open, ["html", "body"]);
}

/// The tags before the scripts, in order: name, and whether the tag ends an element.
fn tags(page: &str) -> Vec<(&str, bool)> {
    let body = &page[..page.find("<script").expect("there is a script")];
    let tags = body.split('<').skip(1).filter(|tag| !tag.starts_with('!')).map(|tag| {
        let is_end = tag.starts_with('/');
        let name = tag.trim_start_matches('/');
        (&name[..name.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(name.len())], is_end)
    });
    tags.collect()
}

/// Starts a browser, or reports that the test is skipped.
pub fn browser() -> Option<Browser> {
    let browser = Browser::start();
    if browser.is_none() {
        skipped::skipped("chromium");
    }
    browser
}

/// Returns the data from which a page draws its charts.
pub fn charts(page: &str) -> Vec<Value> {
    let begin = page.find("id=\"charts\">").expect("the page has charts") + "id=\"charts\">".len();
    let end = begin + page[begin..].find("</script>").expect("the data has an end");
    serde_json::from_str(&page[begin..end]).expect("the data is JSON")
}

/// Returns the values of a series of a chart; positions without a value are left out.
pub fn values(chart: &Value, series: usize) -> Vec<f64> {
    chart["series"][series].as_array().expect("a series").iter().filter_map(Value::as_f64).collect()
}
