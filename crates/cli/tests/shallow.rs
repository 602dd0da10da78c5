//! Commands on a controller whose queues are shallower than defaults: a served device, in front of which CAP.MQES is made less.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use common::server::Server;
use common::{Image, byway, json_lines, refused, said};
use parking_lot::Mutex;

const NQN: &str = "nqn.2026-01.org.example:shallow";

/// PDU types, and the command that asks for a property.
const COMMAND: u8 = 4;
const RESPONSE: u8 = 5;
const FABRICS: u8 = 0x7f;
const PROPERTY_GET: u8 = 4;

/// Identifiers of commands that ask for CAP.
type Asked = Arc<Mutex<BTreeSet<[u8; 2]>>>;

/// Carries connections to a target, and says less of its queues than it does.
fn relay(target: SocketAddr, mqes_z: u16) -> SocketAddr {
    let take = move |host: TcpStream| {
        let (target, asked) = (TcpStream::connect(target).unwrap(), Asked::default());
        let (from, to) = (host.try_clone().unwrap(), target.try_clone().unwrap());
        let noted = Arc::clone(&asked);
        std::thread::spawn(move || carry(from, to, |pdu| note(pdu, &noted)));
        std::thread::spawn(move || carry(target, host, |pdu| lessen(pdu, &asked, mqes_z)));
        true
    };
    byway_kit::accept_while(take).unwrap()
}

/// Carries PDU by PDU one way.
fn carry(mut from: TcpStream, mut to: TcpStream, mut look: impl FnMut(&mut [u8])) {
    let mut pdu = vec![0; 8];
    loop {
        pdu.resize(8, 0);
        if from.read_exact(&mut pdu).is_err() {
            break;
        }
        let len = u32::from_le_bytes(pdu[4..8].try_into().unwrap()) as usize;
        pdu.resize(len, 0);
        if from.read_exact(&mut pdu[8..]).is_err() {
            break;
        }
        look(&mut pdu);
        if to.write_all(&pdu).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}

fn note(pdu: &[u8], asked: &Asked) {
    if pdu[0] == COMMAND && pdu[8] == FABRICS && pdu[12] == PROPERTY_GET && pdu[52..56] == [0; 4] {
        asked.lock().insert([pdu[10], pdu[11]]);
    }
}

fn lessen(pdu: &mut [u8], asked: &Asked, mqes_z: u16) {
    if pdu[0] == RESPONSE && asked.lock().remove(&[pdu[20], pdu[21]]) {
        pdu[8..10].copy_from_slice(&mqes_z.to_le_bytes());
    }
}

/// What a command that succeeds says on standard error.
fn noted(args: &[&str]) -> String {
    let output = byway().args(args).assert().success().get_output().clone();
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn shallow_queue_caps_defaults_and_refuses_an_exact_depth() {
    let image = Image::new(&["nvm:16M", "kv:16M"]);
    let tcp = ["--tcp", "127.0.0.1:0", "--nqn", NQN, "--json"];
    let (_server, line) = Server::begin(&[&[image.path().to_str().unwrap()], &tcp[..]].concat());
    let target: SocketAddr = json_lines(&line)[0]["tcp"].as_str().unwrap().parse().unwrap();
    let file = image.file("bytes", &[7; 1 << 20]);
    for mqes in [127, 15, 2, 1] {
        let uri = format!("tcp://{}/{NQN}", relay(target, mqes));
        for uri in [uri.clone(), format!("{uri}?depth=500")] {
            let asked = uri.ends_with("?depth=500");
            let lowered = format!("byway: depth=500 is lowered to {mqes}: a queue of {uri} holds no more\n");
            let of_uri = if asked { lowered } else { String::new() };
            assert_eq!(noted(&["nvm", "verify", &uri, "--length", "1M"]), of_uri);
            let copied = byway().args(["dd", &file, &uri, "--json"]).assert().success().get_output().clone();
            assert_eq!(json_lines(&String::from_utf8(copied.stdout).unwrap()).len(), 1);
            let of_default =
                format!("byway: --depth is {mqes}, not the default 16: a queue of {uri} holds no more\n");
            let of_default = if mqes < 16 { of_default } else { String::new() };
            let wanted = if asked { &of_uri } else { &of_default };
            assert_eq!(&String::from_utf8(copied.stderr).unwrap(), wanted);
            let perf = ["perf", &uri, "--rw", "randread", "--count", "20"];
            assert_eq!(noted(&perf), of_uri);
            let header = said(&perf);
            let depth = if asked { mqes } else { 1 };
            // The port may have any digits.
            assert!(header.contains(&format!("depth {depth}, ")) && !header.contains("=500"), "{header}");
            assert_eq!(noted(&["kv", "put", &uri, "key", "value"]), of_uri);
            assert_eq!(noted(&["kv", "get", &uri, "key"]), of_uri);
            assert_eq!(said(&["kv", "get", &uri, "key"]), "value");
        }
        let info = said(&["info", &uri]);
        assert!(info.contains(&format!("queues up to {mqes} deep")), "{info}");
        let depth = (mqes + 1).to_string();
        let over = format!("--depth of {depth} is over the {mqes} that a queue of");
        for args in [
            &["perf", &uri, "--rw", "randread", "--depth", &depth][..],
            &["dd", &file, &uri, "--depth", &depth],
        ] {
            let error = refused(2, args);
            assert!(error.contains(&over), "{error}");
        }
        let header = said(&["perf", &uri, "--rw", "randread", "--count", "20", "--depth", &mqes.to_string()]);
        assert!(header.contains(&format!("depth {mqes}, ")), "{header}");
    }
}
