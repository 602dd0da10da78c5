//! `byway-lab calibrate` from outside.

use std::os::unix::fs::symlink;

use crate::common::{json_lines, lab};

#[test]
fn calibration_is_kept_where_adaptive_finds_it() {
    let home = tempfile::tempdir().unwrap();
    let output = lab()
        .env("XDG_CONFIG_HOME", home.path())
        .args(["calibrate", "--profile", "cosmos", "--count", "3", "--json"])
        .assert()
        .success()
        .get_output()
        .stdout
        .clone();
    let rows = json_lines(std::str::from_utf8(&output).unwrap());
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0]["below"], "piggyback");
    assert!(rows[0]["tau_bytes"].as_u64().unwrap() >= 36);
    assert!(home.path().join("byway/thresholds.json").exists());
}

#[test]
fn a_calibration_is_kept_behind_a_symbolic_link_and_beside_other_files() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("byway");
    std::fs::create_dir(&folder).unwrap();
    let (kept, beside) = (home.path().join("dotfile.json"), folder.join("thresholds.json.new"));
    std::fs::write(&kept, r#"{"thresholds":[]}"#).unwrap();
    symlink(&kept, folder.join("thresholds.json")).unwrap();
    std::fs::write(&beside, "mine").unwrap();
    let args = ["calibrate", "--profile", "cosmos", "--count", "3"];
    lab().env("XDG_CONFIG_HOME", home.path()).args(args).assert().success();
    assert_eq!(std::fs::read(&beside).unwrap(), b"mine");
    assert!(folder.join("thresholds.json").symlink_metadata().unwrap().is_symlink());
    assert!(std::fs::read_to_string(&kept).unwrap().contains("cosmos"));
}
