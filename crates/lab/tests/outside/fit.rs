//! `byway-lab fit` from outside.

use serde_json::Value;

use crate::common::{json_lines, said};

/// The rows that have a field.
fn rows_with<'a>(rows: &'a [Value], field: &str) -> Vec<&'a Value> {
    rows.iter().filter(|row| row.get(field).is_some()).collect()
}

#[test]
fn fit_prints_each_claim_with_both_profiles_and_what_contradicts_it() {
    let rows = json_lines(&said(&["fit", "--json"]));
    let claims = rows_with(&rows, "claim");
    assert!(claims.len() >= 16, "{claims:?}");
    for claim in &claims {
        assert!(!claim["statements"].as_array().unwrap().is_empty(), "{claim}");
        let contradicted = claim["contradicted_by"].as_array().unwrap();
        assert_eq!(claim["fitted"].as_bool().unwrap(), contradicted.is_empty(), "{claim}");
    }
    let whole = rows.last().unwrap();
    let fitted = claims.iter().filter(|claim| claim["fitted"] == true).count();
    assert_eq!(
        (whole["claims"].as_u64(), whole["fitted"].as_u64()),
        (Some(claims.len() as u64), Some(fitted as u64))
    );
    for parameter in rows_with(&rows, "parameter") {
        let ns = |field: &str| parameter[field].as_f64().unwrap();
        assert!(
            ns("least_ns") <= ns("fitted_ns") + 1e-3 && ns("fitted_ns") <= ns("most_ns") + 1e-3,
            "{parameter}"
        );
    }
}

#[test]
fn headline_of_byteexpress_comes_out_of_the_fitted_profile_by_running_it() {
    let time = |method: &str, size: &str| {
        let args = ["workload", "--profile", "cosmos-fitted", "--count", "10", "--flash", "off", "--json"];
        let load = format!("A:{size}");
        let rows = said(&[&args[..], &["--workloads", &load, "--methods", method]].concat());
        json_lines(&rows)[0]["model_ns_mean"].as_f64().unwrap()
    };
    let saved = 100.0 * (1.0 - time("inline", "32") / time("prp", "32"));
    assert!((saved - 40.4).abs() <= 0.5, "{saved}");
    assert!(time("inline", "256") <= 1.001 * time("prp", "256"));
    assert!(time("inline", "512") > time("prp", "512"));
}

#[test]
fn fit_is_the_same_in_every_run_and_in_words_names_every_parameter() {
    let printed = said(&["fit"]);
    assert_eq!(printed, said(&["fit"]));
    for row in rows_with(&json_lines(&said(&["fit", "--json"])), "parameter") {
        assert!(printed.contains(row["parameter"].as_str().unwrap()), "{row}");
    }
    assert!(printed.contains("contradicted by") && printed.contains("hold together"), "{printed}");
}

#[test]
fn report_of_a_fit_has_its_figures_in_each_form_beside_the_page() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    said(&["fit", "--report", out.to_str().unwrap()]);
    let page = std::fs::read_to_string(out.join("fit.html")).unwrap();
    for id in ["fit-claims", "fit-left-out", "fit-plane"] {
        assert!(page.contains(&format!("<figure id=\"{id}\">")), "{id}");
        for ending in ["svg", "csv", "pdf"] {
            assert!(out.join(format!("figures/{id}.{ending}")).exists(), "{id}.{ending}");
        }
    }
    assert!(page.contains("cosmos-fitted") && !page.contains("NaN"));
    let kept = std::fs::read_to_string(out.join("fit.json")).unwrap();
    assert_eq!(kept, said(&["fit", "--json"]));
}
