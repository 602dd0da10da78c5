//! The check of a device: everything that is kept twice is compared, everything mapped is read.

use std::fmt;

use crate::counters::Cause;
use crate::flash::Flash;
use crate::geometry::BlockId;

/// Something that is not as it should be, in one sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// The live data of a block is not what its entry says.
    Miscounted {
        /// The block.
        block: u32,
        /// Units by its entry.
        kept_units: u32,
        /// Units that the map points to.
        found_units: u32,
    },
    /// A block was taken out of use.
    Retired {
        /// The block.
        block: u32,
    },
    /// A page that was written has no good spare record.
    Spare {
        /// The block.
        block: u32,
        /// The page in the block.
        page: u32,
    },
    /// Data that was written cannot be read.
    Unreadable {
        /// The namespace.
        nsid: u32,
        /// Unit or page in the namespace.
        index: u64,
        /// What reading it says.
        why: String,
    },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Miscounted { block, kept_units, found_units } => {
                write!(f, "block {block} holds {found_units} live units, its entry says {kept_units}")
            }
            Self::Retired { block } => write!(f, "block {block} is out of use"),
            Self::Spare { block, page } => {
                write!(f, "the spare record of block {block}, page {page} does not match its checksum")
            }
            Self::Unreadable { nsid, index, why } => {
                write!(f, "unit {index} of namespace {nsid} cannot be read: {why}")
            }
        }
    }
}

impl Flash {
    /// Compares the block table with the map and reads everything that is mapped. Changes nothing but read counters.
    pub fn check(&mut self) -> Vec<Finding> {
        let mut findings = Vec::new();
        for block in 0..self.ftl.geometry.block_count() {
            self.check_block(BlockId(block), &mut findings);
        }
        let extents: Vec<(u32, u16)> =
            self.namespaces().map(|record| (record.nsid, record.extent.0)).collect();
        for (nsid, extent) in extents {
            self.check_extent(nsid, crate::ExtentId(extent), &mut findings);
        }
        findings
    }

    fn check_block(&self, id: BlockId, findings: &mut Vec<Finding>) {
        use crate::blocks::BlockUse;
        let block = *self.ftl.blocks.get(id);
        match block.used_for {
            BlockUse::Retired => return findings.push(Finding::Retired { block: id.0 }),
            // Part of the life of a device, and told by its health.
            BlockUse::Bad | BlockUse::FactoryBad => return,
            BlockUse::Free | BlockUse::OpenHost | BlockUse::OpenGc | BlockUse::Full | BlockUse::Failing => {}
        }
        // A block with nothing live may have been cut short in its erase.
        let written = if block.live > 0 { block.written } else { 0 };
        for page in 0..written {
            if self.ftl.spare(self.ftl.geometry.page(id, page)).is_none() {
                findings.push(Finding::Spare { block: id.0, page });
            }
        }
        let found_units = self.ftl.count_live(id);
        if found_units != block.live {
            findings.push(Finding::Miscounted { block: id.0, kept_units: block.live, found_units });
        }
    }

    fn check_extent(&mut self, nsid: u32, extent: crate::ExtentId, findings: &mut Vec<Finding>) {
        let Ok((entries, entry_bytes)) = self.extent_shape(extent) else { return };
        let mut data = vec![0; entry_bytes];
        for index in 0..entries {
            if !self.is_mapped(extent, index).unwrap_or(true) {
                continue;
            }
            let at_bytes = index * entry_bytes as u64;
            if let Err(error) = self.read(extent, at_bytes, &mut data, Cause::Metadata, &mut 0) {
                findings.push(Finding::Unreadable { nsid, index, why: error.to_string() });
            }
        }
    }
}
