//! Copies of images that are in use: everything acknowledged before is in them, and they are sound.

use std::ops::ControlFlow;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use byway::embedded::EmbeddedDevice;
use byway::{ControlSocket, CreateOptions, ErrorKind, NewNamespace};

fn open(path: &Path) -> EmbeddedDevice {
    byway::embedded::open(&format!("embedded:{}", path.display())).unwrap()
}

fn key(n: u32) -> [u8; 4] {
    (n % 5000).to_be_bytes()
}

/// The value of the `n`th put: its number, over and over.
fn value(n: u32) -> Vec<u8> {
    n.to_le_bytes().repeat(1 + n as usize % 700)
}

/// Checks a copy: sound, nothing torn, and of each key at least the put that was acknowledged before.
fn holds(copy: &Path, acknowledged: u32) {
    let checked = byway::check(copy, &mut |_, _, _| {}).unwrap();
    assert!(checked.is_clean(), "{:?}", checked.findings);
    let device = open(copy);
    let mut kv = device.kv(None).unwrap();
    for n in acknowledged.saturating_sub(5000)..acknowledged {
        let found = kv.get(&key(n)).unwrap().unwrap();
        let which = u32::from_le_bytes(found[..4].try_into().unwrap());
        assert!(which >= n && which % 5000 == n % 5000, "put {which} under the key of {n}");
        assert_eq!(found, value(which));
    }
}

/// Takes snapshots of `path` by `take` while puts go on, so many that blocks are erased meanwhile.
fn under_load(path: &Path, take: impl Fn(&EmbeddedDevice, &Path)) {
    byway::create(path, &CreateOptions::new(32 << 20)).unwrap();
    let device = open(path);
    let (done, acknowledged) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut kv = device.kv(None).unwrap();
            for n in 0..u32::MAX {
                if done.load(Ordering::Relaxed) {
                    return;
                }
                kv.put(&key(n), &value(n)).unwrap();
                acknowledged.store(n + 1, Ordering::Release);
            }
        });
        for nth in 0..3 {
            while acknowledged.load(Ordering::Acquire) < (nth + 1) * 8000 {
                std::thread::yield_now();
            }
            let copy = path.with_extension(format!("copy{nth}"));
            let before = acknowledged.load(Ordering::Acquire);
            take(&device, &copy);
            holds(&copy, before);
        }
        done.store(true, Ordering::Relaxed);
    });
    device.close().unwrap();
}

#[test]
fn a_snapshot_under_load_holds_every_put_that_was_acknowledged_before() {
    let dir = tempfile::tempdir().unwrap();
    under_load(&dir.path().join("disk.img"), |device, copy| {
        let report = device.snapshot(copy).unwrap();
        assert!(report.pause_ns > 0);
    });
}

#[test]
fn snapshot_of_an_open_image_is_made_by_the_process_that_has_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk.img");
    under_load(&path, |_, copy| {
        let report = byway::snapshot(&path, copy).unwrap();
        assert!(report.pause_ns > 0);
    });
}

#[test]
fn an_image_that_only_a_namespace_or_a_queue_keeps_open_is_copied_by_its_process() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk.img");
    let namespaces = vec![NewNamespace::KV, NewNamespace::NVM];
    byway::create(&path, &CreateOptions::new(32 << 20).namespaces(namespaces)).unwrap();
    let copied = |name: &str| {
        let copy = dir.path().join(name);
        assert!(byway::snapshot(&path, &copy).unwrap().pause_ns > 0, "{name}");
        assert!(byway::check(&copy, &mut |_, _, _| {}).unwrap().is_clean(), "{name}");
    };
    let mut kv = open(&path).kv(None).unwrap();
    kv.put(b"key", b"value").unwrap();
    copied("kv");
    kv.put(b"key", b"other").unwrap();
    drop(kv);
    let nvm = open(&path).nvm(None).unwrap();
    copied("nvm");
    drop(nvm);
    let queue = open(&path).queue().unwrap();
    copied("queue");
    drop(queue);
    assert_eq!(open(&path).kv(None).unwrap().get(b"key").unwrap().as_deref(), Some(&b"other"[..]));
}

#[test]
fn silent_control_client_does_not_delay_a_close() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk.img");
    byway::create(&path, &CreateOptions::new(32 << 20)).unwrap();
    let device = open(&path);
    let socket = socket_of(&device);
    let silent: Vec<UnixStream> = (0..3).map(|_| UnixStream::connect(&socket).unwrap()).collect();
    let closed = std::thread::spawn(move || drop(device));
    // Less than the device would wait for a request.
    let until = Instant::now() + Duration::from_millis(4500);
    while !closed.is_finished() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(closed.is_finished());
    assert!(!socket.exists(), "the socket goes with the device");
    drop(open(&path));
    drop(silent);
}

/// Where the process that has an image open takes requests.
fn socket_of(device: &EmbeddedDevice) -> PathBuf {
    match device.control_socket() {
        ControlSocket::At(path) => path.clone(),
        none => panic!("{none}"),
    }
}

#[test]
fn control_socket_left_by_a_killed_process_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk.img");
    byway::create(&path, &CreateOptions::new(32 << 20)).unwrap();
    let socket = socket_of(&open(&path));
    // As a forked child keeps it whose parent was killed.
    let _inherited = UnixListener::bind(&socket).unwrap();
    let device = open(&path);
    assert_eq!(socket_of(&device), socket);
    assert!(byway::snapshot(&path, dir.path().join("copy.img")).unwrap().pause_ns > 0);
}

#[test]
fn snapshot_without_control_socket_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let (path, copy) = (dir.path().join("disk.img"), dir.path().join("copy.img"));
    byway::create(&path, &CreateOptions::new(32 << 20)).unwrap();
    let device = open(&path);
    let socket = socket_of(&device);
    std::fs::remove_file(&socket).unwrap();
    let refused = byway::snapshot(&path, &copy).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Busy);
    let folder = socket.parent().unwrap().display().to_string();
    assert!(refused.to_string().contains(&folder), "{refused}");
    assert!(byway::embedded::open("ram:64M").unwrap().control_socket().missing().is_some());
}

#[test]
fn snapshot_gives_up_on_a_silent_process() {
    let dir = tempfile::tempdir().unwrap();
    let (path, copy) = (dir.path().join("disk.img"), dir.path().join("copy.img"));
    byway::create(&path, &CreateOptions::new(32 << 20)).unwrap();
    let device = open(&path);
    let socket = socket_of(&device);
    std::fs::remove_file(&socket).unwrap();
    let _deaf = UnixListener::bind(&socket).unwrap();
    let refused = byway::snapshot(&path, &copy).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::TimedOut, "{refused}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside the image");
    std::fs::remove_file(&socket).unwrap();
}

#[test]
fn a_copy_that_is_ended_leaves_nothing_and_the_device_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let (path, copy) = (dir.path().join("disk.img"), dir.path().join("copy.img"));
    byway::create(&path, &CreateOptions::new(32 << 20)).unwrap();
    let end = |path: &Path| byway::snapshot_watched(path, &copy, &mut |_| ControlFlow::Break(()));
    let mut kv = open(&path).kv(None).unwrap();
    for n in 0..200 {
        kv.put(&key(n), &vec![n as u8; 60_000]).unwrap();
    }
    drop(kv);
    // Where the file system shares blocks, there is nothing to be ended.
    if let Err(ended) = end(&path) {
        assert_eq!(ended.kind(), ErrorKind::Cancelled);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside the image");
    }
    let _ = std::fs::remove_file(&copy);
    byway::snapshot(&path, &copy).unwrap();
}

#[test]
fn a_closed_image_is_copied_as_sparse_as_it_is_and_nothing_is_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let (path, copy) = (dir.path().join("disk.img"), dir.path().join("copy.img"));
    byway::create(&path, &CreateOptions::new(32 << 20)).unwrap();
    let device = open(&path);
    device.kv(None).unwrap().put(b"key", b"value").unwrap();
    device.close().unwrap();
    assert_eq!(byway::snapshot(&path, &copy).unwrap().pause_ns, 0);
    let (image, copied) = (path.metadata().unwrap(), copy.metadata().unwrap());
    assert_eq!(image.len(), copied.len());
    assert!(copied.blocks() <= image.blocks() + 1024);
    assert_eq!(open(&copy).kv(None).unwrap().get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
    let said = byway::snapshot(&path, &copy).unwrap_err().to_string();
    assert!(said.contains("exists already"), "{said}");
}

#[test]
fn a_file_that_is_no_image_is_not_copied() {
    let dir = tempfile::tempdir().unwrap();
    let (file, out) = (dir.path().join("letter.txt"), dir.path().join("copy.img"));
    std::fs::write(&file, "Dear reader, this is not an image. ".repeat(1000)).unwrap();
    let error = byway::snapshot(&file, &out).unwrap_err();
    assert!(error.to_string().contains("is not a Byway image"), "{error}");
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 1, "nothing is left behind");
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Mode, user and group.
fn access_of(path: &Path) -> (u32, u32, u32) {
    let found = path.metadata().unwrap();
    (found.mode() & 0o7777, found.uid(), found.gid())
}

#[test]
fn snapshot_keeps_mode_and_owner_of_the_image() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk.img");
    byway::create(&path, &CreateOptions::new(32 << 20)).unwrap();
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&path, Some(4711), Some(4712)).unwrap();
    }
    for mode in [0o600, 0o660] {
        set_mode(&path, mode);
        let copy = |name| dir.path().join(format!("{name}-{mode:o}"));
        byway::snapshot(&path, copy("closed")).unwrap();
        let device = open(&path);
        device.snapshot(copy("own")).unwrap();
        byway::snapshot(&path, copy("asked")).unwrap();
        for name in ["closed", "own", "asked"] {
            assert_eq!(access_of(&copy(name)), access_of(&path), "{name}");
        }
    }
}

#[test]
fn a_snapshot_leaves_files_beside_the_copy_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (path, copy) = (dir.path().join("disk.img"), dir.path().join("copy.img"));
    byway::create(&path, &CreateOptions::new(32 << 20)).unwrap();
    let (victim, beside) = (dir.path().join("victim"), dir.path().join("copy.img.partial"));
    std::fs::write(&victim, "victim").unwrap();
    std::fs::write(&beside, "mine").unwrap();
    byway::snapshot(&path, &copy).unwrap();
    assert_eq!(std::fs::read(&beside).unwrap(), b"mine");
    std::fs::remove_file(&copy).unwrap();
    std::fs::remove_file(&beside).unwrap();
    symlink(&victim, &beside).unwrap();
    byway::snapshot(&path, &copy).unwrap();
    assert!(beside.symlink_metadata().unwrap().is_symlink());
    assert_eq!(std::fs::read(&victim).unwrap(), b"victim");
}

#[test]
fn a_name_that_is_taken_while_a_copy_is_made_is_not_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let (path, copy) = (dir.path().join("disk.img"), dir.path().join("copy.img"));
    byway::create(&path, &CreateOptions::new(32 << 20)).unwrap();
    let mut kv = open(&path).kv(None).unwrap();
    (0..200).for_each(|n| kv.put(&key(n), &vec![n as u8; 60_000]).unwrap());
    drop(kv);
    let take = |_| {
        std::fs::write(&copy, "mine").unwrap();
        ControlFlow::Continue(())
    };
    // Where the file system shares blocks, a copy is made before its name can be taken.
    if let Err(refused) = byway::snapshot_watched(&path, &copy, &mut |bytes| take(bytes)) {
        assert!(refused.to_string().contains("exists already"), "{refused}");
        assert_eq!(std::fs::read(&copy).unwrap(), b"mine");
    }
    let link = dir.path().join("link.img");
    symlink(dir.path().join("nowhere"), &link).unwrap();
    let refused = byway::snapshot(&path, &link).unwrap_err();
    assert!(refused.to_string().contains("exists already"), "{refused}");
    assert!(!dir.path().join("nowhere").exists());
}
