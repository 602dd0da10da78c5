//! Data that fades: blocks that are read too often, or hold their data too long, and how it is moved in time.
//!
//! A model, and off unless asked for. Each read of a page disturbs its block; the array's clock for ages is the number of
//! pages it programmed, so that a run ages the same every time. Blocks that are still being filled do not fade. Past a limit what a block holds can no longer be read.
//! With refresh on it is moved before, charged to [`Cause::Refresh`](crate::Cause::Refresh).

use std::str::FromStr;

use thiserror::Error;

use crate::block::BlockUse;
use crate::blocks::BlockTable;
use crate::geometry::BlockId;

/// Limits of what blocks endure between two erases.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fading {
    /// Page reads that a block stands; `None` for any number.
    pub reads_limit: Option<u32>,
    /// Pages that the device may program after a block was filled; `None` for any number.
    pub age_limit: Option<u64>,
    /// Move data away before a limit is reached.
    pub refresh: bool,
}

/// A text that is no description of fading.
#[derive(Debug, Error)]
#[error(
    "{0:?} is no part of how data fades: expected reads=N, age=N (pages programmed) or refresh, joined by commas, with a limit"
)]
pub struct BadFading(String);

/// Reads `reads=100000,age=5000000,refresh`: one limit at least, each above zero.
impl FromStr for Fading {
    type Err = BadFading;

    fn from_str(text: &str) -> Result<Self, BadFading> {
        let mut fading = Self::default();
        for part in text.split(',') {
            match part.split_once('=') {
                Some(("reads", limit)) => fading.reads_limit = Some(above_zero(part, limit)?),
                Some(("age", limit)) => fading.age_limit = Some(above_zero(part, limit)?),
                None if part == "refresh" => fading.refresh = true,
                _ => return Err(BadFading(part.to_owned())),
            }
        }
        if fading.is_on() { Ok(fading) } else { Err(BadFading(text.to_owned())) }
    }
}

fn above_zero<T: FromStr + Default + PartialEq>(part: &str, limit: &str) -> Result<T, BadFading> {
    let limit = limit.parse().ok().filter(|limit| *limit != T::default());
    limit.ok_or_else(|| BadFading(part.to_owned()))
}

impl Fading {
    /// Whether there is any limit.
    pub(crate) const fn is_on(&self) -> bool {
        self.reads_limit.is_some() || self.age_limit.is_some()
    }

    /// Whether what a block holds can no longer be read.
    pub(crate) fn is_lost(&self, block: BlockId, blocks: &BlockTable) -> bool {
        blocks.get(block).used_for == BlockUse::Full && self.is_past(blocks.reads(block), blocks.age(block))
    }

    /// Whether a full block is near a limit.
    pub(crate) fn should_refresh(&self, block: BlockId, blocks: &BlockTable) -> bool {
        blocks.get(block).used_for == BlockUse::Full && self.is_near(blocks.reads(block), blocks.age(block))
    }

    /// A full block that is near a limit, where data is to be refreshed.
    pub(crate) fn block_to_refresh(&self, blocks: &BlockTable) -> Option<BlockId> {
        if !self.refresh || !self.is_on() {
            return None;
        }
        blocks.iter().map(|(id, _)| id).find(|id| self.should_refresh(*id, blocks))
    }

    fn is_past(&self, reads: u32, age: u64) -> bool {
        self.reads_limit.is_some_and(|limit| reads >= limit)
            || self.age_limit.is_some_and(|limit| age >= limit)
    }

    /// Whether three quarters of a limit are reached: the rest is time to move.
    fn is_near(&self, reads: u32, age: u64) -> bool {
        let near = |limit: u64| limit - limit / 4;
        self.reads_limit.is_some_and(|limit| u64::from(reads) >= near(limit.into()))
            || self.age_limit.is_some_and(|limit| age >= near(limit))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn limits_and_refresh_are_read_from_a_list() {
        let all = Fading { reads_limit: Some(400), age_limit: Some(1 << 40), refresh: true };
        assert_eq!("reads=400,age=1099511627776,refresh".parse::<Fading>().unwrap(), all);
        let aged = Fading { reads_limit: None, age_limit: Some(7), refresh: false };
        assert_eq!("age=7".parse::<Fading>().unwrap(), aged);
    }

    #[test]
    fn what_is_no_limit_is_named() {
        for (text, part) in [
            ("refresh", "\"refresh\""),
            ("", "\"\""),
            ("reads=0", "\"reads=0\""),
            ("reads=5000000000", "\"reads=5000000000\""),
            ("age=3,wear=1", "\"wear=1\""),
        ] {
            let said = text.parse::<Fading>().unwrap_err().to_string();
            assert!(said.starts_with(part), "{said}");
        }
    }
}
