//! Log pages and asynchronous events: what happened, and that the host hears of it once.

use crate::common::{ADMIN_ENTRIES, TestHost, get_log, kv, number, nvm};
use byway_queue::DoorbellIndex;
use byway_spec::base::admin::{AbortCdw10, AdminOpcode};
use byway_spec::base::event::Event;
use byway_spec::base::feature::{FeatureCdw10, FeatureId, TemperatureThreshold};
use byway_spec::base::identify::Csi;
use byway_spec::base::log::LogPage;
use byway_spec::nvm::NvmOpcode;
use byway_spec::vendor::name_text;
use byway_spec::{Command, Completion, Status};

const MIB: u64 = 1 << 20;

fn host() -> TestHost {
    TestHost::new(32 * MIB, &[nvm(8 * MIB, 512), kv(16 * MIB)])
}

fn event_request() -> Command {
    Command::new(AdminOpcode::ASYNC_EVENT_REQUEST.0, 0, 0)
}

fn ask_for_event(host: &mut TestHost) -> u16 {
    let cid = host.submit(0, event_request());
    host.ring(0);
    host.run();
    cid
}

fn set(host: &mut TestHost, fid: FeatureId, cdw11: u32) {
    let mut command = Command::new(AdminOpcode::SET_FEATURES.0, 0, 0);
    command.cdw10 = FeatureCdw10::new().with_fid(fid).into_bits();
    command.cdw11 = cdw11;
    let cid = host.submit(0, command);
    host.ring(0);
    host.run();
    // An event may complete beside the command.
    let done = host.reap(0).unwrap();
    assert_eq!(done.cid, cid);
    assert!(done.status().is_success());
}

fn reaped_event(host: &mut TestHost, cid: u16) -> Event {
    let entry: Completion = host.reap(0).expect("no event");
    assert_eq!((entry.cid, entry.status()), (cid, Status::SUCCESS));
    Event::from_bits(entry.dw0)
}

#[test]
fn supported_pages_are_those_that_can_be_read() {
    let mut host = host();
    let supported = host.log(LogPage::SUPPORTED_PAGES, Csi::NVM, 1024).unwrap();
    for page in 0..=255 {
        let answer = host.log(LogPage(page), Csi::NVM, 512);
        assert_eq!(answer.is_ok(), supported[usize::from(page) * 4] & 1 == 1, "{page:#x}");
        assert!(answer.is_ok() || answer.unwrap_err().is(Status::INVALID_LOG_PAGE), "{page:#x}");
    }
}

#[test]
fn a_failed_command_stands_first_in_the_error_log_with_its_place() {
    let mut host = host();
    let bad = host.admin(Command::new(0x7e, 0, 0));
    assert!(bad.status().is(Status::INVALID_OPCODE));
    assert!(bad.status().more() && bad.status().dnr());
    let log = host.log(LogPage::ERROR, Csi::NVM, 128).unwrap();
    assert_eq!((number(&log, 0, 8), number(&log, 8, 2), number(&log, 10, 2)), (1, 0, u64::from(bad.cid)));
    assert_eq!(number(&log, 12, 2) >> 1, u64::from(bad.status().0));
    assert_eq!(number(&log, 14, 2), 0, "the opcode byte");
    assert_eq!(number(&log, 64, 8), 0);
}

#[test]
fn health_counts_reads_writes_and_errors() {
    let mut host = host();
    host.admin(Command::new(0x7e, 0, 0));
    let log = host.log(LogPage::SMART, Csi::NVM, 512).unwrap();
    assert_eq!(log[0], 0, "no warning");
    assert_eq!(number(&log, 1, 2), 313);
    assert_eq!((log[3], log[5]), (100, 0));
    assert_eq!(number(&log, 112, 8), 1, "power cycles");
    assert_eq!(number(&log, 176, 8), 1, "error entries");
    assert_eq!((number(&log, 64, 8), number(&log, 80, 8)), (0, 0));
    host.create_pair(1, 16);
    let data = host.alloc(4096);
    for opcode in [NvmOpcode::WRITE, NvmOpcode::WRITE, NvmOpcode::READ] {
        let mut command = Command::new(opcode.0, 0, 1);
        command.set_prps(data.0, 0);
        assert!(host.execute(1, command).status().is_success());
    }
    let log = host.log(LogPage::SMART, Csi::NVM, 512).unwrap();
    assert_eq!((number(&log, 64, 8), number(&log, 80, 8)), (1, 2), "read and write commands");
    let mut named = get_log(LogPage::SMART, Csi::NVM, 0, 512);
    named.nsid = 1;
    assert!(host.admin(named).status().is(Status::INVALID_FIELD));
}

#[test]
fn the_firmware_slot_bears_the_revision() {
    let mut host = host();
    let log = host.log(LogPage::FIRMWARE_SLOT, Csi::NVM, 512).unwrap();
    assert_eq!(log[0], 1);
    assert!(log[8..16].starts_with(env!("CARGO_PKG_VERSION").as_bytes()));
}

#[test]
fn effects_log_has_both_command_sets_and_no_other() {
    let mut host = host();
    for csi in [Csi::NVM, Csi::KV] {
        let log = host.log(LogPage::EFFECTS, csi, 4096).unwrap();
        let identify = number(&log, 4 * usize::from(AdminOpcode::IDENTIFY.0), 4);
        assert_eq!(identify, 1 | 1 << 21, "of the controller");
        assert_eq!(number(&log, 1024 + 4, 4), 3 | 1 << 20, "opcode 01h writes in a namespace");
    }
    assert!(host.log(LogPage::EFFECTS, Csi::ZNS, 4096).unwrap_err().is(Status::INVALID_FIELD));
}

#[test]
fn features_log_lists_gettable_features_with_their_scope() {
    let mut host = host();
    let log = host.log(LogPage::FEATURES, Csi::NVM, 1024).unwrap();
    for fid in 0..=u8::MAX {
        let mut capabilities = Command::new(AdminOpcode::GET_FEATURES.0, 0, 0);
        capabilities.cdw10 = u32::from(fid) | 3 << 8;
        let answer = host.admin(capabilities);
        let entry = number(&log, usize::from(fid) * 4, 4);
        assert_eq!(answer.status().is_success(), entry & 1 == 1, "{fid:#x}");
        let of_namespace = answer.status().is_success() && answer.dw0 & 2 != 0;
        assert_eq!(entry >> 20 & 1 == 1, of_namespace, "{fid:#x}");
    }
}

#[test]
fn the_vendor_log_names_every_class_and_counter() {
    let mut host = host();
    let log = host.log(LogPage::LEDGER, Csi::NVM, 4096).unwrap();
    assert_eq!(&log[..8], b"BYWAYSSD");
    let (rows, counters) = (number(&log, 12, 4) as usize, number(&log, 16, 4) as usize);
    let classes: Vec<&str> = (0..rows).map(|n| name_text(&log[24 + n * 48..][..16])).collect();
    assert!(classes.contains(&"command_fetch") && classes.contains(&"completion"), "{classes:?}");
    let fetched = classes.iter().position(|class| *class == "command_fetch").unwrap();
    assert_eq!(number(&log, 24 + fetched * 48 + 16, 8), 1, "this command alone was fetched");
    let table = &log[24 + rows * 48..];
    let names: Vec<&str> = (0..counters).map(|n| name_text(&table[n * 32..][..24])).collect();
    assert!(names.contains(&"program.host") && names.contains(&"erase.gc"), "{names:?}");
    assert!(names.contains(&"packing.wasted_bytes"), "{names:?}");
}

#[test]
fn a_log_is_read_in_parts_and_not_past_its_end() {
    let mut host = host();
    let whole = host.log(LogPage::EFFECTS, Csi::KV, 4096).unwrap();
    let (done, part) = host.admin_read(get_log(LogPage::EFFECTS, Csi::KV, 1024, 512), 512);
    assert!(done.status().is_success());
    assert_eq!(part, whole[1024..1536]);
    let (done, rest) = host.admin_read(get_log(LogPage::SMART, Csi::NVM, 508, 64), 64);
    assert!(done.status().is_success());
    assert_eq!(rest[4..], [0; 60], "bytes past the end are left alone");
    for (offset, len_bytes) in [(516, 4), (u64::MAX - 3, 4), (2, 4)] {
        let refused = host.admin(get_log(LogPage::SMART, Csi::NVM, offset, len_bytes));
        assert!(refused.status().is(Status::INVALID_FIELD), "{offset}");
    }
    let mut huge = get_log(LogPage::SMART, Csi::NVM, 0, 4);
    (huge.cdw10, huge.cdw11) = (huge.cdw10 | 0xffff_0000, 0xffff);
    assert!(host.admin(huge).status().is(Status::INVALID_FIELD));
}

#[test]
fn event_requests_wait_up_to_their_limit_and_the_next_is_refused() {
    let mut host = host();
    let data = host.identify(byway_spec::base::identify::Cns::CONTROLLER, 0, Csi::NVM).unwrap();
    let limit = usize::from(data[259]) + 1;
    for _ in 0..limit {
        ask_for_event(&mut host);
    }
    assert!(host.peek(0).is_none());
    assert!(host.admin(event_request()).status().is(Status::EVENT_REQUEST_LIMIT_EXCEEDED));
}

#[test]
fn waiting_event_requests_leave_the_admin_queue_its_room() {
    let mut host = TestHost::disabled("gen4x4", 32 * MIB, byway_flash::MediaKind::Ram, &[nvm(8 * MIB, 512)]);
    let (sq, cq) = (host.alloc(4096), host.alloc(4096));
    host.enable_with(sq, cq, 16, 2);
    for _ in 0..8 {
        ask_for_event(&mut host);
    }
    assert!(host.log(LogPage::SMART, Csi::NVM, 512).is_ok());
}

#[test]
fn changed_namespace_raises_one_event_until_its_list_is_read() {
    let mut host = host();
    set(&mut host, FeatureId::ASYNC_EVENTS, 1 << 8);
    let (first, second) = (ask_for_event(&mut host), ask_for_event(&mut host));
    let id = host.controller.id();
    host.subsystem.detach(2, id).unwrap();
    host.run();
    assert_eq!(reaped_event(&mut host, first), Event::NAMESPACE_CHANGED);
    host.subsystem.attach(2, id).unwrap();
    host.subsystem.detach(1, id).unwrap();
    host.run();
    assert!(host.peek(0).is_none(), "reported, and not yet read");
    let list = host.log(LogPage::CHANGED_NAMESPACES, Csi::NVM, 4096).unwrap();
    assert_eq!((number(&list, 0, 4), number(&list, 4, 4), number(&list, 8, 4)), (1, 2, 0));
    assert!(host.peek(0).is_none(), "the list said it all");
    host.subsystem.attach(1, id).unwrap();
    host.run();
    assert_eq!(reaped_event(&mut host, second), Event::NAMESPACE_CHANGED);
    let list = host.log(LogPage::CHANGED_NAMESPACES, Csi::NVM, 4096).unwrap();
    assert_eq!((number(&list, 0, 4), number(&list, 4, 4)), (1, 0));
}

#[test]
fn a_list_that_is_read_with_retain_stays_and_its_event_stays_masked() {
    let mut host = host();
    set(&mut host, FeatureId::ASYNC_EVENTS, 1 << 8);
    let first = ask_for_event(&mut host);
    ask_for_event(&mut host);
    let id = host.controller.id();
    host.subsystem.detach(2, id).unwrap();
    host.run();
    reaped_event(&mut host, first);
    let mut retain = get_log(LogPage::CHANGED_NAMESPACES, Csi::NVM, 0, 4096);
    retain.cdw10 |= 1 << 15;
    let (_, list) = host.admin_read(retain, 4096);
    assert_eq!(number(&list, 0, 4), 2);
    host.subsystem.attach(2, id).unwrap();
    host.run();
    assert!(host.peek(0).is_none());
    assert_eq!(number(&host.log(LogPage::CHANGED_NAMESPACES, Csi::NVM, 4096).unwrap(), 0, 4), 2);
}

#[test]
fn namespace_events_that_the_host_disabled_are_not_reported() {
    let mut host = host();
    ask_for_event(&mut host);
    host.subsystem.detach(2, host.controller.id()).unwrap();
    host.run();
    assert!(host.peek(0).is_none());
}

#[test]
fn an_event_waits_for_a_request() {
    let mut host = host();
    set(&mut host, FeatureId::ASYNC_EVENTS, 1 << 8);
    host.subsystem.detach(2, host.controller.id()).unwrap();
    host.run();
    let cid = ask_for_event(&mut host);
    assert_eq!(reaped_event(&mut host, cid), Event::NAMESPACE_CHANGED);
}

#[test]
fn event_is_posted_once_the_host_moved_its_head_without_a_command() {
    let mut host = TestHost::disabled("gen4x4", 32 * MIB, byway_flash::MediaKind::Ram, &[nvm(8 * MIB, 512)]);
    let (sq, cq) = (host.alloc(4096), host.alloc(4096));
    host.enable_with(sq, cq, 16, 4);
    let cid = ask_for_event(&mut host);
    for _ in 0..3 {
        host.submit(0, Command::new(AdminOpcode::KEEP_ALIVE.0, 0, 0));
        host.ring(0);
        host.run();
        assert!(host.peek(0).unwrap().status().is_success());
        host.doorbells.store(DoorbellIndex::completion(0), host.head(0));
    }
    // The device has not looked at the head: to it the queue is full.
    host.ring_raw(DoorbellIndex::submission(9), 1);
    host.run();
    assert_eq!(reaped_event(&mut host, cid), Event::INVALID_DOORBELL);
}

#[test]
fn a_wrong_doorbell_is_an_error_event_with_a_log_entry() {
    let mut host = host();
    let cid = ask_for_event(&mut host);
    host.ring_raw(DoorbellIndex::submission(0), ADMIN_ENTRIES);
    host.run();
    assert_eq!(reaped_event(&mut host, cid), Event::INVALID_DOORBELL_VALUE);
    let next = ask_for_event(&mut host);
    host.ring_raw(DoorbellIndex::submission(5), 1);
    host.run();
    assert!(host.peek(0).is_none(), "errors are masked until their log is read");
    let log = host.log(LogPage::ERROR, Csi::NVM, 128).unwrap();
    assert_eq!((number(&log, 8, 2), number(&log, 10, 2)), (0xffff, 0xffff));
    assert_eq!((number(&log, 0, 8), number(&log, 64, 8)), (2, 1));
    host.ring_raw(DoorbellIndex::submission(5), 1);
    host.run();
    assert_eq!(reaped_event(&mut host, next), Event::INVALID_DOORBELL);
}

#[test]
fn a_crossed_temperature_threshold_is_a_warning_and_an_event() {
    let mut host = host();
    set(&mut host, FeatureId::ASYNC_EVENTS, 1 << 1);
    let cid = ask_for_event(&mut host);
    let low = TemperatureThreshold::new().with_tmpth_k(300).into_bits();
    set(&mut host, FeatureId::TEMPERATURE_THRESHOLD, low);
    assert_eq!(reaped_event(&mut host, cid), Event::TEMPERATURE);
    assert_eq!(host.log(LogPage::SMART, Csi::NVM, 512).unwrap()[0], 1 << 1);
}

#[test]
fn an_event_request_is_aborted_and_other_commands_are_not() {
    let mut host = host();
    let cid = ask_for_event(&mut host);
    let mut abort = Command::new(AdminOpcode::ABORT.0, 0, 0);
    abort.cdw10 = AbortCdw10::new().with_cid(cid).into_bits();
    host.submit(0, abort);
    host.ring(0);
    host.run();
    let aborted = host.reap(0).unwrap();
    assert_eq!(aborted.cid, cid);
    assert!(aborted.status().is(Status::ABORT_REQUESTED));
    let done = host.reap(0).unwrap();
    assert_eq!((done.status(), done.dw0), (Status::SUCCESS, 0));
    let again = host.admin(abort);
    assert_eq!((again.status(), again.dw0), (Status::SUCCESS, 1), "it is gone already");
    abort.cdw10 = AbortCdw10::new().with_sqid(7).into_bits();
    assert!(host.admin(abort).status().is(Status::INVALID_FIELD));
}
