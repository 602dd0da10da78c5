//! Identify as other hosts ask it: CNS 00h of every namespace, whatever it holds.

use super::{Entry, RawHost, SUCCESS, number};
use crate::served::{BLOCKS, BLOCKS_BYTES, KEYS, Served};

fn identify(host: &mut RawHost, cns: u32, nsid: u32, csi: u32) -> Vec<u8> {
    let answer = host.read(Entry::new(0x06, nsid).cdw(10, cns).cdw(11, csi << 24), 4096);
    assert_eq!(answer.status, SUCCESS, "CNS {cns:#x} of {nsid}");
    answer.data
}

fn listed(page: &[u8]) -> Vec<u64> {
    (0..1024).map(|n| number(page, n * 4, 4)).take_while(|nsid| *nsid > 0).collect()
}

/// SPDK: CNS 02h, then 00h and 03h of each, which must have a capacity; then 05h by its command set.
#[test]
fn a_host_that_asks_cns_00h_of_every_namespace_finds_all_of_them() {
    let served = Served::new();
    let (mut admin, _) = RawHost::admin(&served, 6);
    let namespaces = listed(&identify(&mut admin, 0x02, 0, 0));
    assert_eq!(namespaces, [u64::from(BLOCKS), u64::from(KEYS)]);
    for (nsid, csi, bytes) in [(BLOCKS, 0, BLOCKS_BYTES), (KEYS, 1, 128 << 20)] {
        for cns in [0x00, 0x11] {
            let data = identify(&mut admin, cns, nsid, 0);
            let block_bytes = 1 << data[128 + 4 * usize::from(data[26] & 15) + 2];
            assert_eq!(number(&data, 0, 8) * block_bytes, bytes, "NSZE");
            assert_eq!(number(&data, 8, 8) * block_bytes, bytes, "NCAP");
            assert!(nsid == BLOCKS || number(&data, 16, 8) > 0, "NUSE");
            assert_ne!(data[104..120], [0; 16], "NGUID");
        }
        let descriptors = identify(&mut admin, 0x03, nsid, 0);
        assert!(descriptors.windows(5).any(|one| one == [4, 1, 0, 0, csi]), "the command set's descriptor");
        identify(&mut admin, 0x05, nsid, csi.into());
        identify(&mut admin, 0x1b, nsid, csi.into());
        assert_eq!(identify(&mut admin, 0x08, nsid, 0)[14] & 1, 1, "NRDY");
        assert_eq!(listed(&identify(&mut admin, 0x07, 0, csi.into())), [u64::from(nsid)]);
        assert_eq!(listed(&identify(&mut admin, 0x1a, 0, csi.into())), [u64::from(nsid)]);
        identify(&mut admin, 0x06, 0, csi.into());
    }
}

/// A host that reads no command set identifiers would make a disk of whatever it finds.
#[test]
fn a_host_of_blocks_alone_finds_no_keys() {
    let served = Served::new();
    let (mut admin, _) = RawHost::admin(&served, 0);
    assert_eq!(listed(&identify(&mut admin, 0x02, 0, 0)), [u64::from(BLOCKS)]);
    assert!(identify(&mut admin, 0x00, KEYS, 0).iter().all(|byte| *byte == 0), "inactive");
    assert_ne!(number(&identify(&mut admin, 0x00, BLOCKS, 0), 8, 8), 0);
}
