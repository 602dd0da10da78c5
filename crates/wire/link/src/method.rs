//! Transfer methods: how a command's payload crosses the link.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// How a command's payload crosses the link (docs/explanation/transfer-methods.md). Not `non_exhaustive`: driver and controller have to
/// implement each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Method {
    /// Physical region pages, as standard.
    Prp,
    /// Scatter-gather list, byte-exact.
    Sgl,
    /// In the command and in transfer commands that follow it on the same queue (BandSlim).
    Piggyback,
    /// Piggyback for a host whose kernel carries only part of the command.
    PiggybackPt,
    /// Whole pages by PRP, the tail piggybacked (BandSlim, conference version).
    PrpTail,
    /// In the submission queue slots after the command (ByteExpress).
    Inline,
    /// Up to 35 bytes in the command, else inline.
    Hybrid,
    /// Stored through device memory, the command carries the key alone (BandSlim CXL-FGT).
    Cxl,
    /// As `Cxl`, with the first 35 bytes in the command.
    CxlPiggyback,
    /// The cheapest of the others by a policy.
    Adaptive,
}

impl Method {
    /// Every method.
    pub const ALL: [Self; 10] = [
        Self::Prp,
        Self::Sgl,
        Self::Piggyback,
        Self::PiggybackPt,
        Self::PrpTail,
        Self::Inline,
        Self::Hybrid,
        Self::Cxl,
        Self::CxlPiggyback,
        Self::Adaptive,
    ];

    /// The methods that encode a payload themselves: all but `Adaptive`.
    pub const CONCRETE: [Self; 9] = [
        Self::Prp,
        Self::Sgl,
        Self::Piggyback,
        Self::PiggybackPt,
        Self::PrpTail,
        Self::Inline,
        Self::Hybrid,
        Self::Cxl,
        Self::CxlPiggyback,
    ];

    /// Whether the payload passes through device memory that the host stores into.
    pub const fn needs_device_memory(self) -> bool {
        matches!(self, Self::Cxl | Self::CxlPiggyback)
    }

    /// The name as it is written in URIs, options and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Prp => "prp",
            Self::Sgl => "sgl",
            Self::Piggyback => "piggyback",
            Self::PiggybackPt => "piggyback-pt",
            Self::PrpTail => "prp+tail",
            Self::Inline => "inline",
            Self::Hybrid => "hybrid",
            Self::Cxl => "cxl",
            Self::CxlPiggyback => "cxl+piggyback",
            Self::Adaptive => "adaptive",
        }
    }

    /// What the paper that published it calls it, which is taken for the name too.
    pub const fn published_as(self) -> Option<&'static str> {
        match self {
            Self::Inline => Some("byteexpress"),
            Self::Piggyback => Some("bandslim"),
            _ => None,
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for Method {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// A name that is no transfer method.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown transfer method {0:?}: expected prp, sgl, piggyback (BandSlim), piggyback-pt, prp+tail, inline (ByteExpress), hybrid, \
     cxl, cxl+piggyback or adaptive"
)]
pub struct UnknownMethod(pub String);

impl FromStr for Method {
    type Err = UnknownMethod;

    fn from_str(text: &str) -> Result<Self, UnknownMethod> {
        Self::ALL
            .into_iter()
            .find(|method| method.name() == text || method.published_as() == Some(text))
            .ok_or_else(|| UnknownMethod(text.to_owned()))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_method_parses_from_the_name_it_prints() {
        for method in Method::ALL {
            assert_eq!(method.to_string().parse::<Method>().unwrap(), method);
        }
        assert_eq!("byteexpress".parse::<Method>().unwrap(), Method::Inline);
    }

    #[test]
    fn the_error_names_every_method() {
        let message = "warp".parse::<Method>().unwrap_err().to_string();
        for method in Method::ALL {
            assert!(message.contains(method.name()), "{method}");
        }
    }
}
