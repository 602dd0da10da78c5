//! No command is sent whose data is shorter than what the device will move for it.

use byway_core::{
    AdminCommand, BackendQueue, Buffer, Command, ErrorKind, KvCommand, Nsid, NvmCommand, RawCommand, RawData,
    Result, StoreOptions, encode,
};
use byway_link::Method;
use byway_spec::Command as Entry;
use byway_spec::base::admin::AdminOpcode;
use byway_spec::nvm::NvmOpcode;

use crate::scripted::{Script, blocks, device, key, queue};

fn read(nsid: Nsid, blocks: u32, bytes: usize) -> Command {
    NvmCommand::Read { nsid, slba: 0, blocks, into: Buffer::zeroed(bytes).unwrap() }.into()
}

/// What a queue says to a command that is submitted, and how long the buffer is that comes back with a refusal.
fn kind(queue: &mut impl BackendQueue, command: Command) -> Result<(), (ErrorKind, usize)> {
    queue.submit(command, 0).map_err(|refused| {
        (refused.error.kind(), refused.command.into_buffer().map_or(0, |buffer| buffer.len()))
    })
}

#[test]
fn blocks_and_buffers_of_different_lengths_are_refused_by_the_size_that_the_device_reports() {
    let (bus, mut queue) = queue(Method::Prp);
    for (count, bytes) in [(3, 1024), (1, 1024), (17, 8192), (65_536, 8192)] {
        assert_eq!(
            kind(&mut queue, read(blocks(), count, bytes)),
            Err((ErrorKind::InvalidArgument, bytes)),
            "{count} blocks into {bytes} bytes"
        );
    }
    assert!(bus.state().fetched.is_empty());
    assert_eq!(kind(&mut queue, read(blocks(), 16, 8192)), Ok(()));
    let asked = bus.state().identified.iter().filter(|nsid| **nsid == 2).count();
    assert_eq!(asked, 2, "its descriptors and its format, once");
}

#[test]
fn a_format_that_changes_the_size_of_blocks_is_noticed() {
    let (bus, driver) = device(Script::default());
    let mut queue = driver.queue(byway_core::QueueOptions::default()).unwrap();
    assert_eq!(kind(&mut queue, read(blocks(), 16, 8192)), Ok(()));
    driver.admin(AdminCommand::Format { nsid: blocks(), format: 0, erase: false }).unwrap();
    assert_eq!(kind(&mut queue, read(blocks(), 16, 8192)), Err((ErrorKind::InvalidArgument, 8192)));
    assert_eq!(kind(&mut queue, read(blocks(), 2, 8192)), Ok(()));
    assert_eq!(bus.state().fetched.len(), 2);
}

#[test]
fn a_call_with_a_wrong_size_of_blocks_is_refused_before_a_second_page_is_named() {
    let (bus, mut queue) = queue(Method::Prp);
    bus.state().lbads = 12;
    let read = queue.execute_read(blocks(), 0, 512, &mut [0; 8192]);
    assert_eq!(read.unwrap_err().kind(), ErrorKind::InvalidArgument);
    let written = queue.execute_write(blocks(), 0, 512, &[0; 8192]);
    assert_eq!(written.unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert!(bus.state().fetched.is_empty());
    queue.execute_write(blocks(), 0, 4096, &[0; 8192]).unwrap();
    assert_eq!(queue.outstanding(), 0);
}

#[test]
fn a_command_for_another_command_set_is_not_sent() {
    let (bus, mut queue) = queue(Method::Prp);
    assert_eq!(kind(&mut queue, read(Nsid::FIRST, 16, 8192)), Err((ErrorKind::InvalidArgument, 8192)));
    let nowhere = Nsid::new(9).unwrap();
    assert_eq!(kind(&mut queue, read(nowhere, 16, 8192)), Err((ErrorKind::NotFound, 8192)));
    // Taken for a write of one block, a long value is longer than that.
    bus.state().lbads = 16;
    let value = Buffer::zeroed(8192).unwrap().into();
    let store = KvCommand::Store { nsid: blocks(), key: key("k"), value, options: StoreOptions::NONE };
    assert_eq!(kind(&mut queue, store.into()), Err((ErrorKind::InvalidArgument, 8192)));
    assert!(bus.state().fetched.is_empty());
}

#[test]
fn a_raw_command_needs_the_memory_that_its_fields_say() {
    let (bus, mut queue) = queue(Method::Prp);
    let raw = |entry: Entry, data| Command::Raw(RawCommand { entry, data });
    let read = encode::blocks(NvmOpcode::READ, blocks(), 0, 15);
    let short = RawData::FromDevice(Buffer::zeroed(8191).unwrap());
    assert_eq!(kind(&mut queue, raw(read, short)), Err((ErrorKind::InvalidArgument, 8191)));
    let mut pointing = read;
    pointing.set_prps(0x1000, 0x2000);
    assert_eq!(kind(&mut queue, raw(pointing, RawData::None)), Err((ErrorKind::InvalidArgument, 0)));
    let mut with_metadata = read;
    with_metadata.mptr = 0x1000;
    let enough = || RawData::FromDevice(Buffer::zeroed(9000).unwrap());
    assert_eq!(kind(&mut queue, raw(with_metadata, enough())), Err((ErrorKind::Unsupported, 9000)));
    assert!(bus.state().fetched.is_empty());
    assert_eq!(kind(&mut queue, raw(read, enough())), Ok(()));
}

#[test]
fn an_admin_command_that_names_memory_by_itself_is_not_passed_through() {
    let (_, driver) = device(Script::default());
    let refused = |opcode: AdminOpcode, cdw10: u32, data| {
        let mut entry = Entry::new(opcode.0, 0, 0);
        entry.cdw10 = cdw10;
        driver.admin(AdminCommand::raw(entry, data)).unwrap_err().kind()
    };
    for opcode in [AdminOpcode::CREATE_CQ, AdminOpcode::DELETE_SQ, AdminOpcode::DOORBELL_BUFFER_CONFIG] {
        assert_eq!(refused(opcode, 1, RawData::None), ErrorKind::Unsupported);
    }
    assert_eq!(refused(AdminOpcode::SET_FEATURES, 0x0d, RawData::None), ErrorKind::Unsupported);
    let short = RawData::FromDevice(Buffer::zeroed(8192).unwrap());
    assert_eq!(refused(AdminOpcode::GET_LOG_PAGE, 0xffff_0002, short), ErrorKind::InvalidArgument);
}
