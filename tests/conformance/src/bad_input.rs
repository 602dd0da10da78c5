//! What is refused, with which words.

use byway_core::{
    Backend, BackendQueue, Command, ErrorKind, Key, KvCommand, Nsid, NvmCommand, QueueOptions, RawCommand,
    RawData, encode,
};

use crate::subject::Subject;

/// The failure of a command, whether it is refused or finishes with it, and whether its buffer came back.
fn failure<B: Backend>(subject: &Subject<'_, B>, command: Command) -> (ErrorKind, String, bool) {
    let mut queue = subject.queue(2);
    match queue.submit(command, 1) {
        Err(refused) => {
            let error = refused.error;
            (error.kind(), error.to_string(), refused.command.into_buffer().is_some())
        }
        Ok(()) => {
            let mut failed = None;
            queue.drain(&mut |finished| failed = finished.result.err()).unwrap();
            let failed = failed.expect("a failure");
            (failed.error.kind(), failed.error.to_string(), failed.buffer.is_some())
        }
    }
}

pub fn a_range_outside_the_namespace_is_refused_and_gives_the_buffer_back<B: Backend>(
    subject: &Subject<'_, B>,
) {
    for slba in [subject.blocks, subject.blocks - 1, u64::MAX - 1, 1 << 60] {
        let (kind, said, came_back) = failure(subject, subject.read(slba, 2));
        assert_eq!((kind, came_back), (ErrorKind::OutOfRange, true), "{said}");
        let (kind, said, _) = failure(subject, subject.write(slba, subject.filled(0, 2, 0)));
        assert_eq!(kind, ErrorKind::OutOfRange, "{said}");
    }
}

pub fn data_of_another_length_than_the_blocks_is_refused<B: Backend>(subject: &Subject<'_, B>) {
    for (blocks, into) in [(2, subject.empty(1)), (0, subject.empty(1)), (65_537, subject.empty(1))] {
        let read = NvmCommand::Read { nsid: Nsid::FIRST, slba: 0, blocks, into };
        let (kind, said, came_back) = failure(subject, read.into());
        assert!(matches!(kind, ErrorKind::InvalidArgument), "{kind:?}: {said}");
        assert!(came_back);
    }
}

pub fn another_namespace_is_refused_by_its_number<B: Backend>(subject: &Subject<'_, B>) {
    let nsid = Nsid::new(7).unwrap();
    let read = NvmCommand::Read { nsid, slba: 0, blocks: 1, into: subject.empty(1) };
    let (kind, said, _) = failure(subject, read.into());
    assert!(matches!(kind, ErrorKind::NotFound | ErrorKind::InvalidArgument), "{kind:?}: {said}");
}

pub fn a_queue_of_no_depth_is_refused_by_the_limits<B: Backend>(subject: &Subject<'_, B>) {
    for depth in [0, 65_536, u32::MAX] {
        let refused = subject.backend.queue(QueueOptions::default().depth(depth));
        let Err(refused) = refused else { panic!("a queue of depth {depth}") };
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
        assert!(refused.to_string().contains(&depth.to_string()), "{refused}");
    }
}

pub fn options_that_cannot_be_honoured_are_refused<B: Backend>(subject: &Subject<'_, B>) {
    let capabilities = subject.backend.capabilities();
    let transfer = capabilities.methods.iter().last().unwrap();
    let taken = QueueOptions::default().transfer(transfer);
    assert!(subject.backend.queue(taken).is_ok());
    for transfer in byway_core::Method::ALL {
        if !capabilities.methods.contains(transfer) {
            let refused = subject.backend.queue(QueueOptions::default().transfer(transfer));
            let Err(refused) = refused else { panic!("a queue of method {transfer}") };
            assert!(refused.to_string().contains(transfer.name()), "{refused}");
        }
    }
    let with_inline_reads = subject.backend.queue(QueueOptions::default().inline_reads(true));
    match capabilities.limits.inline_read_bytes {
        0 => assert_eq!(with_inline_reads.err().unwrap().kind(), ErrorKind::Unsupported),
        _ => assert!(with_inline_reads.is_ok()),
    }
}

pub fn key_value_commands_are_refused_by_a_namespace_of_blocks<B: Backend>(subject: &Subject<'_, B>) {
    let key = Key::new(b"key").unwrap();
    let (kind, said, _) = failure(subject, KvCommand::Delete { nsid: Nsid::FIRST, key }.into());
    assert!(matches!(kind, ErrorKind::Unsupported | ErrorKind::InvalidArgument), "{kind:?}: {said}");
}

pub fn an_unknown_opcode_is_refused_or_answered_with_a_failure<B: Backend>(subject: &Subject<'_, B>) {
    let mut entry = encode::encode(&subject.read(0, 1)).entry;
    entry.cdw0.set_opcode(0x7e);
    let raw = RawCommand { entry, data: RawData::FromDevice(subject.empty(1)) };
    let (kind, said, came_back) = failure(subject, Command::Raw(raw));
    assert!(matches!(kind, ErrorKind::Unsupported), "{kind:?}: {said}");
    assert!(came_back);
}
