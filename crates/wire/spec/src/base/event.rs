//! Asynchronous events (Base 2.1, section 5.1.2): DW0 of the completion of an event request.

use super::log::LogPage;
use bitfield_struct::bitfield;

open_enum! {
    /// Event type.
    pub struct EventType(u8) {
        ERROR = 0 "Error status",
        SMART = 1 "SMART / Health status",
        NOTICE = 2 "Notice",
        IMMEDIATE = 3 "Immediate",
        COMMAND_SET = 6 "I/O Command Specific",
        VENDOR = 7 "Vendor specific",
    }
}

/// DW0 of the completion of an Asynchronous Event Request.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Event {
    /// Type.
    #[bits(3)]
    pub kind: EventType,
    #[bits(5)]
    __: u8,
    /// Information; its meaning depends on the type.
    pub info: u8,
    /// Log page whose reading clears the event.
    #[bits(8)]
    pub log: LogPage,
    __: u8,
}

impl Event {
    /// Error: a doorbell of a queue that does not exist was written.
    pub const INVALID_DOORBELL: Self = Self::of(EventType::ERROR, 0x00, LogPage::ERROR);
    /// Error: a doorbell was written with a value outside its queue.
    pub const INVALID_DOORBELL_VALUE: Self = Self::of(EventType::ERROR, 0x01, LogPage::ERROR);
    /// Error: diagnostic failure.
    pub const DIAGNOSTIC_FAILURE: Self = Self::of(EventType::ERROR, 0x02, LogPage::ERROR);
    /// Error: persistent internal error.
    pub const PERSISTENT_ERROR: Self = Self::of(EventType::ERROR, 0x03, LogPage::ERROR);
    /// Error: transient internal error.
    pub const TRANSIENT_ERROR: Self = Self::of(EventType::ERROR, 0x04, LogPage::ERROR);
    /// SMART: reliability is reduced.
    pub const RELIABILITY: Self = Self::of(EventType::SMART, 0x00, LogPage::SMART);
    /// SMART: temperature crossed a threshold.
    pub const TEMPERATURE: Self = Self::of(EventType::SMART, 0x01, LogPage::SMART);
    /// SMART: spare is below its threshold.
    pub const SPARE: Self = Self::of(EventType::SMART, 0x02, LogPage::SMART);
    /// Notice: the attached namespaces or their attributes changed.
    pub const NAMESPACE_CHANGED: Self = Self::of(EventType::NOTICE, 0x00, LogPage::CHANGED_NAMESPACES);
    /// Notice: the ANA state of a group changed.
    pub const ANA_CHANGED: Self = Self::of(EventType::NOTICE, 0x03, LogPage::ANA);
    /// Notice: the discovery log changed.
    pub const DISCOVERY_CHANGED: Self = Self::of(EventType::NOTICE, 0xf0, LogPage::DISCOVERY);
    /// I/O command specific: a Reservation Notification log page is available.
    pub const RESERVATION: Self = Self::of(EventType::COMMAND_SET, 0x00, LogPage::RESERVATION);

    /// An event of this type and information, cleared by reading `log`.
    pub const fn of(kind: EventType, info: u8, log: LogPage) -> Self {
        Self::new().with_kind(kind).with_info(info).with_log(log)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_change_is_the_dword_linux_expects() {
        assert_eq!(Event::NAMESPACE_CHANGED.into_bits(), 0x0004_0002);
        assert_eq!(Event::INVALID_DOORBELL_VALUE.into_bits(), 0x0001_0100);
        assert_eq!(Event::RESERVATION.into_bits(), 0x0080_0006);
        assert_eq!(Event::ANA_CHANGED.into_bits(), 0x000c_0302);
        assert_eq!(Event::DISCOVERY_CHANGED.into_bits(), 0x0070_f002);
    }
}
