//! Every example runs, as it is without arguments. `cargo test` builds them with the tests.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Where this test's own program and the examples were built.
fn built() -> PathBuf {
    let this = std::env::current_exe().unwrap();
    this.parent().and_then(Path::parent).unwrap().join("examples")
}

#[test]
fn every_example_runs_and_says_something() {
    let sources = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/examples")).unwrap();
    let mut run = 0;
    for source in sources.map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some()) {
        let name = source.file_stem().unwrap();
        let done = Command::new(built().join(name)).output();
        let done = done.unwrap_or_else(|e| panic!("{name:?}: {e}; cargo test -p byway builds it"));
        assert!(done.status.success(), "{name:?}: {}", String::from_utf8_lossy(&done.stderr));
        assert!(!done.stdout.is_empty(), "{name:?}");
        run += 1;
    }
    assert!(run >= 12);
}

#[test]
fn an_example_takes_another_device() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("blocks");
    std::fs::File::create(&file).unwrap().set_len(1 << 20).unwrap();
    for name in ["info", "sync", "async", "awaited", "batch", "events"] {
        let done = Command::new(built().join(name)).arg(&file).output().unwrap();
        assert!(done.status.success(), "{name}: {}", String::from_utf8_lossy(&done.stderr));
    }
    let done = Command::new(built().join("info")).arg("nosuch").output().unwrap();
    assert!(!done.status.success());
    assert!(String::from_utf8_lossy(&done.stderr).contains("refused by the Host"));
}
