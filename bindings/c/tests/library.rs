//! The libraries as they are installed: what a C program may get wrong, what they show, how they are linked, and that no
//! byte is read that was not written.

#![allow(clippy::unwrap_used)]

mod common;

use std::process::Command;

use byway_conformance::skips::has;
use common::{compile, example, here, libraries, run, says};

#[test]
fn misuse_by_a_program_is_refused_with_a_sentence() {
    let program = compile(&here().join("tests/bad_input.c"), "bad_input", &[]);
    says(&program, &[]);
}

#[test]
fn image_after_a_forked_child_exited_keeps_every_put() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(&here().join("tests/forked.c"), "forked", &[]);
    says(&program, &[folder.path().join("disk.img").to_str().unwrap()]);
}

#[test]
fn the_shared_library_has_a_soname_and_shows_versioned_names_of_its_own_alone() {
    let library = libraries().join("libbyway.so.0");
    let said = run(Command::new("objdump").arg("-p").arg(&library)).stdout;
    assert!(String::from_utf8(said).unwrap().contains("SONAME               libbyway.so.0"));
    let said =
        run(Command::new("nm").args(["-D", "--defined-only", "--with-symbol-versions"]).arg(&library)).stdout;
    let said = String::from_utf8(said).unwrap();
    let mut shown: Vec<&str> = said.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    shown.retain(|name| *name != "BYWAY_0.1" && *name != "BYWAY_0.1@@BYWAY_0.1");
    let header = std::fs::read_to_string(here().join("include/byway.h")).unwrap();
    for name in &shown {
        let (name, version) = name.split_once("@@").unwrap();
        assert_eq!(version, "BYWAY_0.1", "{name}");
        assert!(header.contains(&format!("{name}(")), "{name} is not in byway.h");
    }
    assert!(shown.len() > 50, "{shown:?}");
}

#[test]
fn a_program_links_to_the_archive_with_what_pkg_config_says() {
    let text = std::fs::read_to_string(libraries().join("byway.pc")).unwrap();
    assert!(text.contains("prefix=/usr/local\n") && text.contains("Version: 0."), "{text}");
    let libs = text.lines().find_map(|line| line.strip_prefix("Libs.private: ")).unwrap();
    let program = libraries().join("kv-static");
    let mut cc = Command::new("cc");
    cc.arg("-I").arg(here().join("include")).arg(here().join("examples/kv.c")).arg("-o").arg(&program);
    run(cc.arg(libraries().join("libbyway.a")).args(libs.split(' ')));
    assert!(says(&program, &[]).ends_with("2 keys\n"));
}

#[test]
fn every_function_has_a_manual_page() {
    let folder = libraries().join("man");
    run(Command::new(here().join("man.sh")).arg(&folder));
    let header = std::fs::read_to_string(here().join("include/byway.h")).unwrap();
    let functions = header.lines().filter_map(|line| line.split_once("(")).map(|(head, _)| head);
    let functions =
        functions.filter(|head| !head.starts_with([' ', '\t', '/', '#']) && !head.starts_with("typedef"));
    let mut count = 0;
    for name in functions.map(|head| head.rsplit([' ', '*']).next().unwrap()) {
        let page = std::fs::read_to_string(folder.join(format!("{name}.3"))).unwrap();
        let linked = page.strip_prefix(".so man3/").map_or(name, |page| page.trim().trim_end_matches(".3"));
        let page = std::fs::read_to_string(folder.join(format!("{linked}.3"))).unwrap();
        assert!(page.contains(&format!(".SS {name}\n")), "{name} is not documented in {linked}(3)");
        count += 1;
    }
    assert!(count > 50, "{count}");
}

/// Runs a program under memcheck, which must find nothing.
fn memcheck(program: &std::path::Path, arguments: &[&str]) {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["-q", "--error-exitcode=99", "--leak-check=full", "--show-leak-kinds=definite"]);
    run(valgrind.arg(program).args(arguments));
}

#[test]
fn valgrind_finds_nothing_in_misuse_by_a_program() {
    if has("valgrind", "valgrind_finds_nothing_in_misuse_by_a_program") {
        memcheck(&compile(&here().join("tests/bad_input.c"), "bad_input_checked", &[]), &[]);
    }
}

#[test]
fn valgrind_finds_nothing_in_the_examples() {
    if !has("valgrind", "valgrind_finds_nothing_in_the_examples") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let blocks = folder.path().join("blocks");
    std::fs::write(&blocks, vec![0; 1 << 20]).unwrap();
    let target = folder.path().join("target");
    std::fs::write(&target, vec![0; 1 << 20]).unwrap();
    // Through system calls that valgrind knows.
    let of = |path: &std::path::Path| format!("{}?backend=psync", path.display());
    let (blocks, target) = (of(&blocks), of(&target));
    for name in ["sync", "async", "batch", "events", "raw", "info"] {
        memcheck(&checked(name), &[&blocks]);
    }
    for name in ["kv", "list", "ledger", "compute"] {
        memcheck(&checked(name), &[]);
    }
    memcheck(&checked("copy"), &[&blocks, &target]);
    memcheck(&checked("perf"), &["1000"]);
    memcheck(&checked("image"), &[folder.path().join("image").to_str().unwrap()]);
    assert_eq!(examples(), 13, "every example is looked at here");
}

/// How many examples there are.
fn examples() -> usize {
    let files = std::fs::read_dir(here().join("examples")).unwrap();
    files.filter(|file| file.as_ref().unwrap().path().extension().is_some_and(|end| end == "c")).count()
}

/// An example, compiled beside the one that another test runs.
fn checked(name: &str) -> std::path::PathBuf {
    compile(&here().join("examples").join(format!("{name}.c")), &format!("{name}-checked"), &[])
}

#[test]
fn an_example_is_a_program_by_itself() {
    assert!(says(&example("list"), &[]).contains("devices"));
}
