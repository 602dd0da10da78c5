//! Admin commands that go on by themselves, over a device with rings of its own and over a file.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use byway::backends::{AdminCalls, Psync, Target, TargetOptions};
use byway::{CreateOptions, NewNamespace};
use byway_conformance::admin::{an_event_loop_is_woken, several_go_on_at_once, too_many_come_back};
use byway_conformance::scratch::Scratch;
use byway_conformance::subject::Subject;
use byway_core::{AdminCommand, AdminQueue, Backend, ErrorKind, Finished, Nsid, RawData, encode_admin};

fn all(subject: &Subject<'_, impl Backend>, queue: &mut impl AdminQueue) {
    several_go_on_at_once(subject, queue);
    too_many_come_back(queue);
    an_event_loop_is_woken(queue);
    several_go_on_at_once(subject, queue);
}

#[test]
fn admin_commands_to_a_file_finish_as_unsupported() {
    let scratch = Scratch::new();
    let psync = Psync::new(Arc::new(Target::open(&scratch.path, TargetOptions::default()).unwrap()));
    let mut queue = AdminCalls::new(psync).unwrap();
    queue.submit(AdminCommand::Format { nsid: Nsid::FIRST, format: 0, erase: false }, 3).unwrap();
    let mut kinds = Vec::new();
    let mut on = |finished: Finished| kinds.push((finished.tag, finished.result.unwrap_err().error.kind()));
    queue.drain(&mut on).unwrap();
    assert_eq!(kinds, [(3, ErrorKind::Unsupported)]);
}

#[test]
fn admin_commands_to_a_device_run_by_calls_and_by_a_queue() {
    for options in ["", "?run=thread"] {
        let scratch = Scratch::new();
        let driver = blocks(&scratch, options).driver().clone();
        let subject = Subject::new(&scratch, &driver);
        all(&subject, &mut driver.admin_commands());
        all(&subject, &mut AdminCalls::new(driver.clone()).unwrap());
    }
}

#[test]
fn any_device_with_a_controller_has_an_admin_queue() {
    let scratch = Scratch::new();
    drop(blocks(&scratch, ""));
    let device = byway::open(&format!("embedded:{}", scratch.path.display())).unwrap();
    all(&Subject::new(&scratch, &device), &mut device.admin_queue().unwrap());
    let refused = byway::open("blocks:1M").unwrap().admin_queue().err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    assert!(refused.to_string().contains("has no controller that takes admin commands"), "{refused}");
}

#[test]
fn a_request_for_events_waits_until_it_is_cancelled() {
    let scratch = Scratch::new();
    let device = blocks(&scratch, "");
    let mut queue = device.driver().admin_commands();
    let mut entry = encode_admin(&AdminCommand::Format { nsid: Nsid::FIRST, format: 0, erase: false }).entry;
    entry.cdw0.set_opcode(0x0c);
    (entry.nsid, entry.cdw10) = (0, 0);
    queue.submit(AdminCommand::raw(entry, RawData::None), 5).unwrap();
    assert!(queue.next_finished().unwrap().is_none());
    device.driver().namespaces().unwrap();
    queue.cancel(5).unwrap();
    let mut kinds = Vec::new();
    queue.drain(&mut |finished| kinds.push(finished.result.unwrap_err().error.kind())).unwrap();
    assert_eq!(kinds, [ErrorKind::Cancelled]);
}

fn blocks(scratch: &Scratch, options: &str) -> byway::embedded::EmbeddedDevice {
    std::fs::remove_file(&scratch.path).unwrap();
    let create = CreateOptions::new(2 * Scratch::BYTES).namespaces([NewNamespace::NVM]);
    byway::create(&scratch.path, &create).unwrap();
    byway::embedded::open(&format!("embedded:{}{options}", scratch.path.display())).unwrap()
}
