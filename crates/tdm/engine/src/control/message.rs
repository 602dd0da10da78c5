//! Encoding of requests and replies.
//!
//! | bytes | |
//! |---|---|
//! | 0–3 | kind |
//! | 4–7 | version, the same at both ends |
//! | 8–39 | up to four words, by kind |
//! | 64–127 | of a welcome: description of the memory |

use crate::table::{EntryIndex, FileKey, Reason};
use byway_tdm_region::{EXPORT_BYTES, ExportDescription};
use thiserror::Error;

/// Bytes of a message.
pub const MESSAGE_BYTES: usize = 128;

/// An encoded message.
pub type Message = [u8; MESSAGE_BYTES];

/// Version: changes with a message, the shared file table, or the log format.
const VERSION: u32 = 4;

const EXPORT_AT: usize = MESSAGE_BYTES - EXPORT_BYTES;

/// A request of a program or of the command.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Request {
    /// Asks to be served: answered by [`Reply::Welcome`] with the shared file table and the memory.
    Hello,
    /// Asks to absorb the file of an entry, which comes along open for writing.
    Absorb(EntryIndex),
    /// Asks to demote a file to PASS, before it is renamed or handed on.
    Settle(EntryIndex),
    /// A user's order for a file.
    Order(Order, FileKey),
    /// Asks to promote the file of an entry, which comes along by the open file that writes it.
    Promote(EntryIndex),
    /// Asks to demote a DAX-resident file: the daemon is stopped more rarely than programs.
    Leave(EntryIndex, Reason),
    /// Asks for the report as JSON. The reply has its length; the text follows.
    Report,
}

/// A user's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Serve it at the highest level possible, whatever the policy says.
    Pin,
    /// Leave it to the policy again.
    Unpin,
    /// Demote it to PASS and keep it there.
    Evict,
    /// Really sync it, and keep its level.
    Drain,
    /// Load its log or resident file into the device's cache.
    Prefetch,
    /// Promote it to DAX, whatever the policy says.
    Promote,
}

/// The daemon's answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reply {
    /// The shared file table and the memory come along, in this order, then the model of a modelled device.
    Welcome(ExportDescription),
    /// Done.
    Done,
    /// Refused, for this reason.
    Refused(Reason),
    /// A text of this length follows.
    Text(u32),
    /// Not a request of this version.
    NotUnderstood,
}

/// Why a message cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NotUnderstood {
    /// Another version.
    #[error("the other end speaks version {0}, and this one version {VERSION}")]
    Version(u32),
    /// An unknown kind, or an invalid word.
    #[error("message {0} is not known here")]
    Kind(u32),
}

impl Order {
    /// All orders, by number.
    const ALL: [Self; 6] = [Self::Pin, Self::Unpin, Self::Evict, Self::Drain, Self::Prefetch, Self::Promote];
}

impl Request {
    /// Encodes it.
    #[must_use]
    pub fn encode(self) -> Message {
        match self {
            Self::Hello => message(1, [0; 4]),
            Self::Absorb(index) => message(2, [index.0.into(), 0, 0, 0]),
            Self::Settle(index) => message(3, [index.0.into(), 0, 0, 0]),
            Self::Order(order, key) => message(4, [order as u64, key.device, key.inode, key.born_ns]),
            Self::Report => message(5, [0; 4]),
            Self::Promote(index) => message(6, [index.0.into(), 0, 0, 0]),
            Self::Leave(index, why) => message(7, [index.0.into(), why.number().into(), 0, 0]),
        }
    }

    /// Decodes it.
    ///
    /// # Errors
    /// [`NotUnderstood`].
    pub fn decode(bytes: &Message) -> Result<Self, NotUnderstood> {
        let (kind, words) = parts(bytes)?;
        let unknown = NotUnderstood::Kind(kind);
        let index = || u32::try_from(words[0]).map(EntryIndex).map_err(|_| unknown);
        Ok(match kind {
            1 => Self::Hello,
            2 => Self::Absorb(index()?),
            3 => Self::Settle(index()?),
            4 => {
                let order = usize::try_from(words[0]).ok().and_then(|number| Order::ALL.get(number));
                let key = FileKey { device: words[1], inode: words[2], born_ns: words[3] };
                Self::Order(*order.ok_or(unknown)?, key)
            }
            5 => Self::Report,
            6 => Self::Promote(index()?),
            7 => Self::Leave(index()?, Reason::from_number(words[1] as u8)),
            _ => return Err(unknown),
        })
    }
}

impl Reply {
    /// Encodes it.
    #[must_use]
    pub fn encode(self) -> Message {
        match self {
            Self::Welcome(export) => {
                let mut bytes = message(101, [0; 4]);
                bytes[EXPORT_AT..].copy_from_slice(&export.to_bytes());
                bytes
            }
            Self::Done => message(102, [0; 4]),
            Self::Refused(why) => message(103, [why.number().into(), 0, 0, 0]),
            Self::Text(len) => message(104, [len.into(), 0, 0, 0]),
            Self::NotUnderstood => message(105, [0; 4]),
        }
    }

    /// Decodes it.
    ///
    /// # Errors
    /// [`NotUnderstood`].
    pub fn decode(bytes: &Message) -> Result<Self, NotUnderstood> {
        let (kind, words) = parts(bytes)?;
        let unknown = NotUnderstood::Kind(kind);
        Ok(match kind {
            101 => {
                let export = bytes.last_chunk().and_then(ExportDescription::from_bytes);
                Self::Welcome(export.ok_or(unknown)?)
            }
            102 => Self::Done,
            103 => Self::Refused(Reason::from_number(words[0] as u8)),
            104 => Self::Text(u32::try_from(words[0]).map_err(|_| unknown)?),
            105 => Self::NotUnderstood,
            _ => return Err(unknown),
        })
    }
}

fn message(kind: u32, words: [u64; 4]) -> Message {
    let mut bytes = [0; MESSAGE_BYTES];
    bytes[..4].copy_from_slice(&kind.to_le_bytes());
    bytes[4..8].copy_from_slice(&VERSION.to_le_bytes());
    for (place, word) in bytes[8..40].as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *place = word.to_le_bytes();
    }
    bytes
}

fn parts(bytes: &Message) -> Result<(u32, [u64; 4]), NotUnderstood> {
    let half = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    if half(4) != VERSION {
        return Err(NotUnderstood::Version(half(4)));
    }
    let word = |at: usize| u64::from(half(at)) | u64::from(half(at + 4)) << 32;
    Ok((half(0), [8, 16, 24, 32].map(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: FileKey = FileKey { device: 1 << 40, inode: 2, born_ns: u64::MAX };

    #[test]
    fn requests_decode_to_what_was_encoded() {
        let mut requests = vec![
            Request::Hello,
            Request::Absorb(EntryIndex(7)),
            Request::Settle(EntryIndex(u32::MAX)),
            Request::Report,
            Request::Promote(EntryIndex(7)),
            Request::Leave(EntryIndex(7), Reason::Outgrown),
        ];
        requests.extend(Order::ALL.map(|order| Request::Order(order, KEY)));
        for request in requests {
            assert_eq!(Request::decode(&request.encode()), Ok(request));
        }
    }

    #[test]
    fn replies_decode_to_what_was_encoded() {
        for reply in [Reply::Done, Reply::Text(9), Reply::NotUnderstood, Reply::Refused(Reason::Mapped)] {
            assert_eq!(Reply::decode(&reply.encode()), Ok(reply));
        }
    }

    #[test]
    fn unknown_versions_and_kinds_are_refused_by_name() {
        let mut bytes = Request::Hello.encode();
        bytes[4] = 9;
        assert_eq!(Request::decode(&bytes), Err(NotUnderstood::Version(9)));
        assert_eq!(Request::decode(&message(99, [0; 4])), Err(NotUnderstood::Kind(99)));
        assert_eq!(Request::decode(&message(4, [6, 0, 0, 0])), Err(NotUnderstood::Kind(4)));
        assert_eq!(Request::decode(&message(2, [1 << 32, 0, 0, 0])), Err(NotUnderstood::Kind(2)));
        assert_eq!(Reply::decode(&message(101, [0; 4])), Err(NotUnderstood::Kind(101)));
    }
}
