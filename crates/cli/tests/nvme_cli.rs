//! Commands and options as nvme-cli spells them, on a device of ours.
#![allow(clippy::unwrap_used)]

mod common;

use common::server::Server;
use common::{Image, byway, json_lines, refused, said};
use serde_json::{Value, json};

fn printed(args: &[&str]) -> Value {
    json_lines(&said(args)).remove(0)
}

#[test]
fn spelling_of_nvme_cli_prints_what_ours_does() {
    let image = Image::new(&["kv:16M", "nvm:16M"]);
    let path = image.path().to_str().unwrap().to_owned();
    for (theirs, ours) in [
        (["id-ctrl"].as_slice(), ["identify"].as_slice()),
        (&["id-ns", "-n", "2"], &["identify", "namespace", "--ns", "2"]),
        (&["list-ns"], &["identify", "namespaces"]),
        (&["ns-descs", "-n", "1"], &["identify", "descriptors", "--ns", "1"]),
        (&["fw-log"], &["log", "firmware"]),
        (&["effects-log"], &["log", "effects"]),
        (&["error-log"], &["log", "error"]),
        (&["supported-log-pages"], &["log", "pages"]),
        (&["get-log", "-i", "3"], &["log", "firmware"]),
        (&["get-feature", "-f", "7"], &["feature get", "number-of-queues"]),
        (&["get-feature", "-f", "4", "-s", "3"], &["feature get", "4", "--select", "supported"]),
    ] {
        let line = |words: &[&str], json: &[&str]| {
            let (verb, rest) = words.split_first().unwrap();
            let verb: Vec<&str> = verb.split(' ').collect();
            said(&[&verb[..], &[path.as_str()], rest, json].concat())
        };
        assert_eq!(line(theirs, &["-o", "json"]), line(ours, &["--json"]), "{theirs:?}");
        assert_eq!(line(theirs, &["-H"]), line(ours, &[]), "{theirs:?}");
    }
    let raw = |args: &[&str]| byway().args(args).assert().success().get_output().stdout.clone();
    assert_eq!(raw(&["id-ctrl", &path, "-b"]), raw(&["identify", &path, "--raw"]));
    assert_eq!(raw(&["id-ctrl", &path, "-o", "binary"]).len(), 4096);
    assert_eq!(printed(&["error-log", &path, "-e", "2", "-o", "json"]), json!([]));
}

#[test]
fn namespace_is_created_attached_detached_and_deleted() {
    let image = Image::sized("256M", &["kv:32M"]);
    let path = image.path().to_str().unwrap().to_owned();
    let created = printed(&["create-ns", &path, "--size", "16M", "--json"]);
    assert_eq!(created, json!({"done": "namespace_created", "nsid": 2}));
    let listed = || printed(&["list-ns", &path, "--all", "--json"]);
    assert_eq!(listed(), json!([{"nsid": 1}, {"nsid": 2}]));
    // Opening an image attaches each.
    assert!(refused(2, &["attach-ns", &path, "-n", "2"]).contains("Already Attached"));
    let block = image.file("block", &[7; 512]);
    said(&["nvm", "write", &path, "-n", "2", "--file", &block]);
    let pairs = printed(&["create-ns", &path, "-s", "33554432", "-y", "kv", "-o", "json"]);
    assert_eq!(pairs["nsid"], 3);
    // Local memory and programs are gone when the image is closed.
    for (set, size) in [("slm", "1M"), ("cp", "0")] {
        assert_eq!(
            printed(&["create-ns", &path, "--size", size, "--csi", set, "--json"])["nsid"],
            4,
            "{set}"
        );
    }
    assert!(
        refused(2, &["create-ns", &path, "--size", "16M", "-b", "777"])
            .contains("has no blocks of 777 bytes")
    );
    assert!(said(&["detach-ns", &path, "-n", "2"]).contains("namespace 2 is detached from controller 0"));
    assert!(said(&["delete-ns", &path, "-n", "2", "--yes"]).contains("namespace 2 is deleted"));
    assert_eq!(listed(), json!([{"nsid": 1}, {"nsid": 3}]));
    assert!(refused(2, &["delete-ns", &path, "-n", "3"]).contains("--yes"));
}

#[test]
fn passed_command_is_shown_not_sent_by_a_dry_run_and_timed_by_latency() {
    let image = Image::new(&["nvm:16M"]);
    let path = image.path().to_str().unwrap().to_owned();
    let identify = ["admin-passthru", &path, "-o", "6", "-4", "1", "-l", "0x1000", "-r"];
    let shown = printed(&[&identify[..], &["--dry-run", "--json"]].concat());
    assert_eq!((&shown["opcode"], &shown["cdw10"], &shown["data_len"]), (&json!(6), &json!(1), &json!(4096)));
    let delete = ["io-passthru", &path, "-n", "1", "-o", "1", "-i", &image.file("block", &[7; 512])];
    assert!(said(&[&delete[..], &["-d"]].concat()).contains("to the device"));
    let read = ["io-passthru", &path, "-n", "1", "-o", "2", "-l", "512", "-r"];
    let answer = printed(&[&read[..], &["-T", "--json"]].concat());
    assert_eq!(answer["data_hex"], "00".repeat(512));
    assert!(answer["latency_us"].as_f64().is_some_and(|time| time > 0.0), "{answer}");
    let raw = byway().args(identify).arg("-b").assert().success().get_output().stdout.clone();
    assert_eq!(raw, byway().args(["identify", &path, "--raw"]).output().unwrap().stdout);
    let output = byway().args(read).arg("--show-command").assert().success().get_output().clone();
    assert!(String::from_utf8(output.stderr).unwrap().contains("opcode    0x02"));
}

#[test]
fn registers_are_shown_and_a_controller_is_reset() {
    let image = Image::new(&[]);
    let path = image.path().to_str().unwrap().to_owned();
    let registers = printed(&["show-regs", &path, "-o", "json"]);
    assert!(registers["vs"].as_u64().is_some_and(|version| version >= 0x2_0000), "{registers}");
    // Enabled (CC.EN) and ready (CSTS.RDY).
    assert_eq!((registers["cc"].as_u64().unwrap() & 1, registers["csts"].as_u64().unwrap() & 1), (1, 1));
    assert!(said(&["reset", &path]).contains("is reset"));
    for verb in ["show-regs", "reset"] {
        assert!(refused(2, &[verb, "ramdisk:1M"]).contains("no controller"), "{verb}");
    }
}

#[test]
fn what_the_device_lacks_is_reported_as_its_answer() {
    let image = Image::new(&[]);
    let path = image.path().to_str().unwrap().to_owned();
    let error = refused(2, &["get-log", &path, "-i", "0xd", "-l", "512"]);
    assert!(
        error.contains("log page 0dh") && error.contains("is not supported by this controller"),
        "{error}"
    );
    let file = image.dir.path().join("telemetry.bin");
    let error = refused(2, &["telemetry-log", "ramdisk:1M", "-o", file.to_str().unwrap()]);
    assert!(error.contains("no controller"), "{error}");
    assert!(!file.exists());
}

/// Reads telemetry into a new file, with these options: its bytes.
fn telemetry(image: &Image, device: &str, options: &[&str]) -> Vec<u8> {
    let file = image.dir.path().join("telemetry.bin");
    let args = ["telemetry-log", device, "-o", file.to_str().unwrap(), "--json"];
    let done = printed(&[&args[..], options].concat());
    let bytes = std::fs::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(done["bytes"], bytes.len());
    bytes
}

#[test]
fn telemetry_of_an_image_is_a_header_and_one_json_text() {
    let image = Image::new(&["kv:16M", "nvm:16M"]);
    let path = image.path().to_str().unwrap().to_owned();
    said(&["kv", "put", &path, "a-key-of-mine", "a-value-of-mine"]);
    let log = telemetry(&image, &path, &[]);
    let last_block = usize::from(u16::from_le_bytes([log[8], log[9]]));
    assert_eq!((log[0], log[381], log.len()), (7, 1, (last_block + 1) * 512));
    let report: Value = serde_json::from_slice(&log[512..]).unwrap();
    assert_eq!(report["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!((&report["profile"], &report["namespaces"][0]["pairs"]), (&json!("gen4x4"), &json!(1)));
    assert!(report["health"]["power_cycles"].as_u64().is_some_and(|cycles| cycles > 1), "{report}");
    assert!(report["counters"]["accepted_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{report}");
    assert!(!String::from_utf8(log[512..].to_vec()).unwrap().contains("of-mine"));
    assert_eq!(telemetry(&image, &path, &["-d", "4"]).len(), log.len(), "there is no area 4");
    assert_eq!(telemetry(&image, &path, &["-g", "0"]).len(), 512, "nothing was captured since it was opened");
    let own = telemetry(&image, &path, &["-c"]);
    assert_eq!((own[0], own[382], own.len()), (8, 0, 512));
    let shown = printed(&["log", &path, "telemetry-host", "--json"]);
    assert_eq!((&shown["scope"], &shown["host_generation"]), (&json!("controller"), &json!(0)));
}

#[test]
fn telemetry_of_a_served_device_counts_commands_of_its_hosts() {
    let image = Image::new(&["kv:16M"]);
    let (path, socket) = (image.path().to_str().unwrap().to_owned(), image.dir.path().join("socket"));
    let socket = socket.to_str().unwrap();
    let (server, line) = Server::begin(&[
        &path,
        "--tcp",
        "127.0.0.1:0",
        "--vfio-user",
        socket,
        "--metrics",
        "127.0.0.1:0",
        "--json",
    ]);
    let listening = json_lines(&line).remove(0);
    let named = |name: &str| listening[name].as_str().unwrap().to_owned();
    let tcp = format!("tcp://{}/{}", named("tcp"), named("nqn"));
    let vfio_user = format!("vfio-user:{socket}");
    said(&["kv", "put", &tcp, "key", "value"]);
    for (device, commands_in) in [(&tcp, "capsules"), (&vfio_user, "rings")] {
        let log = telemetry(&image, device, &[]);
        let report: Value = serde_json::from_slice(&log[512..]).unwrap();
        assert_eq!(report["commands_in"], commands_in);
        let types = report["commands"]["types"].as_array().unwrap();
        let stored = types.iter().find(|one| one["name"] == "Store").unwrap();
        assert_eq!((&stored["nsid"], &stored["succeeded"]), (&json!(1), &json!(1)), "{report}");
    }
    server.end("-TERM");
}

#[test]
fn reservations_are_reported_and_refused_as_the_device_says() {
    let image = Image::new(&["nvm:16M"]);
    let path = image.path().to_str().unwrap().to_owned();
    let report = printed(&["resv-report", &path, "-n", "1", "-o", "json"]);
    assert_eq!((&report["nsid"], &report["registrants"]), (&json!(1), &json!([])));
    let error = refused(2, &["resv-acquire", &path, "-n", "1", "-c", "0x11", "-t", "1"]);
    assert!(error.contains("Reservation Conflict"), "{error}");
    let error = refused(2, &["resv-acquire", &path, "-n", "1", "-c", "0x11", "-t", "9"]);
    assert!(error.contains("from 1 to 6"), "{error}");
    assert!(refused(2, &["resv-register", &path, "-n", "1"]).contains("--nrkey"));
}

#[test]
fn namespaces_and_reservations_of_a_device_over_the_network_are_changed() {
    let image = Image::sized("256M", &["nvm:32M"]);
    let path = image.path().to_str().unwrap().to_owned();
    let (server, line) = Server::begin(&[&path, "--tcp", "127.0.0.1:0", "--json"]);
    let listening = json_lines(&line).remove(0);
    let named = |name: &str| listening[name].as_str().unwrap().to_owned();
    let uri = format!("tcp://{}/{}", named("tcp"), named("nqn"));
    assert_eq!(printed(&["create-ns", &uri, "--size", "16M", "--json"])["nsid"], 2);
    assert!(said(&["attach-ns", &uri, "-n", "2"]).contains("namespace 2 is attached to controller"));
    assert_eq!(printed(&["list-ns", &uri, "--all", "--json"]), json!([{"nsid": 1}, {"nsid": 2}]));
    said(&["delete-ns", &uri, "-n", "2", "--yes"]);
    said(&["resv-register", &uri, "-n", "1", "-k", "0x11"]);
    said(&["resv-acquire", &uri, "-n", "1", "-c", "0x11", "-t", "1"]);
    let report = printed(&["resv-report", &uri, "-n", "1", "--json"]);
    assert_eq!((&report["rtype"], &report["registrants"][0]["key"]), (&json!(1), &json!(0x11)));
    assert_eq!(report["registrants"][0]["holds"], true);
    said(&["resv-release", &uri, "-n", "1", "-c", "0x11", "-t", "1"]);
    said(&["resv-register", &uri, "-n", "1", "-r", "1", "-c", "0x11"]);
    assert_eq!(printed(&["resv-report", &uri, "-n", "1", "--json"])["registrants"], json!([]));
    let registers = printed(&["show-regs", &uri, "--json"]);
    assert_eq!((registers["csts"].as_u64().unwrap() & 1, &registers["asq"]), (1, &Value::Null));
    assert!(said(&["reset", &uri]).contains("is reset"));
    server.end("-TERM");
}
