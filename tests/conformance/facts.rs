//! The line protocol between the processes of the suite: one line per question, one per answer.
//!
//! An answer is `ok` and facts, `key=value` separated by spaces, or `error` and a text. A fact contains no space.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::str::FromStr;

/// The result of a command, or the reason why it failed.
pub type TestResult<T> = Result<T, String>;

/// Named values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts(BTreeMap<String, String>);

impl Facts {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn with(mut self, key: &str, value: impl fmt::Display) -> Self {
        self.0.insert(key.into(), value.to_string().replace(char::is_whitespace, "_"));
        self
    }

    pub fn text(&self, key: &str) -> &str {
        self.0.get(key).map_or("", String::as_str)
    }

    pub fn number<N: FromStr>(&self, key: &str) -> TestResult<N> {
        self.text(key).parse().map_err(|_| format!("no number {key:?} in \"{self}\""))
    }

    /// The values of all keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Parses an answer.
    pub fn answered(line: &str) -> TestResult<Self> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "ok" => Ok(Self(rest.split_whitespace().filter_map(|fact| fact.split_once('=')).map(owned).collect())),
            "error" => Err(rest.into()),
            _ => Err(format!("neither ok nor error: {line:?}")),
        }
    }
}

fn owned((key, value): (&str, &str)) -> (String, String) {
    (key.into(), value.into())
}

impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.0.iter().map(|(key, value)| format!("{key}={value}")).collect();
        f.write_str(&words.join(" "))
    }
}

/// Prints an answer.
pub fn answer(told: &TestResult<Facts>) {
    let line = match told {
        Ok(facts) => format!("ok {facts}"),
        Err(text) => format!("error {}", text.replace('\n', " | ")),
    };
    let mut out = std::io::stdout().lock();
    // The process that requested the answer may have ended; the answer is then dropped.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
