//! Links between the files of the documentation: each leads to an existing file, and to an existing heading in it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// A relative link of a page.
pub struct Link {
    pub line: usize,
    pub target: String,
}

/// Returns the relative links of a Markdown page. Links in code are not links.
pub fn links(page: &str) -> Vec<Link> {
    let mut found = Vec::new();
    for (number, line) in text_lines(page) {
        let line = without_code(line);
        for (at, _) in line.match_indices("](") {
            let Some(target) = line[at + 2..].split(')').next() else { continue };
            let is_elsewhere = target.contains("://") || target.starts_with("mailto:");
            if !is_elsewhere {
                found.push(Link { line: number + 1, target: target.to_owned() });
            }
        }
    }
    found
}

/// Returns the anchors of a page's headings, as GitHub and mdBook form them.
pub fn anchors(page: &str) -> BTreeSet<String> {
    let headings = text_lines(page).filter(|(_, line)| line.starts_with('#'));
    headings.map(|(_, line)| anchor(line.trim_start_matches('#').trim())).collect()
}

/// Lower case, hyphens for blanks, no punctuation.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).flat_map(char::to_lowercase).collect()
}

/// Resolves a link of the page `from`: the file, and the anchor if the link has one. A path that leaves the repository is `None`.
pub fn resolve(from: &Path, target: &str) -> Option<(PathBuf, Option<String>)> {
    let (path, anchor) = match target.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor.to_owned())),
        None => (target, None),
    };
    let mut to = if path.is_empty() { from.to_owned() } else { from.parent()?.to_owned() };
    for component in Path::new(path).components() {
        match component {
            Component::ParentDir => {
                if !to.pop() {
                    return None;
                }
            }
            Component::Normal(name) => to.push(name),
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some((to, anchor))
}

/// Returns the broken links of a page, one line for each. `page` is relative to `root`.
pub fn broken(root: &Path, page: &Path) -> Vec<String> {
    let text = fs::read_to_string(root.join(page)).unwrap();
    let mut report = Vec::new();
    for Link { line, target } in links(&text) {
        let problem = match resolve(page, &target) {
            None => Some("leaves the repository"),
            Some((to, _)) if !root.join(&to).exists() => Some("there is no such file"),
            Some((to, Some(anchor))) if to.extension().is_some_and(|extension| extension == "md") => {
                let of_target = anchors(&fs::read_to_string(root.join(&to)).unwrap());
                (!of_target.contains(&anchor)).then_some("the page has no such heading")
            }
            Some(_) => None,
        };
        report.extend(problem.map(|problem| format!("{}:{line}: {target}: {problem}", page.display())));
    }
    report
}

/// The lines outside of code blocks, with their numbers from 0.
fn text_lines(page: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    page.lines().enumerate().filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// The line without what is between backticks, except where these are the text of a link.
fn without_code(line: &str) -> String {
    line.split('`').enumerate().map(|(index, part)| if index % 2 == 0 { part } else { "" }).collect()
}

#[test]
fn links_and_anchors_of_a_page() {
    let page =
        "# A [b](c.md), `[d](e)`\n[`f`](../g.rs) [h](#a-b-d) [i](https://j.k)\n```text\n# no\n[no](no.md)\n```\n";
    let found: Vec<_> = links(page).into_iter().map(|link| (link.line, link.target)).collect();
    let expected = [(1, "c.md"), (2, "../g.rs"), (2, "#a-b-d")].map(|(line, target)| (line, target.to_owned()));
    assert_eq!(found, expected);
    assert_eq!(
        anchors("## Who can connect?\n## `strip`, on x86-64"),
        BTreeSet::from(["who-can-connect", "strip-on-x86-64"].map(str::to_owned))
    );
}

#[test]
fn links_are_resolved_from_the_folder_of_their_page() {
    let from = Path::new("docs/how-to/run.md");
    let resolved = |target| resolve(from, target).map(|(path, anchor)| (path.display().to_string(), anchor));
    assert_eq!(resolved("../../README.md#limits"), Some(("README.md".to_owned(), Some("limits".to_owned()))));
    assert_eq!(resolved("#here"), Some(("docs/how-to/run.md".to_owned(), Some("here".to_owned()))));
    assert_eq!(resolved("../../../x"), None);
}
