//! Another user who can `stat` an image, and listens wherever a control socket of it might be looked for.

use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use byway::serve::requests::{HostSecrets, Request, ask};
use byway::serve::{ServeOptions, Served, TcpOptions, serve};
use byway::{CreateOptions, create};
use byway_conformance::skips::skip;
use byway_conformance::users::as_user;
use byway_sys::handover;

/// Users that this machine need not know. Tests run beside each other, each with its own.
const OWNERS: [u32; 2] = [61_001, 61_002];
const SQUATTER: u32 = 61_003;

const HOST: &str = "nqn.2026-11.example:host";
const SECRET: &str = "DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:";

/// Rounds of each test, here and with `BYWAY_TEST_ROUNDS`.
fn rounds() -> u32 {
    std::env::var("BYWAY_TEST_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(3)
}

/// A thread that listens at sockets as another user, and says what `byway` processes say.
struct Squatter {
    stop: Arc<AtomicBool>,
    /// Connections that brought a byte or a descriptor.
    caught: Arc<AtomicU32>,
    thread: Option<JoinHandle<()>>,
}

impl Squatter {
    fn at(listeners: Vec<UnixListener>) -> Self {
        let (stop, caught) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let shared = (Arc::clone(&stop), Arc::clone(&caught));
        let listen = move || {
            while !shared.0.load(Ordering::SeqCst) {
                for (stream, _) in listeners.iter().filter_map(|listener| listener.accept().ok()) {
                    shared.1.fetch_add(u32::from(brings_something(&stream)), Ordering::SeqCst);
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        Self { stop, caught, thread: Some(std::thread::spawn(listen)) }
    }

    /// Ends it; how many connections brought something.
    fn end(mut self) -> u32 {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.take().unwrap().join().unwrap();
        self.caught.load(Ordering::SeqCst)
    }
}

fn brings_something(mut stream: &UnixStream) -> bool {
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let caught = handover::receive_all(stream, &mut [0; 1]).is_ok();
    let _ = stream.write_all(b"done 1 17\n");
    if caught {
        // What of a request is on its way still.
        let _ = stream.set_read_timeout(Some(Duration::from_millis(10)));
        let _ = stream.read_to_end(&mut Vec::new());
    }
    caught
}

fn listener(bound: std::io::Result<UnixListener>) -> Option<UnixListener> {
    let bound = bound.ok()?;
    bound.set_nonblocking(true).unwrap();
    Some(bound)
}

/// The names without files that control sockets had once.
fn abstract_listeners(image: &Path) -> Vec<UnixListener> {
    let found = image.metadata().unwrap();
    let names = ["byway", "byway-serve"].map(|begin| format!("{begin}-{:x}-{:x}", found.dev(), found.ino()));
    let bind = |name| UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?);
    names.into_iter().filter_map(|name| listener(bind(name))).collect()
}

/// The names of files that control sockets have.
fn file_listeners(image: &Path, folder: &Path) -> Vec<UnixListener> {
    let found = image.metadata().unwrap();
    let names = ["snapshot", "serve"].map(|end| format!("{:x}-{:x}.{end}", found.dev(), found.ino()));
    names.into_iter().filter_map(|name| listener(UnixListener::bind(folder.join(name)))).collect()
}

/// An image that belongs to a user, in a folder where that user may do anything and others may look.
fn image_of(owner: u32) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    chown(folder.path(), Some(owner), Some(owner)).unwrap();
    let image = folder.path().join("disk.img");
    let made = image.clone();
    as_user(owner, move || create(&made, &CreateOptions::new(32 << 20)).unwrap());
    (folder, image)
}

/// Serves an image as a user; ended when the answer is dropped.
fn serve_as(owner: u32, image: &Path) -> Served {
    let device = format!("embedded:{}", image.display());
    let options = ServeOptions::over_tcp(TcpOptions::at("127.0.0.1:0".parse().unwrap()));
    as_user(owner, move || serve(&device, &options).unwrap())
}

fn allow_with_secret(image: &Path) -> byway::Result<()> {
    let host = HostSecrets { dhchap: Some(SECRET.to_owned()), ..HostSecrets::of(HOST) };
    ask(image, &Request::AllowHost { subsystem: None, host }).map(drop)
}

fn may_be_other_users(test: &str) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        skip(test, "other users take root");
    }
    is_root
}

#[test]
fn squatter_before_the_server_is_sent_nothing_and_the_server_says_so() {
    if !may_be_other_users("squatter_before_the_server_is_sent_nothing_and_the_server_says_so") {
        return;
    }
    let owner = OWNERS[0];
    let folder = PathBuf::from(format!("/tmp/byway-{owner}"));
    let _ = std::fs::remove_dir_all(&folder);
    let (of_owner, image) = image_of(owner);
    for round in 0..rounds() {
        let (squatted, wanted) = (folder.clone(), image.clone());
        let listeners = as_user(SQUATTER, move || {
            std::fs::create_dir(&squatted).unwrap();
            std::fs::set_permissions(&squatted, std::fs::Permissions::from_mode(0o777)).unwrap();
            let mut all = file_listeners(&wanted, &squatted);
            all.extend(abstract_listeners(&wanted));
            all
        });
        let squatter = Squatter::at(listeners);
        let served = serve_as(owner, &image);
        let copy = of_owner.path().join("copy.img");
        let refused = byway::snapshot(&image, &copy).err();
        let allowed = allow_with_secret(&image).err();
        drop(served);
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(squatter.end(), 0, "round {round}: the squatter was sent something");
        assert!(!copy.exists());
        let whose = format!("belongs to user {SQUATTER}");
        for error in [refused.unwrap().to_string(), allowed.unwrap().to_string()] {
            assert!(error.contains(&whose), "round {round}: {error}");
        }
    }
}

#[test]
fn squatter_beside_the_server_is_sent_nothing_and_root_is_served() {
    if !may_be_other_users("squatter_beside_the_server_is_sent_nothing_and_root_is_served") {
        return;
    }
    let owner = OWNERS[1];
    let (of_owner, image) = image_of(owner);
    for round in 0..rounds() {
        let wanted = image.clone();
        let squatter = Squatter::at(as_user(SQUATTER, move || abstract_listeners(&wanted)));
        let served = serve_as(owner, &image);
        let socket = served.control_sockets()[0].clone();
        let byway::ControlSocket::At(socket) = socket else { panic!("round {round}: {socket}") };
        let (own, wanted) = (socket.parent().unwrap().to_owned(), image.clone());
        assert!(as_user(SQUATTER, move || file_listeners(&wanted, &own)).is_empty());
        let copy = of_owner.path().join("copy.img");
        assert!(byway::snapshot(&image, &copy).unwrap().pause_ns > 0);
        allow_with_secret(&image).unwrap();
        drop(served);
        assert_eq!(squatter.end(), 0, "round {round}: the squatter was sent something");
        assert_eq!(copy.metadata().unwrap().len(), image.metadata().unwrap().len());
        std::fs::remove_file(&copy).unwrap();
    }
}

#[test]
fn squatter_at_a_named_socket_is_sent_nothing() {
    if !may_be_other_users("squatter_at_a_named_socket_is_sent_nothing") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let open = |mode| std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(mode)).unwrap();
    open(0o1777);
    let socket = folder.path().join("control");
    let bound = socket.clone();
    let squatter =
        Squatter::at(as_user(SQUATTER, move || listener(UnixListener::bind(bound)).into_iter().collect()));
    let refused = allow_with_secret(&socket).unwrap_err();
    assert_eq!(refused.kind(), byway::ErrorKind::Denied, "{refused}");
    assert!(byway::open(&format!("vfio-user:{}", socket.display())).is_err());
    assert_eq!(squatter.end(), 0);
}
