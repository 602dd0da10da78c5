//! The Commands Supported and Effects log over TCP: what it announces is known, and nothing else is.

use super::{ABORT_REQUESTED, Entry, INVALID_FIELD, INVALID_OPCODE, RawHost, SUCCESS, number};
use crate::served::{BLOCKS, KEYS, Served};

const EVENT_REQUEST: u8 = 0x0c;
const FABRICS: u8 = 0x7f;
/// Feature of ours that binds a window to a queue.
const WINDOW: u8 = 0xc1;

fn page(admin: &mut RawHost, csi: u32) -> Vec<u8> {
    let answer = admin.read(Entry::new(0x02, 0).cdw(10, 0x03ff_0005).cdw(14, csi << 24), 4096);
    assert_eq!(answer.status, SUCCESS);
    answer.data
}

fn announces(page: &[u8], opcode: u8) -> bool {
    number(page, usize::from(opcode) * 4, 4) & 1 == 1
}

#[test]
fn each_announced_admin_command_is_known_over_tcp_and_no_other_is() {
    let served = Served::new();
    let (mut admin, _) = RawHost::admin(&served, 6);
    for csi in [0, 1] {
        let page = page(&mut admin, csi);
        for queue_or_doorbell in [0x00, 0x01, 0x04, 0x05, 0x7c] {
            assert!(!announces(&page, queue_or_doorbell), "{queue_or_doorbell:#x}");
        }
        for opcode in (0..=u8::MAX).filter(|opcode| *opcode != FABRICS) {
            let cid = admin.send(Entry::new(opcode, 0), &[]);
            if opcode == EVENT_REQUEST {
                admin.send(Entry::new(0x08, 0).cdw(10, u32::from(cid) << 16), &[]);
                let answers = [admin.answer(&[]).status, admin.answer(&[]).status];
                assert!(announces(&page, opcode) && answers.contains(&ABORT_REQUESTED));
                continue;
            }
            let status = admin.answer(&[]).status;
            assert_eq!(status == INVALID_OPCODE, !announces(&page, opcode), "{opcode:#x}: {status:#x}");
        }
    }
}

#[test]
fn each_announced_io_command_is_known_over_tcp_and_no_other_is() {
    let served = Served::new();
    let (mut admin, controller) = RawHost::admin(&served, 6);
    let mut io = RawHost::io(&served, 1, controller);
    for (csi, nsid) in [(0, BLOCKS), (1, KEYS)] {
        let page = page(&mut admin, csi);
        for opcode in (0..=u8::MAX).filter(|opcode| *opcode != FABRICS) {
            let status = io.run(Entry::new(opcode, nsid), &[]).status;
            let is_announced = announces(&page[1024..], opcode);
            assert_eq!(status == INVALID_OPCODE, !is_announced, "{csi} {opcode:#x}: {status:#x}");
        }
    }
}

#[test]
fn each_announced_feature_is_known_over_tcp_and_no_other_is() {
    let served = Served::new();
    let (mut admin, _) = RawHost::admin(&served, 6);
    let page = admin.read(Entry::new(0x02, 0).cdw(10, 0x00ff_0012), 1024).data;
    for fid in 0..=u8::MAX {
        const CAPABILITIES: u32 = 3 << 8;
        let status = admin.run(Entry::new(0x0a, 0).cdw(10, CAPABILITIES | u32::from(fid)), &[]).status;
        let expected = if announces(&page, fid) { SUCCESS } else { INVALID_FIELD };
        assert_eq!(status, expected, "{fid:#x}");
    }
    assert!(!announces(&page, WINDOW), "no window of device memory can be bound over fabrics");
}
