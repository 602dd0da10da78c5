//! A disk that is soon full: a file system of a few KiB, for one test alone.

use std::path::Path;
use std::process::Command;

/// Where the test that runs there finds it.
const PATH: &str = "BYWAY_TEST_SMALL_DISK";

/// Runs `body` in a folder on a file system of `kib` KiB, in a child process that runs only `test`.
///
/// # Panics
/// If the calling test is not named `test`, if it fails, or if the user cannot mount in a namespace.
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
