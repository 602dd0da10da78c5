//! `byway-lab fit`: the times that no source gives, fitted to what the papers publish of times.

use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use byway_console::files;
use byway_console::table::Table;
use byway_console::terminal::print_json;
use byway_figure::{Page, Source};
use serde_json::{Value, json};

use super::report::write_downloads;
use crate::args::FitArgs;
use crate::fit::{self, Alone, Fared, Fit, Outcome, PARAMETERS, Predicted, figures};
use crate::report::claims::Claim;
use crate::report::claims::times::Ratio;

/// Contradictions of one claim that the table shows.
const CONTRADICTIONS: usize = 4;
/// Statements of one claim that the table shows; of a claim with more, the one that fares worst.
const SHOWN: usize = 2;

/// Fits, and prints or writes what comes out.
///
/// # Errors
/// When the solver fails, or something cannot be written.
pub fn run(args: &FitArgs, out: &mut impl Write) -> Result<()> {
    let fit = fit::fit()?;
    if args.json {
        rows(&fit).iter().try_for_each(|row| print_json(out, row))?;
    } else {
        for (title, table) in tables(&fit) {
            put!(out, "{title}\n\n{table}\n")?;
        }
        put!(out, "{}\n", summary(&fit))?;
    }
    match &args.report {
        Some(dir) => write(dir, &fit),
        None => Ok(()),
    }
}

/// Writes `fit.html`, `fit.json` and the folder of figures.
fn write(dir: &Path, fit: &Fit) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("make {}", dir.display()))?;
    let source = Source::of_this_machine("byway-lab fit --report DIR").with_spread(figures::SPREAD);
    let mut page = Page::new("What the papers' times say of their card");
    page.terms(&figures::TERMS);
    page.paragraph(&summary(fit));
    page.figures(&figures::all(fit, &source)?)?;
    for (title, table) in tables(fit) {
        page.heading(title);
        page.table(table.headings(), table.rows());
    }
    let (html, downloads) = page.finish();
    let mut lines = Vec::new();
    rows(fit).iter().try_for_each(|row| print_json(&mut lines, row))?;
    files::replace(&dir.join("fit.html"), html.as_bytes())?;
    files::replace(&dir.join("fit.json"), &lines)?;
    write_downloads(dir, &downloads)?;
    note!("byway-lab: written {}", dir.join("fit.html").display());
    Ok(())
}

/// What came out, in sentences.
pub fn summary(fit: &Fit) -> String {
    let fitted = fit.outcomes.iter().filter(|outcome| outcome.is_fitted).count();
    let ways = match fit.ways {
        1 => "no other choice of as few to leave out would do".to_owned(),
        ways => format!("{ways} choices of as few to leave out would do"),
    };
    format!(
        "{fitted} of {} claims of time hold together; {ways}. All hold only where each ratio may be off by {:.0} % more than its \
         words leave open. {}.",
        fit.outcomes.len(),
        fit.beyond * 100.0,
        fit.alone.iter().map(alone).collect::<Vec<_>>().join(". "),
    )
}

/// What a paper must lose by itself.
fn alone(alone: &Alone) -> String {
    let ways: Vec<String> = alone.left_out.iter().map(|way| ids(way).join(", ")).collect();
    format!("{} alone: all {} but {}", alone.paper, alone.claims, ways.join(", or "))
}

fn ids(claims: &[&Claim]) -> Vec<&'static str> {
    claims.iter().map(|claim| claim.id).collect()
}

fn tables(fit: &Fit) -> [(&'static str, Table); 4] {
    [
        ("Claims as ratios of modelled times", claims(fit)),
        ("Claims left out, and the fitted claims that contradict each", left_out(fit)),
        ("Parameters that no source gives, in nanoseconds", parameters(fit)),
        ("Parts of a put, in microseconds, and over a command", parts(fit)),
    ]
}

fn claims(fit: &Fit) -> Table {
    let headings = ["claim", "times", "paper", "cosmos", "cosmos-fitted", "from the other claims", "fitted"];
    let mut table = Table::new(&headings);
    for outcome in &fit.outcomes {
        for fared in shown(outcome) {
            table.push(vec![
                outcome.claim.id.to_owned(),
                fared.statement.to_string(),
                fared.statement.range.to_string(),
                Ratio(fared.cosmos).to_string(),
                Ratio(fared.fitted).to_string(),
                range(&fared.left_out),
                if outcome.is_fitted { "yes" } else { "left out" }.to_owned(),
            ]);
        }
    }
    table
}

/// The statements of a claim that stand for it.
fn shown(outcome: &Outcome) -> Vec<&Fared> {
    if outcome.statements.len() <= SHOWN {
        return outcome.statements.iter().collect();
    }
    let misses = |fared: &Fared| {
        let range = fared.statement.range;
        [range.miss(fared.fitted), range.miss(fared.cosmos)]
    };
    let worst = outcome
        .statements
        .iter()
        .reduce(|worst, next| if misses(next) > misses(worst) { next } else { worst });
    worst.into_iter().collect()
}

fn range(predicted: &Predicted) -> String {
    let Predicted { near, least, most } = *predicted;
    format!("{} ({} to {})", Ratio(near), Ratio(least), Ratio(most))
}

fn left_out(fit: &Fit) -> Table {
    let mut table =
        Table::new(&["claim", "holds if each ratio is off by", "contradicted by", "what the paper says"]);
    for outcome in fit.outcomes.iter().filter(|outcome| !outcome.is_fitted) {
        let against = &outcome.against;
        let mut said: Vec<String> =
            against.iter().take(CONTRADICTIONS).map(|set| contradiction(outcome, set)).collect();
        if against.len() > CONTRADICTIONS {
            said.push(format!("and {} more", against.len() - CONTRADICTIONS));
        }
        table.push(vec![
            outcome.claim.id.to_owned(),
            format!("{:.1} %", outcome.beyond * 100.0),
            said.join("; "),
            outcome.claim.says.to_owned(),
        ]);
    }
    table
}

/// A set of claims in words, against one.
fn contradiction(outcome: &Outcome, claims: &[&Claim]) -> String {
    match (claims, outcome.statements.first()) {
        ([], Some(fared)) => {
            let (least, most) = fared.within_bounds;
            format!("the bounds alone: {} to {}", Ratio(least), Ratio(most))
        }
        _ => ids(claims).join(" with "),
    }
}

fn parameters(fit: &Fit) -> Table {
    let mut table =
        Table::new(&["parameter", "cosmos", "fitted", "may be", "bounds", "reason for the bounds"]);
    for ((parameter, region), value) in PARAMETERS.iter().zip(&fit.regions).zip(fit.values.rounded().0) {
        table.push(vec![
            parameter.name.to_owned(),
            format!("{:.0}", parameter.cosmos_ns),
            format!("{value:.0}"),
            format!("{} to {}", ns(region.least_ns), ns(region.most_ns)),
            format!("{} to {}", ns(parameter.least_ns), ns(parameter.most_ns)),
            parameter.why.to_owned(),
        ]);
    }
    table
}

/// Nanoseconds for people: whole from 10 on.
fn ns(ns: f64) -> String {
    byway_console::table::mean(if ns < 10.0 { (ns * 10.0).round() / 10.0 } else { ns.round() })
}

fn parts(fit: &Fit) -> Table {
    let mut table = Table::new(&["part", "cosmos", "fitted", "over a command"]);
    for part in &fit.parts {
        table.push(vec![
            part.name.to_owned(),
            format!("{:.2}", part.cosmos_ns / 1e3),
            format!("{:.2}", part.fitted_ns / 1e3),
            range(&part.over_command),
        ]);
    }
    table
}

/// The fit as objects: one for each claim, parameter and part, and one of the whole.
fn rows(fit: &Fit) -> Vec<Value> {
    let mut rows: Vec<Value> = fit.outcomes.iter().map(claim_row).collect();
    for ((parameter, region), value) in PARAMETERS.iter().zip(&fit.regions).zip(fit.values.0) {
        rows.push(json!({
            "parameter": parameter.name, "cosmos_ns": parameter.cosmos_ns, "fitted_ns": value,
            "least_ns": region.least_ns, "most_ns": region.most_ns,
            "bounds_ns": [parameter.least_ns, parameter.most_ns], "why": parameter.why,
        }));
    }
    for part in &fit.parts {
        rows.push(json!({
            "part": part.name, "cosmos_ns": part.cosmos_ns, "fitted_ns": part.fitted_ns,
            "over_command": predicted_row(&part.over_command),
        }));
    }
    for alone in &fit.alone {
        let left_out: Vec<Vec<&str>> = alone.left_out.iter().map(|way| ids(way)).collect();
        rows.push(json!({ "paper": alone.paper, "claims": alone.claims, "left_out": left_out }));
    }
    let fitted = fit.outcomes.iter().filter(|outcome| outcome.is_fitted).count();
    rows.push(json!({
        "claims": fit.outcomes.len(), "fitted": fitted, "ways": fit.ways, "share": fit.share, "beyond": fit.beyond,
    }));
    rows
}

fn claim_row(outcome: &Outcome) -> Value {
    let statement = |fared: &Fared| {
        let range = fared.statement.range;
        json!({
            "times": fared.statement.to_string(), "least": range.least,
            "most": range.most.is_finite().then_some(range.most), "printed": range.printed,
            "cosmos": fared.cosmos, "fitted": fared.fitted, "left_out": predicted_row(&fared.left_out),
            "within_bounds": [fared.within_bounds.0, fared.within_bounds.1],
        })
    };
    json!({
        "claim": outcome.claim.id, "paper": outcome.claim.paper, "says": outcome.claim.says, "fitted": outcome.is_fitted,
        "beyond": outcome.beyond,
        "contradicted_by": outcome.against.iter().map(|set| ids(set)).collect::<Vec<_>>(),
        "statements": outcome.statements.iter().map(statement).collect::<Vec<_>>(),
    })
}

fn predicted_row(predicted: &Predicted) -> Value {
    json!({ "near": predicted.near, "least": predicted.least, "most": predicted.most })
}
