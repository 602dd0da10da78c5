//! The first PDU of either side, and what they agree on.

use byway_spec::tcp::{self, MAXH2CDATA_BYTES_MIN, PduType};
use zerocopy::little_endian::{U16, U32};

use crate::layout::common;
use crate::{Digests, Violation};

/// How data is aligned within a PDU, from its first byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Alignment(u8);

impl Alignment {
    /// What every peer takes: 4 bytes.
    pub const DWORD: Self = Self(0);

    /// From HPDA or CPDA: 0 to 31, a number of dwords less one.
    pub const fn from_dwords_z(dwords_z: u8) -> Option<Self> {
        if dwords_z <= 31 { Some(Self(dwords_z)) } else { None }
    }

    /// As HPDA or CPDA has it.
    pub const fn dwords_z(self) -> u8 {
        self.0
    }

    /// 4 to 128.
    pub const fn bytes(self) -> u8 {
        (self.0 + 1) * 4
    }
}

/// ICReq: a host's proposal. The default is Linux's: no digests, one R2T per command, dword alignment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IcReq {
    /// How data to the host is to be aligned (HPDA).
    pub alignment: Alignment,
    /// Digests the host would have.
    pub digests: Digests,
    /// R2Ts that may be outstanding for one command, zero-based (MAXR2T).
    pub max_r2t_z: u32,
}

/// ICResp: a controller's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcResp {
    /// How data to the controller is to be aligned (CPDA).
    pub alignment: Alignment,
    /// Digests the connection has.
    pub digests: Digests,
    /// Most data in one H2CData PDU (MAXH2CDATA): at least 4096, a multiple of 4.
    pub max_h2c_data_bytes: u32,
}

/// What a controller supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// How data to the controller is to be aligned; Linux takes nothing but dwords.
    pub alignment: Alignment,
    /// Digests a host may have.
    pub digests: Digests,
    /// Most data in one H2CData PDU; rounded to a multiple of 4, at least 4096.
    pub max_h2c_data_bytes: u32,
}

impl Default for Offer {
    /// Dwords, both digests, 128 KiB.
    fn default() -> Self {
        Self { alignment: Alignment::DWORD, digests: Digests::BOTH, max_h2c_data_bytes: 128 << 10 }
    }
}

/// What both sides hold to on one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreement {
    digests: Digests,
    to_host: Alignment,
    to_controller: Alignment,
    max_h2c_data_bytes: u32,
    max_r2t_z: u32,
}

impl Agreement {
    /// Digests of the connection.
    pub const fn digests(&self) -> Digests {
        self.digests
    }

    /// How data to the host is aligned.
    pub const fn to_host(&self) -> Alignment {
        self.to_host
    }

    /// How data to the controller is aligned.
    pub const fn to_controller(&self) -> Alignment {
        self.to_controller
    }

    /// Most data in one H2CData PDU.
    pub const fn max_h2c_data_bytes(&self) -> u32 {
        self.max_h2c_data_bytes
    }

    /// R2Ts that may be outstanding for one command, zero-based.
    pub const fn max_r2t_z(&self) -> u32 {
        self.max_r2t_z
    }

    const fn of(asked: &IcReq, answer: &IcResp) -> Self {
        Self {
            digests: answer.digests,
            to_host: asked.alignment,
            to_controller: answer.alignment,
            max_h2c_data_bytes: answer.max_h2c_data_bytes,
            max_r2t_z: asked.max_r2t_z,
        }
    }
}

/// The fields that ICReq and ICResp have in common.
fn checked(pfv: U16, alignment: u8) -> Result<Alignment, Violation> {
    if pfv.get() != 0 {
        return Err(Violation::Version(pfv.get()));
    }
    Alignment::from_dwords_z(alignment).ok_or(Violation::Alignment(alignment))
}

impl IcReq {
    pub(crate) fn parse(raw: &tcp::IcReq) -> Result<Self, Violation> {
        let alignment = checked(raw.pfv, raw.hpda_z)?;
        Ok(Self { alignment, digests: Digests::from_flags(raw.dgst), max_r2t_z: raw.maxr2t_z.get() })
    }

    /// The PDU as bytes.
    pub fn encode(&self) -> [u8; size_of::<tcp::IcReq>()] {
        let raw = tcp::IcReq {
            common: common(PduType::IC_REQ, size_of::<tcp::IcReq>()),
            pfv: U16::ZERO,
            hpda_z: self.alignment.dwords_z(),
            dgst: self.digests.flags(),
            maxr2t_z: U32::new(self.max_r2t_z),
            reserved_16: [0; 112],
        };
        zerocopy::transmute!(raw)
    }

    /// The answer of a controller that can do what `offer` says: digests that both want.
    pub fn answer(&self, offer: &Offer) -> (IcResp, Agreement) {
        let answer = IcResp {
            alignment: offer.alignment,
            digests: self.digests.and(offer.digests),
            max_h2c_data_bytes: (offer.max_h2c_data_bytes & !3).max(MAXH2CDATA_BYTES_MIN),
        };
        (answer, Agreement::of(self, &answer))
    }

    /// The agreement that follows from `answer`.
    ///
    /// # Errors
    /// If the controller uses digests other than proposed. It may decline them, but a host that requires data checks
    /// must not continue without them unnoticed: it must reconnect and propose less.
    pub fn accept(&self, answer: &IcResp) -> Result<Agreement, Violation> {
        if answer.digests != self.digests {
            return Err(Violation::Digests);
        }
        Ok(Agreement::of(self, answer))
    }
}

impl IcResp {
    pub(crate) fn parse(raw: &tcp::IcResp) -> Result<Self, Violation> {
        let alignment = checked(raw.pfv, raw.cpda_z)?;
        let max_h2c_data_bytes = raw.maxh2cdata_bytes.get();
        if max_h2c_data_bytes < MAXH2CDATA_BYTES_MIN || !max_h2c_data_bytes.is_multiple_of(4) {
            return Err(Violation::MaxH2cData(max_h2c_data_bytes));
        }
        Ok(Self { alignment, digests: Digests::from_flags(raw.dgst), max_h2c_data_bytes })
    }

    /// The PDU as bytes.
    pub fn encode(&self) -> [u8; size_of::<tcp::IcResp>()] {
        let raw = tcp::IcResp {
            common: common(PduType::IC_RESP, size_of::<tcp::IcResp>()),
            pfv: U16::ZERO,
            cpda_z: self.alignment.dwords_z(),
            dgst: self.digests.flags(),
            maxh2cdata_bytes: U32::new(self.max_h2c_data_bytes),
            reserved_16: [0; 112],
        };
        zerocopy::transmute!(raw)
    }
}
