//! The ledger's log page of a Byway device: in this process, behind a kernel's driver, or on another machine. Doorbells are
//! not in it: a device reads them when it likes, and does not see how often they are written.

use anyhow::{Context, Result, ensure};
use byway::spec::base::log::LogPage;
use byway::spec::vendor::{Counter, LedgerLog, LedgerRow, MAGIC, name_text};
use byway::{AdminCommand, Backend, Buffer, Class, Device, Ledger};
use byway_link::Cost;
use zerocopy::FromBytes;

use crate::decode;

/// What begins the names of counters of commands by their descriptor.
const PAYLOAD: &str = "payload.";

/// The counters of a device at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LedgerPage {
    /// What crossed its link.
    pub ledger: Ledger,
    /// I/O commands by the descriptor of their payload: `prp`, `sgl`, `inline`, `piggyback`, ….
    pub descriptors: Vec<(String, u64)>,
}

impl LedgerPage {
    /// Asks a device. Asking crosses the link, too.
    ///
    /// # Errors
    /// A device that has no such page.
    pub fn ask(device: &Device) -> Result<Self> {
        let head = read(device, size_of::<LedgerLog>())?;
        let page = read(device, decode::ledger_bytes(head.as_slice()))?;
        Self::parse(page.as_slice()).context("the device's ledger is not one of a Byway device")
    }

    fn parse(page: &[u8]) -> Option<Self> {
        let (head, mut rest) = LedgerLog::read_from_prefix(page).ok()?;
        let mut page = Self::default();
        for _ in 0..head.rows {
            let (row, behind) = LedgerRow::read_from_prefix(rest).ok()?;
            rest = behind;
            let class = Class::ALL.into_iter().find(|class| class.name() == name_text(&row.class));
            // A class of a newer device is in none of this one's sums.
            if let Some(class) = class {
                let LedgerRow { payload_bytes, down_bytes, up_bytes, .. } = row;
                page.ledger.record_many(class, row.count, Cost { payload_bytes, down_bytes, up_bytes });
            }
        }
        for _ in 0..head.counters {
            let (counter, behind) = Counter::read_from_prefix(rest).ok()?;
            rest = behind;
            if let Some(name) = name_text(&counter.name).strip_prefix(PAYLOAD) {
                page.descriptors.push((name.to_owned(), counter.value));
            }
        }
        (head.magic == MAGIC).then_some(page)
    }

    /// What was counted since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |name: &str| {
            let found = earlier.descriptors.iter().find(|(known, _)| known == name);
            found.map_or(0, |(_, commands)| *commands)
        };
        let since = |(name, commands): &(String, u64)| (name.clone(), commands.saturating_sub(before(name)));
        Self {
            ledger: self.ledger.since(&earlier.ledger),
            descriptors: self.descriptors.iter().map(since).collect(),
        }
    }

    /// The descriptors in use, joined by `+`; `none` where no I/O command had a payload.
    #[must_use]
    pub fn descriptors(&self) -> String {
        let came = self.descriptors.iter().filter(|(_, commands)| *commands > 0);
        let names: Vec<&str> = came.map(|(name, _)| name.as_str()).collect();
        if names.is_empty() { "none".to_owned() } else { names.join("+") }
    }
}

fn read(device: &Device, len: usize) -> Result<Buffer> {
    ensure!(device.identity().byway, "{} is no Byway device: it counts nothing", device.identity().model);
    let into = device.buffer(len)?;
    let log = LogPage::LEDGER.0;
    let command = AdminCommand::GetLog { log, csi: 0, nsid: None, retain_event: true, offset_bytes: 0, into };
    device.admin(command)?.buffer.context("the device gave no page back")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn ledger_page_holds_what_the_device_counted() {
        let device = byway::open("ram:64M").unwrap();
        let before = LedgerPage::ask(&device).unwrap();
        let asking = LedgerPage::ask(&device).unwrap().since(&before);
        assert_eq!(asking.descriptors(), "none");
        device.kv(None).unwrap().put(b"key", &[7; 20]).unwrap();
        let counted = device.as_embedded().unwrap().ledger();
        let after = LedgerPage::ask(&device).unwrap();
        assert_eq!(after.since(&before).descriptors(), "piggyback");
        let fetched = |ledger: &Ledger| ledger.row(Class::CommandFetch).count;
        assert!(
            (1..=2).contains(&(fetched(&after.ledger) - fetched(&counted))),
            "the page counts the request for it"
        );
        assert_eq!(after.ledger.row(Class::Doorbell).count, 0, "doorbells are the host's writes");
    }

    #[test]
    fn ledger_page_that_is_malformed_or_missing_is_refused() {
        assert_eq!(LedgerPage::parse(&[0; 24]), None);
        assert_eq!(LedgerPage::parse(&[0xff; 100]), None);
        let refused = LedgerPage::ask(&byway::open("blocks:1M").unwrap()).unwrap_err();
        assert!(refused.to_string().contains("no Byway device"), "{refused}");
    }
}
