//! `byway-lab report` from outside.

use std::os::unix::fs::symlink;

use crate::common::{refused, said};

#[test]
fn a_report_replaces_its_own_files_and_no_others() {
    let dir = tempfile::tempdir().unwrap();
    let victim = dir.path().join("victim");
    std::fs::write(&victim, "victim").unwrap();
    // A path that a URI would misread.
    let report = dir.path().join("report%41");
    std::fs::create_dir(&report).unwrap();
    symlink(&victim, report.join("report.html")).unwrap();
    std::fs::write(report.join("records.img"), "mine").unwrap();
    let records = dir.path().join("UnicodeData.txt");
    std::fs::write(&records, "0041;LATIN CAPITAL LETTER A;Lu;0;L;;;;;N;;;;0061;\n").unwrap();
    let args = ["report", report.to_str().unwrap(), "--count", "20", "--records", records.to_str().unwrap()];
    let error = refused(2, &args);
    assert!(error.contains("records.img is no image of an earlier report"), "{error}");
    assert_eq!(std::fs::read(report.join("records.img")).unwrap(), b"mine");
    std::fs::remove_file(report.join("records.img")).unwrap();
    for _ in 0..2 {
        said(&args);
        assert!(std::fs::read_to_string(report.join("report.html")).unwrap().contains("<html"));
        assert_eq!(std::fs::read(&victim).unwrap(), b"victim");
    }
}
