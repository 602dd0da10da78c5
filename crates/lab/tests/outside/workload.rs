//! `byway-lab workload` from outside.

use serde_json::Value;

use crate::common::{json_lines, refused, said};

fn number(row: &Value, field: &str) -> f64 {
    row[field].as_f64().unwrap_or_else(|| panic!("{field} of {row}"))
}

#[test]
fn one_seed_gives_one_answer() {
    let run = |seed: &str| -> Vec<Value> {
        let text = said(&[
            "workload",
            "--json",
            "--count",
            "300",
            "--seed",
            seed,
            "--workloads",
            "B,D,M",
            "--methods",
            "prp,inline,adaptive",
        ]);
        let mut rows = json_lines(&text);
        for row in &mut rows {
            row.as_object_mut().unwrap().remove("wall_ns_mean");
        }
        rows
    };
    let first = run("5");
    assert_eq!(first.len(), 9);
    assert_eq!(first, run("5"));
    assert_ne!(first, run("6"));
    for row in &first {
        assert!(number(row, "ops_per_s_model") > 0.0 && number(row, "waf") > 0.0);
        assert!(row["nand_pages"].is_u64());
    }
}

#[test]
fn workload_that_does_not_exist_is_refused_with_those_that_do() {
    assert!(refused(2, &["workload", "--workloads", "E"]).contains("A:SIZE"));
}
