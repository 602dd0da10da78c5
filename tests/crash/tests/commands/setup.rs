//! Devices that commands are tried on.

use std::path::Path;

use byway::{CreateOptions, MediaNamespaceKind, Method, NewNamespace};
use proptest::prelude::*;

use crate::op::BLOCKS;

/// Small namespaces, so that every few hundred commands a log is compacted and blocks are collected.
pub const PAIRS_BYTES: u64 = 3 << 20;

/// An image and how it is opened.
#[derive(Debug, Clone, Copy)]
pub struct Setup {
    /// Pages of 4 KiB to 16 KiB, and arrays from one plane on.
    pub profile: &'static str,
    pub method: Method,
    pub lba_bytes: u32,
    pub over_provisioning_percent: u32,
    pub memtable: &'static str,
    pub packing: &'static str,
    pub flush: &'static str,
    pub run: &'static str,
    pub gc: &'static str,
}

pub fn any_setup() -> impl Strategy<Value = Setup> {
    let of_image = (
        proptest::sample::select(byway::Profile::names()),
        proptest::sample::select(vec![512u32, 4096]),
        proptest::sample::select(vec![10u32, 28, 60]),
    );
    let of_opening = (
        proptest::sample::select(Method::ALL.to_vec()),
        proptest::sample::select(vec!["2K", "2K", "16K", "1M"]),
        proptest::sample::select(vec!["all", "selective", "selective-backfill"]),
        proptest::sample::select(vec!["process", "process", "command", "media"]),
        proptest::sample::select(vec!["caller", "caller", "caller", "thread"]),
        proptest::sample::select(vec!["greedy", "cost-benefit"]),
    );
    let setup =
        |((profile, lba_bytes, over_provisioning_percent), (method, memtable, packing, flush, run, gc))| {
            Setup { profile, method, lba_bytes, over_provisioning_percent, memtable, packing, flush, run, gc }
        };
    (of_image, of_opening).prop_map(setup)
}

impl Setup {
    pub fn create(&self, image: &Path) {
        let blocks = NewNamespace {
            kind: MediaNamespaceKind::Nvm { lba_bytes: self.lba_bytes },
            size_bytes: Some(self.blocks_bytes()),
        };
        let pairs = NewNamespace { size_bytes: Some(PAIRS_BYTES), ..NewNamespace::KV };
        let options = CreateOptions::new(PAIRS_BYTES + self.blocks_bytes())
            .profile(self.profile)
            .namespaces([pairs, blocks])
            .over_provisioning_percent(self.over_provisioning_percent);
        byway::create(image, &options).unwrap();
    }

    /// Size of the namespace of blocks.
    pub fn blocks_bytes(&self) -> u64 {
        (u64::from(BLOCKS) * u64::from(self.lba_bytes)).max(1 << 20)
    }

    pub fn uri(&self, image: &Path) -> String {
        let Self { method, memtable, packing, flush, run, gc, .. } = self;
        format!(
            "embedded:{}?reads=checked&cache=256K&transfer={method}&memtable={memtable}&packing={packing}&flush={flush}&run={run}&gc={gc}",
            image.display()
        )
    }
}
