//! Transfers of several PDUs: tags, order, ends and limits.
#![allow(clippy::unwrap_used)]

use byway_nvme_tcp::*;
use proptest::prelude::*;

const FIELD: u16 = 1;
const SEQUENCE: u16 = 2;
const RANGE: u16 = 4;
const LIMIT: u16 = 5;

fn violation_of<T: std::fmt::Debug>(result: Result<T, Violation>) -> (u16, u32) {
    let violation = result.unwrap_err();
    (violation.status().0, violation.information())
}

fn agreed(max_r2t_z: u32, max_h2c_data_bytes: u32) -> Agreement {
    IcReq { max_r2t_z, ..IcReq::default() }.answer(&Offer { max_h2c_data_bytes, ..Offer::default() }).1
}

/// Data for an R2T of command 5.
fn part(tag: u16, offset_bytes: u32, last: bool) -> H2cData {
    H2cData { command: CommandId(5), tag: TransferTag(tag), offset_bytes, last }
}

/// With one R2T outstanding, of tag 0: 8192 bytes at 4096 of command 5.
fn asked() -> Solicitations {
    let mut asked = Solicitations::new(2);
    let r2t = asked.ask(CommandId(5), 4096, 8192).unwrap();
    assert_eq!(r2t.tag, TransferTag(0));
    asked
}

#[test]
fn data_answers_an_r2t_in_order_and_frees_its_tag_with_the_last() {
    let mut r2ts = asked();
    let first = Accepted { range_bytes: 4096..8192, whole: false, wanted: true };
    assert_eq!(r2ts.accept(&part(0, 4096, false), 4096), Ok(first));
    let second = Accepted { range_bytes: 8192..12288, whole: true, wanted: true };
    assert_eq!(r2ts.accept(&part(0, 8192, true), 4096), Ok(second));
    assert_eq!(r2ts.outstanding(), 0);
    assert_eq!(violation_of(r2ts.accept(&part(0, 12288, true), 4096)), (FIELD, 10), "the tag is free");
}

#[test]
fn a_tag_that_is_not_outstanding_is_refused_wherever_it_is() {
    for tag in [1, 2, 3, u16::MAX] {
        assert_eq!(violation_of(asked().accept(&part(tag, 4096, false), 4096)), (FIELD, 10), "{tag}");
    }
}

#[test]
fn a_tag_of_another_command_is_refused_at_the_command() {
    let data = H2cData { command: CommandId(6), ..part(0, 4096, false) };
    assert_eq!(violation_of(asked().accept(&data, 4096)), (FIELD, 8));
}

#[test]
fn data_out_of_order_or_past_the_end_is_out_of_range() {
    for offset in [0, 4095, 4097, 8192, u32::MAX] {
        assert_eq!(violation_of(asked().accept(&part(0, offset, false), 4096)), (RANGE, 0), "{offset}");
    }
    for bytes in [8193, u32::MAX - 4096, u32::MAX] {
        assert_eq!(violation_of(asked().accept(&part(0, 4096, true), bytes)), (RANGE, 0), "{bytes}");
    }
}

#[test]
fn the_last_data_of_an_r2t_says_so_and_no_other_does() {
    assert_eq!(violation_of(asked().accept(&part(0, 4096, true), 4096)), (FIELD, 1));
    assert_eq!(violation_of(asked().accept(&part(0, 4096, false), 8192)), (FIELD, 1));
}

#[test]
fn r2ts_are_bounded_and_a_freed_tag_is_used_again() {
    let mut r2ts = asked();
    assert_eq!(r2ts.ask(CommandId(6), 0, 512).unwrap().tag, TransferTag(1));
    assert_eq!(r2ts.ask(CommandId(7), 0, 512), None);
    r2ts.accept(&part(0, 4096, true), 8192).unwrap();
    assert_eq!(r2ts.ask(CommandId(7), 0, 512).unwrap().tag, TransferTag(0));
    let mut r2ts = Solicitations::new(1);
    assert_eq!(r2ts.ask(CommandId(7), 0, 0), None, "an R2T asks for something");
    assert_eq!(r2ts.ask(CommandId(7), u32::MAX, 1), None);
    assert!(r2ts.ask(CommandId(7), u32::MAX - 1, 1).is_some());
}

#[test]
fn every_transfer_tag_but_ffffh_is_used() {
    let mut r2ts = Solicitations::new(u16::MAX);
    for tag in 0..u16::MAX {
        assert_eq!(r2ts.ask(CommandId(5), 0, 4).unwrap().tag, TransferTag(tag));
    }
    let last = u16::MAX - 1;
    assert!(r2ts.accept(&part(last, 0, true), 4).unwrap().whole);
    assert_eq!(violation_of(r2ts.accept(&part(u16::MAX, 0, true), 4)), (FIELD, 10));
}

#[test]
fn data_of_a_command_that_ended_is_taken_and_not_wanted() {
    let mut r2ts = asked();
    r2ts.forgo(TransferTag(0));
    assert!(!r2ts.accept(&part(0, 4096, false), 4096).unwrap().wanted);
    assert!(!r2ts.accept(&part(0, 8192, true), 4096).unwrap().wanted);
    assert_eq!(r2ts.outstanding(), 0);
}

fn read_part(offset_bytes: u32, end: C2hEnd) -> C2hData {
    C2hData { command: CommandId(5), offset_bytes, end }
}

#[test]
fn data_of_a_read_comes_in_order_up_to_its_length() {
    let mut read = Inbound::new(8192);
    assert_eq!(read.accept(&read_part(0, C2hEnd::More), 4096), Ok(0..4096));
    assert_eq!(violation_of(read.accept(&read_part(0, C2hEnd::More), 4096)), (RANGE, 0));
    assert_eq!(violation_of(read.accept(&read_part(4096, C2hEnd::More), 4097)), (RANGE, 0));
    assert_eq!(violation_of(read.accept(&read_part(4096, C2hEnd::More), u32::MAX)), (RANGE, 0));
    assert_eq!(read.accept(&read_part(4096, C2hEnd::Success), 4096), Ok(4096..8192));
    assert_eq!(read.received_bytes(), 8192);
}

#[test]
fn data_after_the_last_is_out_of_sequence() {
    for end in [C2hEnd::Response, C2hEnd::Success] {
        let mut read = Inbound::new(8192);
        read.accept(&read_part(0, end), 4096).unwrap();
        assert_eq!(violation_of(read.accept(&read_part(4096, C2hEnd::Response), 4096)), (SEQUENCE, 0));
        assert_eq!(read.received_bytes(), 4096, "which is short");
    }
}

fn r2t(offset_bytes: u32, bytes: u32) -> ReadyToTransfer {
    ReadyToTransfer { command: CommandId(5), tag: TransferTag(9), offset_bytes, bytes }
}

#[test]
fn r2t_requests_the_next_data_and_no_more_than_the_rest() {
    let agreed = agreed(0, 4096);
    for (offset, bytes) in [(4, 4096), (u32::MAX, 4), (0, 8193), (0, u32::MAX)] {
        assert_eq!(violation_of(Outbound::new(8192).accept(&r2t(offset, bytes), &agreed)), (RANGE, 0));
    }
    let mut write = Outbound::new(8192);
    write.accept(&r2t(0, 8192), &agreed).unwrap();
    write.sent();
    assert!(write.is_done());
    assert_eq!(violation_of(write.accept(&r2t(0, 8192), &agreed)), (RANGE, 0));
}

#[test]
fn more_r2ts_than_were_agreed_on_exceed_a_limit() {
    for max_r2t_z in [0, 2] {
        let agreed = agreed(max_r2t_z, 4096);
        let mut write = Outbound::new(1 << 20);
        for i in 0..=max_r2t_z {
            write.accept(&r2t(4096 * i, 4096), &agreed).unwrap();
        }
        let next = r2t(4096 * (max_r2t_z + 1), 4096);
        assert_eq!(violation_of(write.accept(&next, &agreed)), (LIMIT, 0));
        write.sent();
        assert!(write.accept(&next, &agreed).is_ok());
        assert!(!write.is_done());
    }
    let mut write = Outbound::new(8);
    assert!(write.accept(&r2t(0, 4), &agreed(u32::MAX, 4096)).is_ok(), "all ones is 4 Gi R2Ts");
}

proptest! {
    /// Both sides of a write: whatever a controller requests, and whatever the PDU size, all data arrives once.
    #[test]
    fn requested_data_is_sent_exactly_once(bytes in 1..200_000_u32, steps in proptest::collection::vec(1..50_000_u32, 1..4), most in 1..20_u32) {
        let agreed = agreed(0, most * 4096);
        let (mut r2ts, mut write) = (Solicitations::new(1), Outbound::new(bytes));
        let mut have = 0;
        for step in steps.iter().cycle() {
            let asked = r2ts.ask(CommandId(5), have, (*step).min(bytes - have)).unwrap();
            for (data, range) in write.accept(&asked, &agreed).unwrap() {
                prop_assert!(range.len() as u32 <= agreed.max_h2c_data_bytes());
                let accepted = r2ts.accept(&data, range.len() as u32).unwrap();
                prop_assert_eq!(&accepted.range_bytes, &range);
                prop_assert_eq!(range.start, have);
                have = range.end;
            }
            write.sent();
            prop_assert_eq!(r2ts.outstanding(), 0);
            if have == bytes {
                break;
            }
        }
        prop_assert!(write.is_done());
    }
}
