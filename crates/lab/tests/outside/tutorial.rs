//! The tutorial about figures: its command prints what the page shows, and writes the figures that it names.

use std::path::Path;

use crate::common::{lab, said};

const PAGE: &str = include_str!("../../../../docs/tutorials/paper-figure.md");
const REFERENCE: &str = include_str!("../../../../docs/reference/link-model.md");
/// The command of the first block, and where it writes.
const COMMAND: (&str, &str) = ("$ byway-lab report out --count 1000\n", "out");

/// Lines of a text, each without runs of blanks.
fn lines(text: &str) -> Vec<String> {
    text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// Lines that the page shows as printed by a command.
fn shown_behind(command: &str) -> Vec<String> {
    let behind = PAGE.split_once(command).unwrap_or_else(|| panic!("the page has no {command}")).1;
    let end = behind.find("\n$ ").unwrap_or(usize::MAX).min(behind.find("```").unwrap());
    lines(&behind[..end])
}

/// Asserts that shown lines stand in what was printed, in their order; `…` at the end of a line stands for its rest.
fn assert_stand_in(shown: &[String], printed: &str) {
    let printed = lines(printed);
    let mut left = printed.iter();
    for line in shown.iter().filter(|line| !line.is_empty() && *line != "…") {
        let begins = |found: &&String| match line.strip_suffix('…') {
            Some(begin) => found.starts_with(begin),
            None => *found == line,
        };
        assert!(left.by_ref().find(begins).is_some(), "not printed, or not there: {line}\n{printed:#?}");
    }
}

/// Names in the columns of figures of a page's tables, `column` being the first of a row that has the names.
fn figures_of(page: &str, column: usize) -> Vec<&str> {
    let rows = page.lines().filter(|line| line.starts_with("| "));
    let cells = rows.filter_map(|row| row.split('|').nth(column));
    let names = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    names.filter(|name| name.starts_with(char::is_lowercase)).collect()
}

#[test]
fn tutorial_of_a_figure_prints_what_it_shows_and_writes_what_it_names() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join(COMMAND.1);
    let printed = said(&["report", out.to_str().unwrap(), "--count", "1000"]);
    let printed = printed.replace(out.to_str().unwrap(), COMMAND.1);
    assert_stand_in(&shown_behind(COMMAND.0), &printed);

    let claims: Vec<&str> =
        printed.lines().filter(|line| line.starts_with("be-") || line.starts_with("bs-")).collect();
    let reproduced = claims.iter().filter(|line| line.contains(" reproduced: ")).count();
    let counted = format!("{reproduced} of {} claims are reproduced", claims.len());
    assert!(PAGE.contains(&counted), "the page lacks: {counted}");

    assert_figures_are_there(&out);
    let csv = std::fs::read_to_string(out.join("figures/traffic-payload.csv")).unwrap();
    assert_stand_in(&shown_behind("64,' out/figures/traffic-payload.csv\n"), &csv);
}

fn assert_figures_are_there(out: &Path) {
    let by_question = PAGE.split_once("## From a claim to its figure").unwrap().1;
    let by_name = REFERENCE.split_once("### Claims by name").unwrap().1;
    let (of_page, of_reference) = (figures_of(by_question, 2), figures_of(by_name, 3));
    assert!(of_page.len() >= 10 && of_reference.len() >= 30, "{of_page:?} {of_reference:?}");
    for name in of_page.iter().chain(&of_reference) {
        for ending in ["svg", "csv", "pdf"] {
            let path = out.join(format!("figures/{name}.{ending}"));
            assert!(path.exists(), "not written: {}", path.display());
        }
    }
}

#[test]
fn figure_of_any_methods_is_drawn_from_standard_input() {
    let rows = include_str!("../../../../benches/results/wire-bytes.json");
    let of = |method: &str| format!("\"method\":\"{method}\"");
    let two: Vec<&str> =
        rows.lines().filter(|row| row.contains(&of("prp")) || row.contains(&of("inline"))).collect();
    assert!(two.len() >= 2, "{rows}");
    let drawn = lab().args(["gen", "figure", "-"]).write_stdin(two.join("\n")).assert().success();
    let svg = String::from_utf8(drawn.get_output().stdout.clone()).unwrap();
    assert!(svg.contains("inline: ") && svg.contains("prp: ") && !svg.contains("piggyback: "), "{svg}");

    let figure = ["gen", "figure", "-", "--form", "csv"];
    for machine in ["machine", "cpu"] {
        let run = format!(
            "{{\"command\":\"byway bench\",\"{machine}\":\"a card\",\"commit\":\"3f06a98b\",\"date\":\"2026-11-30\"}}"
        );
        let drawn = lab().args(figure).write_stdin(format!("{run}\n{}", two.join("\n"))).assert().success();
        let csv = String::from_utf8(drawn.get_output().stdout.clone()).unwrap();
        let facts = "# command: byway bench\n# machine: a card\n# commit: 3f06a98b\n# date: 2026-11-30\n";
        assert!(csv.contains(facts), "{csv}");
    }

    let refused = lab().args(["gen", "figure", "-"]).write_stdin("").assert().code(2).get_output().clone();
    assert!(String::from_utf8_lossy(&refused.stderr).contains("- has no rows"), "{refused:?}");
}
