//! `byway check`: what it says of sound and of damaged images, and its exit codes.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;

use common::{Image, byway, json_lines, refused, said};

fn filled() -> Image {
    let image = Image::new(&["kv", "nvm:16M"]);
    for n in 0..20 {
        said(&["kv", "put", &image.uri(""), &format!("key-{n}"), &format!("value {n}")]);
    }
    let file = image.file("blocks", &[7; 8192]);
    said(&["nvm", "write", &image.uri("ns=2"), "--file", &file]);
    image
}

#[test]
fn a_sound_image_is_clean_and_says_what_was_read() {
    let image = filled();
    let path = image.path();
    let text = said(&["check", path.to_str().unwrap()]);
    assert!(text.starts_with("clean: 2 namespaces, 20 keys"), "{text}");
    let report = &json_lines(&said(&["check", path.to_str().unwrap(), "--json"]))[0];
    assert_eq!((&report["clean"], &report["keys"]), (&true.into(), &20.into()));
}

#[test]
fn a_damaged_copy_of_the_superblock_is_found_restored_and_then_clean() {
    let image = filled();
    let path = image.path();
    let name = path.to_str().unwrap();
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&[9; 100], 4096 + 40).unwrap();
    drop(file);
    let found = byway().args(["check", name]).assert().code(1).get_output().clone();
    let (text, error) = (String::from_utf8(found.stdout).unwrap(), String::from_utf8(found.stderr).unwrap());
    assert!(text.starts_with("damaged   superblock copy: "), "{text}");
    assert!(error.contains("--repair restores all of it"), "{error}");
    let done = byway().args(["check", name, "--repair", "--json"]).assert().code(1).get_output().clone();
    let report = &json_lines(&String::from_utf8(done.stdout).unwrap())[0];
    assert_eq!((&report["repaired"], &report["usable"]), (&true.into(), &true.into()));
    assert_eq!(report["findings"][0]["remedy"], "restore");
    said(&["check", name]);
}

#[test]
fn a_key_whose_record_is_gone_is_named_and_dropped_and_the_others_stay() {
    let image = filled();
    let path = image.path();
    let name = path.to_str().unwrap();
    // The record may stand in a page and in a ring of protected state: all of them are written over.
    let needle = b"value 13";
    for at in places_of(&path, needle) {
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(b"damaged!", at).unwrap();
    }
    let found = byway().args(["check", name, "--json"]).assert().code(1).get_output().clone();
    let report = &json_lines(&String::from_utf8(found.stdout).unwrap())[0];
    let findings = report["findings"].as_array().unwrap();
    let hits: Vec<_> = findings.iter().flat_map(|finding| finding["hits"].as_array().unwrap()).collect();
    let key: String = b"key-13".iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(hits.iter().any(|hit| hit["key"]["hex"] == key.as_str()), "{findings:?}");
    byway().args(["check", name, "--repair"]).assert().code(1);
    assert!(said(&["check", name]).contains("clean: "));
    refused(1, &["kv", "get", &image.uri(""), "key-13"]);
    assert_eq!(said(&["kv", "get", &image.uri(""), "key-12"]), "value 12");
}

/// Writes an image with many keys, and damages the pages of the log or the index that hold `needle`.
fn damaged(needle: &[u8]) -> Image {
    let image = Image::new(&["kv"]);
    let rows: String = (0..3000).map(|n| format!("key{n:05}\tthe value of number {n:05}\n")).collect();
    let file = image.file("rows.tsv", rows.as_bytes());
    said(&["kv", "load", &image.uri(""), &file]);
    let path = image.path();
    let place = *places_of(&path, needle).last().unwrap();
    OpenOptions::new().write(true).open(&path).unwrap().write_all_at(&[0xee; 100], place).unwrap();
    image
}

fn exported(image: &Image) -> (String, String) {
    let done = byway().args(["kv", "export", &image.uri("")]).assert().code(2).get_output().clone();
    (String::from_utf8(done.stdout).unwrap(), String::from_utf8(done.stderr).unwrap())
}

#[test]
fn an_export_goes_on_past_a_record_that_cannot_be_read_and_ends_with_an_error() {
    let (rows, said) = exported(&damaged(b"the value of number 01234"));
    let lacking = 3000 - rows.lines().count();
    assert!((1..5).contains(&lacking), "{lacking}");
    assert!(said.contains("key01234") && !rows.contains("key01234"), "{said}");
    assert!(said.contains(&format!("the export lacks {lacking} key")), "{said}");
}

#[test]
fn an_export_goes_on_past_an_index_page_that_cannot_be_read() {
    // The entry of a key in the index is the key, padded, and more: of the first page, one amid, and the last.
    for (key, last) in [("key00007", true), ("key01234", true), ("key02995", false)] {
        let (rows, said) = exported(&damaged(format!("{key}\0\0\0\0\0\0\0\0").as_bytes()));
        let count = rows.lines().count();
        assert!((2400..3000).contains(&count), "{key}: {count}, {said}");
        assert_eq!(rows.contains("key02999"), last, "{key}: {said}");
        assert!(said.contains("cannot be listed") && said.contains("lacks 1 stretch of keys"), "{said}");
    }
}

fn places_of(path: &std::path::Path, needle: &[u8]) -> Vec<u64> {
    let file = std::fs::File::open(path).unwrap();
    let mut places = Vec::new();
    for range in byway_sys::copy::DataRanges::new(&file, file.metadata().unwrap().len()) {
        let (at, len) = range.unwrap();
        let mut bytes = vec![0; len as usize];
        file.read_exact_at(&mut bytes, at).unwrap();
        let found = bytes.windows(needle.len()).enumerate().filter(|(_, window)| *window == needle);
        places.extend(found.map(|(i, _)| at + i as u64));
    }
    places
}

#[test]
fn check_refuses_a_file_that_is_no_image() {
    let image = Image::new(&["kv"]);
    let file = image.file("text", b"not an image");
    let error = refused(2, &["check", &file]);
    assert!(error.contains("is not a Byway image"), "{error}");
}
