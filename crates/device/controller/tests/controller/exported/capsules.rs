//! Exported namespaces over a fabric: data goes with the completion, whenever that comes.

use std::sync::Arc;

use byway_controller::{
    CapsuleData, Controller, ControllerId, DeviceMemory, Host, NoInterrupts, Port, Posted, Subsystem,
};
use byway_dma::{DmaSpace, DmaView};
use byway_link::{Meter, Profile};
use byway_queue::Doorbells;
use byway_spec::base::admin::{AbortCdw10, AdminOpcode};
use byway_spec::base::register::{Cc, Register};
use byway_spec::base::sgl::{SglDescriptor, SglKind};
use byway_spec::nvm::NvmOpcode;
use byway_spec::{Command, Completion, DataPointer, Status};
use parking_lot::Mutex;

use super::engine::{LBA_BYTES, State, TestEngine};
use super::{BLOCKS, pattern};
use crate::common::TestHost;
use crate::io::{QUEUE, blocks};

const NSID: u32 = 1;

/// A controller over a fabric, with one exported namespace.
struct Fabric {
    subsystem: Subsystem,
    controller: Controller,
    state: Arc<Mutex<State>>,
    nowhere: DmaView,
    meter: Meter,
    doorbells: Doorbells,
}

fn port<'a>(nowhere: &'a DmaView, meter: &'a mut Meter, capsule: Option<CapsuleData<'a>>) -> Port<'a> {
    let (interrupts, device_memory) = (&NoInterrupts, DeviceMemory::Nowhere);
    Port { memory: nowhere, meter, interrupts, own_memory: 0..0, device_memory, capsule, grants: None }
}

impl Fabric {
    fn new() -> Self {
        let mut subsystem = TestHost::new(8 << 20, &[]).subsystem;
        let (engine, state) = TestEngine::new(BLOCKS);
        assert_eq!(subsystem.export(Box::new(engine)).unwrap(), NSID);
        let controller =
            Controller::over_fabric(ControllerId(1), &mut subsystem, Host::Extended([1; 16]), None).unwrap();
        let meter = Meter::new(&Profile::by_name("gen4x4").unwrap());
        let nowhere = Arc::new(DmaSpace::new()).view();
        let doorbells = Doorbells::new(4);
        let mut fabric = Self { subsystem, controller, state, nowhere, meter, doorbells };
        fabric.controller.connect(0, 32).unwrap();
        let cc = Cc::new().with_css(Cc::CSS_IO_SETS).with_iosqes(Cc::IOSQES_64).with_iocqes(Cc::IOCQES_16);
        let cc = cc.with_en(true).into_bits();
        fabric.controller.write_register(&mut fabric.subsystem, &fabric.doorbells, Register::CC.0, cc);
        fabric.controller.connect(QUEUE, 32).unwrap();
        fabric
    }

    fn send(&mut self, mut command: Command, cid: u16, carried: Option<&[u8]>, room_bytes: usize) {
        let sgl = match carried {
            Some(data) => SglDescriptor::inline(data.len() as u32),
            None => SglDescriptor::new(SglKind::TRANSPORT_DATA_BLOCK, 0, room_bytes as u32),
        };
        command.set_sgl1(sgl);
        assert_eq!(command.cdw0.psdt(), DataPointer::Sgl);
        command.cdw0.set_cid(cid);
        let mut reply = vec![0; room_bytes];
        let capsule = Some(CapsuleData::new(carried, &mut reply));
        let mut port = port(&self.nowhere, &mut self.meter, capsule);
        let (subsystem, doorbells) = (&mut self.subsystem, &self.doorbells);
        self.controller.execute_capsule(subsystem, &mut port, doorbells, QUEUE, &command, 0).unwrap();
    }

    /// The next completion, which brings nothing, and how much its host has room for.
    fn take_without_data(&mut self) -> (Completion, u32) {
        match self.controller.take_posted(QUEUE) {
            Some(Posted { completion, data: None, room_bytes }) => (completion, room_bytes),
            other => panic!("{other:?}"),
        }
    }

    fn advance(&mut self) {
        let mut port = port(&self.nowhere, &mut self.meter, None);
        while let Some(done) = self.subsystem.next_done() {
            assert_eq!(done.owner, ControllerId(1));
            self.controller.complete_external(&mut self.subsystem, &mut port, &self.doorbells, done);
        }
    }

    fn places(&self) -> usize {
        self.state.lock().places
    }
}

#[test]
fn data_that_was_read_goes_with_its_completion_and_zeroes_behind_it() {
    let mut fabric = Fabric::new();
    let bytes = pattern(5, 2 * LBA_BYTES);
    fabric.send(blocks(NvmOpcode::WRITE, NSID, 3, 2), 10, Some(&bytes), 0);
    fabric.send(blocks(NvmOpcode::READ, NSID, 3, 2), 11, None, 2000);
    assert!(fabric.controller.take_posted(QUEUE).is_none());
    fabric.advance();
    let Some(Posted { completion, data: None, .. }) = fabric.controller.take_posted(QUEUE) else { panic!() };
    assert_eq!((completion.cid, completion.status()), (10, Status::SUCCESS));
    let Some(Posted { completion, data: Some(at), room_bytes: 2000 }) = fabric.controller.take_posted(QUEUE)
    else {
        panic!()
    };
    assert_eq!((completion.cid, at.reply.data_bytes, at.reply.room_bytes), (11, 1024, 2000));
    let mut room = [0xee; 2000];
    fabric.subsystem.take_data(&at, &mut room);
    assert_eq!((&room[..1024], &room[1024..]), (&bytes[..], &[0; 976][..]));
    assert_eq!(fabric.places(), 0);
}

#[test]
fn read_data_not_taken_by_a_connection_is_freed_when_it_ends() {
    let mut fabric = Fabric::new();
    fabric.send(blocks(NvmOpcode::READ, NSID, 0, 1), 1, None, LBA_BYTES);
    fabric.advance();
    fabric.state.lock().holds = true;
    fabric.send(blocks(NvmOpcode::READ, NSID, 1, 1), 2, None, LBA_BYTES);
    assert_eq!(fabric.places(), 2);
    fabric.controller.disconnect(&mut fabric.subsystem, QUEUE);
    assert_eq!(fabric.places(), 1);
    fabric.controller.connect(QUEUE, 32).unwrap();
    fabric.state.lock().holds = false;
    fabric.advance();
    assert!(fabric.controller.take_posted(QUEUE).is_none());
    assert_eq!(fabric.places(), 0);
}

#[test]
fn a_read_that_failed_brings_no_data() {
    let mut fabric = Fabric::new();
    fabric.state.lock().fails = Some(Status::UNRECOVERED_READ_ERROR);
    fabric.send(blocks(NvmOpcode::READ, NSID, 0, 1), 1, None, LBA_BYTES);
    fabric.advance();
    let (completion, room_bytes) = fabric.take_without_data();
    assert!(completion.status().is(Status::UNRECOVERED_READ_ERROR));
    assert_eq!(room_bytes, LBA_BYTES as u32, "what the host waits for is known all the same");
    assert_eq!(fabric.places(), 0);
}

#[test]
fn short_host_buffer_is_refused_before_the_engine_gets_the_command() {
    let mut fabric = Fabric::new();
    fabric.send(blocks(NvmOpcode::READ, NSID, 0, 2), 1, None, LBA_BYTES);
    let posted = fabric.controller.take_posted(QUEUE).unwrap();
    assert!(posted.completion.status().is(Status::DATA_SGL_LENGTH_INVALID));
    assert_eq!(fabric.places(), 0);
}

#[test]
fn data_not_taken_before_a_withdrawal_is_not_another_engines() {
    let mut fabric = Fabric::new();
    fabric.send(blocks(NvmOpcode::READ, NSID, 0, 1), 1, None, LBA_BYTES);
    fabric.advance();
    fabric.subsystem.withdraw(NSID).unwrap();
    let mut port = port(&fabric.nowhere, &mut fabric.meter, None);
    fabric.controller.fail_external(&mut port, NSID);
    assert_eq!(fabric.subsystem.export(Box::new(TestEngine::new(8).0)).unwrap(), NSID);
    let (completion, room_bytes) = fabric.take_without_data();
    assert!(completion.status().is(Status::NAMESPACE_NOT_READY));
    assert_eq!(room_bytes, LBA_BYTES as u32);
}

#[test]
fn a_controller_is_listed_until_nothing_of_it_is_under_way() {
    let mut fabric = Fabric::new();
    let other =
        Controller::over_fabric(ControllerId(2), &mut fabric.subsystem, Host::Extended([2; 16]), None);
    let listed = |subsystem: &Subsystem| subsystem.controllers().map(|id| id.0).collect::<Vec<_>>();
    let before = listed(&fabric.subsystem);
    assert!(before.contains(&1) && before.contains(&2));
    fabric.send(blocks(NvmOpcode::WRITE, NSID, 3, 2), 10, Some(&pattern(5, 2 * LBA_BYTES)), 0);
    let Fabric { mut subsystem, controller, .. } = fabric;
    other.unwrap().detach(&mut subsystem);
    assert!(!listed(&subsystem).contains(&2), "nothing of it was under way");
    controller.detach(&mut subsystem);
    assert!(listed(&subsystem).contains(&1), "the engine has a command of it");
    let done = subsystem.next_done().unwrap();
    assert!(!listed(&subsystem).contains(&1));
    subsystem.release_done(&done);
}

#[test]
fn a_controller_whose_command_was_aborted_is_not_listed_for_it() {
    let mut fabric = Fabric::new();
    fabric.state.lock().cancels = true;
    fabric.send(blocks(NvmOpcode::WRITE, NSID, 3, 2), 10, Some(&pattern(5, 2 * LBA_BYTES)), 0);
    let mut abort = Command::new(AdminOpcode::ABORT.0, 7, 0);
    abort.cdw10 = AbortCdw10::new().with_sqid(QUEUE).with_cid(10).into_bits();
    abort.set_sgl1(SglDescriptor::new(SglKind::TRANSPORT_DATA_BLOCK, 0, 0));
    let mut port = port(&fabric.nowhere, &mut fabric.meter, Some(CapsuleData::new(None, &mut [])));
    let (subsystem, doorbells) = (&mut fabric.subsystem, &fabric.doorbells);
    fabric.controller.execute_capsule(subsystem, &mut port, doorbells, 0, &abort, 0).unwrap();
    assert_eq!(fabric.controller.take_posted(0).unwrap().completion.dw0, 0);
    let Fabric { mut subsystem, controller, .. } = fabric;
    controller.detach(&mut subsystem);
    assert!(!subsystem.has_controller(ControllerId(1)));
}
