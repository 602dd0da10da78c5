//! Calls to key-value namespaces, over every interface that reaches one: they say the same.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use byway::backends::nvme::{NodeKind, NvmeCommand, NvmeQueue, Passage};
use byway::backends::{NvmeIoctl, Threads, ThreadsOptions};
use byway::spec::vendor::VendorOpcode;
use byway::spec::{Command as Entry, Status};
use byway::{
    Backend, BackendQueue, Key, Kv, KvCommand, NamespaceKind, Payload, Queue, QueueOptions, RawCommand,
    RawData,
};
use byway_conformance::keys::{every_call, every_inline_read};
use byway_conformance::passing::{Fault, FaultKind, InProcess};
use byway_conformance::passing_ring;
use byway_conformance::ranges::{every_range, without_commands};
use byway_conformance::scratch::Scratch;

fn over<B: Backend>(backend: &B, queue: impl FnOnce(B::Queue) -> Queue) -> Kv {
    let namespaces = backend.namespaces().unwrap();
    let is_kv = |kind: &NamespaceKind| matches!(kind, NamespaceKind::Kv { .. });
    let namespace = namespaces.iter().find(|namespace| is_kv(&namespace.kind)).unwrap();
    let kv = Kv::new(queue(backend.queue(QueueOptions::default()).unwrap()), namespace).unwrap();
    kv.with_capabilities(backend.capabilities())
}

#[test]
fn key_value_calls_of_the_embedded_device() {
    let device = byway::open("ram:64M").unwrap();
    every_call(&mut device.kv(None).unwrap());
}

#[test]
fn key_value_calls_of_the_embedded_device_as_any_device() {
    let device = byway::embedded::open("ram:64M").unwrap();
    every_call(&mut over(device.driver(), Queue::other));
}

/// By the caller's thread and one of its own, at modelled time, and by whole pages: each has other ways to a completion.
#[test]
fn inline_reads_of_the_embedded_device() {
    for options in ["", "&run=thread", "&clock=virtual", "&clock=paced", "&profile=cosmos", "&sgl=off"] {
        for ring in [2, 4, 16, 256] {
            let uri = format!("ram:64M?transfer=prp&ring={ring}&inline-read=on{options}");
            let device = byway::embedded::open(&uri).unwrap();
            every_inline_read(&mut device.kv(None).unwrap(), &mut over(device.driver(), Queue::other));
        }
    }
}

#[test]
fn ranges_and_many_keys_of_the_embedded_device() {
    let device = byway::open("ram:256M").unwrap();
    let mut kv = device.kv(None).unwrap();
    assert!(kv.can().scan && kv.can().retrieve_many);
    every_range(&mut kv);
    every_range(&mut without_commands(kv, device.capabilities()));
}

#[test]
fn ranges_and_many_keys_over_ioctl() {
    let scratch = Scratch::new();
    let target = Arc::new(InProcess::new(&scratch).node(NodeKind::Generic { nsid: 2 }));
    let mut kv = over(&NvmeIoctl::new(target), Queue::other);
    assert!(kv.can().scan && !kv.can().retrieve_many, "the kernel maps data for one direction");
    every_range(&mut kv);
}

#[test]
fn key_value_calls_over_ioctl() {
    let scratch = Scratch::new();
    let target = Arc::new(InProcess::new(&scratch).node(NodeKind::Generic { nsid: 2 }));
    every_call(&mut over(&NvmeIoctl::new(target), Queue::other));
}

#[test]
fn key_value_calls_over_threads() {
    let scratch = Scratch::new();
    let target = Arc::new(InProcess::new(&scratch).node(NodeKind::Generic { nsid: 2 }));
    let options = ThreadsOptions::of(2);
    every_call(&mut over(&Threads::new(target, options).unwrap(), Queue::other));
}

#[test]
fn key_value_calls_over_a_ring() {
    let scratch = Scratch::new();
    let target = InProcess::new(&scratch).node(NodeKind::Generic { nsid: 2 });
    every_call(&mut over(&passing_ring::behind(target), Queue::other));
}

/// A thousand small pairs.
fn small_pairs() -> Vec<(Key, [u8; 8])> {
    (0..1000u64).map(|n| (Key::new(&n.to_be_bytes()).unwrap(), n.to_le_bytes())).collect()
}

/// How often the device was sent a bulk store.
fn bulk_stores(passing: &InProcess) -> usize {
    let is_bulk = |command: &&NvmeCommand| command.opcode == VendorOpcode::KV_BULK_STORE.0;
    passing.take_seen().iter().filter(is_bulk).count()
}

#[test]
fn a_load_is_passed_through_as_few_commands_once_bulk_stores_are_enabled() {
    let scratch = Scratch::new();
    let target = Arc::new(InProcess::new(&scratch).node(NodeKind::Generic { nsid: 2 }));
    let mut kv = over(&NvmeIoctl::new(Arc::clone(&target)), Queue::other);
    assert!(!target.passage().methods().bulk(), "not enabled yet");
    target.passage().take_seen();
    assert_eq!(kv.load(small_pairs()).unwrap(), 1000);
    assert!(target.passage().methods().bulk());
    let sent = target.passage().take_seen();
    assert!(sent.iter().all(|command| command.opcode == VendorOpcode::KV_BULK_STORE.0), "{sent:?}");
    assert_eq!(sent.len(), 1, "24,000 bytes of pairs fit one command");
    assert_eq!(kv.get(&999u64.to_be_bytes()).unwrap().unwrap(), 999u64.to_le_bytes());
}

#[test]
fn a_load_is_carried_by_a_ring_as_few_commands() {
    let scratch = Scratch::new();
    let nvme = passing_ring::behind(InProcess::new(&scratch).node(NodeKind::Generic { nsid: 2 }));
    let mut kv = over(&nvme, Queue::other);
    assert_eq!(kv.load(small_pairs()).unwrap(), 1000);
    assert_eq!(bulk_stores(nvme.device().passage()), 1);
    assert_eq!(kv.keys(None).count(), 1000);
}

/// Loads pairs, and has another user reset the controller before the next load's command and while that is on its way.
fn load_over_resets<B: Backend>(nvme: &B, passing: &InProcess)
where
    B::Queue: 'static,
{
    let mut kv = over(nvme, Queue::other);
    kv.load(small_pairs()).unwrap();
    passing.reset().unwrap();
    assert!(!passing.methods().bulk(), "a reset controller has it disabled");
    assert_eq!(kv.load(small_pairs()).unwrap(), 1000);
    let of = (NvmeQueue::Io, VendorOpcode::KV_BULK_STORE.0);
    passing.fail(Fault { of, after: 0, what: FaultKind::Reset });
    passing.take_seen();
    assert_eq!(kv.load(small_pairs()).unwrap(), 1000);
    assert_eq!(bulk_stores(passing), 2, "one that the device did not know, and the same again");
    assert!(passing.methods().bulk());
    assert_eq!(kv.keys(None).count(), 1000);
}

#[test]
fn a_load_after_another_users_reset_succeeds_over_ioctl() {
    let scratch = Scratch::new();
    let target = Arc::new(InProcess::new(&scratch).node(NodeKind::Generic { nsid: 2 }));
    load_over_resets(&NvmeIoctl::new(Arc::clone(&target)), target.passage());
}

#[test]
fn a_load_after_another_users_reset_succeeds_over_threads() {
    let scratch = Scratch::new();
    let target = Arc::new(InProcess::new(&scratch).node(NodeKind::Generic { nsid: 2 }));
    let threads = Threads::new(Arc::clone(&target), ThreadsOptions::of(2)).unwrap();
    load_over_resets(&threads, target.passage());
}

#[test]
fn a_load_after_another_users_reset_succeeds_over_a_ring() {
    let scratch = Scratch::new();
    let nvme = passing_ring::behind(InProcess::new(&scratch).node(NodeKind::Generic { nsid: 2 }));
    load_over_resets(&nvme, nvme.device().passage());
}

#[test]
fn a_bulk_store_that_the_device_refuses_once_enabled_is_tried_twice_and_no_more() {
    let scratch = Scratch::new();
    let nvme = passing_ring::behind(InProcess::new(&scratch).node(NodeKind::Generic { nsid: 2 }));
    let passing = nvme.device().passage();
    let of = (NvmeQueue::Io, VendorOpcode::KV_BULK_STORE.0);
    let what = FaultKind::Status(Status::INVALID_OPCODE);
    (0..2).for_each(|_| passing.fail(Fault { of, after: 0, what }));
    let mut kv = over(&nvme, Queue::other);
    let failed = kv.load(small_pairs()).unwrap_err();
    assert!(failed.to_string().contains("load pairs"), "{failed}");
    assert_eq!(kv.load(small_pairs()).unwrap(), 1000);
}

#[test]
fn a_bulk_store_passed_through_raw_is_not_sent_again() {
    let scratch = Scratch::new();
    let target = Arc::new(InProcess::new(&scratch).node(NodeKind::Generic { nsid: 2 }));
    let nvme = NvmeIoctl::new(Arc::clone(&target));
    let mut queue = nvme.queue(QueueOptions::default()).unwrap();
    let entry = Entry::new(VendorOpcode::KV_BULK_STORE.0, 0, 2);
    let data = RawData::ToDevice(Payload::copy_of(&[0; 64]).unwrap());
    let refused = queue.execute(RawCommand { entry, data }.into()).unwrap_err();
    assert!(refused.nvme_status().unwrap().is(Status::INVALID_OPCODE), "{refused}");
    assert_eq!((bulk_stores(target.passage()), target.passage().methods().bulk()), (1, false));
}

#[test]
fn a_device_without_bulk_stores_is_sent_pair_by_pair() {
    let scratch = Scratch::new();
    let target = Arc::new(InProcess::new(&scratch).plain().node(NodeKind::Generic { nsid: 2 }));
    let nvme = NvmeIoctl::new(Arc::clone(&target));
    assert!(!nvme.capabilities().bulk_store);
    let mut kv = over(&nvme, Queue::other);
    assert_eq!(kv.load(small_pairs()).unwrap(), 1000);
    assert_eq!(bulk_stores(target.passage()), 0);
    let pairs = Payload::copy_of(&[0; 64]).unwrap();
    let bulk = KvCommand::BulkStore { nsid: kv.nsid(), pairs, atomic: false };
    let refused = kv.queue().execute(bulk.into()).unwrap_err();
    assert!(refused.to_string().contains("did not announce bulk stores"), "{refused}");
}

#[test]
fn a_file_has_no_keys() {
    let scratch = Scratch::new();
    let device = byway::open(scratch.path.to_str().unwrap()).unwrap();
    let refused = device.kv(None).err().unwrap();
    assert!(refused.to_string().contains("no key-value namespace"), "{refused}");
}
