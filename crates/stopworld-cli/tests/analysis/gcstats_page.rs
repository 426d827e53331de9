//! The page of `stopworld gcstats --html`.

use crate::page_support;

use std::path::{Path, PathBuf};

use page_support::{LIMIT, is_drawn, needs_nothing_but_itself};
use rstest::rstest;

/// The largest size allowed for a page, with a table of a thousand rows.
const LARGEST: usize = 2 << 20;

fn page(trace: &Path) -> String {
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
    assert_eq!(links, ["main", "rollup", "pauses", "heap", "histogram", "rate", "collections"]);
    for link in links {
        assert!(page.contains(&format!("id=\"{link}\"")), "{link}");
    }
    // Four charts and two scrolling tables take the focus; each point has a text.
    assert_eq!(page.matches("tabindex=\"0\"").count(), 6);
    assert_eq!(page.matches("class=\"point\"").count(), page.matches("tabindex=\"-1\"><title>").count());
}

#[test]
fn the_pictures_show_every_collection_of_a_short_trace() {
    let page = page(Path::new("../../tests/fixtures/nettrace/gcapp-3.1-gcheap-all.nettrace"));
    let part = |id: &str| {
        let start = page.find(&format!("<section id=\"{id}\"")).expect("the page has this part");
        &page[start..start + page[start..].find("</section>").expect("the part has an end")]
    };
    // Two of the six are so close that they share a bar.
    assert_eq!(part("pauses").matches("class=\"point\"").count(), 5);
    assert_eq!(part("pauses").matches("the longest of 2").count(), 1);
    assert!(part("pauses").contains("GC 4, 2NI, at 62.933 ms: 4.337 ms"), "{}", part("pauses"));
    assert_eq!(part("heap").matches("class=\"area").count(), 4);
    assert!(part("histogram").contains("<td>4.337</td></tr>"), "{}", part("histogram"));
    assert_eq!(part("collections").matches("<tr class=").count(), 6);
}

#[test]
fn a_browser_draws_the_page() {
    is_drawn(&page(Path::new("../../tests/fixtures/nettrace/gcapp-3.1-gc-info.nettrace")));
}
