//! The common frame of the HTML pages: structure, styles, and the scripts that draw the charts.
//!
//! A page is one file and loads nothing. Its policy forbids the browser to load anything, so that a mistake in the escaping of a name
//! cannot send the trace anywhere.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::chart::{self, Chart};

/// Allows only the contents of the page itself: no network, no frames, no forms.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// The script of the chart library (uPlot), after its licence: for an HTML page.
pub const CHART_LIBRARY: &str =
    concat!("/*\n", include_str!("uplot/LICENSE"), "\n*/\n", include_str!("uplot/uPlot.iife.min.js"));

/// The styles of the chart library.
pub const CHART_STYLES: &str = include_str!("uplot/uPlot.min.css");

/// The styles that all pages have in common: colours in light and dark, sections, figures, tables.
pub const PAGE_STYLES: &str = include_str!("document.css");

/// A self-contained HTML page.
pub(super) struct Document<'a> {
    pub(super) title: String,
    /// Styles in addition to the common ones.
    pub(super) style: &'a str,
    /// Facts about the subject, shown under the title.
    pub(super) about: Markup,
    /// Each section's id, heading, and content.
    pub(super) sections: &'a [(&'a str, &'a str, Markup)],
    /// The charts in the sections.
    pub(super) charts: &'a [Chart],
    /// Further scripts, after those of the charts.
    pub(super) scripts: Markup,
}

impl Document<'_> {
    pub(super) fn render(self) -> String {
        let Document { title, style, about, sections, charts, scripts } = self;
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta http-equiv="Content-Security-Policy" content=(POLICY);
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (title) }
                    style {
                        @if !charts.is_empty() { (PreEscaped(CHART_STYLES)) "\n" }
                        (PreEscaped(PAGE_STYLES)) (PreEscaped(style))
                    }
                }
                body {
                    a.skip href="#main" { "Skip to the figures" }
                    header {
                        h1 { (title) }
                        (about)
                        nav aria-label="Sections of this page" {
                            @for (id, heading, _) in sections { a href={ "#" (id) } { (heading) } }
                        }
                    }
                    main id="main" {
                        @for (id, heading, body) in sections {
                            section id=(id) aria-labelledby={ (id) "-heading" } {
                                h2 id={ (id) "-heading" } { (heading) }
                                (body)
                            }
                        }
                    }
                    p.says id="says" role="status" aria-live="polite" {}
                    @if !charts.is_empty() {
                        script type="application/json" id="charts" { (PreEscaped(chart::json(charts))) }
                        script { (PreEscaped(CHART_LIBRARY)) }
                        script { (PreEscaped(include_str!("charts.js"))) }
                    }
                    (scripts)
                }
            }
        };
        page.into_string()
    }
}

/// Names and values, in a row that wraps. Facts without a value are left out.
pub(super) fn facts(class: &str, facts: &[(&str, String)]) -> Markup {
    html! {
        dl class=(class) {
            @for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) { div { dt { (name) } dd { (value) } } }
        }
    }
}

/// Returns a table that can be scrolled, also by keyboard, if the window is too narrow for it.
pub(super) fn table(about: &str, head: &Markup, rows: &Markup) -> Markup {
    html! {
        div.scroll role="region" aria-label=(about) tabindex="0" {
            table {
                caption { (about) }
                thead { (head) }
                tbody { (rows) }
            }
        }
    }
}
