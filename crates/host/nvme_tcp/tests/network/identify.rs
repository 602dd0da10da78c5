//! What the controller for tests says of itself.

use byway_spec::Command;
use byway_spec::base::identify::{Cns, Controller, IdentifyCdw10, IndependentNamespace};
use byway_spec::base::register::Vs;
use byway_spec::nvm::{NvmController, NvmNamespace};
use zerocopy::{FromZeros, IntoBytes};

use crate::disk::BLOCKS;
use crate::habits::Habits;

/// The page that an Identify command asks for.
pub fn identify(command: &Command, habits: &Habits, is_discovery: bool) -> Vec<u8> {
    match IdentifyCdw10::from_bits(command.cdw10).cns() {
        Cns::CONTROLLER => {
            let mut controller = Controller::new_zeroed();
            controller.mn = *b"Test controller                         ";
            controller.ver = Vs::new().with_mjr(2).into_bits();
            controller.cdfs = 1;
            controller.ioccsz = (habits.capsule_bytes + 64) / 16;
            (controller.mdts, controller.kas, controller.maxcmd) = (habits.mdts, habits.kas, habits.maxcmd);
            controller.cntrltype = if is_discovery { 2 } else { 1 };
            (controller.oncs, controller.fuses, controller.acl_z) = (habits.oncs, habits.fuses, habits.acl_z);
            controller.as_bytes().to_vec()
        }
        Cns::NAMESPACE if command.nsid == 1 => {
            let mut namespace = NvmNamespace::new_zeroed();
            (namespace.nsze, namespace.ncap) = (BLOCKS as u64, BLOCKS as u64);
            namespace.dlfeat = habits.dlfeat;
            (namespace.mssrl, namespace.mcl, namespace.msrc_z) = (16, 24, 2);
            namespace.lbaf[0].set_lbads(9);
            namespace.as_bytes().to_vec()
        }
        Cns::INDEPENDENT_NAMESPACE => {
            let mut namespace = IndependentNamespace::new_zeroed();
            namespace.rescap = habits.rescap;
            namespace.as_bytes().to_vec()
        }
        Cns::SET_CONTROLLER => {
            let mut set = NvmController::new_zeroed();
            // Pages of 4 KiB, as powers of two.
            (set.vsl, set.wzsl) = (1, 2);
            (set.dmrl, set.dmrsl, set.dmsl) = (2, 100, 150);
            set.as_bytes().to_vec()
        }
        Cns::ACTIVE_NAMESPACES => {
            let mut list = vec![0; 4096];
            list[0] = u8::from(command.nsid == 0);
            list
        }
        _ => vec![0; 4096],
    }
}
