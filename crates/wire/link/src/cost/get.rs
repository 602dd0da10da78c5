//! The cost of one get by each way of its value: every transaction, on an idle device.
//!
//! The assumptions are those of [`of_put`](super::of_put): a page-aligned buffer, rings that do not wrap within the get.

use serde::Serialize;

use crate::class::Class;
use crate::host_meter::HostMeter;
use crate::ledger::Ledger;
use crate::meter::Meter;
use crate::profile::{HostStep, Profile, Work};

/// Bytes of a completion queue entry.
const ENTRY_BYTES: u64 = 16;
/// Bytes of a result in one entry: one byte holds the phase tag.
const RESULT_ENTRY_BYTES: u64 = ENTRY_BYTES - 1;
/// Most entries of a result. From about here on a byte for each phase tag costs more than the packet header that is saved.
pub const RESULT_ENTRIES_MAX: u64 = 15;
/// Bytes of a command.
const SLOT_BYTES: u64 = 64;
/// Bytes of one PRP page.
const PAGE_BYTES: u64 = 4096;

/// How the value of a get crosses the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadMethod {
    /// To the pages of PRPs.
    Prp,
    /// To the bytes of an SGL.
    Sgl,
    /// Behind the completion, in the completion queue; by PRPs where it is too long.
    InlineRead,
}

impl ReadMethod {
    /// Every way.
    pub const ALL: [Self; 3] = [Self::Prp, Self::Sgl, Self::InlineRead];

    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Prp => "prp",
            Self::Sgl => "sgl",
            Self::InlineRead => "inline-read",
        }
    }
}

/// The cost of one get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GetCost {
    /// Every transaction, the host's and the device's.
    pub ledger: Ledger,
    /// From the first instruction of the host to the end of its work on the completion, in picoseconds.
    pub ps: u64,
}

/// Longest result that stands behind its completion, in bytes: both are one packet, of at most 15 entries beside the completion.
pub const fn inline_read_max_bytes(profile: &Profile) -> u32 {
    let in_packet = profile.link.mps_bytes() as u64 / ENTRY_BYTES - 1;
    let entries = if in_packet < RESULT_ENTRIES_MAX { in_packet } else { RESULT_ENTRIES_MAX };
    (entries * RESULT_ENTRY_BYTES) as u32
}

/// The cost of a get of a value of `value_bytes`, for which there is room, under a profile. The key is in the command, and one page is
/// the buffer for up to 4 KiB, of which the device writes what the value has.
pub fn of_get(method: ReadMethod, value_bytes: u64, profile: &Profile) -> GetCost {
    let mut device = Meter::new(profile);
    device.set_ledger(true);
    device.set_timing(true);
    let host = HostMeter::new(profile);
    host.set_on(true);
    let step = |step| profile.host.ps(step);
    let mut host_ps = step(HostStep::Submit) + step(HostStep::Doorbell);
    host.doorbell(0);
    device.begin(profile.doorbell_arrival_ps(host_ps));
    device.device_read(Class::CommandFetch, SLOT_BYTES);
    device.work(Work::Command);
    answer(&mut device, method, value_bytes, profile);
    let arrived_ps = device.arrived_ps();
    device.interrupt();
    let woken_ps = if profile.habits.host_sleeps { device.arrived_ps() } else { arrived_ps };
    host_ps = host_ps.max(woken_ps) + step(HostStep::Completion) + step(HostStep::Doorbell);
    if profile.habits.host_sleeps {
        host_ps += step(HostStep::Wake);
    }
    host.doorbell(0);
    let mut ledger = *device.ledger();
    ledger.merge(&host.ledger());
    GetCost { ledger, ps: host_ps }
}

/// The device sends value and completion.
fn answer(device: &mut Meter, method: ReadMethod, n: u64, profile: &Profile) {
    if method == ReadMethod::InlineRead && n <= inline_read_max_bytes(profile).into() {
        device.work(Work::MemCopy { bytes: n as u32 });
        device.work(Work::Completion);
        let entries = 1 + n.div_ceil(RESULT_ENTRY_BYTES);
        return device.posted_write(Class::Completion, entries * ENTRY_BYTES);
    }
    let pages = n.div_ceil(PAGE_BYTES);
    match method {
        ReadMethod::Sgl if n > 0 => device.work(Work::SglDescriptor),
        // Only reads of host memory move whole pages, and pay for each as it moves.
        _ if profile.habits.whole_page_prp => {}
        _ => (0..pages).for_each(|_| device.work(Work::PrpPage)),
    }
    for page in 0..pages {
        device.device_write(Class::DataWrite, (n - page * PAGE_BYTES).min(PAGE_BYTES));
    }
    device.work(Work::Completion);
    device.posted_write(Class::Completion, ENTRY_BYTES);
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn gen4x4() -> Profile {
        Profile::by_name("gen4x4").unwrap()
    }

    fn wire(method: ReadMethod, n: u64) -> u64 {
        of_get(method, n, &gen4x4()).ledger.wire_bytes()
    }

    #[test]
    fn limit_is_one_packet_with_the_completion_and_15_entries() {
        let of = |mps| inline_read_max_bytes(&gen4x4().with_mps(mps).unwrap());
        assert_eq!([128, 256, 512, 4096].map(of), [105, 225, 225, 225]);
    }

    #[test]
    fn inline_read_saves_a_packet_header_less_a_byte_an_entry() {
        // 24 bytes of header and 8 of data become 16 of an entry.
        assert_eq!(wire(ReadMethod::Prp, 8) - wire(ReadMethod::InlineRead, 8), 24 + 8 - 16);
        assert_eq!(wire(ReadMethod::Prp, 120) - wire(ReadMethod::InlineRead, 120), 24 + 120 - 128);
    }

    #[test]
    fn inline_read_costs_at_most_four_bytes_more_within_its_limit() {
        for n in 1..=inline_read_max_bytes(&gen4x4()).into() {
            assert!(wire(ReadMethod::InlineRead, n) <= wire(ReadMethod::Prp, n) + 4, "{n} bytes");
        }
    }

    #[test]
    fn longer_value_costs_what_it_costs_by_prp() {
        let limit = u64::from(inline_read_max_bytes(&gen4x4()));
        assert_eq!(wire(ReadMethod::InlineRead, limit + 1), wire(ReadMethod::Prp, limit + 1));
    }
}
