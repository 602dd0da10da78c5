//! What a device offers beyond the standard that is of use behind a kernel, and whether it is enabled there: only what
//! was announced and enabled is sent.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use byway_core::{Error, ErrorKind, KvCommands, Limits, Methods, piggyback_pt};
use byway_link::Method;
use byway_spec::base::identify::Controller;
use byway_spec::vendor::{self, WRITE_PT_BYTES};

/// Stores in pieces (`piggyback-pt`) and of many pairs, as the device announced them in the vendor area of Identify
/// Controller.
#[derive(Debug, Default)]
pub(super) struct Offer {
    /// Longest value in pieces, 0 where the device takes none.
    pub max_bytes: u64,
    /// Most unfinished payloads.
    pub unfinished: u16,
    /// Whether values in pieces are enabled.
    pub pieces: Enabled,
    /// Longest payload of many pairs, 0 where the device takes none.
    pub bulk_max_bytes: u32,
    /// Commands on ranges of keys and on many keys.
    pub kv: KvCommands,
    /// Limits of those.
    pub kv_limits: Limits,
    /// Whether bulk stores and the commands of `kv` are enabled.
    pub extensions: Enabled,
}

/// Longest bound of a range that the kernel passes on: CDW12 and CDW13.
const BOUND_BYTES_MAX: u32 = 8;

/// Whether an announced feature is enabled on the device.
#[derive(Debug, Default)]
pub(super) struct Enabled(AtomicU8);

/// Not enabled yet, or the device has been reset since.
const UNTOLD: u8 = 0;
/// Enabled.
const ENABLED: u8 = 1;
/// The device refused to enable it.
const REFUSED: u8 = 2;

impl Offer {
    /// What a controller announced.
    pub(super) fn of(controller: &Controller) -> Self {
        let vendor = &controller.vendor;
        let mut offer = Self::default();
        if vendor.is_known() && vendor.methods.piggyback_pt() {
            offer.max_bytes = u64::from(vendor.piggyback_max_bytes).min(piggyback_pt::VALUE_MAX_BYTES);
            offer.unfinished = u16::try_from(vendor.pt_payloads_max).unwrap_or(u16::MAX);
        }
        if vendor.is_known() && vendor.methods.bulk() {
            offer.bulk_max_bytes = vendor.bulk_max_bytes;
        }
        // The kernel maps data for one direction, and passes no metadata pointer on, where a long bound ends.
        offer.kv = KvCommands::of(vendor).without_retrieve_many();
        offer.kv_limits = Limits::default().with_kv(vendor, BOUND_BYTES_MAX);
        offer
    }

    /// What is enabled for bulk stores and the commands of `kv`.
    pub(super) fn extension_methods(&self) -> vendor::Methods {
        self.kv.methods().with_bulk(self.bulk_max_bytes > 0)
    }

    /// Whether values can go in pieces.
    pub(super) fn has_pieces(&self) -> bool {
        self.max_bytes > 0
    }

    /// Transfer methods that can be asked for. Between PRPs and SGLs the kernel chooses.
    pub(super) fn methods(&self) -> Methods {
        let standard = Methods::NONE.with(Method::Prp).with(Method::Adaptive);
        if self.has_pieces() { standard.with(Method::PiggybackPt) } else { standard }
    }

    /// Whether a method carries a value of `value_bytes` in pieces, once it is enabled.
    pub(super) fn carries(&self, method: Method, value_bytes: u64) -> bool {
        let most = match method {
            Method::PiggybackPt => self.max_bytes,
            // What fits the first command costs fewer bytes than a descriptor and its data, and the kernel less time. With
            // another command it is more of both.
            Method::Adaptive => self.max_bytes.min(WRITE_PT_BYTES as u64),
            _ => return false,
        };
        value_bytes <= most && self.has_pieces() && !self.pieces.is_refused()
    }
}

impl Enabled {
    pub(super) fn is_enabled(&self) -> bool {
        self.0.load(Relaxed) == ENABLED
    }

    fn is_refused(&self) -> bool {
        self.0.load(Relaxed) == REFUSED
    }

    /// Records the device's answer: enabled, or refused.
    pub(super) fn set(&self, agreed: bool) {
        self.0.store(if agreed { ENABLED } else { REFUSED }, Relaxed);
    }

    /// The device knows of it no more: it was reset.
    pub(super) fn forgotten(&self) {
        self.0.store(UNTOLD, Relaxed);
    }
}

/// Whether the status means that the device lacks the feature.
pub(super) fn is_refusal(error: &Error) -> bool {
    let said = matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::InvalidArgument);
    error.nvme_status().is_some_and(|status| status.dnr() || said)
}

#[cfg(test)]
mod tests {
    use byway_spec::Status;

    use super::*;

    #[test]
    fn only_a_refusing_status_marks_a_method_as_unsupported() {
        for status in [Status::INVALID_FIELD, Status::INVALID_OPCODE, Status::INTERNAL_ERROR.with_dnr()] {
            assert!(is_refusal(&Error::status(status)), "{status}");
        }
        let busy = std::io::Error::from(std::io::ErrorKind::ResourceBusy);
        for error in [Error::kernel("busy", busy), Error::status(Status::ABORT_REQUESTED)] {
            assert!(!is_refusal(&error), "{error}");
        }
    }
}
