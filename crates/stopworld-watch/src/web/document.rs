//! The page: one document with its styles and scripts, which loads nothing but its stream.

use maud::{DOCTYPE, PreEscaped, html};

use crate::feed::Target;
use crate::model::Phase;
use stopworld_analysis::report::{CHART_LIBRARY, CHART_STYLES, PAGE_STYLES};

/// The charts: id, heading, what it shows.
const CHARTS: [(&str, &str, &str); 5] = [
    ("pauses", "Pauses", "Each bar is a pause of the program, at the time at which it began."),
    (
        "stops",
        "Time to stop, by thread",
        "How long each stop waited for a thread. The slowest threads have their own colour; of the others, only the slowest of a stop is shown.",
    ),
    ("heap", "Heap, by space", "Bytes after each collection."),
    ("phases", "Phases", "What the program waited for in each pause."),
    ("events", "Events and losses", "Events that arrived, and events that were lost, in each second."),
];

/// The actions: name, label, what it does.
const ACTIONS: [(&str, &str, &str); 3] = [
    ("collect", "Collect", "Requests a collection of the whole heap"),
    (
        "snapshot",
        "Snapshot",
        "Downloads a heap snapshot for Chrome DevTools (.heapsnapshot); the program pauses for it",
    ),
    ("record", "Record 10 s", "Records ten seconds and downloads the trace (.nettrace)"),
];

/// Returns the policy of the page: only its own scripts and styles, which have the nonce, and its own server.
pub(super) fn policy(nonce: &str) -> String {
    format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'"
    )
}

/// Returns the page.
pub(super) fn render(target: &Target, nonce: &str) -> String {
    let title = format!("Process {}", target.pid);
    let phases = Phase::ALL.map(Phase::name).join(" ");
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " – stopworld watch" }
                style nonce=(nonce) {
                    (PreEscaped(CHART_STYLES)) "\n" (PreEscaped(PAGE_STYLES)) (PreEscaped(include_str!("watch.css")))
                }
            }
            body data-phases=(phases) data-pid=(target.pid) {
                header {
                    h1 { (title) " " span.command { (target.command_line) } }
                    p.state id="state" role="status" aria-live="polite" { "Connecting…" }
                    dl.figures id="figures" {}
                    div.actions {
                        @for (name, label, about) in ACTIONS {
                            button type="button" id=(name) data-title=(about) title=(about) disabled { (label) }
                        }
                        div.range {
                            button type="button" id="recent" aria-pressed="true" title="Shows the last minute; drag in a chart to zoom" { "Last minute" }
                            button type="button" id="whole" aria-pressed="false" title="Shows everything" { "Everything" }
                        }
                        output id="answer" {}
                    }
                }
                main {
                    @for (id, heading, about) in CHARTS {
                        section aria-labelledby={ (id) "-heading" } {
                            h2 id={ (id) "-heading" } { (heading) }
                            figure.chart id={ (id) "-chart" } {
                                figcaption { (about) }
                                p.none hidden {}
                                div.plot {}
                            }
                        }
                    }
                    section aria-labelledby="latest-heading" {
                        h2 id="latest-heading" { "Latest pauses" }
                        div.scroll role="region" aria-labelledby="latest-heading" tabindex="0" {
                            table id="latest" {
                                thead { tr {
                                    @for head in ["Time s", "Collection", "Pause µs", "Stop µs", "Heap", "Reason", "Slowest thread"] { th { (head) } }
                                } }
                                tbody {}
                            }
                        }
                    }
                }
                script nonce=(nonce) { (PreEscaped(CHART_LIBRARY)) }
                script nonce=(nonce) { (PreEscaped(include_str!("watch.js"))) }
            }
        }
    };
    page.into_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_cannot_be_part_of_the_page() {
        let target = Target { pid: 7, command_line: "x</span><script>alert(1)</script>".into() };
        let page = render(&target, "n0nce");
        assert!(!page.contains("<script>alert"));
        assert_eq!(page.matches("<script").count(), 2);
        assert_eq!(page.matches("<script nonce=\"n0nce\">").count(), 2);
    }
}
