//! NVMe devices behind commands that are passed through, with a controller in this process in the kernel's place.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;

use byway_backends::nvme::NodeKind;
use byway_backends::{IoUringCmd, IoUringOptions, NvmeIoctl, NvmeTarget, Threads, ThreadsOptions};
use byway_conformance::admin::{an_event_loop_is_woken, several_go_on_at_once, too_many_come_back};
use byway_conformance::conformance;
use byway_conformance::passing::InProcess;
use byway_conformance::passing_ring;
use byway_conformance::scratch::Scratch;
use byway_conformance::subject::Subject;
use byway_core::{
    AdminCommand, AdminQueue, Backend, BackendQueue, Buffer, Command, ErrorKind, Key, KvCommand,
    NamespaceKind, Nsid, NvmCommand, Origin, Payload, QueueOptions, RawData, StoreOptions,
};

conformance!(nvme_ioctl, |scratch: &Scratch| NvmeIoctl::new(Arc::new(InProcess::blocks(scratch))));
conformance!(threads_over_nvme, |scratch: &Scratch| {
    Threads::new(Arc::new(InProcess::blocks(scratch)), ThreadsOptions::of(3)).unwrap()
});

conformance!(io_uring_cmd, passing_ring::blocks);
conformance!(io_uring_cmd_polled, passing_ring::polled);
conformance!(io_uring_cmd_whose_memory_the_kernel_does_not_find, passing_ring::misread);

#[test]
fn a_namespace_of_keys_takes_the_commands_of_keys_and_no_others() {
    let scratch = Scratch::new();
    let nvme = NvmeIoctl::new(Arc::new(InProcess::new(&scratch).node(NodeKind::Block { nsid: 2 })));
    let nsid = Nsid::new(2).unwrap();
    let namespaces = nvme.namespaces().unwrap();
    assert_eq!(namespaces.len(), 1);
    assert!(matches!(namespaces[0].kind, NamespaceKind::Kv { .. }) && namespaces[0].nsid == nsid);
    let mut queue = nvme.queue(QueueOptions::default()).unwrap();
    let (key, value) = (Key::new(b"key").unwrap(), Payload::copy_of(b"value").unwrap());
    queue.execute(KvCommand::Store { nsid, key, value, options: StoreOptions::NONE }.into()).unwrap();
    let into = Buffer::zeroed(100).unwrap();
    let read = queue.execute(KvCommand::Retrieve { nsid, key, into }.into()).unwrap();
    assert_eq!((read.dw0(), &read.buffer.unwrap().as_slice()[..5]), (5, b"value".as_slice()));
    queue.execute(KvCommand::Delete { nsid, key }.into()).unwrap();
    let gone = queue.execute(KvCommand::Exist { nsid, key }.into()).unwrap_err();
    assert_eq!((gone.kind(), gone.origin()), (ErrorKind::KeyNotFound, Origin::Device));
    let into = Buffer::zeroed(512).unwrap();
    let read = queue.execute(NvmCommand::Read { nsid, slba: 0, blocks: 1, into }.into()).unwrap_err();
    assert!(read.to_string().contains("namespace 2 is not one of blocks"), "{read}");
}

#[test]
fn a_controller_lists_its_namespaces_and_takes_admin_commands_alone() {
    let scratch = Scratch::new();
    let nvme = NvmeIoctl::new(Arc::new(InProcess::new(&scratch).node(NodeKind::Controller)));
    assert_eq!(nvme.namespaces().unwrap().len(), 2);
    assert!(nvme.identity().byway && nvme.capabilities().admin_commands);
    let refused = nvme.queue(QueueOptions::default()).err().unwrap();
    assert!(refused.to_string().contains("admin commands alone"), "{refused}");
    let log = AdminCommand::GetLog {
        log: 2,
        csi: 0,
        nsid: None,
        retain_event: true,
        offset_bytes: 0,
        into: Buffer::zeroed(512).unwrap(),
    };
    assert_eq!(nvme.admin(log).unwrap().buffer.unwrap().len(), 512);
}

#[test]
fn an_admin_command_may_bring_several_buffers() {
    let scratch = Scratch::new();
    let nvme = NvmeIoctl::new(Arc::new(InProcess::blocks(&scratch)));
    let identify = |into| AdminCommand::Identify { cns: 1, csi: 0, nsid: None, selector: 0, into };
    let whole = nvme.admin(identify(Buffer::zeroed(4096).unwrap())).unwrap().buffer.unwrap();
    let entry = byway_core::encode_admin(&identify(Buffer::zeroed(4096).unwrap())).entry;
    let parts = [1000, 3096].into_iter().map(|len| Buffer::zeroed(len).unwrap()).collect();
    let read = nvme.admin(AdminCommand::raw(entry, RawData::FromDeviceVectored(parts))).unwrap();
    let joined: Vec<u8> = read.vector.iter().flat_map(|part| part.as_slice().to_vec()).collect();
    assert_eq!(joined, whole.as_slice());
}

#[test]
fn a_namespace_that_is_formatted_is_known_by_its_new_blocks() {
    let scratch = Scratch::new();
    let nvme = NvmeIoctl::new(Arc::new(InProcess::blocks(&scratch)));
    let mut queue = nvme.queue(QueueOptions::default()).unwrap();
    let read = |bytes| {
        Command::from(NvmCommand::Read {
            nsid: Nsid::FIRST,
            slba: 0,
            blocks: 1,
            into: Buffer::zeroed(bytes).unwrap(),
        })
    };
    let bytes = |nvme: &NvmeIoctl<InProcess>| match nvme.namespaces().unwrap()[0].kind {
        NamespaceKind::Nvm { lba_bytes, .. } => lba_bytes as usize,
        ref other => panic!("{other:?}"),
    };
    let before = bytes(&nvme);
    queue.execute(read(before)).unwrap();
    let format = u8::from(before == 512);
    nvme.admin(AdminCommand::Format { nsid: Nsid::FIRST, format, erase: false }).unwrap();
    let after = bytes(&nvme);
    assert_ne!(before, after, "the device has formats of 512 and 4096 bytes");
    queue.execute(read(after)).unwrap();
    assert_eq!(queue.execute(read(before)).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn a_device_opened_for_reading_alone_refuses_what_changes_it() {
    let scratch = Scratch::new();
    let node = NodeKind::Generic { nsid: 1 };
    let target = NvmeTarget::new(InProcess::new(&scratch), "/dev/test".into(), node, true).unwrap();
    let nvme = NvmeIoctl::new(Arc::new(target));
    let nsid = Nsid::FIRST;
    let mut queue = nvme.queue(QueueOptions::default()).unwrap();
    queue.execute(NvmCommand::Flush { nsid }.into()).unwrap();
    let zeroes = NvmCommand::WriteZeroes { nsid, slba: 0, blocks: 1, deallocate: false };
    let refused = queue.execute(zeroes.into()).unwrap_err();
    assert_eq!((refused.kind(), refused.origin()), (ErrorKind::Denied, Origin::Host));
    let refused = nvme.admin(AdminCommand::Format { nsid, format: 0, erase: false }).unwrap_err();
    assert!(refused.to_string().contains("for reading alone"), "{refused}");
}

#[test]
fn admin_commands_go_on_by_themselves_on_a_ring_over_the_controllers_node() {
    let scratch = Scratch::new();
    let nvme = passing_ring::blocks(&scratch);
    let subject = Subject::new(&scratch, &nvme);
    let mut queue = passing_ring::admin(nvme.device());
    several_go_on_at_once(&subject, &mut queue);
    too_many_come_back(&mut queue);
    an_event_loop_is_woken(&mut queue);
    let into = Buffer::zeroed(4096).unwrap();
    let identify = AdminCommand::Identify { cns: 1, csi: 0, nsid: None, selector: 0, into };
    queue.submit(identify, 4).unwrap();
    queue.cancel(4).unwrap();
    let mut kinds = Vec::new();
    queue.drain(&mut |finished| kinds.push(finished.result.unwrap_err().error.kind())).unwrap();
    assert_eq!(kinds, [ErrorKind::Cancelled]);
}

#[test]
fn block_size_is_unknown_while_a_format_is_under_way() {
    let scratch = Scratch::new();
    let nvme = passing_ring::blocks(&scratch);
    let mut admin = passing_ring::admin(nvme.device());
    let mut queue = nvme.queue(QueueOptions::default()).unwrap();
    let read = || {
        let into = Buffer::zeroed(512).unwrap();
        Command::from(NvmCommand::Read { nsid: Nsid::FIRST, slba: 0, blocks: 1, into })
    };
    queue.execute(read()).unwrap();
    admin.submit(AdminCommand::Format { nsid: Nsid::FIRST, format: 0, erase: false }, 1).unwrap();
    assert_eq!(queue.execute(read()).unwrap_err().kind(), ErrorKind::Busy);
    admin.drain(&mut |finished| drop(finished.result.unwrap())).unwrap();
    queue.execute(read()).unwrap();
}

#[test]
fn a_ring_is_asked_of_character_devices_alone() {
    let scratch = Scratch::new();
    let refused = NvmeTarget::open(&scratch.path, false)
        .and_then(|target| IoUringCmd::new(Arc::new(target), IoUringOptions::default()));
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("is no node of an NVMe device"), "{refused}");
}

#[test]
fn path_other_than_an_nvme_node_is_refused_in_a_sentence() {
    let scratch = Scratch::new();
    let refused = |path: &Path| NvmeTarget::open(path, true).unwrap_err().to_string();
    for path in [scratch.path.as_path(), Path::new("/dev/null")] {
        assert!(refused(path).contains("is no node of an NVMe device"), "{}", refused(path));
    }
    assert!(refused(Path::new("/dev/nvme77n1")).contains("does not exist"));
}
