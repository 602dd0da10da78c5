//! Calls to key-value namespaces, over every interface that reaches one: they say the same.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use byway::backends::nvme::NodeKind;
use byway::backends::{NvmeIoctl, Threads, ThreadsOptions};
use byway::{Backend, Kv, NamespaceKind, Queue, QueueOptions};
use byway_conformance::keys::every_call;
use byway_conformance::passing::InProcess;
use byway_conformance::passing_ring;
use byway_conformance::scratch::Scratch;

fn over<B: Backend>(backend: &B, queue: impl FnOnce(B::Queue) -> Queue) -> Kv {
    let namespaces = backend.namespaces().unwrap();
    let is_kv = |kind: &NamespaceKind| matches!(kind, NamespaceKind::Kv { .. });
    let namespace = namespaces.iter().find(|namespace| is_kv(&namespace.kind)).unwrap();
    Kv::new(queue(backend.queue(QueueOptions::default()).unwrap()), namespace).unwrap()
}

#[test]
fn over_a_device_in_this_process_by_its_own_calls() {
    let device = byway::open("ram:64M").unwrap();
    every_call(&mut device.kv(None).unwrap());
}

#[test]
fn over_a_device_in_this_process_as_over_any_other() {
    let device = byway::embedded::open("ram:64M").unwrap();
    every_call(&mut over(device.driver(), Queue::other));
}

#[test]
fn over_commands_that_are_passed_through() {
    let scratch = Scratch::new();
    let target = Arc::new(InProcess::new(&scratch).node(NodeKind::Generic { nsid: 2 }));
    every_call(&mut over(&NvmeIoctl::new(target), Queue::other));
}

#[test]
fn over_commands_that_threads_pass_through() {
    let scratch = Scratch::new();
    let target = Arc::new(InProcess::new(&scratch).node(NodeKind::Generic { nsid: 2 }));
    let options = ThreadsOptions { threads: Some(2) };
    every_call(&mut over(&Threads::new(target, options).unwrap(), Queue::other));
}

#[test]
fn over_commands_that_a_ring_carries() {
    let scratch = Scratch::new();
    let target = InProcess::new(&scratch).node(NodeKind::Generic { nsid: 2 });
    every_call(&mut over(&passing_ring::behind(target), Queue::other));
}

#[test]
fn a_file_has_no_keys() {
    let scratch = Scratch::new();
    let device = byway::open(scratch.path.to_str().unwrap()).unwrap();
    let refused = device.kv(None).err().unwrap();
    assert!(refused.to_string().contains("no key-value namespace"), "{refused}");
}
