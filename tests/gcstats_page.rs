//! The page of `stopworld gcstats --html`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rstest::rstest;

const LIMIT: Duration = Duration::from_secs(120);
/// What a page may have, with a thousand rows of a table in it.
const LARGEST: usize = 2 << 20;

fn page(trace: &Path) -> String {
    let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_stopworld"));
    let output = command.arg("gcstats").arg(trace).arg("--html").timeout(LIMIT).output().expect("stopworld starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("the page is text")
}

/// The tags in order: name, and whether it ends an element.
fn tags(page: &str) -> Vec<(&str, bool)> {
    let tags = page.split('<').skip(1).filter(|tag| !tag.starts_with('!')).map(|tag| {
        let is_end = tag.starts_with('/');
        let name = tag.trim_start_matches('/');
        (&name[..name.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(name.len())], is_end)
    });
    tags.collect()
}

#[rstest]
fn the_page_needs_nothing_but_itself(#[files("tests/fixtures/nettrace/*.nettrace")] trace: PathBuf) {
    let page = page(&trace);
    for outside in ["http:", "https:", "src=", "url(", "@import", "<link", "<iframe"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.contains("prefers-color-scheme: dark"));
    assert!(page.len() < LARGEST, "{} bytes", page.len());
    // Its elements are closed in order; the script and the styles have no tags.
    let mut open = Vec::new();
    for (name, is_end) in tags(&page) {
        match (name, is_end) {
            ("meta", _) => {}
            (name, false) => open.push(name),
            (name, true) => assert_eq!(open.pop(), Some(name)),
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[rstest]
fn every_part_can_be_reached_by_its_link_and_by_keys(#[files("tests/fixtures/nettrace/*.nettrace")] trace: PathBuf) {
    let page = page(&trace);
    let links: Vec<&str> = page.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(links, ["main", "rollup", "pauses", "heap", "histogram", "rate", "collections"]);
    for link in links {
        assert!(page.contains(&format!("id=\"{link}\"")), "{link}");
    }
    // Four pictures and two tables that scroll take the focus; points have a text each.
    assert_eq!(page.matches("tabindex=\"0\"").count(), 6);
    assert_eq!(page.matches("class=\"point\"").count(), page.matches("tabindex=\"-1\"><title>").count());
}

#[test]
fn the_pictures_show_every_collection_of_a_short_trace() {
    let page = page(Path::new("tests/fixtures/nettrace/gcapp-3.1-gcheap-all.nettrace"));
    let part = |id: &str| {
        let start = page.find(&format!("<section id=\"{id}\"")).expect("the part is there");
        &page[start..start + page[start..].find("</section>").expect("it ends")]
    };
    // Two of the six are so near to each other that they share a bar.
    assert_eq!(part("pauses").matches("class=\"point\"").count(), 5);
    assert_eq!(part("pauses").matches("the longest of 2").count(), 1);
    assert!(part("pauses").contains("GC 4, 2NI, at 62.933 ms: 4.337 ms"), "{}", part("pauses"));
    assert_eq!(part("heap").matches("class=\"area").count(), 4);
    assert!(part("histogram").contains("<td>4.337</td></tr>"), "{}", part("histogram"));
    assert_eq!(part("collections").matches("<tr class=").count(), 6);
}

/// A browser draws the page in light and in dark: something is on it, and the script has no error.
#[test]
fn a_browser_draws_the_page() {
    let browsers = ["chromium", "chromium-browser", "google-chrome", "chrome"];
    let Some(browser) = browsers.iter().find(|name| Command::new(name).arg("--version").output().is_ok()) else {
        eprintln!("skipped: needs chromium");
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("page.html");
    fs::write(&file, page(Path::new("tests/fixtures/nettrace/gcapp-3.1-gc-info.nettrace"))).expect("it can be written");
    let mut pictures = Vec::new();
    for dark in [false, true] {
        let picture = folder.path().join(format!("{dark}.png"));
        let mut command = assert_cmd::Command::new(browser);
        command.args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--enable-logging=stderr",
            "--window-size=1280,2400",
        ]);
        if dark {
            command.arg("--blink-settings=preferredColorScheme=0");
        }
        let output = command.arg(format!("--screenshot={}", picture.display())).arg(&file).timeout(LIMIT).output();
        let output = output.expect("the browser starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!said.contains("CONSOLE"), "{said}");
        let picture = fs::read(&picture).unwrap_or_else(|error| panic!("no picture ({error}): {said}"));
        // One of a single colour would be some kilobytes.
        assert!(picture.len() > 30_000, "{} bytes", picture.len());
        pictures.push(picture);
    }
    assert_ne!(pictures[0], pictures[1], "dark is light");
}
