//! Orders by path.

use std::path::Path;

use byway_tdm_policy::{Level, Order, Rule, Rules};

fn is_about(pattern: &str, path: &str) -> bool {
    Rule::new(Order::Never, pattern).is_about(Path::new(path))
}

#[test]
fn a_star_stays_within_its_folder_and_two_go_on_below() {
    assert!(is_about("/var/lib/app/*.sst", "/var/lib/app/000012.sst"));
    assert!(is_about("/var/lib/app/*", "/var/lib/app/"));
    assert!(!is_about("/var/lib/app/*.sst", "/var/lib/app/old/000012.sst"));
    assert!(!is_about("/var/lib/app/*.sst", "/var/lib/app/000012.sst.tmp"));
    assert!(is_about("/var/lib/app/**", "/var/lib/app/old/000012.sst"));
    assert!(is_about("/var/**/*.sst", "/var/lib/app/000012.sst"));
    assert!(is_about("**.wal", "/anywhere/at/all.wal"));
    assert!(is_about("/a/?.log", "/a/b.log"));
    assert!(!is_about("/a?b.log", "/a/b.log"));
    assert!(is_about("/a/b", "/a/b"));
    assert!(!is_about("/a/b", "/a/bc"));
}

#[test]
fn stars_that_could_match_in_many_ways_are_matched_in_little_time() {
    let pattern = format!("/{}b", "*a".repeat(200));
    assert!(!is_about(&pattern, &format!("/{}", "a".repeat(4000))));
}

#[test]
fn the_first_rule_that_is_about_a_path_holds() {
    let rules = Rules::parse("# logs\nabsorb /db/*.wal\n\nnever /db/**\ndax /fast/index\n").unwrap();
    assert_eq!(rules.order(Path::new("/db/1.wal")), Some(Order::Pin(Level::Absorb)));
    assert_eq!(rules.order(Path::new("/db/1.sst")), Some(Order::Never));
    assert_eq!(rules.order(Path::new("/fast/index")), Some(Order::Pin(Level::Dax)));
    assert_eq!(rules.order(Path::new("/other")), None);
}

#[test]
fn a_line_that_is_no_rule_is_named() {
    for line in ["sometimes /db/*", "never", "never db/*", "absorb"] {
        let error = Rules::parse(&format!("never /a\n{line}")).unwrap_err();
        assert_eq!((error.line, error.text.as_str()), (2, line));
        assert!(error.to_string().contains("line 2"), "{error}");
    }
}
