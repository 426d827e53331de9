//! The page of `stopworld heap --html`.

use crate::page_support;

use heap_snapshot::{Builder, Label, RootGroup, RootKind, v8};
use page_support::LIMIT;
use tempfile::NamedTempFile;

/// The layout library, as it is published.
const LIBRARY: &str = include_str!("../../../stopworld-analysis/src/report/d3-hierarchy/d3-hierarchy.min.js");

/// A page of a heap with two lists, a large and a small one, of which the large one has a name that is a tag.
fn page() -> String {
    let mut builder = Builder::default();
    let handles = RootGroup { kind: RootKind::Handle, thread: None };
    for (name, size) in [("<b>large</b>", 3000), ("small", 1000)] {
        let list = builder.object(0, name, 0).unwrap();
        builder.root(handles.clone(), 0, list);
        builder.reference(Label::Offset(8), list + 1);
        builder.object(0x1000 + size, "payload", size).unwrap();
    }
    let file = NamedTempFile::new().unwrap();
    v8::write(&builder.finish().0, file.as_file()).unwrap();
    let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_stopworld"));
    let output = command.arg("heap").arg(file.path()).arg("--html").timeout(LIMIT).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_page_needs_nothing_but_itself() {
    let page = page();
    assert_eq!(page.matches(LIBRARY).count(), 1);
    assert!(page.contains("content=\"default-src 'none';") && page.contains("Copyright 2010-2021 Mike Bostock"));
    let own = page.replace(LIBRARY, "");
    for outside in ["http:", "https:", "src=", "url(", "@import", "<link", "<iframe", "<b>"] {
        assert!(!own.contains(outside), "{outside}");
    }
}

/// The areas of boxes are in the proportion of what they retain, and a click shows a box alone.
#[test]
fn the_treemap_shows_what_objects_retain() {
    let Some(mut browser) = page_support::browser() else { return };
    browser.open(&page());
    let area = |name: &str| {
        format!(
            "[...document.querySelectorAll('#map button')].filter((box) => box.textContent.startsWith('{name}'))\
             .map((box) => box.offsetWidth * box.offsetHeight).reduce((sum, area) => sum + area, 0)"
        )
    };
    let large = browser.eval(&area("<b>large</b>")).as_f64().unwrap();
    let small = browser.eval(&area("small")).as_f64().unwrap();
    assert!((2.5..3.5).contains(&(large / small)), "{large} and {small} for 3000 and 1000 bytes");
    browser.eval("document.querySelectorAll('#map button.inner')[0].click()");
    assert_eq!(browser.eval(&area("small")), 0);
    let path = browser.eval("document.getElementById('path').textContent");
    let path = path.as_str().unwrap();
    assert!(path.starts_with("heap: 3.91 KiB, 100.0 % ›<b>large</b> 0x0: 2.93 KiB, 75.0 %"), "{path}");
    browser.eval("document.querySelector('#path button').click()");
    assert!(browser.eval(&area("small")).as_f64().unwrap() > 0.0);
    browser.has_no_complaint();
}
