//! The page: one file, nothing fetched, readable without colour and on a narrow screen.

use std::fmt::Write;

use byway_console::table::Table;

use super::claims::{Claim, Verdict};
use super::colour;
use super::figures::{Figure, Section};
use super::measured::Measured;

const STYLE: &str = include_str!("style.css");

/// The whole page.
pub fn page(measured: &Measured, sections: &[Section], tables: &[(String, Table)]) -> String {
    let mut page = String::with_capacity(1 << 20);
    page.push_str("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    page.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    // An empty icon: browsers ask for one otherwise.
    page.push_str(
        "<link rel=\"icon\" href=\"data:,\">\n<title>Byway: what a small put costs</title>\n<style>\n",
    );
    page.push_str(STYLE);
    page.push_str("</style>\n</head>\n<body>\n<main>\n");
    push_head(&mut page, measured);
    for (title, table) in tables {
        push_table(&mut page, title, table);
    }
    for section in sections {
        push_section(&mut page, measured, section);
    }
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

fn push_head(page: &mut String, measured: &Measured) {
    let verdicts: Vec<Verdict> = Claim::all().map(|claim| claim.verdict(measured)).collect();
    let reproduced = verdicts.iter().filter(|verdict| matches!(verdict, Verdict::Reproduced(_))).count();
    let residual = verdicts.iter().filter(|verdict| **verdict == Verdict::Residual).count();
    let _ = write!(
        page,
        "<h1>What a small put costs, by every transfer method</h1>\n<p>Every byte that crosses the modelled link is \
         counted by transaction, and times are sums of a profile's step times. Of {} claims of the ByteExpress and \
         BandSlim papers, <b>{reproduced}</b> are reproduced by at least one account, and <b>{residual}</b> are not; \
         each stands beside its plot with what is left between. Seed {}.</p>\n",
        verdicts.len(),
        measured.seed,
    );
}

fn push_section(page: &mut String, measured: &Measured, section: &Section) {
    let _ = write!(page, "<section>\n<h2>{}</h2>\n<p>{}</p>\n", escape(section.title), escape(section.intro));
    let claims: Vec<&Claim> = Claim::all().filter(|claim| section.topic == Some(claim.topic)).collect();
    page.push_str(if claims.is_empty() { "<div class=\"wide\">\n" } else { "<div class=\"beside\">\n" });
    page.push_str("<div class=\"figures\">\n");
    for figure in &section.figures {
        push_figure(page, figure);
    }
    page.push_str("</div>\n");
    if !claims.is_empty() {
        push_claims(page, measured, &claims);
    }
    page.push_str("</div>\n</section>\n");
}

fn push_figure(page: &mut String, figure: &Figure) {
    let title = escape(&figure.title);
    let _ = write!(page, "<figure id=\"{}\">\n<h3>{title}</h3>\n<ul class=\"legend\">", figure.id);
    for (place, name) in figure.legend.iter().enumerate() {
        let colour = colour::css(colour::of(name, place));
        let _ = write!(page, "<li><i style=\"background:{colour}\"></i>{}</li>", escape(name));
    }
    page.push_str("</ul>\n");
    let label = format!("<svg role=\"img\" aria-label=\"{title}\" ");
    page.push_str(&figure.svg.replacen("<svg ", &label, 1));
    let _ = write!(page, "<figcaption>{}</figcaption>\n</figure>\n", escape(&figure.caption));
}

fn push_claims(page: &mut String, measured: &Measured, claims: &[&Claim]) {
    page.push_str("<div class=\"claims\">\n<h3>The papers' claims, ours, and the residual</h3>\n");
    for claim in claims {
        push_claim(page, measured, claim);
    }
    page.push_str("</div>\n");
}

fn push_claim(page: &mut String, measured: &Measured, claim: &Claim) {
    let verdict = claim.verdict(measured);
    let (class, word) = match verdict {
        Verdict::Reproduced(by) => ("good", format!("reproduced: {by}")),
        Verdict::Residual => ("residual", "residual".to_owned()),
        Verdict::NotMeasured => ("none", "not measured in this run".to_owned()),
    };
    let _ = write!(
        page,
        "<article id=\"claim-{}\" class=\"{class}\">\n<p class=\"says\">{}</p>\n<p class=\"source\">{} · claim \
         <b>{}</b> · <span class=\"verdict\">{word}</span></p>\n",
        claim.id,
        escape(claim.says),
        escape(claim.paper),
        claim.figure.text(),
    );
    push_ours(page, measured, claim);
    let _ = write!(page, "<p class=\"how\">Ours: {}.", escape(claim.how));
    if verdict == Verdict::Residual && !claim.why.is_empty() {
        let _ = write!(page, " {}", escape(claim.why));
    }
    page.push_str("</p>\n</article>\n");
}

fn push_ours(page: &mut String, measured: &Measured, claim: &Claim) {
    page.push_str("<table><tr><th>by</th><th>ours</th><th>residual</th></tr>\n");
    for ours in claim.ours(measured) {
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td>{}</td><td>{}</td></tr>",
            escape(ours.by),
            ours.figure.text(),
            claim.figure.residual(ours.figure),
        );
    }
    page.push_str("</table>\n");
}

fn push_table(page: &mut String, title: &str, table: &Table) {
    let _ = write!(
        page,
        "<section>\n<h2>{}</h2>\n<div class=\"scroll\"><table class=\"figures\">\n<tr>",
        escape(title)
    );
    for heading in table.headings() {
        let _ = write!(page, "<th>{}</th>", escape(heading));
    }
    page.push_str("</tr>\n");
    for row in table.rows() {
        page.push_str("<tr>");
        for cell in row {
            let _ = write!(page, "<td>{}</td>", escape(cell));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table></div>\n</section>\n");
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::figures;
    use super::super::measured::tests::modelled_all;
    use super::*;

    fn made() -> String {
        let measured = modelled_all();
        let mut table = Table::new(&["method", "bytes"]);
        table.push(vec!["<prp>".to_owned(), "1".to_owned()]);
        page(&measured, &figures::sections(&measured).unwrap(), &[("The table".to_owned(), table)])
    }

    #[test]
    fn the_page_fetches_nothing() {
        let page = made();
        for asset in ["src=", "@import", "url(", "<script", "href=\"http"] {
            assert!(!page.contains(asset), "{asset}");
        }
    }

    #[test]
    fn every_claim_stands_on_the_page_once() {
        let page = made();
        for claim in Claim::all() {
            assert_eq!(page.matches(&format!("id=\"claim-{}\"", claim.id)).count(), 1, "{}", claim.id);
        }
    }

    #[test]
    fn text_is_escaped() {
        assert!(made().contains("&lt;prp&gt;"));
    }
}
