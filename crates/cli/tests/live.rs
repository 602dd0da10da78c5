//! Several subsystems of one server, and commands that change what it serves while it does.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::{Path, PathBuf};

use common::server::Server;
use common::{Image, json_lines, refused, said};

const FIRST: &str = "nqn.2026-11.example:first";
const SECOND: &str = "nqn.2026-11.example:second";
const HOST: &str = "nqn.2026-11.example:host";

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A server that takes requests, and what it said of where it listens.
struct Served {
    server: Server,
    listening: serde_json::Value,
    socket: PathBuf,
}

impl Served {
    fn place(&self, of: &str) -> &str {
        self.listening[of].as_str().unwrap()
    }
}

/// A server by a file, with two subsystems of which the second lets one host in, and where it is.
fn by_file(folder: &Path, more: &[&str]) -> Served {
    let (config, socket) = (folder.join("serve.json"), folder.join("control"));
    let said = format!(
        r#"{{"ports": [{{"addr": {{"traddr": "127.0.0.1", "trsvcid": "0"}}}}],
            "subsystems": [
              {{"nqn": "{FIRST}", "namespaces": [{{"device": {{"path": "blocks:1M"}}}}]}},
              {{"nqn": "{SECOND}", "device": "ram:64M", "allowed_hosts": ["{HOST}"]}}]}}"#
    );
    std::fs::write(&config, said).unwrap();
    let args = ["--config", text(&config), "--control", text(&socket), "--json"];
    let (server, line) = Server::begin(&[&args[..], more].concat());
    let listening = json_lines(&line).remove(0);
    assert_eq!(listening["subsystems"], serde_json::json!([FIRST, SECOND]));
    Served { server, listening, socket }
}

fn names(address: &str) -> Vec<String> {
    let found = json_lines(&said(&["discover", &format!("tcp://{address}"), "--json"])).remove(0);
    let nvm = found.as_array().unwrap().iter().filter(|entry| !entry["uri"].is_null());
    nvm.map(|entry| format!("{} {}", entry["subsystem"].as_str().unwrap(), entry["port_id"])).collect()
}

#[test]
fn config_file_subsystems_are_listed_to_allowed_hosts_only() {
    let folder = tempfile::tempdir().unwrap();
    let served = by_file(folder.path(), &[]);
    let address = served.place("tcp");
    assert_eq!(names(address), [format!("{FIRST} 1")]);
    said(&["nvm", "zero", &format!("tcp://{address}/{FIRST}"), "--length", "4K"]);
    let second = format!("tcp://{address}/{SECOND}");
    refused(2, &["info", &second]);
    said(&["info", &format!("{second}?hostnqn={HOST}")]);
    said(&["info", &format!("tcp://{address}")]);
    let several = refused(2, &["info", &format!("tcp://{address}?hostnqn={HOST}")]);
    assert!(several.contains("2 subsystems") && several.contains(&second), "{several}");
    served.server.end("-TERM");
}

#[test]
fn served_namespaces_are_listed_and_changed_by_commands() {
    let folder = tempfile::tempdir().unwrap();
    let served = by_file(folder.path(), &[]);
    let (address, socket) = (served.place("tcp"), text(&served.socket));
    let json = |args: &[&str]| json_lines(&said(&[args, &["--json"]].concat())).remove(0);
    let error = refused(2, &["ns", "list", socket]);
    assert!(error.contains("--subsystem") && error.contains(SECOND), "{error}");
    let added = json(&["ns", "add", socket, "blocks:4M", "--subsystem", FIRST]);
    assert_eq!((&added["done"], &added["nsid"]), (&"namespace_added".into(), &2.into()));
    let listed = json(&["ns", "list", socket, "--subsystem", FIRST]);
    assert_eq!(listed[1]["uri"], "blocks:4M");
    assert!(said(&["ns", "remove", socket, "--ns", "1", "--subsystem", FIRST]).contains("exported no more"));
    refused(2, &["ns", "remove", socket, "--ns", "1", "--subsystem", FIRST]);
    let port = json(&["port", "add", socket, "127.0.0.1:0"]);
    assert_eq!(port["port"], 2);
    assert_eq!(names(address), [format!("{FIRST} 1"), format!("{FIRST} 2")]);
    said(&["ana", "set", socket, "2=inaccessible", "--subsystem", FIRST]);
    let states = json(&["ana", "list", socket, "--subsystem", FIRST]);
    assert_eq!([&states[0]["state"], &states[1]["state"]], ["optimized", "inaccessible"]);
    said(&["port", "remove", socket, "2"]);
    said(&["host", "allow-all", socket, "--subsystem", SECOND]);
    assert!(said(&["subsystem", "ports", socket, SECOND, "--port", "1"]).contains("is found by port 1"));
    assert!(said(&["subsystem", "ports", socket, SECOND]).contains("is found by every port"));
    assert!(refused(2, &["subsystem", "ports", socket, SECOND, "--port", "9"]).contains("no port 9"));
    assert_eq!(json(&["host", "list", socket, "--subsystem", SECOND]), serde_json::Value::Null);
    said(&["subsystem", "remove", socket, FIRST]);
    assert_eq!(names(address), [format!("{SECOND} 1")]);
    let third = "nqn.2026-11.example:third";
    said(&["subsystem", "add", socket, third, "--ns", "blocks:1M", "--allow-host", HOST, "--port", "1"]);
    let listed = json(&["subsystem", "list", socket]);
    assert_eq!(
        (&listed[0]["ports"], &listed[1]["ports"]),
        (&serde_json::Value::Null, &serde_json::json!([1]))
    );
    assert_eq!((&listed[1]["nqn"], &listed[1]["hosts"]), (&third.into(), &serde_json::json!([HOST])));
    let socket = socket.to_owned();
    served.server.end("-TERM");
    let error = refused(2, &["port", "list", &socket]);
    assert!(error.contains(&socket), "{error}");
}

#[test]
fn server_is_found_by_its_image_and_paths_are_the_clients() {
    let image = Image::new(&["nvm"]);
    let server = Server::start(&[text(&image.path()), "--tcp", "127.0.0.1:0"]);
    let disk = image.dir.path().join("disk");
    std::fs::write(&disk, vec![0; 1 << 20]).unwrap();
    let mut command = assert_cmd::Command::cargo_bin("byway").unwrap();
    command.current_dir(image.dir.path()).args(["ns", "add", text(&image.path()), "disk"]).assert().success();
    let listed = json_lines(&said(&["ns", "list", text(&image.path()), "--json"])).remove(0);
    assert_eq!(listed[1]["uri"], text(&disk));
    assert!(listed[0]["uri"].is_null(), "it is the image's own");
    server.end("-TERM");
    let error = refused(2, &["ns", "list", text(&image.path())]);
    assert!(error.contains("no server has"), "{error}");
}

#[test]
fn allowed_hosts_get_their_secrets_and_keys() {
    let folder = tempfile::tempdir().unwrap();
    let served = by_file(folder.path(), &[]);
    let (address, socket) = (served.place("tcp"), text(&served.socket));
    let file = |name: &str, content: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    };
    let secret = said(&["key", "new"]);
    let alone = file("secret", &secret);
    let info = |nqn: &str, host: &str, more: &str| format!("tcp://{address}/{nqn}?hostnqn={host}{more}");
    let by_secret = format!("&dhchap-secret-file={}", text(&alone));
    let other = "nqn.2026-11.example:other";
    said(&["host", "allow", socket, HOST, "--subsystem", SECOND, "--dhchap-secret-file", text(&alone)]);
    refused(2, &["info", &info(SECOND, HOST, "")]);
    said(&["info", &info(SECOND, HOST, &by_secret)]);
    // Another that has none is let in by its name, and cannot come; one that would have others not come is refused.
    said(&["host", "allow", socket, other, "--subsystem", SECOND]);
    refused(2, &["info", &info(SECOND, other, "")]);
    let keep = ["host", "allow", socket, HOST, "--subsystem", SECOND, "--dhchap-secret-file", text(&alone)];
    let why = refused(2, &keep);
    assert!(why.contains(other) && !why.contains("DHHC"), "{why}");
    let bad = file("bad", "DHHC-1:00:what:");
    let why = refused(
        2,
        &["host", "allow", socket, HOST, "--subsystem", FIRST, "--dhchap-secret-file", text(&bad)],
    );
    assert!(why.contains(HOST) && !why.contains("what"), "{why}");
    said(&["info", &info(FIRST, other, "")]);
    // A subsystem that comes with them, and a host more.
    let third = "nqn.2026-11.example:third";
    let secrets = file("secrets", &format!("{HOST} {secret}"));
    let add = ["subsystem", "add", socket, third, "--ns", "blocks:1M", "--dhchap-secrets", text(&secrets)];
    said(&[&add[..], &["--allow-host", HOST]].concat());
    refused(2, &["info", &info(third, HOST, "")]);
    said(&["info", &info(third, HOST, &by_secret)]);
    said(&["host", "allow", socket, other, "--subsystem", third, "--dhchap-secret-file", text(&alone)]);
    said(&["info", &info(third, other, &by_secret)]);
    said(&["info", &info(third, HOST, &by_secret)]);
    let why = refused(2, &[&add[..3], &["nqn.d"], &add[6..], &["--allow-host", other]].concat());
    assert!(why.contains(HOST) && why.contains("--allow-host"), "{why}");
    served.server.end("-TERM");
}

#[test]
fn disallowed_host_cannot_return_by_its_earlier_secret() {
    let folder = tempfile::tempdir().unwrap();
    let served = by_file(folder.path(), &[]);
    let (address, socket) = (served.place("tcp"), text(&served.socket));
    let secret = folder.path().join("secret");
    std::fs::write(&secret, said(&["key", "new"])).unwrap();
    let by_secret = format!("tcp://{address}/{SECOND}?hostnqn={HOST}&dhchap-secret-file={}", text(&secret));
    let allow = ["host", "allow", socket, HOST, "--subsystem", SECOND];
    let with_secret = [&allow[..], &["--dhchap-secret-file", text(&secret)]].concat();
    said(&with_secret);
    said(&["info", &by_secret]);
    said(&["host", "disallow", socket, HOST, "--subsystem", SECOND]);
    refused(2, &["info", &by_secret]);
    // Nor can the host connect without a secret: authentication is still required.
    said(&allow);
    refused(2, &["info", &by_secret]);
    refused(2, &["info", &format!("tcp://{address}/{SECOND}?hostnqn={HOST}")]);
    said(&with_secret);
    said(&["info", &by_secret]);
    served.server.end("-TERM");
}

#[test]
fn hangup_reloads_the_hosts_of_the_config_file() {
    let folder = tempfile::tempdir().unwrap();
    let served = by_file(folder.path(), &[]);
    let second = format!("tcp://{}/{SECOND}", served.place("tcp"));
    refused(2, &["info", &second]);
    let config = folder.path().join("serve.json");
    let said_before = std::fs::read_to_string(&config).unwrap();
    let event = |said: &str| {
        std::fs::write(&config, said).unwrap();
        served.server.signal("-HUP");
        loop {
            let event = json_lines(&served.server.line()).remove(0)["event"].as_str().unwrap().to_owned();
            if event.starts_with("keys") {
                return event;
            }
        }
    };
    assert_eq!(event("what is this"), "keys_kept");
    refused(2, &["info", &second]);
    assert_eq!(event(&said_before.replace(&format!(r#", "allowed_hosts": ["{HOST}"]"#), "")), "keys_renewed");
    said(&["info", &second]);
    served.server.end("-TERM");
}

#[test]
fn hangup_applies_the_config_file_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let served = by_file(folder.path(), &[]);
    let (address, socket) = (served.place("tcp"), text(&served.socket));
    let config = folder.path().join("serve.json");
    let before = std::fs::read_to_string(&config).unwrap();
    let hangup = |said: &str| {
        std::fs::write(&config, said).unwrap();
        served.server.signal("-HUP");
        loop {
            let event = json_lines(&served.server.line()).remove(0);
            if event["event"].as_str().unwrap().starts_with("keys") {
                return event["why"].as_str().map(str::to_owned);
            }
        }
    };
    let list = |args: &[&str]| json_lines(&said(&[args, &["--json"]].concat())).remove(0);
    let uris = |nqn: &str| {
        let listed = list(&["ns", "list", socket, "--subsystem", nqn]);
        listed.as_array().unwrap().iter().map(|of| of["uri"].clone()).collect::<Vec<_>>()
    };
    // A second port, a namespace beside the first's, a third subsystem, and states.
    let third = "nqn.2026-11.example:third";
    let more = before
        .replace(r#""ports": ["#, r#""ports": [{"addr": {"traddr": "127.0.0.1", "trsvcid": "0"}}, "#)
        .replace(r#"{"device": {"path": "blocks:1M"}}]"#, r#"{"device": {"path": "blocks:1M"}}, {"device": {"path": "blocks:2M"}}], "ana": [{"port": 2, "nsid": 2, "state": "inaccessible"}]"#)
        .replace(r#""subsystems": ["#, &format!(r#""subsystems": [{{"nqn": "{third}", "namespaces": [{{"device": {{"path": "blocks:4M"}}}}]}}, "#));
    assert_eq!(hangup(&more), None);
    let found = names(address);
    assert_eq!(found.len(), 4, "two subsystems at two ports: {found:?}");
    assert_eq!(uris(FIRST), ["blocks:1M", "blocks:2M"]);
    let states = list(&["ana", "list", socket, "--subsystem", FIRST]);
    let states: Vec<_> = states.as_array().unwrap().iter().map(|of| of["state"].clone()).collect();
    assert_eq!(states.iter().filter(|state| **state == "inaccessible").count(), 1, "{states:?}");
    // A device that is another, and one that cannot be opened.
    let why = hangup(&more.replace("ram:64M", "ram:128M")).unwrap();
    assert!(why.contains(SECOND) && why.contains("ram:64M") && why.contains("ram:128M"), "{why}");
    let why = hangup(&more.replace("blocks:2M", "/there/is/no/such/file")).unwrap();
    assert!(why.contains("/there/is/no/such/file"), "{why}");
    // A port of another socket, beside changes that would succeed.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap();
    let port = format!(r#""addr": {{"traddr": "127.0.0.1", "trsvcid": "{}"}}"#, taken.port());
    let why = hangup(&before.replace(r#""ports": ["#, &format!(r#""ports": [{{{port}}}, "#))).unwrap();
    assert!(why.contains(&taken.to_string()), "{why}");
    assert_eq!((uris(FIRST), names(address)), (vec!["blocks:1M".into(), "blocks:2M".into()], found));
    // The first port has the first subsystem alone, the second both.
    let lists = more.replacen("}}, ", &format!(r#"}}, "subsystems": ["{FIRST}", "{third}"]}}, "#), 1);
    let lists = lists
        .replace(r#""trsvcid": "0"}}],"#, &format!(r#""trsvcid": "0"}}, "subsystems": ["{FIRST}"]}}],"#));
    let why = hangup(&lists).unwrap();
    assert!(why.contains(SECOND) && why.contains("it is at no port"), "{why}");
    assert_eq!(
        hangup(&lists.replace(&format!(r#"["{FIRST}"]"#), &format!(r#"["{FIRST}", "{SECOND}"]"#))),
        None
    );
    assert_eq!(names(address), [format!("{FIRST} 1"), format!("{FIRST} 2"), format!("{third} 1")]);
    let listed = list(&["subsystem", "list", socket]);
    assert_eq!((&listed[1]["nqn"], &listed[1]["ports"]), (&SECOND.into(), &serde_json::json!([2])));
    // All of it goes again, and what was there all the time is still there.
    assert_eq!(hangup(&before), None);
    assert_eq!((uris(FIRST), names(address)), (vec!["blocks:1M".into()], vec![format!("{FIRST} 1")]));
    said(&["nvm", "zero", &format!("tcp://{address}/{FIRST}"), "--length", "4K"]);
    served.server.end("-TERM");
}

#[test]
fn figures_of_several_subsystems_are_labelled() {
    let folder = tempfile::tempdir().unwrap();
    let served = by_file(folder.path(), &["--metrics", "127.0.0.1:0"]);
    let address = served.place("tcp");
    said(&["nvm", "zero", &format!("tcp://{address}/{FIRST}"), "--length", "4K"]);
    let mut stream = std::net::TcpStream::connect(served.place("metrics")).unwrap();
    std::io::Write::write_all(&mut stream, b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut figures = String::new();
    std::io::Read::read_to_string(&mut stream, &mut figures).unwrap();
    for nqn in [FIRST, SECOND] {
        assert!(figures.contains(&format!("byway_namespaces{{subsystem=\"{nqn}\"}} ")), "{figures}");
    }
    served.server.end("-TERM");
}
