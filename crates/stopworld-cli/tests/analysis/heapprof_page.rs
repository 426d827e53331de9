//! The page of `stopworld heapprof --html`.

use crate::page_support;

use std::fs;
use std::path::{Path, PathBuf};

use page_support::{LIMIT, charts, needs_nothing_but_itself, values};
use rstest::rstest;
use tempfile::NamedTempFile;

/// The largest size allowed for a page.
const LARGEST: usize = 2 << 20;

pub fn page(file: &Path) -> String {
    let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_stopworld"));
    let output = command.arg("heapprof").arg(file).arg("--html").timeout(LIMIT).output().expect("stopworld starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("the page is text")
}

pub fn log(name: &str) -> PathBuf {
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
    // Scrolling tables and charts take the focus.
    assert!(page.matches("tabindex=\"0\"").count() >= 2);
}

/// The page has each sample's value of each band, and an entry of the legend for each band and each heap figure.
#[test]
fn the_chart_has_every_sample() {
    let page = page(&log("leak.hc.eventlog"));
    let [chart] = charts(&page).try_into().unwrap();
    let times: Vec<f64> = chart["places"].as_array().unwrap().iter().map(|time| time.as_f64().unwrap()).collect();
    // `--csv` has nine, too.
    assert_eq!(times.len(), 9);
    assert!(times.is_sorted() && *times.last().unwrap() <= chart["to"].as_f64().unwrap());
    let bands = chart["series"].as_array().unwrap().len();
    for band in 0..bands {
        assert_eq!(values(&chart, band).len(), times.len());
    }
    assert_eq!(bands + chart["lines"].as_array().unwrap().len(), page.matches("<output data-series=").count());
    assert!(page.contains("insertAll.step/insertAll/main.m/main"));
    assert!(!chart["collections"].as_array().unwrap().is_empty());
}

#[test]
fn each_breakdown_has_its_own_tables() {
    assert!(page(&log("leak.hc.eventlog")).contains("Cost centres by stack"));
    let retainers = page(&log("leak.hr.eventlog"));
    assert!(retainers.contains("Retainers, by the bytes that each keeps alone") && retainers.contains("neverUsed"));
    let life = page(&log("life2.hb.eventlog"));
    for phase in 0..5 {
        assert!(life.contains(&format!("swatch life{phase}")), "{phase}");
    }
}

/// Names of bands, and the texts of markers, may contain anything: the page shows them as text, and nothing else.
#[rstest]
#[case::bands(hostile_bands())]
#[case::markers(hostile_markers())]
fn names_are_text(#[case] file: NamedTempFile) {
    let page = page(file.path());
    assert!(page.contains("alert(1)") && !page.contains(HOSTILE) && !page.contains("<b>job"));
    assert_eq!(page.matches("<script").count(), 3);
    assert_eq!(page.matches("</script>").count(), 3);
}

/// A text that tries to break out of the page.
pub const HOSTILE: &str = "</script><script>alert(1)";

/// A profile with hostile names of bands.
pub fn hostile_bands() -> NamedTempFile {
    let text = format!(
        "JOB \"<b>job</b>\"\nBEGIN_SAMPLE 1\n{HOSTILE}\t5\nEND_SAMPLE 1\nBEGIN_SAMPLE 2\n{HOSTILE}\t7\n<!--<script>\t6\nEND_SAMPLE 2\n"
    );
    written(text.as_bytes())
}

/// A profile with the hostile text in a marker.
pub fn hostile_markers() -> NamedTempFile {
    let marker = "lag set called first time";
    // The length is in the log, too.
    assert_eq!(marker.len(), HOSTILE.len());
    let mut bytes = fs::read(log("life2.hb.eventlog")).unwrap();
    let at = bytes.windows(marker.len()).position(|part| part == marker.as_bytes()).expect("the log has the marker");
    bytes[at..at + marker.len()].copy_from_slice(HOSTILE.as_bytes());
    written(&bytes)
}

fn written(bytes: &[u8]) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    fs::write(file.path(), bytes).unwrap();
    file
}
