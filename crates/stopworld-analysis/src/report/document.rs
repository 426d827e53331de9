//! The common frame of the HTML pages: structure, styles, and keyboard navigation.

use maud::{DOCTYPE, Markup, PreEscaped, html};

/// A self-contained HTML page.
pub(super) struct Document<'a> {
    pub(super) title: String,
    /// Styles in addition to the common ones.
    pub(super) style: &'a str,
    /// Facts about the subject, shown under the title.
    pub(super) about: Markup,
    /// Each section's id, heading, and content.
    pub(super) sections: &'a [(&'a str, &'a str, Markup)],
    /// The data for the page's script, and the script. The common script for the keys follows them.
    pub(super) data: Markup,
    pub(super) script: &'a str,
}

impl Document<'_> {
    pub(super) fn render(self) -> String {
        let Document { title, style, about, sections, data, script } = self;
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (title) }
                    style { (PreEscaped(include_str!("document.css"))) (PreEscaped(style)) }
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
                    (data)
                    script { (PreEscaped(script)) (PreEscaped(include_str!("document.js"))) }
                }
            }
        };
        page.into_string()
    }
}
