//! The live view at `/`: one page without links to anything else, which reads the metrics at intervals and draws them.
//!
//! It is composed once, of files that the program contains. The server does nothing for it between two requests for metrics.

use std::sync::LazyLock;

use base64ct::{Base64, Encoding};
use sha2::{Digest, Sha256};

const HTML: &str = include_str!("page.html");
const CSS: &str = include_str!("page.css");
/// One script of several files: what runs while it is read needs earlier files alone.
const SCRIPT: &str = concat!(
    include_str!("reading.js"),
    include_str!("intervals.js"),
    include_str!("drawing.js"),
    include_str!("tables.js"),
    include_str!("page.js"),
);

/// The page, and the headers that go with it.
pub(super) struct Page {
    /// The whole page.
    pub html: String,
    /// Lines of headers, each with its end.
    pub headers: String,
}

/// The page.
pub(super) static PAGE: LazyLock<Page> = LazyLock::new(|| Page {
    html: HTML.replace("{css}", CSS).replace("{script}", SCRIPT),
    headers: format!(
        "Content-Security-Policy: {}\r\nCache-Control: no-cache\r\nReferrer-Policy: no-referrer\r\nX-Content-Type-Options: nosniff\r\n",
        policy()
    ),
});

/// What a browser lets the page do: its own script and style, by their hashes, and requests to the server that it came from. The
/// icon is empty data, so that no browser asks for one.
fn policy() -> String {
    let [script, style] = [SCRIPT, CSS].map(|text| Base64::encode_string(&Sha256::digest(text)));
    format!(
        "default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}'; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_holds_its_script_and_style_between_tags_that_the_policy_hashes() {
        let page = &PAGE.html;
        assert!(
            page.contains(&format!("<style>{CSS}</style>"))
                && page.contains(&format!("<script>{SCRIPT}</script>"))
        );
        assert_eq!((page.matches("<script").count(), page.matches("<style").count()), (1, 1));
        assert!(!page.contains("{css}") && !page.contains("{script}") && !page.contains("style=\""));
        assert!(page.len() < 64 << 10, "{} bytes", page.len());
    }
}
