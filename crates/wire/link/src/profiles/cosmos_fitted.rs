//! `cosmos-fitted`: `cosmos` with five times fitted to figures of the papers, where no source gives them.
//!
//! *Fitted*: what `byway-lab fit` finds nearest to `cosmos` among all values under which the largest set of the papers' claims of
//! time holds (docs/decisions/0091-a-fit-of-the-papers-times.md); a test of `byway-lab` compares them. Other values satisfy the
//! same claims: the fit says what a command, a page and a chunk take together, and not which of their steps takes it. Everything
//! else is as under `cosmos`, SGLs too.

use super::{cosmos, ns};
use crate::profile::{Firmware, HostCosts, Profile};

pub fn profile() -> Profile {
    Profile { name: "cosmos-fitted", firmware: FIRMWARE, host: HOST, ..cosmos::profile() }
}

const FIRMWARE: Firmware = Firmware {
    // Beside the register accesses: fitted.
    command_ps: cosmos::FIRMWARE.command_ps + ns(1_513),
    // Beside three writes and one poll: fitted.
    prp_page_ps: cosmos::FIRMWARE.prp_page_ps + ns(9_072),
    // Fitted: a value's bytes in a command are copied, at most 64 at a time.
    copy_line_ps: ns(633),
    ..cosmos::FIRMWARE
};

const HOST: HostCosts = HostCosts {
    // Fitted: the lower bound.
    map_page_ps: ns(50),
    // Fitted: of the machine with the CXL expander that the authors measured.
    cxl_line_ps: ns(675),
    ..cosmos::HOST
};
