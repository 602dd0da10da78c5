//! The image of a running server is cut short or overwritten by another program: the server says so and ends.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};

use common::server::Server;
use common::{Image, json_lines, refused, said};

const NQN: &str = "nqn.2026-11.example:disk";
const OTHER: &str = "nqn.2026-11.example:other";

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn truncate(image: &Path) {
    OpenOptions::new().write(true).open(image).unwrap().set_len(0).unwrap();
}

fn overwrite(image: &Path) {
    OpenOptions::new().write(true).open(image).unwrap().write_all_at(&[0; 4096], 0).unwrap();
}

/// A server with its standard error in a file.
fn serve(args: &[&str], errors: &Path) -> (Server, String) {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("byway"));
    command.arg("serve").args(args).stderr(Stdio::from(std::fs::File::create(errors).unwrap()));
    let server = Server::spawn_command(command);
    let line = server.line();
    (server, line)
}

/// Its exit code, once it has ended by itself, and what it printed until then.
fn ended(mut server: Server, errors: &Path) -> (Option<i32>, Vec<String>, String) {
    let lines = server.rest();
    let code = server.child.wait().unwrap().code();
    (code, lines, std::fs::read_to_string(errors).unwrap())
}

#[test]
fn server_of_a_damaged_image_says_so_and_ends_with_exit_code_2() {
    for (damage, has_tcp, has_vfio_user) in [
        (truncate as fn(&Path), true, false),
        (overwrite, true, true),
        (truncate, false, true),
        (overwrite, false, true),
    ] {
        let image = Image::new(&["kv"]);
        let path = image.path();
        let (socket, errors) = (image.dir.path().join("socket"), image.dir.path().join("errors"));
        let tcp = ["--tcp", "127.0.0.1:0", "--nqn", NQN];
        let vfio_user = ["--vfio-user", text(&socket)];
        let args = [
            &[text(&path)][..],
            if has_tcp { &tcp } else { &[] },
            if has_vfio_user { &vfio_user } else { &[] },
        ];
        let (server, _) = serve(&args.concat(), &errors);
        damage(&image.path());
        let (code, lines, errors) = ended(server, &errors);
        assert_eq!((code, lines.len()), (Some(2), 0), "{errors}");
        let messages: Vec<&str> = errors.lines().collect();
        let [event, error] = messages[..] else { panic!("{errors}") };
        assert!(event.contains("cut short or overwritten") && event.contains(text(&image.path())), "{event}");
        assert!(error.contains(&format!("byway check {}", image.path().display())), "{error}");
        assert!(!socket.exists());
    }
}

#[test]
fn damaged_image_is_an_event_in_json_while_a_client_is_served() {
    let image = Image::new(&["kv"]);
    let path = image.path();
    let (socket, errors) = (image.dir.path().join("socket"), image.dir.path().join("errors"));
    let args = [text(&path), "--vfio-user", text(&socket), "--json"];
    let (server, _) = serve(&args, &errors);
    let client = byway::open(&format!("vfio-user:{}", socket.display())).unwrap();
    assert!(server.line().contains("client_"));
    truncate(&image.path());
    let (code, lines, errors) = ended(server, &errors);
    assert_eq!(code, Some(2), "{errors}");
    let events = json_lines(&lines.join("\n"));
    let damaged = events.iter().find(|event| event["event"] == "image_damaged").unwrap();
    assert_eq!(damaged["image"], text(&image.path()));
    assert!(damaged["subsystem"].as_str().unwrap().starts_with("nqn."));
    assert!(events.iter().all(|event| event["event"] != "closed"), "it is not closed in order: {events:?}");
    assert_eq!(errors.lines().count(), 1, "{errors}");
    drop(client);
}

#[test]
fn damaged_image_beside_another_subsystem_and_vfio_user_ends_the_server_with_exit_code_2() {
    let image = Image::new(&["kv"]);
    let path = image.path();
    let (socket, errors) = (image.dir.path().join("socket"), image.dir.path().join("errors"));
    let args = [text(&path), "--tcp", "127.0.0.1:0", "--nqn", NQN, "--vfio-user", text(&socket)];
    let (server, _) = serve(&args, &errors);
    said(&["subsystem", "add", text(&path), OTHER, "--ns", "blocks:1M"]);
    truncate(&path);
    let (code, _, errors) = ended(server, &errors);
    assert_eq!(code, Some(2), "{errors}");
    assert!(errors.contains(&format!("byway check {}", path.display())), "{errors}");
}

#[test]
fn of_several_subsystems_the_one_with_the_damaged_image_ends_alone() {
    let image = Image::new(&["kv"]);
    let (config, errors) = (image.dir.path().join("serve.json"), image.dir.path().join("errors"));
    let said_of_all = format!(
        r#"{{"ports": [{{"addr": {{"traddr": "127.0.0.1", "trsvcid": "0"}}}}],
            "subsystems": [{{"nqn": "{NQN}", "device": "embedded:{}"}}, {{"nqn": "{OTHER}", "device": "ram:64M"}}]}}"#,
        image.path().display()
    );
    std::fs::write(&config, said_of_all).unwrap();
    let (server, listening) = serve(&["--config", text(&config), "--json"], &errors);
    let address = json_lines(&listening)[0]["tcp"].as_str().unwrap().to_owned();
    overwrite(&image.path());
    let damaged = json_lines(&server.line()).remove(0);
    assert_eq!((&damaged["event"], &damaged["subsystem"]), (&"image_damaged".into(), &NQN.into()));
    said(&["info", &format!("tcp://{address}/{OTHER}")]);
    // The removal follows the event.
    let is_found = || said(&["discover", &format!("tcp://{address}")]).contains(NQN);
    while is_found() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    refused(2, &["info", &format!("tcp://{address}/{NQN}")]);
    server.end("-TERM");
}
