//! The page of `stopworld gcstats --html`.

use crate::page_support;

use std::path::{Path, PathBuf};

use page_support::{LIMIT, charts, needs_nothing_but_itself, values};
use rstest::rstest;

/// The largest size allowed for a page, with a table of a thousand rows.
const LARGEST: usize = 2 << 20;

pub fn page(trace: &Path) -> String {
    let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_stopworld"));
    let output = command.arg("gcstats").arg(trace).arg("--html").timeout(LIMIT).output().expect("stopworld starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("the page is text")
}

#[rstest]
fn the_page_needs_nothing_but_itself(#[files("../../tests/fixtures/nettrace/*.nettrace")] trace: PathBuf) {
    let page = page(&trace);
    needs_nothing_but_itself(&page);
    assert!(page.len() < LARGEST, "{} bytes", page.len());
}

#[rstest]
fn every_part_can_be_reached_by_its_link_and_by_keys(
    #[files("../../tests/fixtures/nettrace/*.nettrace")] trace: PathBuf,
) {
    let page = page(&trace);
    let links: Vec<&str> = page.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(links, ["main", "rollup", "pauses", "heap", "rate", "histogram", "collections", "generations"]);
    for link in links {
        assert!(page.contains(&format!("id=\"{link}\"")), "{link}");
    }
    // Four charts and three scrolling tables take the focus.
    assert_eq!(page.matches("tabindex=\"0\"").count(), 7);
}

#[test]
fn the_charts_show_every_collection_of_a_short_trace() {
    let page = page(Path::new("../../tests/fixtures/nettrace/gcapp-3.1-gcheap-all.nettrace"));
    let part = |id: &str| {
        let start = page.find(&format!("<section id=\"{id}\"")).expect("the page has this part");
        &page[start..start + page[start..].find("</section>").expect("the part has an end")]
    };
    let [pauses, heap, rate, histogram] = charts(&page).try_into().unwrap();
    let notes: Vec<&str> = pauses["notes"].as_array().unwrap().iter().map(|note| note.as_str().unwrap()).collect();
    assert_eq!(notes.len(), 6, "{notes:?}");
    let at = notes.iter().position(|note| *note == "GC 4, 2NI").unwrap();
    assert_eq!(pauses["places"][at], 0.062933);
    assert_eq!(format!("{:.3}", pauses["series"][2][at].as_f64().unwrap()), "4.337");
    assert!(pauses["series"][0][at].is_null());
    assert_eq!(heap["series"].as_array().unwrap().len(), 4);
    assert_eq!(rate["places"].as_array().unwrap().len(), 6);
    assert_eq!(values(&histogram, 0).iter().sum::<f64>(), 6.0);
    assert!(part("histogram").contains("<td>4.337</td></tr>"), "{}", part("histogram"));
    assert_eq!(part("collections").matches("<tr class=").count(), 6);
    assert_eq!(part("generations").matches("<tr class=").count(), 6);
}
