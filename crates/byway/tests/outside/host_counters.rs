//! What SMART counts of hosts outlives closing and a kill, and an image of before it was counted begins at zero.

use std::fs::File;
use std::ops::ControlFlow;
use std::path::Path;

use byway::embedded::EmbeddedDevice;
use byway::serve::{ServeOptions, TcpOptions};
use byway::{AdminCommand, Backend, CreateOptions, HostCounters, MediaNamespaceKind, NewNamespace, Nsid};
use byway_conformance::served::Serving;
use byway_sys::copy::{CopyFile, copy_sparse};

fn create(path: &Path) -> String {
    let nvm = NewNamespace { kind: MediaNamespaceKind::Nvm { lba_bytes: 512 }, size_bytes: Some(4 << 20) };
    let options = CreateOptions::new(16 << 20).namespaces([NewNamespace::KV, nvm]);
    byway::create(path, &options).unwrap();
    format!("embedded:{}", path.display())
}

fn counted(device: &EmbeddedDevice) -> HostCounters {
    device.details().counters.host
}

/// Two writes of a block, a put of 100 bytes, three reads of a block, and a get.
fn work(device: &EmbeddedDevice) {
    let mut nvm = device.nvm(None).unwrap();
    (0..2).for_each(|lba| nvm.write(lba, &[1; 512]).unwrap());
    (0..3).for_each(|_| nvm.read(0, &mut [0; 512]).unwrap());
    let mut kv = device.kv(None).unwrap();
    kv.put(b"key", &[2; 100]).unwrap();
    assert_eq!(kv.get(b"key").unwrap().unwrap().len(), 100);
}

fn times(n: u64) -> HostCounters {
    HostCounters { reads: 4 * n, read_bytes: 1636 * n, writes: 3 * n, written_bytes: 1124 * n }
}

#[test]
fn host_counters_go_on_after_close_and_after_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let (path, killed) = (dir.path().join("disk.img"), dir.path().join("killed.img"));
    let uri = create(&path);
    for n in 1..=3 {
        let device = byway::embedded::open(&uri).unwrap();
        assert_eq!(counted(&device), times(n - 1));
        work(&device);
        assert_eq!(counted(&device), times(n));
        // As a kill leaves it.
        let _ = std::fs::remove_file(&killed);
        let copy = CopyFile::new(File::create_new(&killed).unwrap(), &killed);
        copy_sparse(&File::open(&path).unwrap(), &copy, |_| {}).unwrap();
        device.close().unwrap();
        let device = byway::embedded::open(&format!("embedded:{}", killed.display())).unwrap();
        assert_eq!(counted(&device), times(n), "killed");
        work(&device);
        device.close().unwrap();
    }
    let checked = byway::check(&path, &mut |_, _, _| {}).unwrap();
    assert!(checked.is_clean(), "{:?}", checked.findings);
}

#[test]
fn host_counters_are_kept_by_a_resize() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk.img");
    let uri = create(&path);
    let device = byway::embedded::open(&uri).unwrap();
    work(&device);
    device.close().unwrap();
    byway::resize(&path, 32 << 20, &[], &mut |_, _| ControlFlow::Continue(())).unwrap();
    let device = byway::embedded::open(&uri).unwrap();
    assert_eq!(counted(&device), times(1));
}

/// One error, then the number of error log entries (SMART) and the newest entry's error count.
fn errors(device: &impl Backend) -> [u64; 2] {
    let nsid = Nsid::new(77).unwrap();
    device.admin(AdminCommand::Format { nsid, format: 0, erase: false }).unwrap_err();
    let word = |log, at: usize| {
        let into = device.buffer(512).unwrap();
        let asked =
            AdminCommand::GetLog { log, csi: 0, nsid: None, retain_event: true, offset_bytes: 0, into };
        let page = device.admin(asked).unwrap().buffer.unwrap();
        u64::from_le_bytes(page.as_slice()[at..at + 8].try_into().unwrap())
    };
    [word(2, 176), word(1, 0)]
}

#[test]
fn error_log_entries_are_numbered_on_over_reopening_and_restarts_of_a_server() {
    let dir = tempfile::tempdir().unwrap();
    let uri = create(&dir.path().join("disk.img"));
    let mut before = 0;
    let mut check = |now: [u64; 2], how: &str| {
        assert!(now[0] == now[1] && now[0] > before, "{how}: {before}, then {now:?}");
        before = now[0];
    };
    for round in 0..2 {
        check(errors(&byway::open(&uri).unwrap()), &format!("embedded, {round}"));
        let tcp = TcpOptions::at("127.0.0.1:0".parse().unwrap());
        let serving = Serving::start_with(&uri, &ServeOptions::over_tcp(tcp));
        for connect in 0..2 {
            check(errors(&serving.open("").unwrap()), &format!("over TCP, {round}, {connect}"));
        }
    }
}
