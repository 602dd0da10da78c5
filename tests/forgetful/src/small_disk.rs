//! A disk that is soon full: a file system of a few KiB, for one test alone.

use std::path::Path;
use std::process::Command;

/// Where the test that runs there finds it.
const PATH: &str = "BYWAY_TEST_SMALL_DISK";

/// Runs `body` with the folder of a file system of `kib` KiB, in a process of its own that runs `test` and nothing else.
///
/// # Panics
/// When the test that calls it is not named `test`, when it fails, or where a user may not mount in a namespace of its own.
pub fn on_small_disk(test: &str, kib: u64, body: impl FnOnce(&Path)) {
    if let Some(folder) = std::env::var_os(PATH) {
        return body(Path::new(&folder));
    }
    let folder = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o size=\"$2\"k none \"$1\" && exec \"$3\" --exact \"$4\" --nocapture";
    let run = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"])
        .arg(folder.path())
        .arg(kib.to_string())
        .arg(std::env::current_exe().unwrap())
        .arg(test)
        .env(PATH, folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{test} on a disk of {kib} KiB: {said}");
    assert!(said.contains("1 passed"), "{test} is not the name of the test: {said}");
}
