//! What the library reaches, exported as namespaces of a server and used over each of its fronts.

use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

use byway::serve::{Exporter, ServeOptions, StopServing, TcpOptions, export, serve};
use byway::spec::base::admin::AdminOpcode;
use byway::spec::nvm::NvmOpcode;
use byway::spec::{Cdw0, Command as Entry, Status};
use byway::{
    AdminCommand, Backend, BackendQueue, Buffer, Device, ErrorKind, Nsid, NvmCommand, QueueOptions,
    RawCommand, RawData,
};
use byway_kit::pattern;

/// For one completion: it fails for want of one alone.
const TIMEOUT: Duration = Duration::from_secs(60);

const LBA_BYTES: usize = 512;
const FILE_BYTES: u64 = 4 << 20;

/// A server in a thread of this process, ended when it is dropped.
struct Server {
    stop: StopServing,
    thread: Option<JoinHandle<()>>,
    uri: String,
    exporter: Option<Exporter>,
}

impl Server {
    fn over_tcp(exports: &[&str]) -> Self {
        Self::start(None, exports, ServeOptions::over_tcp(TcpOptions::at("127.0.0.1:0".parse().unwrap())))
    }

    fn start(image: Option<&str>, exports: &[&str], options: ServeOptions) -> Self {
        let exports: Vec<_> = exports.iter().map(|uri| (*uri).to_owned()).collect();
        let options = options.exports(exports);
        let served = match image {
            Some(image) => serve(image, &options).unwrap(),
            None => export(&options).unwrap(),
        };
        let uri = match (served.tcp_address(), &options.vfio_user) {
            (Some(address), _) => format!("tcp://{address}/{}", served.nqn()),
            (None, Some(path)) => format!("vfio-user:{}", path.display()),
            (None, None) => String::new(),
        };
        let (stop, exporter) = (served.stopper(), served.exporter());
        let thread = std::thread::spawn(move || served.run(|_| {}).unwrap());
        Self { stop, thread: Some(thread), uri, exporter }
    }

    fn open(&self, options: &str) -> Device {
        byway::open(&format!("{}{options}", self.uri)).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.stop();
        self.thread.take().into_iter().for_each(|thread| thread.join().unwrap());
    }
}

fn file(path: &Path) -> String {
    let mut file = std::fs::File::create(path).unwrap();
    file.write_all(&vec![0; FILE_BYTES as usize]).unwrap();
    format!("file:{}", path.display())
}

/// Writes runs of many sizes at depth, reads them back at depth, and compares.
fn write_and_verify(device: &Device, nsid: Nsid) {
    let runs: Vec<(u64, usize)> =
        (0..64).map(|n| (n as u64 * 96, [1, 2, 7, 8, 15, 31, 64, 96][n % 8])).collect();
    let options = QueueOptions::default().depth(16);
    let mut queue = Backend::queue(device, options).unwrap();
    let mut finished = 0;
    for (n, (slba, blocks)) in runs.iter().enumerate() {
        let data = Buffer::copy_of(&pattern(n as u64, blocks * LBA_BYTES)).unwrap();
        let write = NvmCommand::Write { nsid, slba: *slba, blocks: *blocks as u32, data: data.into() };
        if queue.outstanding() == 16 {
            finished += queue.wait(1, TIMEOUT, &mut |done| drop(done.result.unwrap())).unwrap();
        }
        queue.submit(write.into(), n as u64).unwrap();
    }
    finished += queue.drain(&mut |done| drop(done.result.unwrap())).unwrap();
    assert_eq!(finished, runs.len());
    let mut verify = |done: byway::Finished| {
        let read = done.result.unwrap().buffer.unwrap();
        assert!(read.as_slice() == pattern(done.tag, read.len()), "run {}", done.tag);
    };
    for (n, (slba, blocks)) in runs.iter().enumerate() {
        let into = Buffer::zeroed(blocks * LBA_BYTES).unwrap();
        let read = NvmCommand::Read { nsid, slba: *slba, blocks: *blocks as u32, into };
        if queue.outstanding() == 16 {
            queue.wait(1, TIMEOUT, &mut verify).unwrap();
        }
        queue.submit(read.into(), n as u64).unwrap();
    }
    queue.drain(&mut verify).unwrap();
}

/// One half of a Compare and Write of the first block.
fn half(opcode: NvmOpcode, fuse: u8, bytes: &[u8]) -> RawCommand {
    let mut entry = Entry::new(opcode.0, 0, 1);
    entry.cdw0.set_fuse(fuse);
    RawCommand { entry, data: RawData::ToDevice(Buffer::copy_of(bytes).unwrap().into()) }
}

/// Writes `new` to the first block if it is `expected`; whether it was.
fn swap(queue: &mut impl BackendQueue, expected: &[u8], new: &[u8]) -> bool {
    queue.submit(half(NvmOpcode::COMPARE, Cdw0::FUSE_FIRST, expected).into(), 0).unwrap();
    queue.submit(half(NvmOpcode::WRITE, Cdw0::FUSE_SECOND, new).into(), 1).unwrap();
    let mut statuses = [None; 2];
    let mut note = |done: byway::Finished| {
        statuses[done.tag as usize] =
            done.result.map_or_else(|failed| failed.error.nvme_status(), |_| Some(Status::SUCCESS));
    };
    queue.drain(&mut note).unwrap();
    match statuses.map(|status| status.unwrap().code()) {
        [Status::SUCCESS, Status::SUCCESS] => true,
        [Status::COMPARE_FAILURE, Status::ABORTED_FAILED_FUSED] => false,
        other => panic!("{other:?}"),
    }
}

/// Increments the counter in the first block `times` times.
fn count(device: &Device, times: usize) {
    let mut queue = Backend::queue(device, QueueOptions::default()).unwrap();
    let mut nvm = device.nvm(None).unwrap();
    let mut counted = 0;
    while counted < times {
        let mut block = [0; LBA_BYTES];
        nvm.read(0, &mut block).unwrap();
        let mut next = block;
        next[..8].copy_from_slice(&(u64::from_le_bytes(block[..8].try_into().unwrap()) + 1).to_le_bytes());
        counted += usize::from(swap(&mut queue, &block, &next));
    }
}

#[test]
fn hosts_that_count_in_one_block_by_compare_and_write_lose_nothing() {
    const TIMES: usize = 200;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    let uri = file(&path);
    for backend in ["", "?backend=threads"] {
        std::fs::write(&path, vec![0; FILE_BYTES as usize]).unwrap();
        let tcp = TcpOptions::at("127.0.0.1:0".parse().unwrap());
        let options = ServeOptions::over_tcp(tcp).threads(2.try_into().unwrap());
        let server = Server::start(None, &[&format!("{uri}{backend}")], options);
        std::thread::scope(|scope| {
            (0..3).for_each(|_| drop(scope.spawn(|| count(&server.open(""), TIMES))));
        });
        let mut first = [0; 8];
        std::fs::File::open(&path).unwrap().read_exact_at(&mut first, 0).unwrap();
        assert_eq!(u64::from_le_bytes(first), 3 * TIMES as u64);
    }
}

#[test]
fn blocks_of_every_kind_are_exported_over_tcp() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    let file = file(&path);
    let backends = ["", "?backend=libaio", "?backend=threads", "?backend=psync", "?backend=posix_aio"];
    let mut uris: Vec<String> = backends.iter().map(|backend| format!("{file}{backend}")).collect();
    uris.extend(["blocks:4M".to_owned(), "ram:64M".to_owned()]);
    for uri in uris {
        let server = Server::over_tcp(&[&uri]);
        write_and_verify(&server.open(""), Nsid::FIRST);
        write_and_verify(&server.open("?digests=both"), Nsid::FIRST);
    }
}

#[test]
fn flush_makes_writes_visible_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    let server = Server::over_tcp(&[&file(&path)]);
    let device = server.open("");
    let mut nvm = device.nvm(None).unwrap();
    let data = pattern(3, 100 * LBA_BYTES);
    nvm.write(5, &data).unwrap();
    nvm.flush().unwrap();
    let mut found = vec![0; data.len()];
    std::fs::File::open(&path).unwrap().read_exact_at(&mut found, 5 * LBA_BYTES as u64).unwrap();
    assert!(found == data);
}

#[test]
fn each_namespace_of_a_server_is_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let uris = [file(&folder.path().join("a")), "blocks:4M".to_owned(), file(&folder.path().join("b"))];
    let server = Server::over_tcp(&uris.each_ref().map(String::as_str));
    let device = server.open("");
    let namespaces = device.namespaces().unwrap();
    assert_eq!(namespaces.iter().map(|found| found.nsid.get()).collect::<Vec<_>>(), [1, 2, 3]);
    let mut identifiers: Vec<_> = namespaces.iter().map(|found| found.nguid).collect();
    identifiers.sort_unstable();
    identifiers.dedup();
    assert_eq!(identifiers.len(), 3);
    std::thread::scope(|scope| {
        for nsid in 1..=3 {
            let device = &device;
            scope.spawn(move || write_and_verify(device, Nsid::new(nsid).unwrap()));
        }
    });
}

#[test]
fn devices_in_memory_that_are_served_are_known_by_names_that_no_other_has() {
    let of_tcp = || ServeOptions::over_tcp(TcpOptions::at("127.0.0.1:0".parse().unwrap()));
    let servers = [0, 1].map(|_| Server::start(Some("ram:64M"), &[], of_tcp()));
    let known = servers.each_ref().map(|server| {
        let device = server.open("");
        let name = server.uri.rsplit('/').next().unwrap().to_owned();
        let namespaces = device.namespaces().unwrap().into_iter().map(|found| found.nguid);
        (name, device.identity().serial.clone(), namespaces.collect::<Vec<_>>())
    });
    let [(name, serial, namespaces), (other_name, other_serial, others)] = known;
    assert!(name != other_name && serial != other_serial);
    assert!(namespaces.iter().all(|nguid| !others.contains(nguid)));
    // One that this process alone knows is as it was the last time.
    let [one, other] = [0, 1].map(|_| byway::open("ram:64M").unwrap());
    assert_eq!(one.identity().serial, other.identity().serial);
}

#[test]
fn exported_namespaces_are_numbered_after_those_of_the_image() {
    let options = ServeOptions::over_tcp(TcpOptions::at("127.0.0.1:0".parse().unwrap()));
    let server = Server::start(Some("ram:64M"), &["blocks:4M"], options);
    let device = server.open("");
    let kinds: Vec<_> = device.namespaces().unwrap().iter().map(|found| found.kind.name()).collect();
    assert_eq!(kinds, ["kv", "nvm", "nvm"]);
    write_and_verify(&device, Nsid::new(3).unwrap());
    write_and_verify(&device, Nsid::new(2).unwrap());
    device.kv(None).unwrap().put(b"key", b"value").unwrap();
}

#[test]
fn vfio_user_client_uses_an_exported_namespace_like_any_other() {
    let folder = tempfile::tempdir().unwrap();
    for uri in [file(&folder.path().join("disk")), "blocks:4M".to_owned()] {
        let options = ServeOptions::at(folder.path().join("socket"));
        let server = Server::start(None, &[&uri], options);
        let device = server.open("");
        write_and_verify(&device, Nsid::FIRST);
    }
}

#[test]
fn read_only_export_refuses_writes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    let uri = format!("{}?readonly=1", file(&path));
    let server = Server::over_tcp(&[&uri]);
    let device = server.open("");
    let mut nvm = device.nvm(None).unwrap();
    let refused = nvm.write(0, &[1; 4096]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Denied, "{refused}");
    nvm.read(0, &mut [0; 4096]).unwrap();
}

#[test]
fn a_file_that_is_cut_short_is_an_error_of_its_commands_and_of_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    let uri = file(&path);
    let server = Server::over_tcp(&[&uri, "blocks:4M"]);
    let device = server.open("");
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(1 << 20).unwrap();
    let mut nvm = device.nvm(None).unwrap();
    let beyond = (2 << 20) / LBA_BYTES as u64;
    let error = nvm.read(beyond, &mut [0; 4096]).unwrap_err();
    assert!(error.nvme_status().is_some(), "{error}");
    nvm.read(0, &mut [0; 4096]).unwrap();
    write_and_verify(&device, Nsid::new(2).unwrap());
}

#[test]
fn a_device_that_is_reached_over_the_network_is_exported_on() {
    let behind = Server::over_tcp(&["blocks:4M"]);
    let server = Server::over_tcp(&[&behind.uri, "blocks:4M"]);
    let device = server.open("");
    write_and_verify(&device, Nsid::FIRST);
    drop(behind);
    write_and_verify(&device, Nsid::new(2).unwrap());
}

/// DW0 of the next asynchronous event of a device.
fn next_event(device: &Device) -> u32 {
    let request = byway::spec::Command::new(AdminOpcode::ASYNC_EVENT_REQUEST.0, 0, 0);
    device.admin(AdminCommand::raw(request, RawData::None)).unwrap().dw0()
}

#[test]
fn added_and_removed_namespaces_are_reported_to_connected_hosts() {
    /// A notice that attributes of a namespace changed, and the log page that says which (Base 2.1, figures 150 and 153).
    const NAMESPACE_CHANGED: u32 = 0x0004_0002;
    let folder = tempfile::tempdir().unwrap();
    let server = Server::over_tcp(&["blocks:4M"]);
    let (exporter, device) = (server.exporter.clone().unwrap(), server.open(""));
    let mut enable = byway::spec::Command::new(AdminOpcode::SET_FEATURES.0, 0, 0);
    (enable.cdw10, enable.cdw11) = (0x0b, 1 << 8);
    device.admin(AdminCommand::raw(enable, RawData::None)).unwrap();
    let nsids = || device.namespaces().unwrap().iter().map(|found| found.nsid.get()).collect::<Vec<_>>();

    let added = exporter.add(&file(&folder.path().join("disk"))).unwrap();
    assert_eq!(next_event(&device), NAMESPACE_CHANGED);
    assert_eq!((added.nsid, nsids()), (2, vec![1, 2]));
    write_and_verify(&device, Nsid::new(2).unwrap());

    exporter.remove(2).unwrap();
    assert_eq!((exporter.exported().len(), nsids()), (1, vec![1]));
    assert_eq!(exporter.remove(2).unwrap_err().kind(), ErrorKind::NotFound);
    let into = Buffer::zeroed(LBA_BYTES).unwrap();
    let gone = NvmCommand::Read { nsid: Nsid::new(2).unwrap(), slba: 0, blocks: 1, into };
    let error = device.default_queue().unwrap().execute(gone.into()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    write_and_verify(&device, Nsid::FIRST);
    drop(server);
    assert_eq!(exporter.add("blocks:1M").unwrap_err().kind(), ErrorKind::DeviceLost);
}

#[test]
fn export_of_an_image_or_a_missing_device_is_refused() {
    let anywhere = || ServeOptions::over_tcp(TcpOptions::at("127.0.0.1:0".parse().unwrap()));
    let with = |uri: &str| anywhere().exports([uri.to_owned()]);
    let error = export(&with("/no/such/file")).unwrap_err();
    assert!(error.to_string().starts_with("export /no/such/file: "), "{error}");
    assert_eq!(export(&anywhere()).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(export(&with("ram:64M?ns=1")).unwrap_err().kind(), ErrorKind::InvalidArgument);
    let error = serve("ram:64M?flush=media", &with("blocks:4M")).unwrap_err();
    assert!(error.to_string().contains("flush=media holds for an image"), "{error}");
}
