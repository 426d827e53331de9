//! What the pages for a browser have in common: the frame around their parts, its styles, and its keys.

use maud::{DOCTYPE, Markup, PreEscaped, html};

/// A page that needs nothing but itself.
pub(super) struct Document<'a> {
    pub(super) title: String,
    /// Styles beside those that every page has.
    pub(super) style: &'a str,
    /// What the page is of, under the title.
    pub(super) about: Markup,
    /// Each with its name in addresses, its heading, and what is under it.
    pub(super) sections: &'a [(&'a str, &'a str, Markup)],
    /// What its script reads, and the script; that of the keys, which every page has, comes behind it.
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
                    a.skip href="#main" { "To the figures" }
                    header {
                        h1 { (title) }
                        (about)
                        nav aria-label="Parts of this page" {
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
