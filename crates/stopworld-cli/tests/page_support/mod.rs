//! What must hold of every page for a browser.

use crate::skipped;

use std::fs;
use std::process::Command;
use std::time::Duration;

/// Long enough for a browser on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(120);

/// Checks that the page loads nothing, follows the reader's choice of light or dark, and closes its elements in order.
pub fn needs_nothing_but_itself(page: &str) {
    for outside in ["http:", "https:", "src=", "url(", "@import", "<link", "<iframe"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.contains("prefers-color-scheme: dark"));
    let mut open = Vec::new();
    for (name, is_end) in tags(page) {
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

/// Checks that a browser draws the page in light and in dark: the picture is not empty, and the scripts report no error.
pub fn is_drawn(page: &str) {
    let browsers = ["chromium", "chromium-browser", "google-chrome", "chrome"];
    let Some(browser) = browsers.iter().find(|name| Command::new(name).arg("--version").output().is_ok()) else {
        return skipped::skipped("chromium");
    };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("page.html");
    fs::write(&file, page).expect("the file can be written");
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
        // A picture of a single colour would have some kilobytes.
        assert!(picture.len() > 30_000, "{} bytes", picture.len());
        pictures.push(picture);
    }
    assert_ne!(pictures[0], pictures[1], "the dark page equals the light one");
}
