//! Room of namespaces.

use byway_spec::base::identify::Csi;

use super::Subsystem;
use crate::namespace::Namespace;

/// How full a namespace is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamespaceSpace {
    /// Its identifier.
    pub nsid: u32,
    /// Its command set.
    pub csi: Csi,
    /// Bytes that it can hold: blocks, or live records of pairs with their index entries.
    pub capacity_bytes: u64,
    /// Of these, bytes that are in use; `None` of an exported namespace, whose engine is not asked, and of a namespace of blocks
    /// before Identify Namespace has counted them.
    pub used_bytes: Option<u64>,
    /// Key-value pairs, as [`keys`](byway_kv::KvStats::keys) counts them; `None` of a namespace of blocks.
    pub pairs: Option<u64>,
}

impl Subsystem {
    /// How full each namespace is, in the order of their identifiers. It counts nothing: it takes no longer for larger namespaces.
    #[must_use]
    pub fn space_snapshot(&self) -> Vec<NamespaceSpace> {
        let Self { slots, flash, .. } = self;
        let namespaces = (1..).zip(slots.iter()).filter_map(|(nsid, slot)| Some((nsid, slot.as_ref()?)));
        let space = |(nsid, slot): (u32, &super::Slot)| {
            let (capacity_bytes, used_bytes, pairs) = match &slot.namespace {
                Namespace::Nvm(nvm) => {
                    let record = nvm.record();
                    (record.size_bytes, flash.known_mapped_bytes(record.extent), None)
                }
                Namespace::Kv(kv) => {
                    let stats = kv.stats();
                    (stats.capacity_bytes, Some(kv.used_bytes()), Some(stats.keys))
                }
                Namespace::Exported(_) | Namespace::Memory(_) | Namespace::Programs(_) => {
                    (slot.namespace.record().size_bytes, None, None)
                }
            };
            NamespaceSpace { nsid, csi: slot.namespace.csi(), capacity_bytes, used_bytes, pairs }
        };
        namespaces.map(space).collect()
    }
}
