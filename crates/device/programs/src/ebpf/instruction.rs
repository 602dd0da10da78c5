//! Decoded instructions.

/// A register, 0 to 10. Register 10 is the frame pointer and is only read.
pub(super) type Register = u8;

/// The frame pointer.
pub(super) const FRAME_POINTER: Register = 10;

/// Second operand: a register, or an immediate whose sign is extended to 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    Register(Register),
    Immediate(i32),
}

/// Width of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    /// 32 bits: the upper half of the result is zero.
    Half,
    /// 64 bits.
    Full,
}

/// Bytes of an access to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    One,
    Two,
    Four,
    Eight,
}

/// Arithmetic of two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    DivideSigned,
    Remainder,
    RemainderSigned,
    Or,
    And,
    Xor,
    ShiftLeft,
    ShiftRight,
    ShiftRightSigned,
    Move,
    /// Move with the sign of 8, 16 or 32 bits extended.
    MoveSigned8,
    MoveSigned16,
    MoveSigned32,
}

/// Comparison of two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    BitsSet,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    GreaterSigned,
    GreaterOrEqualSigned,
    LessSigned,
    LessOrEqualSigned,
}

/// Conversion of the byte order (RFC 9669, section 4.2). Each keeps the low 16, 32 or 64 bits and zeroes the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ByteOrder {
    Keep16,
    Keep32,
    Keep64,
    Swap16,
    Swap32,
    Swap64,
}

/// A function of the device that a program may call, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Helper {
    /// 1: CRC-32C of r2 bytes at r1, continued from r3.
    Crc32c,
}

/// One instruction. Targets are indexes of instructions; those that lie outside the program are refused by the verifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Instruction {
    Arithmetic {
        operation: Arithmetic,
        width: Width,
        to: Register,
        source: Source,
    },
    Negate {
        width: Width,
        to: Register,
    },
    ByteSwap {
        order: ByteOrder,
        to: Register,
    },
    /// A 64-bit immediate. The slot behind it is [`Second`](Self::Second).
    LoadImmediate {
        to: Register,
        value: u64,
    },
    /// Second half of a [`LoadImmediate`](Self::LoadImmediate); never reached.
    Second,
    Load {
        size: Size,
        is_signed: bool,
        to: Register,
        base: Register,
        offset: i16,
    },
    Store {
        size: Size,
        base: Register,
        offset: i16,
        source: Source,
    },
    Jump {
        target: u32,
    },
    JumpIf {
        comparison: Comparison,
        width: Width,
        left: Register,
        right: Source,
        target: u32,
    },
    Call {
        target: u32,
    },
    CallHelper {
        helper: Helper,
    },
    Exit,
}

impl Instruction {
    /// Where the instruction may lead, other than to the next one.
    pub const fn target(&self) -> Option<u32> {
        match self {
            Self::Jump { target } | Self::JumpIf { target, .. } | Self::Call { target } => Some(*target),
            _ => None,
        }
    }
}
