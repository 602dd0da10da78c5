//! fio with Byway as its engine: what it writes is what it reads back, by every interface and depth.

#![allow(clippy::unwrap_used)]

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use byway_conformance::skips::{has, skip};
use common::{here, libraries};

/// The engine, built against the source of the installed fio; `None` where that cannot be had.
fn engine(test: &str) -> Option<&'static Path> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    if !has("fio", test) {
        return None;
    }
    let built = BUILT.get_or_init(build).as_deref();
    if built.is_none() {
        skip(test, "the source of the installed fio cannot be had");
    }
    built
}

fn build() -> Option<PathBuf> {
    let room = here().join("../../integrations/fio");
    let fetched = Command::new(room.join("fetch.sh")).output().unwrap();
    if !fetched.status.success() {
        return None;
    }
    let engine = libraries().join("byway-fio.so");
    let mut build = Command::new(room.join("build.sh"));
    common::run(build.env("LDFLAGS", "-Wl,--strip-debug").arg(libraries().join("libbyway.a")).arg(&engine));
    Some(engine)
}

/// What becomes of a job.
fn fio(engine: &Path, options: &str) -> Output {
    let mut fio = Command::new("fio");
    fio.arg(format!("--ioengine=external:{}", engine.display())).args([
        "--name=job",
        "--bs=4k",
        "--thread=1",
    ]);
    fio.args(options.split(' ')).current_dir(libraries()).output().unwrap()
}

/// A job that succeeds.
fn runs(engine: &Path, options: &str) {
    let Output { status, stdout, stderr } = fio(engine, options);
    let said = String::from_utf8_lossy(&stderr) + String::from_utf8_lossy(&stdout);
    assert!(status.success() && said.contains("err= 0"), "{options}: {status}\n{said}");
}

fn blocks(folder: &tempfile::TempDir) -> String {
    let path = folder.path().join("blocks");
    std::fs::write(&path, vec![0; 2 << 20]).unwrap();
    path.display().to_string()
}

#[test]
fn fio_reads_back_what_it_wrote_by_every_backend_and_depth() {
    let Some(engine) = engine("fio_reads_back_what_it_wrote_by_every_backend_and_depth") else { return };
    let folder = tempfile::tempdir().unwrap();
    let blocks = blocks(&folder);
    for backend in ["io_uring", "libaio", "threads", "psync"] {
        for depth in [1, 16] {
            runs(
                engine,
                &format!(
                    "--uri={blocks} --backend={backend} --iodepth={depth} --rw=randwrite --bsrange=4k-16k --blockalign=4k \
                     --verify=crc32c --verify_fatal=1 --iodepth_batch_submit=4 --fsync=50"
                ),
            );
        }
    }
}

#[test]
fn fio_reads_back_what_it_wrote_to_a_device_in_its_process() {
    let Some(engine) = engine("fio_reads_back_what_it_wrote_to_a_device_in_its_process") else { return };
    runs(engine, "--uri=ram:64M --size=2m --iodepth=8 --rw=randwrite --verify=crc32c --verify_fatal=1");
    runs(engine, "--uri=ram:64M --size=2m --transfer=inline --iodepth=4 --rw=randwrite --verify=md5");
    runs(engine, "--uri=ram:64M --size=1m --iodepth=1 --rw=randwrite --verify=crc32c --create_serialize=0");
}

#[test]
fn fio_trims_and_mixes() {
    let Some(engine) = engine("fio_trims_and_mixes") else { return };
    let folder = tempfile::tempdir().unwrap();
    let blocks = blocks(&folder);
    runs(engine, &format!("--uri={blocks} --rw=randtrim --iodepth=4"));
    runs(engine, &format!("--uri={blocks} --rw=trimwrite --iodepth=1"));
    runs(engine, "--uri=nil:1G --rw=randrw --number_ios=10000 --iodepth=32 --numjobs=2 --direct=1");
    runs(engine, "--filename=nil\\:1G --rw=randread --number_ios=1000 --gtod_reduce=1");
}

#[test]
fn fio_reports_unsupported_options_in_a_sentence() {
    let Some(engine) = engine("fio_reports_unsupported_options_in_a_sentence") else { return };
    let refused = |options: &str, sentence: &str| {
        let Output { status, stdout, stderr } = fio(engine, options);
        let said = String::from_utf8_lossy(&stderr) + String::from_utf8_lossy(&stdout);
        assert!(!status.success() && said.contains(sentence), "{options}: {status}\n{said}");
    };
    refused("--uri=/nowhere/disk", "/nowhere/disk");
    refused("--rw=read", "no device");
    refused("--uri=nil:1G --backend=psync", "null-backend:SIZE is served by null-backend");
    refused("--uri=nil:1G --nsid=7", "no such namespace");
    refused("--uri=nil:1G --bs=100", "no whole number of blocks of 512 bytes");
    refused("--uri=nil:1G --transfer=carrier-pigeon", "carrier-pigeon");
}
