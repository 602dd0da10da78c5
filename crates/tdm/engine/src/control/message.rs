//! Requests and replies as bytes and back.
//!
//! | bytes | |
//! |---|---|
//! | 0–3 | kind |
//! | 4–7 | version: both ends have the same |
//! | 8–39 | up to four words of the kind's own |
//! | 64–127 | of a welcome: what memory it is |

use crate::table::{EntryIndex, FileKey, Why};
use byway_tdm_region::{EXPORT_BYTES, ExportDescription};
use thiserror::Error;

/// Bytes of a message.
pub const MESSAGE_BYTES: usize = 128;

/// A message as it is sent.
pub type Message = [u8; MESSAGE_BYTES];

/// Changes whenever a message, the board or the log does.
const VERSION: u32 = 4;

const EXPORT_AT: usize = MESSAGE_BYTES - EXPORT_BYTES;

/// What a program, or somebody at a terminal, asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// To be served: answered by [`Reply::Welcome`] with the board and the memory.
    Hello,
    /// To absorb the file of an entry, which is handed over open for writing.
    Absorb(EntryIndex),
    /// To take a file down to the kernel, all of it synced below, before it is renamed or handed on.
    Settle(EntryIndex),
    /// To do something with a file by hand.
    Order(Order, FileKey),
    /// To make device memory the home of the file of an entry, which is handed over by the open file that writes it.
    House(EntryIndex),
    /// To bring a file below that is at home, for this reason: who is asked stands still less often than who asks.
    Leave(EntryIndex, Why),
    /// All that there is to tell, as JSON: its length comes in the reply, the text behind it.
    Report,
}

/// What can be done with a file by hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Serve it as well as can be, whatever the policy says.
    Pin,
    /// Have the policy decide again.
    Unpin,
    /// Take it down to the kernel and leave it there.
    Evict,
    /// Sync all of it below, and go on.
    Drain,
    /// Have its log in the device's cache, ahead of what is written.
    Prefetch,
    /// Make device memory its home, whatever the policy says.
    House,
}

/// What the daemon answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// The board and the memory come along, in this order, and behind them the model of a device that is modelled.
    Welcome(ExportDescription),
    /// It is done.
    Done,
    /// It is not done, for this reason.
    Refused(Why),
    /// Text of this length follows.
    Text(u32),
    /// Nothing of the kind is served here.
    NotUnderstood,
}

/// Bytes that are no message of this version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NotUnderstood {
    /// The other end is of another version.
    #[error("the other end speaks version {0}, and this one version {VERSION}")]
    Version(u32),
    /// A kind, or a word of it, that there is not.
    #[error("message {0} is not known here")]
    Kind(u32),
}

impl Order {
    /// All of them, by their number.
    const ALL: [Self; 6] = [Self::Pin, Self::Unpin, Self::Evict, Self::Drain, Self::Prefetch, Self::House];
}

impl Request {
    /// As it is sent.
    #[must_use]
    pub fn encode(self) -> Message {
        match self {
            Self::Hello => message(1, [0; 4]),
            Self::Absorb(index) => message(2, [index.0.into(), 0, 0, 0]),
            Self::Settle(index) => message(3, [index.0.into(), 0, 0, 0]),
            Self::Order(order, key) => message(4, [order as u64, key.device, key.inode, key.born_ns]),
            Self::Report => message(5, [0; 4]),
            Self::House(index) => message(6, [index.0.into(), 0, 0, 0]),
            Self::Leave(index, why) => message(7, [index.0.into(), why as u64, 0, 0]),
        }
    }

    /// What was sent.
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
            6 => Self::House(index()?),
            7 => Self::Leave(index()?, Why::from_number(words[1] as u8)),
            _ => return Err(unknown),
        })
    }
}

impl Reply {
    /// As it is sent.
    #[must_use]
    pub fn encode(self) -> Message {
        match self {
            Self::Welcome(export) => {
                let mut bytes = message(101, [0; 4]);
                bytes[EXPORT_AT..].copy_from_slice(&export.to_bytes());
                bytes
            }
            Self::Done => message(102, [0; 4]),
            Self::Refused(why) => message(103, [why as u64, 0, 0, 0]),
            Self::Text(len) => message(104, [len.into(), 0, 0, 0]),
            Self::NotUnderstood => message(105, [0; 4]),
        }
    }

    /// What was sent.
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
            103 => Self::Refused(Why::from_number(words[0] as u8)),
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
    fn requests_arrive_as_they_were_sent() {
        let mut requests = vec![
            Request::Hello,
            Request::Absorb(EntryIndex(7)),
            Request::Settle(EntryIndex(u32::MAX)),
            Request::Report,
            Request::House(EntryIndex(7)),
            Request::Leave(EntryIndex(7), Why::Outgrown),
        ];
        requests.extend(Order::ALL.map(|order| Request::Order(order, KEY)));
        for request in requests {
            assert_eq!(Request::decode(&request.encode()), Ok(request));
        }
    }

    #[test]
    fn replies_arrive_as_they_were_sent() {
        for reply in [Reply::Done, Reply::Text(9), Reply::NotUnderstood, Reply::Refused(Why::Mapped)] {
            assert_eq!(Reply::decode(&reply.encode()), Ok(reply));
        }
    }

    #[test]
    fn another_version_and_other_kinds_are_named() {
        let mut bytes = Request::Hello.encode();
        bytes[4] = 9;
        assert_eq!(Request::decode(&bytes), Err(NotUnderstood::Version(9)));
        assert_eq!(Request::decode(&message(99, [0; 4])), Err(NotUnderstood::Kind(99)));
        assert_eq!(Request::decode(&message(4, [6, 0, 0, 0])), Err(NotUnderstood::Kind(4)));
        assert_eq!(Request::decode(&message(2, [1 << 32, 0, 0, 0])), Err(NotUnderstood::Kind(2)));
        assert_eq!(Reply::decode(&message(101, [0; 4])), Err(NotUnderstood::Kind(101)));
    }
}
