//! Transfer methods the host may use: announced in the vendor area, enabled by the vendor feature.

use byway_link::Method;
use byway_spec::vendor::{Methods, VendorOpcode};

/// Methods of controllers with rings.
pub(super) const ANNOUNCED: Methods = Methods::new()
    .with_piggyback(true)
    .with_piggyback_pt(true)
    .with_prp_tail(true)
    .with_inline(true)
    .with_cxl(true)
    .with_cxl_piggyback(true)
    .with_bulk(true)
    .with_byte_store(true)
    .with_scan(true)
    .with_retrieve_many(true)
    .with_store_many(true)
    .with_delete_range(true)
    .with_inline_read(true);

/// Methods of controllers over fabrics, where values go in capsules.
pub(super) const FABRIC_METHODS: Methods = Methods::new()
    .with_bulk(true)
    .with_scan(true)
    .with_retrieve_many(true)
    .with_store_many(true)
    .with_delete_range(true);

/// Methods the host enabled since the last reset.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EnabledTransfers(pub(super) Methods);

impl EnabledTransfers {
    /// Whether payloads may follow commands in the ring.
    #[inline]
    pub fn inline(self) -> bool {
        self.0.inline()
    }

    /// Whether results may stand in completion queues, behind their completions.
    #[inline]
    pub fn inline_read(self) -> bool {
        self.0.inline_read()
    }

    /// Whether commands of `method` may be sent.
    #[inline]
    pub fn enabled(self, method: Method) -> bool {
        match method {
            // Standard, so never asked for.
            Method::Prp | Method::Sgl => true,
            Method::Piggyback => self.0.piggyback(),
            Method::PiggybackPt => self.0.piggyback_pt(),
            Method::PrpTail => self.0.prp_tail(),
            Method::Inline => self.0.inline(),
            Method::Hybrid => self.0.inline() && self.0.piggyback(),
            Method::Cxl => self.0.cxl(),
            Method::CxlPiggyback => self.0.cxl_piggyback(),
            // A choice of the host's; what it chooses is asked for by its own name.
            Method::Adaptive => true,
        }
    }

    /// Whether Store Many may be atomic.
    pub fn has_atomic_store_many(self) -> bool {
        self.0.store_many()
    }

    /// Whether there is a vendor command of this opcode, and the host enabled its transfer method.
    pub fn has_command(self, opcode: VendorOpcode) -> bool {
        match method_of(opcode) {
            Some(method) => self.enabled(method),
            None => match opcode {
                VendorOpcode::KV_BULK_STORE => self.0.bulk(),
                VendorOpcode::KV_SCAN => self.0.scan(),
                VendorOpcode::KV_RETRIEVE_MANY => self.0.retrieve_many(),
                VendorOpcode::KV_DELETE_RANGE => self.0.delete_range(),
                _ => false,
            },
        }
    }
}

fn method_of(opcode: VendorOpcode) -> Option<Method> {
    match opcode {
        VendorOpcode::KV_WRITE_PIGGYBACK | VendorOpcode::KV_TRANSFER => Some(Method::Piggyback),
        VendorOpcode::KV_WRITE_PT | VendorOpcode::KV_TRANSFER_PT => Some(Method::PiggybackPt),
        VendorOpcode::KV_STORE_PRP_TAIL => Some(Method::PrpTail),
        VendorOpcode::KV_STORE_CXL => Some(Method::Cxl),
        VendorOpcode::KV_STORE_CXL_PIGGYBACK => Some(Method::CxlPiggyback),
        _ => None,
    }
}
