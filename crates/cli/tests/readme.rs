//! The console blocks of the README, run as they stand, with the output that they show.
#![allow(clippy::unwrap_used)]

mod common;

use common::pages::{Step, blocks, root, run, text_of};

fn readme() -> String {
    text_of("README.md")
}

/// The commands of all its console blocks.
fn steps() -> Vec<Step> {
    blocks(&readme()).into_iter().flat_map(|block| block.steps).collect()
}

/// What must be the same on every machine: all but the real time that ends a row of `bench transfer`.
fn without_wall_time(line: &str) -> String {
    let mut words: Vec<&str> = line.split_whitespace().collect();
    if words.len() > 2 && matches!(words.last(), Some(&("ns" | "µs" | "ms"))) {
        words.truncate(words.len() - 2);
    }
    words.join(" ")
}

#[test]
fn readme_commands_print_what_the_readme_shows() {
    let folder = tempfile::tempdir().unwrap();
    let mut outputs_compared = 0;
    for step in steps().iter().filter(|step| step.command.starts_with("byway ")) {
        let output = run(&step.command, folder.path());
        assert!(output.status.success(), "{}: {}", step.command, String::from_utf8_lossy(&output.stderr));
        let printed = String::from_utf8(output.stdout).unwrap();
        let printed: Vec<String> = printed.lines().map(without_wall_time).collect();
        let shown: Vec<String> = step.shown.iter().map(|line| without_wall_time(line)).collect();
        assert_eq!(printed, shown, "{}", step.command);
        outputs_compared += shown.len();
    }
    assert!(outputs_compared >= 5, "the README shows output of {outputs_compared} lines");
}

/// `make` and `cargo install` would build and test everything from within a test: make resolves the targets without running them, and the folder
/// must be a package with this program.
#[test]
fn readme_install_commands_name_what_there_is() {
    for step in steps() {
        let words: Vec<&str> = step.command.split_whitespace().collect();
        match words.as_slice() {
            ["byway", ..] => {}
            ["make", target] => {
                let output = run(&format!("make --dry-run {target}"), &root());
                assert!(output.status.success(), "{}: {output:?}", step.command);
            }
            ["cargo", "install", "--locked", "--path", package] => {
                let manifest = std::fs::read_to_string(root().join(package).join("Cargo.toml")).unwrap();
                assert!(manifest.contains("name = \"byway\""), "{}", step.command);
            }
            _ => panic!("no test runs this command of the README: {}", step.command),
        }
    }
}

#[test]
fn readme_blocks_are_of_languages_that_tests_run() {
    let readme = readme();
    let openings =
        readme.lines().filter_map(|line| line.strip_prefix("```")).filter(|language| !language.is_empty());
    for language in openings {
        // Rust: doc tests of `byway`; Python: test_documents.py; C: examples.rs of the C interface.
        assert!(["console", "rust", "python", "c"].contains(&language), "no test runs {language}");
    }
}

#[test]
fn readme_and_citation_name_the_version_that_is_built() {
    let version = env!("CARGO_PKG_VERSION");
    assert!(readme().contains(&format!("Version {version} ")));
    let citation = std::fs::read_to_string(root().join("CITATION.cff")).unwrap();
    assert!(citation.contains(&format!("\nversion: {version}\n")));
}

#[test]
fn readme_keeps_to_120_lines() {
    assert!(readme().lines().count() <= 120);
}
