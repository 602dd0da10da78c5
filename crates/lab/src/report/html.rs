//! The page: one file, nothing fetched, readable without colour and on a narrow screen; downloads beside it.

use std::fmt::Write;

use byway_console::table::Table;
use byway_figure::{FigureError, FigureFile, Page, Paper, escape};

use super::claims::{Claim, Verdict};
use super::figures::Section;
use super::measured::Measured;

const STYLE: &str = include_str!("style.css");

/// Words of the page, in the order that they come up in.
const TERMS: [(&str, &str); 14] = [
    (
        "put",
        "one value stored under a key, by one command of the NVMe key-value command set or by vendor commands beside it",
    ),
    (
        "prp, sgl",
        "the host gives addresses and the device reads the value from there: whole pages by PRP lists, exact bytes by SGLs",
    ),
    (
        "piggyback",
        "the value in unused fields of the store command, the rest in further commands (BandSlim); piggyback-pt: the same through a stock kernel's pass-through; prp+tail: whole pages by PRP, the rest so",
    ),
    (
        "inline",
        "the value in 64-byte slots of the submission queue behind its command (ByteExpress); hybrid: up to 35 bytes in the command, longer ones inline",
    ),
    (
        "inline-read",
        "a value of up to 225 bytes read so: behind the completion of its get, in the completion queue",
    ),
    (
        "cxl",
        "the value stored by the host into device memory, then a command with the key; cxl+piggyback: the first 35 bytes in the command",
    ),
    (
        "adaptive",
        "the cheapest of these by the model; adaptive-p, adaptive-c: BandSlim's threshold over piggyback and over cxl",
    ),
    (
        "cosmos, gen4x4, gen5x8-cxl",
        "profiles of a drive and its host: the papers' Cosmos+ OpenSSD on PCIe Gen2 x8, an SSD on Gen4 x4, a drive with device memory on Gen5 x8; @gen5x8 exchanges the link alone",
    ),
    (
        "gen1x4 to gen6x4",
        "PCI Express of a generation and a width of 4: 1, 2, 3.9, 7.9, 15.8 and 29.5 GB/s each way",
    ),
    (
        "cosmos-fitted",
        "cosmos with the times that no source gives fitted to the claims that hold together: what it reproduces is no finding",
    ),
    ("modelled time", "a sum of the profile's step times; it is the same in every run"),
    (
        "query, text",
        "SQL that the device executes over a Parquet file that it stores; a predicate is its condition",
    ),
    ("residual", "what is left between a paper's figure and ours"),
    ("mixgraph", "sizes of a social network's key-value store: generalised Pareto, mean 35 bytes"),
];

/// The whole page, and the files beside it.
///
/// # Errors
/// When a figure has nothing to show.
pub fn page(
    measured: &Measured,
    sections: &[Section],
    tables: &[(String, Table)],
) -> Result<(String, Vec<FigureFile>), FigureError> {
    let mut page = Page::new("What a small put costs, by every transfer method").with_style(STYLE);
    page.html(&head(measured));
    page.terms(&TERMS);
    page.paragraph(
        "First some results in numbers, then the figures. Bytes are the mean of a put; model latency is modelled time; wall puts are puts \
         a second by this machine's clock, which differ from run to run.",
    );
    for (title, table) in tables {
        page.heading(title);
        page.table(table.headings(), table.rows());
    }
    for section in sections {
        push_section(&mut page, measured, section)?;
    }
    Ok(page.finish())
}

fn head(measured: &Measured) -> String {
    let verdicts: Vec<Verdict> = Claim::all().map(|claim| claim.verdict(measured)).collect();
    let reproduced = verdicts.iter().filter(|verdict| matches!(verdict, Verdict::Reproduced(_))).count();
    let residual = verdicts.iter().filter(|verdict| **verdict == Verdict::Residual).count();
    let mut head = format!(
        "<p>Every byte that crosses the modelled link is counted by transaction, and times are sums of a profile's step times. Of {} \
         claims of the ByteExpress and BandSlim papers, <b>{reproduced}</b> are reproduced by at least one account, and \
         <b>{residual}</b> are not; each stands beside its figure with what is left between. Seed {}.</p>\n<ul>\n",
        verdicts.len(),
        measured.seed,
    );
    for paper in [Paper::BYTE_EXPRESS, Paper::BAND_SLIM] {
        let url = paper.url();
        let _ = writeln!(head, "<li>{}. <a href=\"{url}\">{}</a></li>", escape(paper.reference), paper.doi);
    }
    head.push_str("</ul>\n");
    head
}

fn push_section(page: &mut Page, measured: &Measured, section: &Section) -> Result<(), FigureError> {
    page.html("<section>\n");
    page.heading(section.title);
    page.paragraph(section.intro);
    let claims: Vec<&Claim> = Claim::all().filter(|claim| section.topic == Some(claim.topic)).collect();
    page.html(if claims.is_empty() { "<div>\n" } else { "<div class=\"beside\">\n" });
    page.figures(&section.figures)?;
    if !claims.is_empty() {
        let mut html = String::new();
        push_claims(&mut html, measured, &claims);
        page.html(&html);
    }
    page.html("</div>\n</section>\n");
    Ok(())
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
        "<article id=\"claim-{}\" class=\"{class}\">\n<p class=\"says\">{}</p>\n<p class=\"source\"><code>{}</code> · {} · claim \
         <b>{}</b> · <span class=\"verdict\">{word}</span></p>\n",
        claim.id,
        escape(claim.says),
        claim.id,
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::figures;
    use super::super::measured::tests::modelled_all;
    use super::*;
    use byway_figure::Source;

    fn made() -> String {
        let measured = modelled_all();
        let mut table = Table::new(&["method", "bytes"]);
        table.push(vec!["<prp>".to_owned(), "1".to_owned()]);
        let sections =
            figures::sections(&measured, &crate::fit::fit().unwrap(), &Source::new("byway-lab report"))
                .unwrap();
        page(&measured, &sections, &[("The table".to_owned(), table)]).unwrap().0
    }

    #[test]
    fn the_page_fetches_nothing() {
        let page = made();
        for asset in ["src=", "@import", "url(", "<script", "<link rel=\"stylesheet"] {
            assert!(!page.contains(asset), "{asset}");
        }
    }

    #[test]
    fn the_papers_are_linked_and_every_figure_can_be_downloaded() {
        let page = made();
        for doi in ["10.1145/3736548.3737837", "10.1109/MM.2025.3572475"] {
            assert!(page.contains(&format!("<a href=\"https://doi.org/{doi}\"")), "{doi}");
        }
        for ending in ["svg", "csv", "pdf"] {
            let links = page.matches(&format!(".{ending}\" download>")).count();
            assert_eq!(links, page.matches("<figure").count(), "{ending}");
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
