//! Every example is compiled with warnings as errors, run, and says what its reader expects.

#![allow(clippy::unwrap_used)]

mod common;

use std::path::{Path, PathBuf};

use common::{example, says};

/// A file of `bytes` bytes that is gone with the folder.
fn file(folder: &tempfile::TempDir, name: &str, bytes: &[u8]) -> String {
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    path.display().to_string()
}

#[test]
fn info_prints_a_devices_identity_and_an_error_in_full() {
    let info = example("info");
    let said = says(&info, &["ram:64M"]);
    assert!(said.contains("served by embedded: the device is in this process"), "{said}");
    assert!(said.contains("namespace 1: ") && said.contains("keys of up to 16 bytes"), "{said}");
    let said = says(&info, &["nil:1M", "depth=7"]);
    assert!(said.contains("namespace 1: 1048576 bytes, 2048 blocks of 512 bytes"), "{said}");
    let refused = std::process::Command::new(&info).arg("/nowhere/disk").output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && said.contains("/nowhere/disk"), "{said}");
    assert!(said.contains("refused by the kernel, kind 4, errno 2, status 0"), "{said}");
}

#[test]
fn list_prints_every_device() {
    let said = says(&example("list"), &[]);
    assert!(said.lines().last().unwrap().ends_with(" devices"), "{said}");
}

#[test]
fn sync_reads_what_it_wrote_on_a_file_and_on_a_device_in_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let blocks = file(&folder, "blocks", &[0; 1 << 20]);
    let sync = example("sync");
    for uri in [blocks.as_str(), "ram:64M"] {
        let said = says(&sync, &[uri]);
        assert!(said.contains("read what was written") && said.contains("after trim: 0"), "{uri}: {said}");
        assert!(said.contains("refused: "), "{uri}: {said}");
    }
}

#[test]
fn async_keeps_a_queue_full_from_its_callbacks() {
    let folder = tempfile::tempdir().unwrap();
    let blocks = file(&folder, "blocks", &[0; 1 << 20]);
    let program = example("async");
    for uri in ["nil:1G", &format!("{blocks}?backend=psync"), &format!("{blocks}?backend=threads")] {
        assert_eq!(says(&program, &[uri]), "1000 reads, 0 failed\n", "{uri}");
    }
}

#[test]
fn batch_sends_many_by_one_call_and_reports_a_refusal() {
    let folder = tempfile::tempdir().unwrap();
    let blocks = file(&folder, "blocks", &[0; 1 << 20]);
    let said = says(&example("batch"), &[&blocks]);
    assert_eq!(said, "16 taken, 0 failed\nvectored: 0 failed\nbeyond the end: refused\n");
    assert!(std::fs::read(&blocks).unwrap()[..16 * 4096].iter().all(|byte| *byte == 7));
}

#[test]
fn events_sleeps_in_poll_until_completions_are_there() {
    let folder = tempfile::tempdir().unwrap();
    let blocks = file(&folder, "blocks", &[0; 1 << 20]);
    let program = example("events");
    for uri in ["nil:1G", &format!("{blocks}?backend=threads")] {
        assert_eq!(says(&program, &[uri]), "0 of 8 reads left\n", "{uri}");
    }
}

#[test]
fn kv_stores_reads_lists_and_deletes() {
    let said = says(&example("kv"), &[]);
    assert_eq!(
        said,
        "00df: LATIN SMALL LETTER SHARP S\nffff: no such key\n0041 is there already\n0042 is gone\n  0041\n  00df\n2 keys\n"
    );
}

#[test]
fn compute_runs_a_program_over_local_memory() {
    let said = says(&example("compute"), &[]);
    assert_eq!(said, "twel of 4096 bytes\nbyte 2 is e\nbyte 7 is b\nbyte 12 is none of its bytes\n");
}

#[test]
fn ledger_prints_what_crossed_the_link_for_one_put() {
    let said = says(&example("ledger"), &["ram:64M?transfer=inline"]);
    assert!(said.contains("doorbell ") && said.contains("chunk_fetch "), "{said}");
    assert!(said.ends_with("a put of 32 bytes: 152 bytes of payload, 336 on the wire\n"), "{said}");
    let refused = std::process::Command::new(example("ledger")).arg("nil:1G").output().unwrap();
    assert!(!refused.status.success());
}

#[test]
fn image_lives_from_its_making_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let said = says(&example("image"), &[path.to_str().unwrap()]);
    let expected =
        "100 loaded, 100 read back\n100 keys\nthe image: clean, 0 keys\nthe copy: clean, 100 keys\n";
    assert_eq!(said, expected);
}

#[test]
fn raw_passes_commands_through() {
    let folder = tempfile::tempdir().unwrap();
    let blocks = file(&folder, "blocks", &[0; 1 << 20]);
    let said = says(&example("raw"), &[&blocks]);
    assert!(said.contains("wrote 8 blocks") && said.contains("refused: "), "{said}");
    assert_eq!(&std::fs::read(&blocks).unwrap()[16 * 512 - 1..16 * 512 + 1], [0, 0x77]);
    let said = says(&example("raw"), &["ram:64M"]);
    assert!(said.contains("\nmodel Byway") || said.starts_with("model Byway"), "{said}");
    assert!(said.contains("\nonce more Byway"), "several buffers: {said}");
}

#[test]
fn copy_copies_every_byte_between_any_two_devices() {
    let folder = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = (0..300 * 1024u32).map(|at| (at / 7) as u8).collect();
    let from = file(&folder, "from", &bytes);
    let to = file(&folder, "to", &vec![0; bytes.len()]);
    let said = says(&example("copy"), &[&from, &format!("{to}?backend=psync"), "4"]);
    assert_eq!(said, "307200 bytes\n");
    assert!(std::fs::read(&to).unwrap() == bytes);
}

#[test]
fn perf_counts_what_a_command_costs() {
    assert!(says(&example("perf"), &["1000"]).ends_with(" ns a command\n"));
}

/// The programs in C of a document.
fn programs_of(document: &str) -> Vec<String> {
    let text = std::fs::read_to_string(common::here().join("../..").join(document)).unwrap();
    let blocks = text.split("```c\n").skip(1);
    blocks.map(|block| block.split_once("```").unwrap().0.to_owned()).collect()
}

fn compiled(program: &str, name: &str, folder: &Path) -> PathBuf {
    let source = folder.join(format!("{name}.c"));
    std::fs::write(&source, program).unwrap();
    common::compile(&source, name, &[])
}

#[test]
fn the_first_program_of_the_guide_runs() {
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(&programs_of("docs/guide/c.md")[0], "guide", folder.path());
    common::run(std::process::Command::new(program).current_dir(folder.path()));
    let blocks = std::fs::read(folder.path().join("blocks")).unwrap();
    assert_eq!((blocks.len(), &blocks[7 * 512..7 * 512 + 5]), (1 << 20, &b"hello"[..]));
}

#[test]
fn every_program_of_the_readme_runs() {
    let folder = tempfile::tempdir().unwrap();
    let programs = programs_of("README.md");
    assert!(!programs.is_empty());
    for (number, program) in programs.iter().enumerate() {
        let program = compiled(program, &format!("readme-{number}"), folder.path());
        assert_eq!(says(&program, &[]), "");
    }
}
