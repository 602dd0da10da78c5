//! VERSION: what both sides can do, as JSON.

use serde::{Deserialize, Serialize};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::WireError;
use crate::layout::{put, take};

/// The first message of a client and the first reply of a server.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Version {
    /// Major version: both sides must have the same.
    pub major: u16,
    /// The reply's is at most the proposal's.
    pub minor: u16,
    /// Capabilities of the sender; absent members have the protocol's defaults.
    pub capabilities: Capabilities,
}

/// Capabilities of the sender of a version message. `None` means the protocol's default, which the methods return.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Capabilities {
    /// Descriptors that it takes with one message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_msg_fds: Option<u32>,
    /// Bytes of data that it takes with one message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_data_xfer_size: Option<u64>,
    /// Most mappings at the same time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_dma_maps: Option<u64>,
    /// Sizes of pages that mappings are made of, or'ed together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pgsizes: Option<u64>,
    /// Commands of the server on a socket of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub twin_socket: Option<TwinSocket>,
    /// Whether it knows REGION_WRITE_MULTI.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_multiple: Option<bool>,
}

/// The second socket, by which the server asks and the client answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TwinSocket {
    /// The sender can do it; in a reply: it is done.
    pub supported: bool,
    /// In a reply: which of its descriptors is the socket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fd_index: Option<u32>,
}

impl Capabilities {
    /// Most descriptors that the sender accepts per message; default 1.
    pub fn max_msg_fds(&self) -> u32 {
        self.max_msg_fds.unwrap_or(1)
    }

    /// Most data bytes that the sender accepts per message; default 1 MiB.
    pub fn max_data_xfer_size(&self) -> u64 {
        self.max_data_xfer_size.unwrap_or(1 << 20)
    }

    /// Most mappings that the sender keeps at the same time; default 65,535.
    pub fn max_dma_maps(&self) -> u64 {
        self.max_dma_maps.unwrap_or(65_535)
    }

    /// Supported page sizes; default 4 KiB.
    pub fn pgsizes(&self) -> u64 {
        self.pgsizes.unwrap_or(4096)
    }

    /// Whether the sender supports REGION_WRITE_MULTI; default false.
    pub fn write_multiple(&self) -> bool {
        self.write_multiple.unwrap_or(false)
    }

    /// Whether the sender supports a second socket; default false.
    pub fn has_twin_socket(&self) -> bool {
        self.twin_socket.is_some_and(|twin| twin.supported)
    }
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawVersion {
    major: u16,
    minor: u16,
}

#[derive(Serialize, Deserialize)]
struct Json {
    #[serde(default)]
    capabilities: Capabilities,
}

impl Version {
    pub(crate) fn parse(payload: &[u8]) -> Result<Self, WireError> {
        let (raw, text) = take::<RawVersion>(payload)?;
        // The text is optional and ends with a NUL, which the length includes; what follows it is not text.
        let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
        let capabilities = if text.is_empty() { Capabilities::default() } else { parse_json(text)? };
        Ok(Self { major: raw.major, minor: raw.minor, capabilities })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put(out, &RawVersion { major: self.major, minor: self.minor });
        let json = serde_json::to_string(&Json { capabilities: self.capabilities.clone() });
        // Numbers and booleans under fixed names always have a text.
        out.extend_from_slice(json.unwrap_or_default().as_bytes());
        out.push(0);
    }
}

fn parse_json(text: &[u8]) -> Result<Capabilities, WireError> {
    let json: Json = serde_json::from_slice(text).map_err(|e| WireError::BadCapabilities(e.to_string()))?;
    Ok(json.capabilities)
}
