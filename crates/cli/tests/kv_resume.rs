//! `byway kv import` and `export`: no file and no record is lost by going on where an earlier run ended.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Image, json_lines, refused, said};

fn text_of(path: &str) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn file_that_exists_is_never_overwritten_by_skipped_records() {
    let image = Image::new(&[]);
    let uri = image.uri("");
    let (file, note) = (image.file("a.tsv", b"a\t1\nno tab\nb\t2\n"), image.file("note", b"mine\n"));
    let skip = |bad: &str| refused(2, &["kv", "import", &uri, &file, "--resume", "--skip-bad", bad]);
    for _ in 0..2 {
        assert!(skip(&note).contains("exists already"));
        assert_eq!(text_of(&note), "mine\n");
        assert!(skip(&file).contains("is the file that is imported"));
        assert!(skip(&format!("{file}.import-state")).contains("is the state of the import"));
    }
    let linked = image.dir.path().join("linked");
    std::fs::hard_link(&file, &linked).unwrap();
    assert!(skip(linked.to_str().unwrap()).contains("is the file that is imported"));
    let error = refused(2, &["kv", "import", &uri, &file, "--state", &file]);
    assert!(error.contains("name another by --state"), "{error}");
    // An import that began without such a file has made none.
    refused(2, &["kv", "import", &uri, &file, "--resume"]);
    assert!(skip(&note).contains("exists already"));
    assert_eq!((text_of(&note), text_of(&file)), ("mine\n".into(), "a\t1\nno tab\nb\t2\n".into()));
    let bad = image.dir.path().join("bad").to_str().unwrap().to_owned();
    said(&["kv", "import", &uri, &file, "--resume", "--skip-bad", &bad]);
    assert_eq!(json_lines(&text_of(&bad)).len(), 1);
}
