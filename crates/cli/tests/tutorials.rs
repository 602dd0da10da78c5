//! Pages whose console blocks are run as they stand, each in one shell, with the output that they show.
#![allow(clippy::unwrap_used)]

mod common;

use common::pages::{blocks, page_does_what_it_shows, text_of};

#[test]
fn tutorial_of_a_first_device_does_what_it_shows() {
    page_does_what_it_shows(
        "tutorial_of_a_first_device_does_what_it_shows",
        "docs/tutorials/first-device.md",
    );
}

#[test]
fn tutorial_of_serving_over_tcp_does_what_it_shows() {
    page_does_what_it_shows(
        "tutorial_of_serving_over_tcp_does_what_it_shows",
        "docs/tutorials/serve-over-tcp.md",
    );
}

#[test]
fn tutorial_of_serving_to_qemu_does_what_it_shows() {
    page_does_what_it_shows(
        "tutorial_of_serving_to_qemu_does_what_it_shows",
        "docs/tutorials/serve-to-qemu.md",
    );
}

#[test]
fn tutorial_of_measuring_an_ssd_does_what_it_shows() {
    page_does_what_it_shows(
        "tutorial_of_measuring_an_ssd_does_what_it_shows",
        "docs/tutorials/measure-an-ssd.md",
    );
}

#[test]
fn tutorial_of_an_accelerated_fsync_does_what_it_shows() {
    page_does_what_it_shows(
        "tutorial_of_an_accelerated_fsync_does_what_it_shows",
        "docs/tutorials/accelerate-fsync.md",
    );
}

#[test]
fn reference_of_json_prints_what_it_shows() {
    page_does_what_it_shows("reference_of_json_prints_what_it_shows", "docs/reference/json.md");
}

#[test]
fn guest_of_the_qemu_tutorial_runs_its_commands() {
    let guest = text_of("tests/vm/guest/tutorial.sh");
    let blocks = blocks(&text_of("docs/tutorials/serve-to-qemu.md"));
    let in_guest = blocks.iter().filter(|block| block.not_run.contains("tests/vm/guest/tutorial.sh"));
    let commands: Vec<&String> = in_guest.flat_map(|block| &block.steps).map(|step| &step.command).collect();
    assert!(commands.len() >= 5, "{commands:?}");
    for command in commands {
        assert!(guest.lines().any(|line| line.trim() == command), "no test runs in a guest: {command}");
    }
}
