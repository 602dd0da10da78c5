//! What is refused is refused in words that name the limit it met, and what can only be read can be read.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use byway::embedded::EmbeddedQueue;
use byway::{
    BackendQueue, Command, CreateOptions, Error, ErrorKind, FileEvents, Key, Kv, KvCommand, NamespaceKind,
    NewNamespace, Nsid, Payload, RawData, StoreOptions,
};
use byway_conformance::users::{UNPRIVILEGED, as_user};

/// The errno of a disk without room, on Linux.
const ENOSPC: i32 = 28;

fn uri(path: &Path, options: &str) -> String {
    format!("embedded:{}?{options}", path.display())
}

fn image(dir: &tempfile::TempDir) -> std::path::PathBuf {
    let path = dir.path().join("disk.img");
    let namespaces = vec![NewNamespace::KV, NewNamespace::NVM];
    byway::create(&path, &CreateOptions::new(32 << 20).namespaces(namespaces)).unwrap();
    path
}

/// Stores until it is refused.
fn refusal(kv: &mut Kv) -> Error {
    (0_u32..).find_map(|n| kv.put(&n.to_be_bytes(), &[7; 60_000]).err()).unwrap()
}

/// A disk that is full once the test says so.
#[derive(Debug, Default)]
struct Disk {
    is_full: AtomicBool,
}

impl Disk {
    fn takes(&self) -> io::Result<()> {
        if self.is_full.load(Relaxed) { Err(io::Error::from_raw_os_error(ENOSPC)) } else { Ok(()) }
    }
}

impl FileEvents for Disk {
    fn before_write(&self, _: u64, _: u64) -> io::Result<()> {
        self.takes()
    }

    fn before_allocate(&self, _: u64, _: u64) -> io::Result<()> {
        self.takes()
    }

    fn before_punch(&self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn before_sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn after_sync(&self) {}
}

/// Calls `what` as an unprivileged user, or as the present user where that is not root.
fn unprivileged<T: Send>(what: impl FnOnce() -> T + Send) -> T {
    match rustix::process::geteuid().is_root() {
        true => as_user(UNPRIVILEGED, what),
        false => what(),
    }
}

#[test]
fn an_image_that_a_user_may_not_even_read_is_not_called_read_only() {
    let dir = tempfile::tempdir().unwrap();
    let path = image(&dir);
    std::fs::set_permissions(&path, Permissions::from_mode(0o000)).unwrap();
    std::fs::set_permissions(dir.path(), Permissions::from_mode(0o555)).unwrap();
    let other = dir.path().join("other.img");
    for (options, may_not) in [("", "may not be read and written by"), ("readonly=1", "may not be read by")] {
        let refused = unprivileged(|| byway::embedded::open(&uri(&path, options)).err().unwrap());
        assert_eq!(refused.kind(), ErrorKind::Denied, "{refused}");
        assert!(refused.to_string().contains(may_not), "{refused}");
    }
    let refused = unprivileged(|| byway::create(&other, &CreateOptions::new(32 << 20)).err().unwrap());
    assert_eq!(refused.kind(), ErrorKind::Denied, "{refused}");
    assert!(refused.to_string().contains("other.img may not be made by this user"), "{refused}");
    std::fs::set_permissions(&path, Permissions::from_mode(0o444)).unwrap();
    let refused = unprivileged(|| byway::embedded::open(&uri(&path, "")).err().unwrap());
    assert!(refused.to_string().contains("readonly=1 opens it"), "{refused}");
    std::fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn full_namespace_and_full_disk_have_different_errors() {
    let dir = tempfile::tempdir().unwrap();
    let path = image(&dir);
    let refused = refusal(&mut byway::embedded::open(&uri(&path, "")).unwrap().kv(None).unwrap());
    assert_eq!(refused.kind(), ErrorKind::CapacityExceeded);
    assert!(refused.to_string().ends_with("the namespace is full"), "{refused}");

    let disk = Arc::new(Disk::default());
    std::fs::remove_file(&path).unwrap();
    let path = image(&dir);
    let device = byway::embedded::open_watched(&uri(&path, ""), disk.clone()).unwrap();
    disk.is_full.store(true, Relaxed);
    let refused = refusal(&mut device.kv(None).unwrap());
    assert_eq!(refused.kind(), ErrorKind::CapacityExceeded);
    assert!(refused.to_string().ends_with("the disk that holds the image is full"), "{refused}");
    let mut nvm = device.nvm(None).unwrap();
    let refused = (0..8192).find_map(|block| nvm.write(block * 8, &[7; 4096]).err()).unwrap();
    assert!(refused.to_string().ends_with("the disk that holds the image is full"), "{refused}");
}

fn store(n: u32) -> Command {
    let (nsid, key) = (Nsid::FIRST, Key::new(&n.to_be_bytes()).unwrap());
    let value = Payload::copy_of(&[7; 60_000]).unwrap();
    KvCommand::Store { nsid, key, value, options: StoreOptions::NONE }.into()
}

/// The failures among stores that are outstanding together, as their completions bear them.
fn failures(queue: &mut EmbeddedQueue) -> Vec<Error> {
    queue.submit_all(&mut (0..8).map(|n| (store(n), n.into()))).unwrap();
    let mut failed = Vec::new();
    queue.drain(&mut |one| failed.extend(one.result.err().map(Error::from))).unwrap();
    failed
}

#[test]
fn a_queue_gives_the_words_of_a_refusal_by_calls_at_once_and_for_completions_when_asked() {
    let device = byway::embedded::open("ram:32M").unwrap();
    let mut queue = device.queue().unwrap();
    let refused = (100..).find_map(|n| queue.execute(store(n)).err()).unwrap();
    assert!(refused.to_string().ends_with(": the namespace is full"), "{refused}");
    let key = Key::new(b"one more").unwrap();
    let refused = queue.execute_store(Nsid::FIRST, &key, &[7; 60_000], StoreOptions::NONE).err().unwrap();
    assert!(refused.to_string().ends_with(": the namespace is full"), "{refused}");
    let failed = failures(&mut queue);
    assert!(!failed.is_empty() && failed.iter().all(|error| std::error::Error::source(error).is_none()));
    for error in failed {
        let explained = queue.explained(error);
        assert_eq!(explained.kind(), ErrorKind::CapacityExceeded);
        assert!(explained.to_string().ends_with(": the namespace is full"), "{explained}");
    }
}

#[test]
fn an_error_without_words_stays_as_it_is() {
    let device = byway::embedded::open("ram:32M").unwrap();
    let mut queue = device.queue().unwrap();
    let absent = queue.execute_delete(Nsid::FIRST, &Key::new(b"absent").unwrap());
    let absent =
        absent.and_then(|_| queue.execute_retrieve(Nsid::FIRST, &Key::new(b"absent").unwrap(), &mut []));
    let said = absent.as_ref().unwrap_err().to_string();
    assert_eq!(queue.explained(absent.unwrap_err()).to_string(), said);
    let host = Error::host(ErrorKind::QueueFull, "all is taken");
    assert_eq!(queue.explained(host).to_string(), "all is taken");
}

#[test]
fn many_gets_give_the_words_of_what_could_not_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = image(&dir);
    let keys: Vec<Key> = (0..2000_u32).map(|n| Key::new(&n.to_be_bytes()).unwrap()).collect();
    let mut kv = byway::embedded::open(&uri(&path, "")).unwrap().kv(None).unwrap();
    keys.iter().for_each(|key| kv.put(key.as_bytes(), &[7; 1000]).unwrap());
    drop(kv);
    let device =
        byway::embedded::open(&uri(&path, "reads=checked&cache=1M&inject=seed=1,read:nth=200:always"))
            .unwrap();
    let mut kv = device.kv(None).unwrap();
    let refused = (0..10).find_map(|_| kv.get_many(&keys, 1000, |_, _| {}).err()).unwrap();
    assert_eq!(refused.kind(), ErrorKind::Media);
    assert!(refused.to_string().ends_with("a flash page could not be read"), "{refused}");
}

#[test]
fn an_admin_command_that_is_refused_says_why() {
    let device = byway::embedded::open("ram:32M").unwrap();
    let mut entry = byway_spec::Command::new(0x02, 0, 0);
    entry.cdw10 = 0x7f;
    // Four bytes of a log page that there is none of.
    let data = RawData::FromDevice(byway::Buffer::zeroed(4).unwrap());
    let refused = device.driver().admin(byway::AdminCommand::raw(entry, data)).unwrap_err();
    assert!(std::error::Error::source(&refused).is_some(), "{refused}");
}

#[test]
fn a_value_that_is_too_long_is_refused_with_the_limit() {
    let dir = tempfile::tempdir().unwrap();
    let device = byway::embedded::open(&uri(&image(&dir), "")).unwrap();
    let mut kv = device.kv(None).unwrap();
    let NamespaceKind::Kv { value_max_bytes, .. } = device.namespace(kv.nsid()).unwrap().kind else {
        panic!("no such namespace")
    };
    let refused = kv.put(b"key", &vec![1; value_max_bytes as usize + 1]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::TooLarge);
    assert!(refused.to_string().contains(&format!("at most {value_max_bytes} bytes")), "{refused}");
    kv.put(b"key", &vec![1; value_max_bytes as usize]).unwrap();
}

#[test]
fn a_device_without_spares_says_so_now_and_when_it_is_looked_at() {
    let dir = tempfile::tempdir().unwrap();
    let path = image(&dir);
    let refused = {
        let mut kv =
            byway::embedded::open(&uri(&path, "inject=seed=1,program:ppm=100000")).unwrap().kv(None).unwrap();
        let put = |n: u32| kv.put(&(n % 50).to_be_bytes(), &[7; 60_000]).err();
        (0..).filter_map(put).find(|error| error.kind() == ErrorKind::Denied).unwrap()
    };
    assert!(refused.to_string().ends_with("no spare blocks are left"), "{refused}");
    let details = byway::embedded::open(&uri(&path, "")).unwrap().details();
    assert!(details.refuses_writes.unwrap().contains("no spare blocks are left"));
    assert!(details.disk_free_bytes.is_some());
}

#[test]
fn an_image_is_read_by_many_at_once_where_each_opens_it_for_reading_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = image(&dir);
    byway::embedded::open(&uri(&path, "")).unwrap().kv(None).unwrap().put(b"key", b"value").unwrap();
    let before = std::fs::read(&path).unwrap();
    let one = byway::embedded::open(&uri(&path, "readonly=1")).unwrap();
    let other = byway::embedded::open(&uri(&path, "readonly=1")).unwrap();
    for device in [&one, &other] {
        let mut kv = device.kv(None).unwrap();
        assert_eq!(kv.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
        assert_eq!(kv.keys(None).count(), 1);
        let refused = kv.put(b"key", b"other").unwrap_err();
        assert!(refused.to_string().ends_with("the image can only be read"), "{refused}");
    }
    drop((one, other));
    assert!(std::fs::read(&path).unwrap() == before);
}

#[test]
fn a_file_that_may_not_be_written_is_opened_to_read_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = image(&dir);
    byway::embedded::open(&uri(&path, "")).unwrap().kv(None).unwrap().put(b"key", b"value").unwrap();
    let mut mode = path.metadata().unwrap().permissions();
    mode.set_readonly(true);
    std::fs::set_permissions(&path, mode).unwrap();
    let refused = byway::embedded::open(&uri(&path, "")).err().unwrap();
    assert!(refused.to_string().contains("readonly=1"), "{refused}");
    let device = byway::embedded::open_to_read(&uri(&path, "")).unwrap();
    assert_eq!(device.kv(None).unwrap().get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
    assert!(device.details().refuses_writes.unwrap().contains("can only be read"));
}

#[test]
fn keys_of_a_prefix_are_listed_and_no_others() {
    let device = byway::embedded::open("ram:32M").unwrap();
    let mut kv = device.kv(None).unwrap();
    let keys: Vec<String> = (0..3000).map(|n| format!("{}-{n:04}", ["a", "b", "bb"][n % 3])).collect();
    keys.iter().for_each(|key| kv.put(key.as_bytes(), b"value").unwrap());
    kv.put(&[0xff; 16], b"last").unwrap();
    for prefix in ["", "a", "b", "b-", "bb", "bb-29", "c"] {
        let found: Vec<_> =
            kv.keys_with_prefix(prefix.as_bytes(), None).unwrap().map(Result::unwrap).collect();
        let wanted =
            keys.iter().filter(|key| key.starts_with(prefix)).count() + usize::from(prefix.is_empty());
        assert_eq!(found.len(), wanted, "{prefix}");
        assert!(found.is_sorted() && found.iter().all(|key| key.as_bytes().starts_with(prefix.as_bytes())));
    }
    let start = byway::Key::new(b"b-1500").unwrap();
    let mut found = kv.keys_with_prefix(b"b", Some(start)).unwrap().map(Result::unwrap);
    assert!(found.next().unwrap() >= start && found.all(|key| key.as_bytes().starts_with(b"b")));
    assert_eq!(kv.keys_with_prefix(&[0xff], None).unwrap().count(), 1);
    assert!(kv.keys_with_prefix(&[0; 17], None).is_err());
}

#[test]
fn a_device_without_sgls_is_used_by_prps_and_says_what_it_has() {
    let device = byway::open("ram:64M?sgl=off").unwrap();
    let mut kv = device.kv(None).unwrap();
    for len in [0, 20, 700, 5000, 70_000] {
        kv.put(b"key", &vec![9; len]).unwrap();
        assert_eq!(kv.get(b"key").unwrap(), Some(vec![9; len]));
    }
    let refused = byway::open("ram:64M?sgl=off&transfer=sgl").unwrap().kv(None).err().unwrap();
    assert!(refused.to_string().contains("transfer method sgl is not announced"), "{refused}");
    byway::open("ram:64M?sgl=on&transfer=sgl").unwrap().kv(None).unwrap();
}
