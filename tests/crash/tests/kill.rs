//! SIGKILL at random instants, in every workload and by every transfer method: what was acknowledged is there, whole,
//! and nothing else changed.
#![allow(clippy::unwrap_used)]

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use byway_crash_tests::{block_writers, writers};
use byway_flash::{Flash, OpenOptions, RunOptions};
use byway_kit::Random;

/// Kills of the same program that is run on record, in a process of its own: while a writer starts it holds whatever
/// the one that starts it has open.
fn nothing_is_lost(kills: u64, workloads: &[&str]) {
    let mut run = Command::new(env!("CARGO_BIN_EXE_byway-crash-tests"));
    run.args(["--kills", &kills.to_string(), "--seed", "20261121"]);
    for workload in workloads {
        run.args(["--workload", workload]);
    }
    let ended = run.output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    println!("{said}");
    assert!(ended.status.success() && said.contains(&format!("{kills} kept, 0 broken")), "{said}");
}

#[test]
fn killed_puts_and_overwrites_lose_nothing_acknowledged() {
    nothing_is_lost(48, &["put", "overwrite"]);
}

#[test]
fn killed_deletes_and_lists_lose_nothing_acknowledged() {
    nothing_is_lost(30, &["delete", "list"]);
}

#[test]
fn killed_writes_of_everything_lose_nothing_acknowledged() {
    nothing_is_lost(36, &["mixed", "bulk"]);
}

#[test]
fn killed_writers_of_a_full_namespace_lose_nothing_acknowledged() {
    nothing_is_lost(20, &["full"]);
}

#[test]
fn killed_writers_lose_nothing_acknowledged_while_logs_are_compacted_and_blocks_collected() {
    nothing_is_lost(18, &["worn"]);
}

#[test]
fn killed_writes_and_trims_of_blocks_lose_nothing_acknowledged() {
    nothing_is_lost(24, &["blocks"]);
}

#[test]
fn a_killed_format_forgets_everything_or_nothing_and_a_killed_making_leaves_an_image_or_none() {
    nothing_is_lost(24, &["format", "create"]);
}

/// Kills of each image of several writers; `BYWAY_TEST_CASES=334` for a thousand of three images.
const KILLS: u32 = 20;

#[test]
fn killed_threads_that_store_beside_each_other_lose_nothing_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let mut random = Random::new(20_261_127);
    for (method, memtable) in [("hybrid", "1M"), ("inline", "16K"), ("prp", "64K")] {
        let image = dir.path().join(method);
        let options = byway::CreateOptions::new(32 << 20).namespaces([byway::NewNamespace::KV]);
        byway::create(&image, &options).unwrap();
        let uri = format!("embedded:{}?transfer={method}&memtable={memtable}&cache=256K", image.display());
        kill_writers("writers", writers::verify, &uri, &dir.path().join("versions"), &mut random);
        std::fs::remove_file(dir.path().join("versions")).unwrap();
    }
}

/// A device so small that logs are compacted and memtables written out all the time.
#[test]
fn killed_threads_that_store_beside_a_thread_for_upkeep_lose_nothing_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let mut random = Random::new(20_261_129);
    for memtable in ["16K", "64K"] {
        let image = dir.path().join(memtable);
        let options = byway::CreateOptions::new(8 << 20).namespaces([byway::NewNamespace::KV]);
        byway::create(&image, &options).unwrap();
        let uri = format!("embedded:{}?upkeep=thread&memtable={memtable}&cache=256K", image.display());
        kill_writers("writers", writers::verify, &uri, &dir.path().join("versions"), &mut random);
        std::fs::remove_file(dir.path().join("versions")).unwrap();
    }
}

#[test]
fn killed_threads_that_write_blocks_beside_each_other_lose_nothing_acknowledged() {
    kill_block_writers(&["transfer=prp", "transfer=sgl", "transfer=hybrid"], 20_261_128, false);
}

/// The file is as the killed threads left it, and the kernel is another.
#[test]
fn threads_killed_before_their_machine_is_restarted_in_order_lose_no_acknowledged_blocks() {
    kill_block_writers(&["flush=process", "flush=command"], 20_261_129, true);
}

/// Kills writers of blocks of one device for each of `options`. Nothing is damaged, so the opening finds nothing lost.
fn kill_block_writers(options: &[&str], seed: u64, is_restarted: bool) {
    let mut random = Random::new(seed);
    for options in options {
        let dir = tempfile::tempdir().unwrap();
        let (image, versions) = (dir.path().join("image"), dir.path().join("versions"));
        byway::create(&image, &byway::CreateOptions::new(8 << 20).namespaces([byway::NewNamespace::NVM]))
            .unwrap();
        let verify = |uri: &str, versions: &Path| {
            let run = RunOptions::default().power_was_lost(is_restarted);
            let options = OpenOptions::default().run(run).read_only(!is_restarted);
            let mut left = Flash::open(&image, options).unwrap();
            assert!(left.recovery().lost == 0 && left.check().is_empty());
            left.close().unwrap();
            drop(left);
            block_writers::verify(uri, versions)
        };
        let uri = format!("embedded:{}?{options}", image.display());
        kill_writers("block-writers", verify, &uri, &versions, &mut random);
    }
}

/// Kills writers of a device again and again, and verifies what each leaves: by a file of versions, of which it says how many were
/// acknowledged.
fn kill_writers(
    command: &str,
    verify: impl Fn(&str, &Path) -> Result<u64, String>,
    uri: &str,
    versions: &Path,
    random: &mut Random,
) {
    let mut acknowledged = 0;
    for kill in 0..byway_kit::cases(KILLS) {
        let mut process = Command::new(env!("CARGO_BIN_EXE_byway-crash-tests"))
            .args([command, uri, versions.to_str().unwrap()])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        process.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        std::thread::sleep(Duration::from_micros(random.below(100_000)));
        assert_eq!(process.try_wait().unwrap(), None, "the writers ended by themselves");
        process.kill().unwrap();
        process.wait().unwrap();
        let now =
            verify(uri, versions).unwrap_or_else(|said| panic!("kill {kill} of {command} to {uri}: {said}"));
        assert!(now >= acknowledged);
        acknowledged = now;
    }
    assert!(acknowledged > 0, "{uri}: nothing was acknowledged");
}
