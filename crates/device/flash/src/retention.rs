//! Model of read disturb and retention errors: blocks that are read too often, or hold their data too long, lose it.
//!
//! Off by default. Each read of a page disturbs its block. Ages count the pages that the array programmed, not time, so that
//! a run ages the same each time. Open blocks are exempt. Past a limit, the data of a block can no longer be read. With
//! refresh on, it is moved before, charged to [`Cause::Refresh`](crate::Cause::Refresh).

use std::str::FromStr;

use thiserror::Error;

use crate::block::BlockUse;
use crate::blocks::BlockTable;
use crate::geometry::BlockId;

/// Limits of a block between two erases, past which its data is lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RetentionLimits {
    /// Page reads of a block; `None` for no limit.
    pub reads_limit: Option<u32>,
    /// Pages that the device programs after a block was filled; `None` for no limit.
    pub age_limit: Option<u64>,
    /// Move data to another block before a limit is reached.
    pub refresh: bool,
}

/// The text does not describe retention limits.
#[derive(Debug, Error)]
#[error(
    "{0:?} is no limit of reads or age: expected reads=N, age=N (pages programmed) or refresh, joined by commas, with a limit"
)]
pub struct BadRetentionLimits(String);

/// Reads `reads=100000,age=5000000,refresh`: one limit at least, each above zero.
impl FromStr for RetentionLimits {
    type Err = BadRetentionLimits;

    fn from_str(text: &str) -> Result<Self, BadRetentionLimits> {
        let mut limits = Self::default();
        for part in text.split(',') {
            match part.split_once('=') {
                Some(("reads", limit)) => limits.reads_limit = Some(above_zero(part, limit)?),
                Some(("age", limit)) => limits.age_limit = Some(above_zero(part, limit)?),
                None if part == "refresh" => limits.refresh = true,
                _ => return Err(BadRetentionLimits(part.to_owned())),
            }
        }
        if limits.is_on() { Ok(limits) } else { Err(BadRetentionLimits(text.to_owned())) }
    }
}

fn above_zero<T: FromStr + Default + PartialEq>(part: &str, limit: &str) -> Result<T, BadRetentionLimits> {
    let limit = limit.parse().ok().filter(|limit| *limit != T::default());
    limit.ok_or_else(|| BadRetentionLimits(part.to_owned()))
}

impl RetentionLimits {
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
        let all = RetentionLimits { reads_limit: Some(400), age_limit: Some(1 << 40), refresh: true };
        assert_eq!("reads=400,age=1099511627776,refresh".parse::<RetentionLimits>().unwrap(), all);
        let aged = RetentionLimits { reads_limit: None, age_limit: Some(7), refresh: false };
        assert_eq!("age=7".parse::<RetentionLimits>().unwrap(), aged);
    }

    #[test]
    fn invalid_retention_limit_is_refused_with_its_part() {
        for (text, part) in [
            ("refresh", "\"refresh\""),
            ("", "\"\""),
            ("reads=0", "\"reads=0\""),
            ("reads=5000000000", "\"reads=5000000000\""),
            ("age=3,wear=1", "\"wear=1\""),
        ] {
            let said = text.parse::<RetentionLimits>().unwrap_err().to_string();
            assert!(said.starts_with(part), "{said}");
        }
    }
}
