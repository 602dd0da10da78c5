//! Several subsystems of one server, and what is changed while they are served: from the program, and by requests.

use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use byway::serve::requests::{HostSecrets, Reply, Request, ask};
use byway::serve::{
    AnaSetting, AnaState, PortId, ServeControl, ServeEvent, ServeOptions, Served, StopServing, SubsystemSpec,
    TcpOptions, serve, serve_all,
};
use byway::{Backend, CreateOptions, ErrorKind, NewNamespace, create};

const FIRST: &str = "nqn.2026-11.example:first";
const SECOND: &str = "nqn.2026-11.example:second";
const HOST: &str = "nqn.2026-11.example:host";

/// A server in a thread of this process, ended when it is dropped.
struct Server {
    stop: StopServing,
    thread: Option<JoinHandle<()>>,
    control: ServeControl,
    address: std::net::SocketAddr,
}

impl Server {
    fn of(served: Served) -> Self {
        Self::with_events(served, |_| {})
    }

    fn with_events(served: Served, report: impl FnMut(ServeEvent) + Send + 'static) -> Self {
        let (stop, control) = (served.stopper(), served.control());
        let address = served.tcp_address().unwrap();
        let thread = std::thread::spawn(move || served.run(report).unwrap());
        Self { stop, thread: Some(thread), control, address }
    }

    fn uri(&self, nqn: &str) -> String {
        format!("tcp://{}/{nqn}", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.stop();
        self.thread.take().into_iter().for_each(|thread| thread.join().unwrap());
    }
}

fn options() -> ServeOptions {
    ServeOptions::over_tcp(TcpOptions::at("127.0.0.1:0".parse().unwrap()))
}

fn spec(nqn: &str, exports: &[&str]) -> SubsystemSpec {
    let exports = exports.iter().map(|uri| (*uri).to_owned()).collect();
    SubsystemSpec { nqn: Some(nqn.to_owned()), exports, ..SubsystemSpec::default() }
}

/// An image with one namespace.
fn image(folder: &Path, namespace: NewNamespace) -> PathBuf {
    let path = folder.join("disk.img");
    create(&path, &CreateOptions::new(64 << 20).namespaces([namespace])).unwrap();
    path
}

/// Two subsystems, which take requests at `socket`.
fn two(socket: &Path) -> Server {
    let options = options().control(socket.to_owned());
    let specs = [spec(FIRST, &["blocks:1M", "blocks:2M"]), spec(SECOND, &["blocks:4M"])];
    Server::of(serve_all(&specs, &options).unwrap())
}

#[test]
fn one_server_has_several_subsystems_each_with_its_own_namespaces() {
    let folder = tempfile::tempdir().unwrap();
    let image = image(folder.path(), NewNamespace::KV);
    let of_image =
        SubsystemSpec { device: Some(format!("embedded:{}", image.display())), ..spec(SECOND, &[]) };
    let server = Server::of(serve_all(&[spec(FIRST, &["blocks:1M"]), of_image], &options()).unwrap());
    let blocks = byway::open(&server.uri(FIRST)).unwrap();
    blocks.nvm(None).unwrap().write(3, &[7; 512]).unwrap();
    let keys = byway::open(&server.uri(SECOND)).unwrap();
    keys.kv(None).unwrap().put(b"key", b"value").unwrap();
    assert_eq!(blocks.namespaces().unwrap().len(), 1);
    assert!(blocks.kv(None).is_err() && keys.nvm(None).is_err());
    let discovered = byway::discover(&format!("tcp://{}", server.address)).unwrap();
    let names: Vec<&str> = discovered.entries.iter().map(|entry| entry.subsystem.as_str()).collect();
    assert_eq!(names[..2], [FIRST, SECOND]);
}

#[test]
fn subsystems_of_one_name_or_without_a_name_are_refused() {
    let kind = |specs: &[SubsystemSpec]| serve_all(specs, &options()).unwrap_err().kind();
    let twice = [spec(FIRST, &["blocks:1M"]), spec(FIRST, &["blocks:1M"])];
    assert_eq!(kind(&twice), ErrorKind::InvalidArgument);
    assert_eq!(kind(&[SubsystemSpec::default()]), ErrorKind::InvalidArgument);
    let of_one = options().exports(["blocks:1M".to_owned()]);
    assert_eq!(serve_all(&[], &of_one).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn a_subsystem_comes_and_goes_while_another_is_used() {
    let server = Server::of(serve_all(&[spec(FIRST, &["blocks:1M"])], &options()).unwrap());
    let first = byway::open(&server.uri(FIRST)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let image = image(folder.path(), NewNamespace::KV);
    let device = format!("embedded:{}", image.display());
    let of_image = SubsystemSpec { device: Some(device.clone()), ..spec(SECOND, &[]) };
    assert_eq!(server.control.add_subsystem(&of_image).unwrap(), SECOND);
    assert_eq!(server.control.add_subsystem(&spec(FIRST, &[])).unwrap_err().kind(), ErrorKind::Busy);
    let second = byway::open(&server.uri(SECOND)).unwrap();
    second.kv(None).unwrap().put(b"key", b"value").unwrap();
    drop(second);
    server.control.remove_subsystem(SECOND).unwrap();
    let alone = byway::open(&device).unwrap();
    assert_eq!(alone.kv(None).unwrap().get(b"key").unwrap().as_deref(), Some(&b"value"[..]), "it is closed");
    assert_eq!(server.control.remove_subsystem(SECOND).unwrap_err().kind(), ErrorKind::NotFound);
    first.nvm(None).unwrap().write(0, &[1; 512]).unwrap();
}

#[test]
fn namespaces_ports_hosts_and_states_change_by_requests() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("control");
    let server = two(&socket);
    let asked = |request: Request| ask(&socket, &request);
    let second = Some(SECOND.to_owned());
    let uri = "blocks:4M".to_owned();
    let added = asked(Request::AddNamespace { subsystem: second.clone(), uri: uri.clone() }).unwrap();
    let added = added.exported.unwrap();
    assert_eq!((added.nsid, added.uri), (2, uri.clone()));
    let unnamed = asked(Request::AddNamespace { subsystem: None, uri }).unwrap_err().to_string();
    assert!(unnamed.contains(FIRST) && unnamed.contains(SECOND), "{unnamed}");
    assert_eq!(byway::open(&server.uri(SECOND)).unwrap().namespaces().unwrap().len(), 2);
    asked(Request::RemoveNamespace { subsystem: second.clone(), nsid: 1 }).unwrap();
    let port = asked(Request::AddPort { address: "127.0.0.1:0".parse().unwrap() }).unwrap().ports;
    assert_eq!(port[0].0, PortId(2));
    let setting = AnaSetting { port: PortId(2), nsid: None, state: AnaState::INACCESSIBLE };
    asked(Request::SetPath { subsystem: second.clone(), setting }).unwrap();
    let paths = asked(Request::Paths { subsystem: second.clone() }).unwrap().paths;
    assert_eq!(
        paths.iter().map(|path| path.state).collect::<Vec<_>>(),
        [AnaState::OPTIMIZED, AnaState::INACCESSIBLE]
    );
    asked(Request::AllowHost { subsystem: second.clone(), host: HostSecrets::of(HOST) }).unwrap();
    assert!(byway::open(&server.uri(SECOND)).is_err(), "no other host may connect any more");
    assert!(byway::open(&format!("{}?hostnqn={HOST}", server.uri(SECOND))).is_ok());
    let Reply { subsystems, .. } = asked(Request::Subsystems).unwrap();
    assert_eq!(subsystems[1].hosts.as_deref(), Some(&[HOST.to_owned()][..]));
    assert_eq!(subsystems[1].namespaces.iter().map(|of| of.nsid).collect::<Vec<_>>(), [2]);
    assert_eq!(subsystems[0].hosts, None);
    asked(Request::AllowAll { subsystem: second }).unwrap();
    asked(Request::RemovePort { port: 2 }).unwrap();
    assert_eq!(asked(Request::Ports).unwrap().ports.len(), 1);
    asked(Request::RemoveSubsystem { nqn: FIRST.to_owned() }).unwrap();
    assert!(byway::open(&server.uri(FIRST)).is_err());
    drop(server);
    assert!(!socket.exists());
}

#[test]
fn port_that_cannot_be_opened_changes_nothing_for_hosts() {
    let folder = tempfile::tempdir().unwrap();
    let server = two(&folder.path().join("control"));
    let control = &server.control;
    let anywhere = "127.0.0.1:0".parse().unwrap();
    control.open_port(anywhere).unwrap();
    let device = byway::open(&format!("{}?ctrl-loss-tmo=0", server.uri(FIRST))).unwrap();
    let mut blocks = device.nvm(None).unwrap();
    let state = || (control.subsystems().unwrap(), control.ports().unwrap());
    let before = state();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap();
    // Everything else of it could be: another namespace, other hosts, another port, a subsystem more and one less.
    let (hosts, ports) = (vec![HOST.to_owned()], Some(vec![PortId(2)]));
    let first = SubsystemSpec { hosts, ports, ..spec(FIRST, &["blocks:1M", "blocks:8M"]) };
    let specs = [first, spec("nqn.2026-11.example:third", &["blocks:1M"])];
    let [one, two] = [0, 1].map(|at: usize| before.1[at].1);
    for addresses in
        [vec![taken, two], vec![one, taken], vec![two, taken], vec![two, one, taken], vec![one, two, taken]]
    {
        let refused = control.apply(&specs, &addresses).unwrap_err();
        assert!(refused.to_string().contains(&taken.to_string()), "{refused}");
        assert_eq!(state(), before, "{addresses:?}");
        blocks.write(0, &[1; 512]).unwrap();
    }
    // Two ports may swap addresses: hosts of both are disconnected.
    control.apply(&specs, &[two, one]).unwrap();
    assert_eq!(control.ports().unwrap(), [(PortId(1), two), (PortId(2), one)]);
    assert!(blocks.write(0, &[1; 512]).is_err());
    assert!(byway::open(&format!("tcp://{one}/{FIRST}?hostnqn={HOST}")).is_ok());
    assert!(byway::open(&format!("tcp://{two}/{FIRST}?hostnqn={HOST}")).is_err());
    assert!(byway::open(&format!("tcp://{two}/nqn.2026-11.example:third")).is_ok());
}

#[test]
fn a_subsystem_is_found_by_the_ports_that_are_said() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("control");
    let anywhere = "127.0.0.1:0".parse().unwrap();
    let tcp = TcpOptions::at_each([anywhere; 2]);
    let options = ServeOptions::over_tcp(tcp).control(socket.clone());
    let at = |ports: &[u16]| Some(ports.iter().copied().map(PortId).collect::<Vec<_>>());
    let second = SubsystemSpec { ports: at(&[2]), ..spec(SECOND, &["blocks:4M"]) };
    let nowhere = SubsystemSpec { ports: at(&[3]), ..second.clone() };
    let refused = serve_all(&[nowhere], &options).unwrap_err().to_string();
    assert!(refused.contains("there is no port 3"), "{refused}");
    let server = Server::of(serve_all(&[spec(FIRST, &["blocks:1M"]), second], &options).unwrap());
    let ports = server.control.ports().unwrap();
    let found = || {
        let log = byway::discover(&format!("tcp://{}", ports[0].1)).unwrap();
        let entries = log.entries.into_iter().filter(|entry| entry.subsystem.as_str() == SECOND);
        entries.map(|entry| entry.port_id).collect::<Vec<_>>()
    };
    let open = |port: usize| byway::open(&format!("tcp://{}/{SECOND}", ports[port - 1].1));
    assert_eq!((found(), open(1).is_ok(), open(2).is_ok()), (vec![2], false, true));
    let set = |ports| ask(&socket, &Request::SetPorts { subsystem: Some(SECOND.to_owned()), ports });
    set(at(&[1])).unwrap();
    assert_eq!((found(), open(1).is_ok(), open(2).is_ok()), (vec![1], true, false));
    assert_eq!(ask(&socket, &Request::Subsystems).unwrap().subsystems[1].ports, at(&[1]));
    assert!(set(at(&[7])).unwrap_err().to_string().contains("there is no port 7"));
    set(None).unwrap();
    assert_eq!(found(), [1, 2]);
}

#[test]
fn the_server_of_an_image_is_found_by_the_image() {
    let folder = tempfile::tempdir().unwrap();
    let image = image(folder.path(), NewNamespace::NVM);
    let refused = ask(&image, &Request::Subsystems).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotFound);
    let server = Server::of(serve(&format!("embedded:{}", image.display()), &options()).unwrap());
    let added = ask(&image, &Request::AddNamespace { subsystem: None, uri: "blocks:4M".to_owned() }).unwrap();
    let nsid = added.exported.unwrap().nsid;
    let Reply { subsystems, .. } = ask(&image, &Request::Subsystems).unwrap();
    let [own, exported] = &subsystems[0].namespaces[..] else { panic!("{subsystems:?}") };
    assert_eq!((&*own.kind, own.exported.is_none(), exported.nsid), ("blocks", true, nsid));
    let own_nsid = own.nsid;
    let refused = ask(&image, &Request::RemoveNamespace { subsystem: None, nsid: own_nsid }).unwrap_err();
    assert!(refused.to_string().contains("not exported"), "{refused}");
    drop(server);
}

/// Waits until the socket of a removed subsystem is gone.
fn await_unreachable(image: &Path) {
    while ask(image, &Request::Subsystems).map_err(|error| error.kind()) != Err(ErrorKind::NotFound) {
        std::thread::yield_now();
    }
}

#[test]
fn subsystem_added_to_a_running_server_is_found_by_its_image_until_it_is_removed() {
    let server = Server::of(serve_all(&[spec(FIRST, &["blocks:1M"])], &options()).unwrap());
    let folder = tempfile::tempdir().unwrap();
    let image = image(folder.path(), NewNamespace::KV);
    let device = Some(format!("embedded:{}", image.display()));
    let of_image = SubsystemSpec { device, ..spec(SECOND, &[]) };
    for _ in 0..3 {
        await_unreachable(&image);
        server.control.add_subsystem(&of_image).unwrap();
        let Reply { subsystems, .. } = ask(&image, &Request::Subsystems).unwrap();
        assert_eq!((subsystems.len(), &*subsystems[1].namespaces[0].kind), (2, "keys"));
        server.control.remove_subsystem(SECOND).unwrap();
    }
    await_unreachable(&image);
    server.control.add_subsystem(&of_image).unwrap();
    // The thread that answers this request is that of the socket to close.
    ask(&image, &Request::RemoveSubsystem { nqn: SECOND.to_owned() }).unwrap();
    await_unreachable(&image);
}

#[test]
fn image_of_an_added_subsystem_without_a_control_socket_is_an_event() {
    let folder = tempfile::tempdir().unwrap();
    let image = image(folder.path(), NewNamespace::KV);
    let device = Some(format!("embedded:{}?readonly=1", image.display()));
    let of_image = SubsystemSpec { device, ..spec(SECOND, &[]) };
    // It has the socket of the image, which both have open for reading.
    let _first = Server::of(serve_all(std::slice::from_ref(&of_image), &options()).unwrap());
    let (put, events) = std::sync::mpsc::channel();
    let served = serve_all(&[], &options()).unwrap();
    let second = Server::with_events(served, move |event| put.send(event).unwrap());
    second.control.add_subsystem(&of_image).unwrap();
    let ServeEvent::NoControlSocket { subsystem, why } = events.recv().unwrap() else { panic!() };
    assert_eq!(subsystem, SECOND);
    assert!(why.contains("a server listens"), "{why}");
}

#[test]
fn malformed_request_is_refused_and_the_next_is_answered() {
    use std::io::{Read, Write};
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("control");
    let _server = two(&socket);
    let frame = b"\0\0\0\x06\0\x01\0\x01begone";
    for said in [
        &b"begone\n"[..],
        b"\xff\xfe\n",
        b"",
        b"subsystems",
        &[b'a'; 3 << 20],
        frame,
        &frame[..10],
        b"\0\xff\xff\xff\0\x01\0\x01",
        &[0; 3 << 20],
    ] {
        let mut stream = std::os::unix::net::UnixStream::connect(&socket).unwrap();
        // A client that is refused early may find the connection closed.
        let _ = stream.write_all(said);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
    }
    assert_eq!(ask(&socket, &Request::Subsystems).unwrap().subsystems.len(), 2);
}

#[test]
fn command_of_a_release_with_lines_is_answered_by_lines() {
    use std::io::{Read, Write};
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("control");
    let _server = two(&socket);
    let said = |line: &str| {
        let mut stream = std::os::unix::net::UnixStream::connect(&socket).unwrap();
        stream.write_all(line.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let listed = said("subsystems\n");
    assert!(listed.starts_with(&format!("subsystem\t{FIRST}\tall\t0\nnamespace\t1\t")), "{listed}");
    assert!(listed.ends_with("\ndone\n"), "{listed}");
    assert_eq!(said(&format!("remove-subsystem\t{SECOND}\n")), "done\n");
    let refused = said("remove-port\t9\n");
    assert!(refused.starts_with("refused\t") && refused.contains("there is no port 9"), "{refused}");
}

#[test]
fn request_without_end_is_cut_off_at_its_limit_and_the_next_is_answered() {
    use std::io::Write;
    // The limit of a request is 1 MiB; the rest is room of the sockets' buffers.
    const MOST_BYTES: usize = 8 << 20;
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("control");
    let _server = two(&socket);
    let mut stream = std::os::unix::net::UnixStream::connect(&socket).unwrap();
    let chunk = [b'a'; 64 << 10];
    let sent = (0..MOST_BYTES / chunk.len()).take_while(|_| stream.write_all(&chunk).is_ok()).count();
    assert!(sent < MOST_BYTES / chunk.len(), "the server reads on and on");
    assert_eq!(ask(&socket, &Request::Subsystems).unwrap().subsystems.len(), 2);
}
