//! What gets cost, against the table of the design, and the closed form of the link against the device's ledger: to the byte, for every
//! length that can stand behind a completion.

use crate::ledger::bytes_of;
use crate::table::{Bytes, Link};
use byway::cost::{self, ReadMethod};
use byway::{Class, Profile};

/// What one command with an answer of `size` bytes costs: the answer goes to its buffer by writes of its own, or stands with the
/// completion in one write of whole entries, as far as one packet and 15 entries beside the completion go.
pub(crate) fn expected_get(size: u64, link: Link, is_inline: bool) -> Bytes {
    let entries = 1 + size.div_ceil(15);
    let is_short = entries <= (link.mps / 16).min(16);
    let answer = if is_inline && is_short {
        link.completion_with_result(size)
    } else {
        link.write(size) + link.completion()
    };
    link.doorbells() + link.command() + answer + link.interrupt()
}

/// The same by the closed form of the link.
fn closed_form(method: ReadMethod, size: u64, profile: &str, link: Link) -> Bytes {
    let profile = Profile::by_name(profile).unwrap();
    let profile = profile.with_mps(link.mps as u32).unwrap().with_mrrs(link.mrrs as u32).unwrap();
    bytes_of(&cost::of_get(method, size, &profile).ledger)
}

/// Every length that may stand behind a completion, the first ones beyond, and some up to a page.
fn sizes() -> impl Iterator<Item = u64> {
    (1..=230).chain([255, 256, 257, 511, 512, 513, 1000, 1024, 2047, 2048, 4095, 4096])
}

fn check_gets(profile: &str, method: ReadMethod, link: Link) {
    let is_inline = method == ReadMethod::InlineRead;
    let (transfer, inline) = match method {
        ReadMethod::Sgl => ("sgl", "off"),
        _ => ("prp", if is_inline { "on" } else { "off" }),
    };
    let (mps, mrrs) = (link.mps, link.mrrs);
    // A ring long enough that none of the gets meets its end, where a write is split.
    let uri = format!(
        "ram:64M?profile={profile}&transfer={transfer}&mps={mps}&mrrs={mrrs}&ring=65536&inline-read={inline}"
    );
    let device = byway::embedded::open(&uri).unwrap();
    let mut kv = device.kv(None).unwrap();
    for (key, size) in sizes().enumerate() {
        kv.put(&key.to_le_bytes(), &vec![0x5a; size as usize]).unwrap();
        let before = device.ledger();
        let mut into = vec![0; 4096];
        assert_eq!(kv.get_into(&key.to_le_bytes(), &mut into).unwrap(), Some(size as usize));
        assert_eq!(into[..size as usize], vec![0x5a; size as usize]);
        let got = bytes_of(&device.ledger().since(&before));
        assert_eq!(got, expected_get(size, link, is_inline), "{profile} {method:?} {size} {link:?}");
        assert_eq!(got, closed_form(method, size, profile, link), "{profile} {method:?} {size} {link:?}");
    }
}

#[test]
fn every_get_costs_what_the_table_and_the_closed_form_say_at_every_size() {
    for profile in ["cosmos", "gen4x4"] {
        for mps in [128, 256, 512] {
            for method in [ReadMethod::Prp, ReadMethod::InlineRead] {
                check_gets(profile, method, Link { mps, mrrs: 512 });
            }
        }
    }
    check_gets("gen4x4", ReadMethod::Sgl, Link { mps: 256, mrrs: 512 });
    check_gets("gen5x4", ReadMethod::InlineRead, Link { mps: 4096, mrrs: 128 });
}

/// A filter of the device's gives every byte of the value: for short values within the command, for long ones by its thread.
#[test]
fn exec_costs_a_command_with_its_request_and_its_output_at_every_length() {
    const FILTER: u32 = 1;
    let link = Link { mps: 256, mrrs: 512 };
    // Records of one byte, whose number is at least 0.
    let input = [5 << 56 | 1 << 48 | 1, 0].map(u64::to_le_bytes).concat();
    let request_bytes = 2 + b"key".len() + input.len();
    for inline in ["off", "on"] {
        let options = format!("profile=gen4x4&transfer=prp&ring=65536&inline-read={inline}");
        let device = byway::embedded::open(&format!("ram:64M?{options}&exec=1:filter")).unwrap();
        let mut kv = device.kv(None).unwrap();
        for size in sizes() {
            kv.put(b"key", &vec![0x5a; size as usize]).unwrap();
            let mut into = vec![0; 4096];
            let before = device.ledger();
            assert_eq!(kv.exec(b"key", FILTER, &input, &mut into).unwrap(), size as usize);
            let spent = device.ledger().since(&before);
            assert_eq!(into[..size as usize], vec![0x5a; size as usize]);
            // How often the host reads a register while it waits depends on how long that is.
            let registers = spent.row(Class::Register).cost;
            let registers = Bytes { payload: registers.payload_bytes, wire: registers.wire_bytes() };
            let answer = expected_get(size, link, inline == "on");
            let expected = answer + link.read(request_bytes as u64) + registers;
            assert_eq!(bytes_of(&spent), expected, "{size} bytes, inline {inline}");
        }
    }
}

#[test]
fn end_of_the_ring_splits_a_completion_from_its_value_and_nothing_else() {
    const RING: u64 = 64;
    let link = Link { mps: 256, mrrs: 512 };
    let device =
        byway::embedded::open(&format!("ram:64M?profile=gen4x4&transfer=prp&ring={RING}&inline-read=on"))
            .unwrap();
    let mut kv = device.kv(None).unwrap();
    let (mut slot, mut splits) = (0, 0);
    for size in (1..=225_u64).chain((1..=225).rev()) {
        kv.put(b"key", &vec![7; size as usize]).unwrap();
        slot = (slot + 1) % RING;
        let before = device.ledger();
        assert_eq!(kv.get(b"key").unwrap().unwrap(), vec![7; size as usize]);
        let entries = 1 + size.div_ceil(15);
        let here = entries.min(RING - slot);
        splits += u64::from(here < entries);
        let answer = link.write(here * 16) + link.write((entries - here) * 16);
        let expected = link.doorbells() + link.command() + answer + link.interrupt();
        let spent = device.ledger().since(&before);
        assert_eq!(bytes_of(&spent), expected, "{size} bytes at {slot}");
        assert_eq!(spent.row(Class::Completion).count, 1 + u64::from(here < entries), "{size} at {slot}");
        slot = (slot + entries) % RING;
    }
    assert!(splits > 40, "{splits}");
}
