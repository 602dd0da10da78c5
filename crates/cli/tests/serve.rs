//! A device that is served: how it begins, who may come, and how it ends.
#![allow(clippy::unwrap_used)]

mod common;

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use common::server::Server;
use common::{Image, byway, json_lines, refused, said};

fn socket(image: &Image) -> PathBuf {
    image.dir.path().join("socket")
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_signal_closes_the_image_in_order_and_removes_the_socket() {
    let image = Image::new(&["nvm"]);
    let socket = socket(&image);
    for (signal, threads) in [("-TERM", "1"), ("-INT", "1"), ("-TERM", "3")] {
        let args = ["--vfio-user", text(&socket), "--sgl", "off", "--threads", threads];
        let server = Server::start(&[&[text(&image.path())], &args[..]].concat());
        let client = UnixStream::connect(&socket).unwrap();
        assert!(server.end(signal).contains("closed"));
        drop(client);
        assert!(!socket.exists());
        assert!(said(&["info", "-v", &image.uri("")]).contains("0 unsafe shutdowns"));
    }
}

#[test]
fn a_killed_server_s_socket_is_taken_over_and_a_live_one_s_is_not() {
    let image = Image::new(&["kv"]);
    let socket = socket(&image);
    let args = [text(&socket).to_owned()];
    let mut server = Server::start(&[&image.uri("flush=command"), "--vfio-user", &args[0]]);
    let error = refused(2, &["serve", "ram:64M", "--vfio-user", &args[0]]);
    assert!(error.contains("a server listens at this socket"), "{error}");
    let error = refused(2, &["serve", text(&image.path()), "--vfio-user", &format!("{}.other", args[0])]);
    assert!(error.contains("in use") || error.contains("open in"), "{error}");
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    assert!(socket.exists());
    Server::start(&[&image.uri(""), "--vfio-user", &args[0]]).end("-TERM");
    assert!(!socket.exists());
}

#[test]
fn host_options_are_refused_by_serve() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    for option in ["transfer=prp", "ns=1", "run=thread", "depth=3", "clock=virtual"] {
        let error = refused(2, &["serve", &format!("ram:64M?{option}"), "--vfio-user", text(&socket)]);
        assert!(error.contains(option.split('=').next().unwrap()), "{error}");
        assert!(!socket.exists());
    }
}

/// A client that has said its first word, and waits for the answer to nothing.
fn greeting(socket: &Path) -> UnixStream {
    let mut client = UnixStream::connect(socket).unwrap();
    let version = b"\0\0\x01\0{}\0";
    let header = [0u16, 1].map(u16::to_le_bytes).concat();
    let rest = [16 + version.len() as u32, 0, 0].map(u32::to_le_bytes).concat();
    client.write_all(&[&header[..], &rest, version].concat()).unwrap();
    client
}

#[test]
fn connects_and_disconnects_are_lines_of_json() {
    let image = Image::new(&["kv"]);
    let socket = socket(&image);
    let server = Server::start(&[text(&image.path()), "--vfio-user", text(&socket), "--json"]);
    let event = |server: &Server| json_lines(&server.line())[0]["event"].clone();
    let client = format!("vfio-user:{}", socket.display());
    for _ in 0..2 {
        said(&["kv", "put", &client, "key", "value"]);
        assert_eq!([event(&server), event(&server)], ["client_connected", "client_left"]);
    }
    let mut babbler = greeting(&socket);
    assert_eq!(event(&server), "client_connected");
    let second = greeting(&socket);
    assert_eq!(event(&server), "client_refused");
    babbler.write_all(&[0; 16]).unwrap();
    let dropped = &json_lines(&server.line())[0];
    assert_eq!(dropped["event"], "client_dropped");
    assert!(!dropped["why"].as_str().unwrap().is_empty());
    drop(second);
    let closed = &json_lines(&server.end("-TERM"))[0];
    assert_eq!(
        (closed["event"].as_str(), closed["device"].as_str()),
        (Some("closed"), image.path().to_str())
    );
}

/// What a host that proposes nothing says first.
fn icreq() -> [u8; 128] {
    let mut bytes = [0; 128];
    (bytes[2], bytes[4]) = (128, 128);
    bytes
}

/// Says the first word to an NVMe/TCP target; whether it is answered with ICResp.
fn is_answered(address: &str) -> bool {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.write_all(&icreq()).unwrap();
    let mut answer = [0; 128];
    std::io::Read::read_exact(&mut stream, &mut answer).unwrap();
    answer[0] == 1
}

#[test]
fn a_device_is_served_over_tcp_and_by_a_socket_at_once() {
    let image = Image::new(&["nvm", "kv"]);
    let socket = socket(&image);
    let nqn = "nqn.2026-11.example:disk";
    let tcp =
        ["--tcp", "127.0.0.1:0", "--discovery", "127.0.0.1:0", "--nqn", nqn, "--json", "--threads", "2"];
    for (more, signal) in [(&[][..], "-TERM"), (&["--vfio-user", text(&socket)][..], "-INT")] {
        let (server, line) = Server::begin(&[&[text(&image.path())], &tcp[..], more].concat());
        let listening = json_lines(&line).remove(0);
        assert_eq!(listening["nqn"], nqn);
        let [address, discovery] = ["tcp", "discovery"].map(|place| listening[place].as_str().unwrap());
        assert!(is_answered(address) && is_answered(discovery));
        let uri = format!("tcp://{address}/{nqn}");
        said(&["kv", "put", &uri, "key", "value"]);
        if !more.is_empty() {
            let client = format!("vfio-user:{}", socket.display());
            assert_eq!(said(&["kv", "get", &client, "key"]), said(&["kv", "get", &uri, "key"]));
        }
        let events = json_lines(&server.end(signal));
        assert_eq!(events.last().unwrap()["event"], "closed");
        assert!(said(&["info", "-v", &image.uri("")]).contains("0 unsafe shutdowns"));
    }
}

#[test]
fn a_discovered_uri_opens_its_subsystem() {
    let image = Image::new(&["nvm", "kv"]);
    let nqn = "nqn.2026-11.example:disk";
    let tcp = ["--tcp", "127.0.0.1:0", "--discovery", "127.0.0.1:0", "--nqn", nqn, "--json"];
    let (server, line) = Server::begin(&[&[text(&image.path())], &tcp[..]].concat());
    let listening = json_lines(&line).remove(0);
    let service = format!("tcp://{}", listening["discovery"].as_str().unwrap());
    let uri = format!("tcp://{}/{nqn}", listening["tcp"].as_str().unwrap());
    let printed = said(&["discover", &service]);
    assert!(printed.contains("NVM subsystem") && printed.lines().any(|line| line == uri), "{printed}");
    let found: serde_json::Value = serde_json::from_str(&said(&["discover", &service, "--json"])).unwrap();
    let uris: Vec<_> = found.as_array().unwrap().iter().filter_map(|entry| entry["uri"].as_str()).collect();
    assert_eq!(uris, [uri.as_str()]);
    let info = said(&["info", &uri]);
    assert!(info.contains("namespace 2 kv") && info.contains("backend tcp"), "{info}");
    assert!(said(&["list", &uri]).contains("Byway software SSD"));
    let elsewhere = uri.replace(nqn, "nqn.2026-11.example:other");
    assert!(refused(2, &["info", &elsewhere]).contains("there is no subsystem nqn.2026-11.example:other at"));
    server.end("-TERM");
    assert!(refused(2, &["info", &uri]).contains("no server listens at"));
    assert!(refused(2, &["discover", &service]).contains("no server listens at"));
}

#[test]
fn an_address_without_a_name_opens_the_only_subsystem_there() {
    let image = Image::new(&["kv", "nvm"]);
    let (server, line) = Server::begin(&[text(&image.path()), "--tcp", "127.0.0.1:0", "--json"]);
    let address = format!("tcp://{}", json_lines(&line).remove(0)["tcp"].as_str().unwrap());
    said(&["kv", "put", &address, "0041", "A"]);
    assert_eq!(said(&["kv", "get", &format!("{address}?depth=4"), "0041"]), "A");
    said(&["perf", &address, "--rw", "randread", "--count", "10"]);
    Server::begin(&["--ns", &address, "--tcp", "127.0.0.1:0", "--json"]).0.end("-TERM");
    server.end("-TERM");
    let error = refused(2, &["kv", "get", &address, "0041"]);
    assert!(error.contains("names no subsystem") && error.contains("no server listens at"), "{error}");
}

#[test]
fn address_without_a_name_opens_although_its_discovery_port_does_not_answer() {
    let image = Image::new(&["kv"]);
    // An address of this host that no program listens at by itself.
    let _silent = std::net::TcpListener::bind("127.8.0.10:8009").unwrap();
    let (server, _) = Server::begin(&[text(&image.path()), "--tcp", "127.8.0.10:4420", "--json"]);
    said(&["kv", "put", "tcp://127.8.0.10?timeout=3600", "0041", "A"]);
    server.end("-TERM");
}

#[test]
fn discovery_at_a_port_that_refuses_names_the_other_port() {
    // An address of this host that no program listens at by itself.
    for address in ["tcp://127.8.0.9", "tcp://127.8.0.9:8009"] {
        let error = refused(2, &["discover", address]);
        assert!(error.contains("no server listens at 127.8.0.9:8009"), "{error}");
        assert!(error.contains("try port 4420"), "{error}");
    }
    assert!(!refused(2, &["discover", "tcp://127.8.0.9:1"]).contains("try port"));
}

/// Commands of keys, of blocks, and of either: the output about a device, but for times, is the same wherever it is.
const COMMANDS: &[&str] = &[
    "kv put KEYS a 1",
    "kv put KEYS b 22 --if-absent",
    "kv put KEYS b 3 --if-absent",
    "kv put KEYS c 3 --if-present",
    "kv get KEYS b",
    "kv get KEYS b --json",
    "kv get KEYS c",
    "kv exists KEYS a",
    "kv exists KEYS c",
    "kv delete KEYS a",
    "kv delete KEYS a",
    "kv list KEYS",
    "kv import KEYS FILE --compare",
    "kv list KEYS --from 0042 --limit 2 --json",
    "kv export KEYS",
    "nvm write BLOCKS --offset 4K --file FILE",
    "nvm read BLOCKS --offset 4K --length 1K",
    "nvm compare BLOCKS --offset 4K --file FILE",
    "nvm compare BLOCKS --offset 8K --file FILE",
    "nvm copy BLOCKS --offset 4K --to 64K --length 512",
    "nvm read BLOCKS --offset 64K --length 512",
    "nvm verify BLOCKS --offset 64K --length 512",
    "nvm zero BLOCKS --offset 64K --length 512",
    "nvm trim BLOCKS --offset 4K --length 4K",
    "nvm read BLOCKS --offset 4K --length 64K",
    "nvm flush BLOCKS",
    "nvm read BLOCKS --offset 1M --length 1K",
];

#[test]
fn key_and_block_commands_answer_alike_over_tcp_and_for_an_image() {
    let [local, served] = [(); 2].map(|()| Image::new(&["nvm:16M", "kv"]));
    let nqn = "nqn.2026-11.example:disk";
    let (image, args) = (served.path(), ["--tcp", "127.0.0.1:0", "--nqn", nqn, "--json"]);
    let (server, line) = Server::begin(&[&[text(&image)], &args[..]].concat());
    let place = json_lines(&line).remove(0)["tcp"].as_str().unwrap().to_owned();
    let file = local.file("UnicodeData.txt", b"0041;LATIN A;Lu\n0042;LATIN B;Lu\n0043;LATIN C;Lu\n");
    let run = |command: &str, of: &dyn Fn(&str) -> String| {
        let put_in = |word: &str| match word {
            "BLOCKS" => of("ns=1"),
            "KEYS" => of("ns=2"),
            "FILE" => file.clone(),
            word => word.to_owned(),
        };
        let output = byway().args(command.split(' ').map(put_in)).output().unwrap();
        (output.status.code(), [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()))
    };
    let here = |options: &str| local.uri(options);
    let there = |options: &str| format!("tcp://{place}/{nqn}?{options}");
    // Their output has times.
    let timed = [
        ("kv import KEYS FILE", "3 records "),
        ("kv load KEYS FILE", "3 records "),
        ("dd FILE BLOCKS --seek 1M", "48 bytes "),
    ];
    for (command, begin) in timed {
        for of in [&here as &dyn Fn(&str) -> String, &there] {
            let (code, [printed, _]) = run(command, of);
            assert_eq!((code, printed.starts_with(begin)), (Some(0), true), "{command}: {printed}");
        }
    }
    for command in COMMANDS {
        let printed = run(command, &here);
        // Other errors would be of what was asked for.
        assert!(matches!(printed.0, Some(0 | 1)) || command.contains("--if-"), "{command}: {printed:?}");
        assert_eq!(run(command, &there), printed, "{command}");
    }
    server.end("-TERM");
}

#[test]
fn a_server_admits_authenticated_hosts_and_reports_others() {
    let image = Image::new(&["nvm", "kv"]);
    let (host, nqn) = ("nqn.2026-11.example:host", "nqn.2026-11.example:disk");
    let [secret, controller, wrong] = ["sha256", "none", "sha512"].map(|hash| {
        let made = said(&["key", "new", "--hash", hash]);
        made.trim_end().to_owned()
    });
    let secrets = image.file("secrets", format!("# who\n{host} {secret} {controller}\n").as_bytes());
    let tcp = ["--tcp", "127.0.0.1:0", "--nqn", nqn, "--json", "--dhchap-group", "null,ffdhe2048"];
    let (server, line) =
        Server::begin(&[&[text(&image.path()), "--dhchap-secrets", &secrets], &tcp[..]].concat());
    let address = json_lines(&line).remove(0)["tcp"].as_str().unwrap().to_owned();
    let own = image.file("own", format!("{secret}\n{controller}\n").as_bytes());
    let uri = format!("tcp://{address}/{nqn}?hostnqn={host}");
    let known = format!("{uri}&dhchap-secret-file={own}");
    said(&["kv", "put", &known, "key", "value"]);
    assert_eq!(said(&["kv", "get", &known, "key"]).trim_end(), "value");
    let printed = refused(2, &["info", &format!("{uri}&dhchap-secret={wrong}")]);
    assert!(printed.contains("does not accept the secret of nqn.2026-11.example:host"), "{printed}");
    assert!(!printed.contains("DHHC"), "{printed}");
    assert!(refused(2, &["info", &uri]).contains("has no secret"));
    let events = json_lines(&server.end("-TERM"));
    let ended: Vec<_> = events.iter().filter(|event| event["event"] == "connection_ended").collect();
    let why = ended.first().and_then(|event| event["why"].as_str()).unwrap();
    assert!(why.contains(host) && why.contains("is not what its secret makes"), "{why}");
}

#[test]
fn a_server_is_reached_by_tls_and_reports_hosts_without_a_key() {
    let image = Image::new(&["nvm", "kv"]);
    let (host, nqn) = ("nqn.2026-11.example:host", "nqn.2026-11.example:disk");
    let [key, wrong] = ["sha384", "sha256"].map(|hash| {
        let made = said(&["key", "new", "--tls", "--hash", hash]);
        made.trim_end().to_owned()
    });
    let keys = image.file("keys", format!("# who\n{host} {key}\n").as_bytes());
    let tcp = ["--tcp", "127.0.0.1:0", "--discovery", "127.0.0.1:0", "--nqn", nqn, "--json"];
    let (server, line) = Server::begin(&[&[text(&image.path()), "--tls-keys", &keys], &tcp[..]].concat());
    let listening = json_lines(&line).remove(0);
    let uri = format!("tcp://{}/{nqn}?hostnqn={host}", listening["tcp"].as_str().unwrap());
    let own = image.file("own", format!("{key}\n").as_bytes());
    let known = format!("{uri}&tls-key-file={own}");
    said(&["kv", "put", &known, "key", "value"]);
    assert_eq!(said(&["kv", "get", &known, "key"]).trim_end(), "value");
    let printed = refused(2, &["info", &format!("{uri}&tls-key={wrong}")]);
    assert!(printed.contains("does not accept the TLS key of nqn.2026-11.example:host"), "{printed}");
    assert!(!printed.contains("NVMeTLSkey"), "{printed}");
    assert!(refused(2, &["info", &uri]).contains("it may want TLS"));
    // Discovery answers in the clear, at its own address.
    let service = format!("tcp://{}?hostnqn={host}", listening["discovery"].as_str().unwrap());
    let found: serde_json::Value = serde_json::from_str(&said(&["discover", &service, "--json"])).unwrap();
    let subsystem = found.as_array().unwrap().iter().find(|entry| entry["subsystem"] == nqn).unwrap();
    assert_eq!(
        (&subsystem["security"], &subsystem["secure_channel"]),
        (&"TLS 1.3".into(), &"required".into())
    );
    let events = json_lines(&server.end("-TERM"));
    let ended: Vec<_> = events.iter().filter(|event| event["event"] == "connection_ended").collect();
    let why = |at: usize| ended[at]["why"].as_str().unwrap().to_owned();
    assert!(why(0).contains("no host has the TLS identity") && why(0).contains(host), "{}", why(0));
    assert!(why(1).contains("TLS is required"), "{}", why(1));
}

#[test]
fn files_of_keys_are_read_anew_at_a_hangup_and_bad_ones_change_nothing() {
    let image = Image::new(&["kv"]);
    let (host, nqn) = ("nqn.2026-11.example:host", "nqn.2026-11.example:disk");
    let [first, second] = ["sha256", "sha384"].map(|hash| {
        let made = said(&["key", "new", "--tls", "--hash", hash]);
        made.trim_end().to_owned()
    });
    let secret = said(&["key", "new"]).trim_end().to_owned();
    let keys = image.file("keys", format!("{host} {first}\n").as_bytes());
    let secrets = image.file("secrets", format!("{host} {secret}\n").as_bytes());
    let files = ["--tls-keys", &keys, "--dhchap-secrets", &secrets, "--dhchap-group", "null"];
    let tcp = ["--tcp", "127.0.0.1:0", "--nqn", nqn, "--json"];
    let (server, line) = Server::begin(&[&[text(&image.path())], &files[..], &tcp[..]].concat());
    let address = json_lines(&line).remove(0)["tcp"].as_str().unwrap().to_owned();
    let by = |key: &str| format!("tcp://{address}/{nqn}?hostnqn={host}&dhchap-secret={secret}&tls-key={key}");
    let next = |server: &Server, is: &str| loop {
        let event = json_lines(&server.line()).remove(0);
        if event["event"] == is {
            return event;
        }
    };
    said(&["kv", "put", &by(&first), "key", "value"]);
    // Neither file is taken where one of them is bad.
    std::fs::write(&keys, format!("{host} {second}\n")).unwrap();
    std::fs::write(&secrets, format!("{host} DHHC-1:00:c2VjcmV0:\n")).unwrap();
    server.signal("-HUP");
    let kept = next(&server, "keys_kept");
    let why = kept["why"].as_str().unwrap();
    assert!(why.contains("secrets, line 1") && !why.contains("c2VjcmV0"), "{why}");
    assert_eq!(said(&["kv", "get", &by(&first), "key"]).trim_end(), "value");
    refused(2, &["info", &by(&second)]);
    std::fs::write(&secrets, format!("{host} {secret}\n")).unwrap();
    server.signal("-HUP");
    next(&server, "keys_renewed");
    assert_eq!(said(&["kv", "get", &by(&second), "key"]).trim_end(), "value");
    assert!(refused(2, &["info", &by(&first)]).contains("does not accept the TLS key"));
    server.end("-TERM");
}

#[test]
fn several_portals_are_one_device_and_info_shows_each_path() {
    let image = Image::new(&["nvm", "kv"]);
    let nqn = "nqn.2026-11.example:disk";
    let ports = ["--tcp", "127.0.0.1:0", "--tcp", "127.0.0.1:0", "--ana", "2=non-optimized"];
    let (server, line) =
        Server::begin(&[&[text(&image.path())], &ports[..], &["--nqn", nqn, "--json"]].concat());
    let listening = json_lines(&line).remove(0);
    let (first, second) = (listening["tcp"].as_str().unwrap(), listening["more_ports"][0].as_str().unwrap());
    let uri = format!("tcp://{second},{first}/{nqn}");
    said(&["kv", "put", &uri, "key", "value"]);
    assert_eq!(said(&["kv", "get", &uri, "key"]).trim_end(), "value");
    let printed = said(&["info", &uri]);
    for (portal, state) in [(first, "optimized"), (second, "non-optimized")] {
        let wanted = format!("path {portal}: namespace 1 {state}, namespace 2 {state}\n");
        assert!(printed.contains(&wanted), "{wanted:?} in {printed}");
    }
    let printed: serde_json::Value = serde_json::from_str(&said(&["info", &uri, "--json"])).unwrap();
    assert_eq!(printed["paths"][0]["namespaces"][1]["state"], "non-optimized");
    server.end("-TERM");
    assert!(refused(2, &["info", &uri]).contains("no server listens at"));
}

#[test]
fn serve_without_an_address_or_with_a_taken_one_is_refused() {
    let image = Image::new(&["nvm"]);
    let error = refused(2, &["serve", text(&image.path())]);
    assert!(error.contains("--vfio-user") && error.contains("--tcp"), "{error}");
    let error = refused(2, &["serve", text(&image.path()), "--tcp", "nowhere"]);
    assert!(error.contains("an IP address"), "{error}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let error = refused(2, &["serve", text(&image.path()), "--tcp", &address]);
    assert!(error.contains(&address) && error.contains("in use"), "{error}");
    let error = refused(2, &["serve", "ram:64M?clock=paced", "--tcp", "127.0.0.1:0"]);
    assert!(error.contains("not modelled"), "{error}");
}

#[test]
fn devices_are_exported_as_namespaces_alone_and_behind_those_of_an_image() {
    let image = Image::new(&["nvm"]);
    let disk = image.dir.path().join("disk");
    std::fs::write(&disk, vec![0; 1 << 20]).unwrap();
    let file = format!("file:{}", text(&disk));
    let exports = ["--ns", &file, "--ns", "blocks:1M", "--tcp", "127.0.0.1:0", "--json"];
    for (image, first) in [(None, 1), (Some(text(&image.path())), 2)] {
        let args: Vec<&str> = image.into_iter().chain(exports).collect();
        let (server, line) = Server::begin(&args);
        let listening = json_lines(&line).remove(0);
        let [tcp, nqn] = ["tcp", "nqn"].map(|place| listening[place].as_str().unwrap());
        let found = &listening["namespaces"];
        assert_eq!((found[0]["nsid"].as_u64(), found[0]["uri"].as_str()), (Some(first), Some(&*file)));
        assert_eq!(found[1]["backend"], "ram");
        for nsid in [first, first + 1] {
            let uri = format!("tcp://{tcp}/{nqn}?ns={nsid}");
            for bytes in ["512", "4K", "64K"] {
                let load = ["--rw", "randrw", "--bs", bytes, "--count", "300", "--depth", "32", "--verify"];
                said(&[&["perf", &uri], &load[..]].concat());
            }
        }
        server.end("-TERM");
    }
}

#[test]
fn impossible_export_is_refused_with_its_uri() {
    let tcp = ["--tcp", "127.0.0.1:0"];
    let error = refused(2, &[&["serve"], &tcp[..]].concat());
    assert!(error.contains("<DEVICE>"), "{error}");
    let error = refused(2, &[&["serve", "--ns", "/no/such/disk"], &tcp[..]].concat());
    assert!(error.contains("export /no/such/disk"), "{error}");
    let error = refused(2, &[&["serve", "ram:64M?flush=media", "--ns", "blocks:1M"], &tcp[..]].concat());
    assert!(error.contains("flush=media holds for an image"), "{error}");
    let error = refused(2, &[&["serve", "blocks:1M"], &tcp[..]].concat());
    assert!(error.contains("--ns exports it"), "{error}");
}

#[test]
fn config_that_is_no_regular_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for config in [Path::new("/dev/zero"), &pipe] {
        let error = refused(2, &["serve", "--config", text(config), "--tcp", "127.0.0.1:0"]);
        assert!(error.contains("expected is a regular file"), "{error}");
    }
    let error = refused(2, &["host", "allow", text(&pipe), "nqn.a:b", "--dhchap-secret-file", "/dev/zero"]);
    assert!(error.contains("longer than 1 MiB"), "{error}");
}

#[test]
fn server_says_where_it_takes_requests_or_why_it_does_not() {
    let image = Image::new(&["kv"]);
    let (server, line) =
        Server::begin(&[text(&image.path()), "--vfio-user", text(&socket(&image)), "--json"]);
    let control = json_lines(&line)[0]["control"][0].as_str().unwrap().to_owned();
    assert!(Path::new(&control).exists() && json_lines(&line)[0].get("no_control").is_none(), "{line}");
    server.end("-TERM");
    assert!(!Path::new(&control).exists());
    let (server, line) = Server::begin(&["ram:64M", "--vfio-user", text(&socket(&image)), "--json"]);
    let why = json_lines(&line)[0]["no_control"][0].as_str().unwrap().to_owned();
    assert!(why.contains("no image") && why.contains("--control"), "{why}");
    server.end("-TERM");
}
