//! The page of `stopworld heapprof --html`.

use crate::page_support;

use std::fs;
use std::path::{Path, PathBuf};

use page_support::{LIMIT, is_drawn, needs_nothing_but_itself};
use rstest::rstest;
use serde_json::Value;

/// The largest size allowed for a page.
const LARGEST: usize = 2 << 20;

fn page(file: &Path) -> String {
    let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_stopworld"));
    let output = command.arg("heapprof").arg(file).arg("--html").timeout(LIMIT).output().expect("stopworld starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("the page is text")
}

fn log(name: &str) -> PathBuf {
    Path::new("../../tests/fixtures/eventlog").join(name)
}

#[rstest]
fn the_page_needs_nothing_but_itself(
    #[values(
        "leak.hT.eventlog",
        "leak.hc.eventlog",
        "leak.hr.eventlog",
        "leak.hyfilt.eventlog",
        "life2.hb.eventlog",
        "trees.p_hc.eventlog",
        "leak.hT.hp"
    )]
    name: &str,
) {
    let page = page(&log(name));
    needs_nothing_but_itself(&page);
    assert!(page.len() < LARGEST, "{} bytes", page.len());
    for link in page.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()) {
        assert!(page.contains(&format!("id=\"{link}\"")), "{link}");
    }
    // Every point has a text; scrolling tables and charts take the focus.
    assert_eq!(page.matches("class=\"point\"").count(), page.matches("tabindex=\"-1\"><title>").count());
    assert!(page.matches("tabindex=\"0\"").count() >= 2);
}

/// The page has the numbers from which its script redraws the chart, and the chart as it is drawn without the script.
#[test]
fn the_chart_has_every_sample() {
    let page = page(&log("leak.hc.eventlog"));
    let begin = page.find("id=\"series\">").unwrap() + "id=\"series\">".len();
    let series: Value = serde_json::from_str(&page[begin..begin + page[begin..].find("</script>").unwrap()]).unwrap();
    let places = series["x"].as_array().unwrap().len();
    assert_eq!(places, page.matches("class=\"point\"").count());
    let bands = series["bands"].as_array().unwrap();
    assert!(bands.iter().all(|band| band.as_array().unwrap().len() == places));
    assert_eq!(bands.len(), page.matches("data-band=").count());
    let first: u64 = bands.iter().filter_map(|band| band.as_array().unwrap().iter().find_map(Value::as_u64)).sum();
    assert!(first <= series["top"].as_u64().unwrap());
    assert!(page.contains("insertAll.step/insertAll/main.m/main") && page.contains(" collections</title>"));
}

#[test]
fn each_breakdown_has_its_own_tables() {
    assert!(page(&log("leak.hc.eventlog")).contains("Cost centres by stack"));
    let retainers = page(&log("leak.hr.eventlog"));
    assert!(retainers.contains("Retainers, by the bytes that each keeps alone") && retainers.contains("neverUsed"));
    let life = page(&log("life2.hb.eventlog"));
    for phase in 0..5 {
        assert!(life.contains(&format!("area life{phase}")), "{phase}");
    }
}

/// Band names may contain anything: the page shows them as text, and nothing else.
#[test]
fn names_are_text() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = "JOB \"<b>job</b>\"\nBEGIN_SAMPLE 1\n<script>alert(1)</script>\t5\nEND_SAMPLE 1\n";
    fs::write(file.path(), text).unwrap();
    let page = page(file.path());
    assert!(page.contains("&lt;script&gt;alert(1)") && !page.contains("<script>alert") && !page.contains("<b>job"));
}

#[rstest]
fn a_browser_draws_the_page(#[values("trees.p_hc.eventlog", "life2.hb.eventlog")] name: &str) {
    is_drawn(&page(&log(name)));
}
