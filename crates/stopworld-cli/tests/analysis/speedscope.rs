//! speedscope loads our files: its page imports a file of a real run, and saves what it has. The stacks and their weights equal ours.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::command_support::{directory, run, text};
use crate::page_support;
use crate::skipped::skipped;

use serde_json::Value;

/// The weight of each call stack, outermost function first.
type Stacks = BTreeMap<Vec<String>, u64>;

/// The page of speedscope that `.ci/heap-readers` installs.
fn page() -> Option<PathBuf> {
    let installed = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("heap-readers").join("speedscope");
    let page = installed.join("node_modules/speedscope/dist/release/index.html");
    if !page.exists() {
        skipped("speedscope");
        return None;
    }
    Some(page)
}

/// Loads a file in speedscope as its command does, and returns the profiles that it saves. `None`, with a skipped test reported, if it or a
/// browser is missing.
fn speedscope(file: &Path) -> Option<Vec<Stacks>> {
    let page = page()?;
    let mut browser = page_support::browser()?;
    let contents = Value::from(base64(&fs::read(file).unwrap()));
    let script = file.with_extension("js");
    fs::write(&script, format!("speedscope.loadFileFromBase64(\"run.json\", {contents})")).unwrap();
    let script = script.display().to_string();
    browser.visit(&format!("file://{}#localProfilePath={}", page.display(), script.trim_start_matches('/')));
    browser.until("document.title.endsWith(' - speedscope')");
    let saved = browser.eval(
        "new Promise((resolve) => {\
           HTMLAnchorElement.prototype.click = () => {};\
           URL.createObjectURL = (blob) => { blob.text().then(resolve); return 'about:blank'; };\
           window.dispatchEvent(new KeyboardEvent('keydown', { key: 's', ctrlKey: true }));\
         })",
    );
    let saved: Value = serde_json::from_str(saved.as_str().unwrap()).unwrap();
    Some(stacks(&saved))
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let word = three.iter().chain(&[0; 2]).take(3).fold(0, |word, byte| word << 8 | usize::from(*byte));
        let digits = (0..4).map(|digit| char::from(DIGITS[word >> (18 - 6 * digit) & 63]));
        text.extend(digits.take(three.len() + 1));
        text.extend(std::iter::repeat_n('=', 3 - three.len()));
    }
    text
}

/// Returns the stacks of each profile of a file in speedscope's format.
fn stacks(file: &Value) -> Vec<Stacks> {
    let name =
        |index: &Value| file["shared"]["frames"][index.as_u64().unwrap() as usize]["name"].as_str().unwrap().to_owned();
    let of_profile = |profile: &Value| {
        let mut stacks = Stacks::new();
        if profile["type"] == "sampled" {
            let weights = profile["weights"].as_array().unwrap();
            for (stack, weight) in profile["samples"].as_array().unwrap().iter().zip(weights) {
                let stack: Vec<String> = stack.as_array().unwrap().iter().map(name).collect();
                *stacks.entry(stack).or_default() += weight.as_u64().unwrap();
            }
            return stacks;
        }
        let (mut open, mut last) = (Vec::new(), 0);
        for event in profile["events"].as_array().unwrap() {
            let at = event["at"].as_u64().unwrap();
            if at > last {
                *stacks.entry(open.clone()).or_default() += at - last;
            }
            last = at;
            match event["type"].as_str().unwrap() {
                "O" => open.push(name(&event["frame"])),
                _ => assert_eq!(open.pop(), Some(name(&event["frame"]))),
            }
        }
        stacks
    };
    file["profiles"].as_array().unwrap().iter().map(of_profile).collect()
}

#[test]
fn speedscope_has_the_allocations_of_a_run() {
    let directory = directory();
    let line = "run gcbench --depth 12 --alloc-interval 4KiB --alloc-stacks run.json";
    let output = run(directory.path(), line);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let file = directory.path().join("run.json");
    let Some(mut found) = speedscope(&file) else { return };
    let mut expected = stacks(&serde_json::from_slice(&fs::read(&file).unwrap()).unwrap());
    // A stack without bytes is not drawn.
    found.iter_mut().chain(&mut expected).for_each(|stacks| stacks.retain(|_, weight| *weight > 0));
    assert_eq!(found, expected);
    let all: u64 = found[0].values().sum();
    assert!(all > 1 << 20, "{found:?}");
}

/// The ticks of each cost centre stack are those that `timeprof --folded` prints.
#[test]
fn speedscope_has_the_ticks_of_a_time_profile() {
    let directory = directory();
    let output =
        run(directory.path(), "run graph --seconds 4 --threads 2 --time-profile --tick 0.001 --trace run.eventlog");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let printed = |form: &str| text(&run(directory.path(), &format!("timeprof run.eventlog {form}")).stdout);
    let file = directory.path().join("run.json");
    fs::write(&file, printed("--speedscope")).unwrap();
    let Some(found) = speedscope(&file) else { return };
    let mut sum = Stacks::new();
    for (stack, nanoseconds) in found.into_iter().flatten() {
        *sum.entry(stack).or_default() += nanoseconds / 1_000_000;
    }
    // MAIN, below which the program runs, is no frame of a timeline: its own time is that without frames.
    let mut expected = Stacks::new();
    for (stack, ticks) in printed("--folded").lines().map(|line| line.rsplit_once(' ').unwrap()) {
        let stack: Vec<String> = stack.split(';').filter(|name| *name != "MAIN").map(str::to_owned).collect();
        expected.insert(stack, ticks.parse().unwrap());
    }
    for stacks in [&mut sum, &mut expected] {
        stacks.remove(&Vec::new());
    }
    assert!(expected.values().sum::<u64>() > 100, "{expected:?}");
    assert_eq!(sum, expected);
}
