//! Get Log Page (Base 2.1, section 5.1.12).
//!
//! A page is made when it is read. Bytes past its end are not written to the host.

use byway_spec::Command;
use byway_spec::Status;
use byway_spec::base::ana::GROUPS_ONLY;
use byway_spec::base::command::NSID_ALL;
use byway_spec::base::identify::{Csi, ascii_field};
use byway_spec::base::log::{
    FirmwareSlots, LogCdw10, LogCdw11, LogCdw14, LogPage, PageSupport, SupportedPages,
};
use byway_spec::base::telemetry::TelemetryLsp;
use zerocopy::{FromZeros, IntoBytes};

use super::context::Context;
use super::{AdminState, effects, health, ledger_log, programs, reservation, sanitize, stall_log, telemetry};
use crate::error::CommandError;
use crate::limits::{FIRMWARE, MAX_TRANSFER_BYTES};
use crate::outcome::Outcome;

/// Every page a controller has, beside ANA where it reports that.
const PAGES: [LogPage; 16] = [
    LogPage::SUPPORTED_PAGES,
    LogPage::ERROR,
    LogPage::SMART,
    LogPage::FIRMWARE_SLOT,
    LogPage::CHANGED_NAMESPACES,
    LogPage::EFFECTS,
    LogPage::TELEMETRY_HOST,
    LogPage::TELEMETRY_CONTROLLER,
    LogPage::FEATURES,
    LogPage::MANAGEMENT,
    LogPage::RESERVATION,
    LogPage::SANITIZE,
    LogPage::PROGRAM_LIST,
    LogPage::LEDGER,
    LogPage::ERROR_TEXTS,
    LogPage::STALLS,
];

/// A parsed Get Log Page command.
struct Request {
    page: LogPage,
    nsid: u32,
    csi: Csi,
    offset_bytes: u64,
    len_bytes: u64,
    lsp: u8,
    retain_event: bool,
}

impl Request {
    fn parse(command: &Command) -> Result<Self, CommandError> {
        let cdw10 = LogCdw10::from_bits(command.cdw10);
        let cdw11 = LogCdw11::from_bits(command.cdw11);
        let cdw14 = LogCdw14::from_bits(command.cdw14);
        let dwords_z = u64::from(cdw10.numdl_z()) | u64::from(cdw11.numdu()) << 16;
        let offset_bytes = u64::from(command.cdw12) | u64::from(command.cdw13) << 32;
        if cdw14.index_offset() {
            return Err(CommandError::invalid_field("offsets are bytes").at_byte(58));
        }
        if offset_bytes % 4 != 0 {
            return Err(CommandError::invalid_field("an offset is a multiple of 4").at_byte(48));
        }
        let len_bytes = (dwords_z + 1) * 4;
        if len_bytes > MAX_TRANSFER_BYTES as u64 {
            return Err(CommandError::invalid_field("longer than the longest transfer").at_byte(42));
        }
        Ok(Self {
            page: cdw10.lid(),
            nsid: command.nsid,
            csi: Csi(cdw14.csi()),
            offset_bytes,
            len_bytes,
            lsp: cdw10.lsp(),
            retain_event: cdw10.rae(),
        })
    }

    /// The part of `page` that was asked for.
    fn part<'a>(&self, page: &'a [u8]) -> Result<&'a [u8], CommandError> {
        let from = usize::try_from(self.offset_bytes).ok().and_then(|offset| page.get(offset..));
        let from = from
            .ok_or(CommandError::invalid_field("the offset is past the end of the log page").at_byte(48))?;
        Ok(&from[..from.len().min(self.len_bytes as usize)])
    }
}

impl AdminState {
    pub(super) fn get_log_page(
        &mut self,
        cx: &mut Context<'_, '_>,
        command: &Command,
    ) -> Result<Outcome, CommandError> {
        let request = Request::parse(command)?;
        if request.page == LogPage::SMART && !matches!(command.nsid, 0 | NSID_ALL) {
            return Err(CommandError::invalid_field("health is reported for the whole controller").at_byte(4));
        }
        self.number_errors(cx.subsystem);
        if matches!(request.page, LogPage::TELEMETRY_HOST | LogPage::TELEMETRY_CONTROLLER) {
            telemetry::check(request.offset_bytes, request.len_bytes)?;
        }
        if request.page == LogPage::TELEMETRY_HOST && TelemetryLsp::from_bits(request.lsp).create() {
            self.capture_telemetry(cx);
        }
        let page = self.log_page(cx, &request)?;
        let outcome = cx.send(command, request.part(&page)?)?;
        if !request.retain_event {
            self.events.clear(request.page);
            match request.page {
                LogPage::CHANGED_NAMESPACES => cx.subsystem.changes.clear(cx.id),
                LogPage::RESERVATION => cx.subsystem.notices.clear(cx.id),
                LogPage::ANA => _ = cx.subsystem.paths.take_news(cx.id),
                _ => {}
            }
        }
        Ok(outcome)
    }

    fn log_page(&self, cx: &Context<'_, '_>, request: &Request) -> Result<Vec<u8>, CommandError> {
        let subsystem = &*cx.subsystem;
        Ok(match request.page {
            LogPage::SUPPORTED_PAGES => supported_pages(subsystem.paths.are_reported(cx.id)),
            LogPage::ERROR => self.errors.page(),
            LogPage::SMART => health::page(subsystem, self.features.thresholds()),
            LogPage::FIRMWARE_SLOT => firmware_slots(),
            LogPage::CHANGED_NAMESPACES => subsystem.changes.page(cx.id).as_bytes().to_vec(),
            LogPage::EFFECTS => effects::effects_page(cx, self.transfers, request.csi)?,
            LogPage::TELEMETRY_HOST => self.telemetry.host_page(),
            LogPage::TELEMETRY_CONTROLLER => telemetry::controller_page(),
            LogPage::FEATURES => effects::features_page(cx.is_fabric),
            LogPage::MANAGEMENT => effects::management_page(),
            LogPage::ANA if subsystem.paths.are_reported(cx.id) => {
                subsystem.ana_page(cx.id, request.lsp & GROUPS_ONLY != 0)
            }
            LogPage::RESERVATION => reservation::page(cx.id, subsystem),
            LogPage::SANITIZE => sanitize::page(subsystem),
            LogPage::PROGRAM_LIST => programs::list_page(cx, request.nsid),
            LogPage::ERROR_TEXTS => self.errors.texts_page(),
            LogPage::STALLS => stall_log::page(&subsystem.stall_snapshot()),
            LogPage::LEDGER => ledger_log::page(cx.port.meter.ledger(), subsystem),
            _ => return Err(CommandError::new(Status::INVALID_LOG_PAGE, "no such log page").at_byte(40)),
        })
    }
}

fn supported_pages(has_ana: bool) -> Vec<u8> {
    let mut log = SupportedPages::new_zeroed();
    for page in PAGES.into_iter().chain(has_ana.then_some(LogPage::ANA)) {
        log.pages[usize::from(page.0)] = PageSupport::new().with_lsupp(true);
    }
    log.as_bytes().to_vec()
}

fn firmware_slots() -> Vec<u8> {
    let mut log = FirmwareSlots::new_zeroed();
    log.afi = 1;
    log.frs[0] = ascii_field(FIRMWARE);
    log.as_bytes().to_vec()
}
