//! Admin commands: opcodes and the dwords of those Byway speaks (Base 2.1, section 5).

use bitfield_struct::bitfield;

open_enum! {
    /// Admin opcode.
    pub struct AdminOpcode(u8) {
        DELETE_SQ = 0x00 "Delete I/O Submission Queue",
        CREATE_SQ = 0x01 "Create I/O Submission Queue",
        GET_LOG_PAGE = 0x02 "Get Log Page",
        DELETE_CQ = 0x04 "Delete I/O Completion Queue",
        CREATE_CQ = 0x05 "Create I/O Completion Queue",
        IDENTIFY = 0x06 "Identify",
        ABORT = 0x08 "Abort",
        SET_FEATURES = 0x09 "Set Features",
        GET_FEATURES = 0x0a "Get Features",
        ASYNC_EVENT_REQUEST = 0x0c "Asynchronous Event Request",
        NAMESPACE_MANAGEMENT = 0x0d "Namespace Management",
        FIRMWARE_COMMIT = 0x10 "Firmware Commit",
        FIRMWARE_DOWNLOAD = 0x11 "Firmware Image Download",
        SELF_TEST = 0x14 "Device Self-test",
        NAMESPACE_ATTACHMENT = 0x15 "Namespace Attachment",
        KEEP_ALIVE = 0x18 "Keep Alive",
        DIRECTIVE_SEND = 0x19 "Directive Send",
        DIRECTIVE_RECEIVE = 0x1a "Directive Receive",
        DOORBELL_BUFFER_CONFIG = 0x7c "Doorbell Buffer Config",
        FABRICS = 0x7f "Fabrics",
        FORMAT_NVM = 0x80 "Format NVM",
        SECURITY_SEND = 0x81 "Security Send",
        SECURITY_RECEIVE = 0x82 "Security Receive",
        SANITIZE = 0x84 "Sanitize",
        LOAD_PROGRAM = 0x85 "Load Program",
        GET_LBA_STATUS = 0x86 "Get LBA Status",
        PROGRAM_ACTIVATION = 0x88 "Program Activation Management",
        MEMORY_RANGE_SET = 0x89 "Memory Range Set Management",
    }
}

/// CDW10 of Create and Delete I/O Queue. Delete uses the identifier alone.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct QueueCdw10 {
    /// Queue identifier.
    pub qid: u16,
    /// Entries, zero-based.
    pub qsize_z: u16,
}

/// CDW11 of Create I/O Submission Queue.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct CreateSqCdw11 {
    /// Physically contiguous.
    pub pc: bool,
    /// Priority: 0 urgent to 3 low.
    #[bits(2)]
    pub qprio: u8,
    #[bits(13)]
    __: u16,
    /// Completion queue.
    pub cqid: u16,
}

/// CDW11 of Create I/O Completion Queue.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct CreateCqCdw11 {
    /// Physically contiguous.
    pub pc: bool,
    /// Interrupts enabled.
    pub ien: bool,
    #[bits(14)]
    __: u16,
    /// Interrupt vector.
    pub iv: u16,
}

/// CDW10 of Abort. Bit 0 of the completion's DW0 is 1 if the command was not aborted.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct AbortCdw10 {
    /// Submission queue of the command.
    pub sqid: u16,
    /// Identifier of the command.
    pub cid: u16,
}

/// CDW10 of Sanitize.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct SanitizeCdw10 {
    /// Sanitize action.
    #[bits(3)]
    pub sanact: u8,
    /// Allow unrestricted sanitize exit.
    pub ause: bool,
    /// Overwrite passes; 0 means 16.
    #[bits(4)]
    pub owpass: u8,
    /// Invert the overwrite pattern between passes.
    pub oipbp: bool,
    /// No deallocate after sanitize.
    pub ndas: bool,
    #[bits(22)]
    __: u32,
}

impl SanitizeCdw10 {
    /// Leave failure mode.
    pub const EXIT_FAILURE: u8 = 1;
    /// Erase all blocks.
    pub const BLOCK_ERASE: u8 = 2;
    /// Write a pattern over everything.
    pub const OVERWRITE: u8 = 3;
    /// Throw the media's key away.
    pub const CRYPTO_ERASE: u8 = 4;
}

/// CDW10 of Format NVM.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct FormatCdw10 {
    /// Low four bits of the format index.
    #[bits(4)]
    pub lbafl: u8,
    /// Metadata settings.
    pub mset: bool,
    /// Protection information.
    #[bits(3)]
    pub pi: u8,
    /// Protection information location.
    pub pil: bool,
    /// Secure erase: 0 none, 1 user data, 2 cryptographic.
    #[bits(3)]
    pub ses: u8,
    /// High two bits of the format index.
    #[bits(2)]
    pub lbafu: u8,
    #[bits(18)]
    __: u32,
}

impl FormatCdw10 {
    /// The whole format index.
    pub const fn format_index(&self) -> u8 {
        self.lbafl() | self.lbafu() << 4
    }
}

/// CDW10 of Namespace Management and Namespace Attachment.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct SelectCdw10 {
    /// What to do: see the constants.
    #[bits(4)]
    pub sel: u8,
    #[bits(28)]
    __: u32,
}

impl SelectCdw10 {
    /// Namespace Management: create.
    pub const CREATE: u8 = 0;
    /// Namespace Management: delete.
    pub const DELETE: u8 = 1;
    /// Namespace Attachment: attach.
    pub const ATTACH: u8 = 0;
    /// Namespace Attachment: detach.
    pub const DETACH: u8 = 1;
}

/// CDW11 of Namespace Management.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct NamespaceCdw11 {
    #[bits(24)]
    __: u32,
    /// Command set of the namespace.
    pub csi: u8,
}

/// Bytes of a doorbell buffer (Doorbell Buffer Config: shadow doorbells at PRP1, event indexes at PRP2).
pub const DOORBELL_BUFFER_BYTES: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_creation_dwords_are_those_of_the_specification() {
        assert_eq!(QueueCdw10::new().with_qid(3).with_qsize_z(1023).into_bits(), 0x03ff_0003);
        assert_eq!(CreateSqCdw11::new().with_pc(true).with_cqid(3).into_bits(), 0x0003_0001);
        assert_eq!(CreateCqCdw11::new().with_pc(true).with_ien(true).with_iv(2).into_bits(), 0x0002_0003);
    }

    #[test]
    fn a_format_index_is_split_over_two_fields() {
        let cdw10 = FormatCdw10::new().with_lbafl(0xf).with_lbafu(2).with_ses(1);
        assert_eq!(cdw10.into_bits(), 0x0000_220f);
        assert_eq!(cdw10.format_index(), 0x2f);
    }
}
