//! Bytes to instructions (RFC 9669, sections 3 to 5).

use super::instruction::{
    Arithmetic, ByteOrder, Comparison, FRAME_POINTER, Helper, Instruction, Register, Size, Source, Width,
};
use super::{INSTRUCTIONS_MAX, SLOT_BYTES, Unsound};

/// Bit of the opcode: the second operand is a register.
const SOURCE_REGISTER: u8 = 0x08;

/// Fields of one slot.
#[derive(Debug, Clone, Copy)]
struct Slot {
    index: usize,
    opcode: u8,
    to: Register,
    source: Register,
    offset: i16,
    immediate: i32,
}

/// Decodes all instructions.
pub(super) fn decode(bytes: &[u8]) -> Result<Vec<Instruction>, Unsound> {
    if bytes.is_empty() || !bytes.len().is_multiple_of(SLOT_BYTES) {
        return Err(Unsound::Size);
    }
    if bytes.len() > INSTRUCTIONS_MAX * SLOT_BYTES {
        return Err(Unsound::TooLong);
    }
    let (chunks, _) = bytes.as_chunks::<SLOT_BYTES>();
    let mut slots = chunks.iter().enumerate().map(|(index, chunk)| Slot::parse(index, *chunk));
    let mut instructions = Vec::with_capacity(chunks.len());
    while let Some(slot) = slots.next() {
        if slot.opcode == 0x18 {
            instructions.push(slot.load_immediate(slots.next())?);
            instructions.push(Instruction::Second);
        } else {
            instructions.push(slot.instruction()?);
        }
    }
    Ok(instructions)
}

impl Slot {
    fn parse(index: usize, bytes: [u8; SLOT_BYTES]) -> Self {
        let [opcode, registers, offset_low, offset_high, immediate @ ..] = bytes;
        Self {
            index,
            opcode,
            to: registers & 0xf,
            source: registers >> 4,
            offset: i16::from_le_bytes([offset_low, offset_high]),
            immediate: i32::from_le_bytes(immediate),
        }
    }

    fn instruction(&self) -> Result<Instruction, Unsound> {
        match self.opcode & 7 {
            1 => self.load(),
            2 => self.store(Source::Immediate(self.immediate)),
            3 => self.store(Source::Register(self.source)),
            4 => self.arithmetic(Width::Half),
            5 => self.jump(Width::Full),
            6 => self.jump(Width::Half),
            7 => self.arithmetic(Width::Full),
            _ => Err(Unsound::Operation(self.index)),
        }
    }

    fn has_source_register(&self) -> bool {
        self.opcode & SOURCE_REGISTER != 0
    }

    /// The index that a distance from the next instruction leads to. Before the first one it is above every index.
    fn target(&self, distance: i32) -> u32 {
        u32::try_from(self.index as i64 + 1 + i64::from(distance)).unwrap_or(u32::MAX)
    }

    /// Refuses what the operation does not use.
    fn reserved(&self, are_zero: bool) -> Result<(), Unsound> {
        if are_zero { Ok(()) } else { Err(Unsound::Reserved(self.index)) }
    }

    /// A register that is read.
    fn read(&self, register: Register) -> Result<Register, Unsound> {
        if register <= FRAME_POINTER { Ok(register) } else { Err(Unsound::Register(self.index)) }
    }

    /// The destination, if it may be written.
    fn written(&self) -> Result<Register, Unsound> {
        if self.to < FRAME_POINTER { Ok(self.to) } else { Err(Unsound::Register(self.index)) }
    }

    /// The second operand: a register with no immediate, or an immediate with no register.
    fn operand(&self) -> Result<Source, Unsound> {
        if self.has_source_register() {
            self.reserved(self.immediate == 0)?;
            Ok(Source::Register(self.read(self.source)?))
        } else {
            self.reserved(self.source == 0)?;
            Ok(Source::Immediate(self.immediate))
        }
    }

    fn load_immediate(&self, second: Option<Self>) -> Result<Instruction, Unsound> {
        let second = second.ok_or(Unsound::End(self.index))?;
        self.reserved(self.offset == 0 && self.source == 0)?;
        second.reserved(second.opcode == 0 && second.to == 0 && second.source == 0 && second.offset == 0)?;
        let value = u64::from(second.immediate as u32) << 32 | u64::from(self.immediate as u32);
        Ok(Instruction::LoadImmediate { to: self.written()?, value })
    }

    const fn size(&self) -> Size {
        match self.opcode >> 3 & 3 {
            0 => Size::Four,
            1 => Size::Two,
            2 => Size::One,
            _ => Size::Eight,
        }
    }

    fn load(&self) -> Result<Instruction, Unsound> {
        let (size, is_signed) = (self.size(), self.opcode >> 5 == 4);
        if !(self.opcode >> 5 == 3 || is_signed && size != Size::Eight) {
            return Err(Unsound::Operation(self.index));
        }
        self.reserved(self.immediate == 0)?;
        let (to, base) = (self.written()?, self.read(self.source)?);
        Ok(Instruction::Load { size, is_signed, to, base, offset: self.offset })
    }

    fn store(&self, source: Source) -> Result<Instruction, Unsound> {
        if self.opcode >> 5 != 3 {
            return Err(Unsound::Operation(self.index));
        }
        match source {
            Source::Register(register) => {
                self.read(register)?;
                self.reserved(self.immediate == 0)?;
            }
            Source::Immediate(_) => self.reserved(self.source == 0)?,
        }
        Ok(Instruction::Store { size: self.size(), base: self.read(self.to)?, offset: self.offset, source })
    }

    fn arithmetic(&self, width: Width) -> Result<Instruction, Unsound> {
        let operation = match (self.opcode >> 4, self.offset) {
            (0x0, 0) => Arithmetic::Add,
            (0x1, 0) => Arithmetic::Subtract,
            (0x2, 0) => Arithmetic::Multiply,
            (0x3, 0) => Arithmetic::Divide,
            (0x3, 1) => Arithmetic::DivideSigned,
            (0x4, 0) => Arithmetic::Or,
            (0x5, 0) => Arithmetic::And,
            (0x6, 0) => self.shift(Arithmetic::ShiftLeft, width)?,
            (0x7, 0) => self.shift(Arithmetic::ShiftRight, width)?,
            (0x8, 0) => return self.negate(width),
            (0x9, 0) => Arithmetic::Remainder,
            (0x9, 1) => Arithmetic::RemainderSigned,
            (0xa, 0) => Arithmetic::Xor,
            (0xb, _) => self.move_of(width)?,
            (0xc, 0) => self.shift(Arithmetic::ShiftRightSigned, width)?,
            (0xd, 0) => return self.byte_swap(width),
            (0x0..=0xd, _) => return Err(Unsound::Reserved(self.index)),
            _ => return Err(Unsound::Operation(self.index)),
        };
        Ok(Instruction::Arithmetic { operation, width, to: self.written()?, source: self.operand()? })
    }

    /// A shift by an immediate is less than the width.
    fn shift(&self, operation: Arithmetic, width: Width) -> Result<Arithmetic, Unsound> {
        let bits = if width == Width::Full { 64 } else { 32 };
        let is_sound = self.has_source_register() || (0..bits).contains(&self.immediate);
        if is_sound { Ok(operation) } else { Err(Unsound::Immediate(self.index)) }
    }

    fn negate(&self, width: Width) -> Result<Instruction, Unsound> {
        self.reserved(!self.has_source_register() && self.source == 0 && self.immediate == 0)?;
        Ok(Instruction::Negate { width, to: self.written()? })
    }

    fn move_of(&self, width: Width) -> Result<Arithmetic, Unsound> {
        match (self.offset, self.has_source_register(), width) {
            (0, ..) => Ok(Arithmetic::Move),
            (8, true, _) => Ok(Arithmetic::MoveSigned8),
            (16, true, _) => Ok(Arithmetic::MoveSigned16),
            (32, true, Width::Full) => Ok(Arithmetic::MoveSigned32),
            _ => Err(Unsound::Reserved(self.index)),
        }
    }

    /// Of 32 bits: to little endian, which keeps, or to big endian. Of 64 bits: a swap whatever the machine is.
    fn byte_swap(&self, width: Width) -> Result<Instruction, Unsound> {
        let swaps = width == Width::Full || self.has_source_register();
        self.reserved(self.source == 0 && !(width == Width::Full && self.has_source_register()))?;
        let order = match (self.immediate, swaps) {
            (16, false) => ByteOrder::Keep16,
            (32, false) => ByteOrder::Keep32,
            (64, false) => ByteOrder::Keep64,
            (16, true) => ByteOrder::Swap16,
            (32, true) => ByteOrder::Swap32,
            (64, true) => ByteOrder::Swap64,
            _ => return Err(Unsound::Immediate(self.index)),
        };
        Ok(Instruction::ByteSwap { order, to: self.written()? })
    }

    fn jump(&self, width: Width) -> Result<Instruction, Unsound> {
        let comparison = match self.opcode >> 4 {
            0x0 => return self.jump_always(width),
            0x1 => Comparison::Equal,
            0x2 => Comparison::Greater,
            0x3 => Comparison::GreaterOrEqual,
            0x4 => Comparison::BitsSet,
            0x5 => Comparison::NotEqual,
            0x6 => Comparison::GreaterSigned,
            0x7 => Comparison::GreaterOrEqualSigned,
            0x8 if width == Width::Full => return self.call(),
            0x9 if width == Width::Full => return self.exit(),
            0xa => Comparison::Less,
            0xb => Comparison::LessOrEqual,
            0xc => Comparison::LessSigned,
            0xd => Comparison::LessOrEqualSigned,
            _ => return Err(Unsound::Operation(self.index)),
        };
        let (left, right) = (self.read(self.to)?, self.operand()?);
        let target = self.target(self.offset.into());
        Ok(Instruction::JumpIf { comparison, width, left, right, target })
    }

    /// Of 64 bits the distance is the offset, of 32 bits the immediate.
    fn jump_always(&self, width: Width) -> Result<Instruction, Unsound> {
        let (offset, unused) = match width {
            Width::Full => (self.offset.into(), self.immediate),
            Width::Half => (self.immediate, self.offset.into()),
        };
        self.reserved(!self.has_source_register() && self.to == 0 && self.source == 0 && unused == 0)?;
        Ok(Instruction::Jump { target: self.target(offset) })
    }

    fn call(&self) -> Result<Instruction, Unsound> {
        self.reserved(!self.has_source_register() && self.to == 0 && self.offset == 0)?;
        match (self.source, self.immediate) {
            (0, 1) => Ok(Instruction::CallHelper { helper: Helper::Crc32c }),
            (1, distance) => Ok(Instruction::Call { target: self.target(distance) }),
            _ => Err(Unsound::Helper(self.index)),
        }
    }

    fn exit(&self) -> Result<Instruction, Unsound> {
        let is_bare = !self.has_source_register() && self.to == 0 && self.source == 0;
        self.reserved(is_bare && self.offset == 0 && self.immediate == 0)?;
        Ok(Instruction::Exit)
    }
}
