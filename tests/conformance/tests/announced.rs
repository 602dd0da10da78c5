//! What a controller did not announce is not sent to it: a real controller, in front of which announcements are left out and every
//! command is held against what was left.

#![allow(clippy::unwrap_used)]

use std::io;
use std::sync::Arc;

use byway_backends::NvmeIoctl;
use byway_backends::nvme::{NodeKind, NvmeAnswer, NvmeCommand, NvmeQueue, NvmeTarget, Passage};
use byway_conformance::passing::InProcess;
use byway_conformance::scratch::Scratch;
use byway_core::{
    AdminCommand, Backend, BackendQueue, Buffer, Command, CopyRanges, ErrorKind, LbaRange, LbaRanges, Memory,
    Nsid, NvmCommand, Payload, QueueOptions,
};
use byway_spec::base::admin::AdminOpcode;
use byway_spec::base::feature::{FeatureCdw10, FeatureId};
use byway_spec::base::identify::{Cns, Controller, IdentifyCdw10, Oacs, Oncs};
use byway_spec::base::log::LogPage;
use byway_spec::nvm::{NvmCdw12, NvmNamespace, NvmOpcode};
use byway_spec::vendor::VendorArea;
use zerocopy::{FromBytes, FromZeros};

const NSID: Nsid = Nsid::FIRST;

/// What is left of a controller's announcements.
#[derive(Clone, Copy)]
struct Left {
    oncs: Oncs,
    oacs: Oacs,
    lpa: u8,
    dlfeat: u8,
}

/// A controller that announces no more than is left, and whose commands are held against that.
struct Masked {
    inner: InProcess,
    left: Left,
}

impl Passage for Masked {
    fn pass(&self, command: &NvmeCommand, memory: &mut Memory) -> io::Result<NvmeAnswer> {
        match command.queue {
            NvmeQueue::Admin => self.check_admin(command),
            NvmeQueue::Io => self.check_io(command),
        }
        let answer = self.inner.pass(command, memory)?;
        if command.queue == NvmeQueue::Admin && command.opcode == AdminOpcode::IDENTIFY.0 {
            self.mask(IdentifyCdw10::from_bits(command.cdw10_15[0]).cns(), memory);
        }
        Ok(answer)
    }

    fn reset(&self) -> io::Result<()> {
        self.inner.reset()
    }
}

impl Masked {
    fn mask(&self, cns: Cns, memory: &mut Memory) {
        let page = memory.buffers_mut().first_mut().unwrap().as_mut_slice();
        match cns {
            Cns::CONTROLLER => {
                let controller = Controller::mut_from_bytes(page).unwrap();
                (controller.oncs, controller.oacs) = (self.left.oncs, self.left.oacs);
                (controller.lpa, controller.vendor) = (self.left.lpa, VendorArea::new_zeroed());
            }
            Cns::NAMESPACE => NvmNamespace::mut_from_bytes(page).unwrap().dlfeat = self.left.dlfeat,
            _ => {}
        }
    }

    fn check_io(&self, command: &NvmeCommand) {
        let (left, cdw12) = (self.left, NvmCdw12::from_bits(command.cdw10_15[2]));
        let announced = match NvmOpcode(command.opcode) {
            NvmOpcode::FLUSH | NvmOpcode::READ | NvmOpcode::WRITE => true,
            NvmOpcode::COMPARE => left.oncs.compare(),
            NvmOpcode::DATASET_MANAGEMENT => left.oncs.dataset_management(),
            NvmOpcode::WRITE_ZEROES => left.oncs.write_zeroes() && (left.dlfeat & 8 != 0 || !cdw12.deac()),
            NvmOpcode::VERIFY => left.oncs.verify(),
            NvmOpcode::COPY => left.oncs.copy(),
            _ => false,
        };
        assert!(announced, "{command:?} was not announced");
    }

    fn check_admin(&self, command: &NvmeCommand) {
        let (left, cdw10) = (self.left, command.cdw10_15[0]);
        let feature = FeatureCdw10::from_bits(cdw10);
        let is_timestamp = feature.fid() == FeatureId::TIMESTAMP;
        let announced = match AdminOpcode(command.opcode) {
            AdminOpcode::IDENTIFY => true,
            AdminOpcode::GET_FEATURES => {
                (feature.sel().0 == 0 || left.oncs.save_select()) && (!is_timestamp || left.oncs.timestamp())
            }
            AdminOpcode::SET_FEATURES => {
                (!feature.sv() || left.oncs.save_select()) && (!is_timestamp || left.oncs.timestamp())
            }
            AdminOpcode::GET_LOG_PAGE => command.cdw10_15[1..4] == [0; 3] || left.lpa & 4 != 0,
            AdminOpcode::FORMAT_NVM => left.oacs.format(),
            _ => false,
        };
        assert!(announced, "{command:?} was not announced");
    }
}

/// Every command of blocks, with the options that there are.
fn all_io() -> Vec<Command> {
    let range = [LbaRange { slba: 0, blocks: 1 }];
    let data = || Payload::copy_of(&[0; 512]).unwrap();
    let into = || Buffer::zeroed(512).unwrap();
    let (nsid, slba, blocks) = (NSID, 0, 1);
    let all = vec![
        NvmCommand::Read { nsid, slba, blocks, into: into() },
        NvmCommand::Write { nsid, slba, blocks, data: data() },
        NvmCommand::Flush { nsid },
        NvmCommand::Compare { nsid, slba, blocks, data: data() },
        NvmCommand::WriteZeroes { nsid, slba, blocks, deallocate: true },
        NvmCommand::WriteZeroes { nsid, slba, blocks, deallocate: false },
        NvmCommand::Deallocate { nsid, ranges: LbaRanges::new(&range).unwrap() },
        NvmCommand::Verify { nsid, slba, blocks },
        NvmCommand::Copy { nsid, to: 8, from: CopyRanges::new(&range).unwrap() },
    ];
    all.into_iter().map(Command::from).collect()
}

/// Admin commands with every option.
fn all_admin() -> Vec<AdminCommand> {
    let get = |feature: FeatureId, select| AdminCommand::GetFeature {
        feature: feature.0,
        select,
        nsid: None,
        cdw11: 0,
        into: None,
    };
    let log = |offset_bytes| {
        let (log, into) = (LogPage::ERROR.0, Buffer::zeroed(512).unwrap());
        AdminCommand::GetLog { log, csi: 0, nsid: None, retain_event: true, offset_bytes, into }
    };
    let (feature, data) = (FeatureId::ERROR_RECOVERY.0, Payload::Empty);
    let set = AdminCommand::SetFeature { feature, save: true, nsid: Some(NSID), cdw11: 0, cdw12: 0, data };
    let selects = (0..4).map(|select| get(FeatureId::ASYNC_EVENTS, select));
    let format = AdminCommand::Format { nsid: NSID, format: 0, erase: false };
    selects.chain([get(FeatureId::TIMESTAMP, 0), set, log(0), log(64), format]).collect()
}

/// Sends everything to a controller of which this is left; how many commands it refused before they were sent.
fn refused(left: Left) -> usize {
    let scratch = Scratch::new();
    let masked = Masked { inner: InProcess::new(&scratch), left };
    let target = NvmeTarget::new(masked, "/dev/test".into(), NodeKind::Block { nsid: 1 }, false).unwrap();
    let nvme = NvmeIoctl::new(Arc::new(target));
    let mut queue = nvme.queue(QueueOptions::default()).unwrap();
    let io: Vec<_> = all_io().into_iter().map(|command| queue.execute(command).err()).collect();
    let admin = all_admin().into_iter().map(|command| nvme.admin(command).err());
    let refused = io.into_iter().chain(admin).flatten();
    let refused =
        refused.filter(|error| error.kind() == ErrorKind::Unsupported && error.nvme_status().is_none());
    refused.inspect(|error| assert!(error.to_string().contains("did not announce"), "{error}")).count()
}

#[test]
fn commands_that_were_not_announced_are_never_sent() {
    let all = Left {
        oncs: Oncs::from_bits(u16::MAX >> 7),
        oacs: Oacs::new().with_format(true),
        lpa: 1 << 2,
        dlfeat: 9,
    };
    assert_eq!(refused(all), 0);
    let none = Left { oncs: Oncs::new(), oacs: Oacs::new(), lpa: 0, dlfeat: 0 };
    assert_eq!(refused(none), 6 + 7);
    assert_eq!(refused(Left { dlfeat: 1, ..all }), 0);
    let without = |bit: u16| Left { oncs: Oncs::from_bits(all.oncs.into_bits() & !(1 << bit)), ..all };
    let by_bit: Vec<usize> = (0..9).map(|bit| refused(without(bit))).collect();
    assert_eq!(by_bit, [1, 0, 1, 2, 4, 0, 1, 1, 1]);
    assert_eq!(refused(Left { lpa: 0, ..all }), 1);
    assert_eq!(refused(Left { oacs: Oacs::new(), ..all }), 1);
}
