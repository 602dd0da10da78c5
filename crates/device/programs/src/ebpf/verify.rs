//! Where instructions lead: checked once, so that a run needs no check of its position.

use super::Unsound;
use super::instruction::Instruction;

/// Checks that each jump and call leads to an instruction of the program, and that none goes on behind its end.
pub(super) fn verify(instructions: &[Instruction]) -> Result<(), Unsound> {
    let is_instruction = |target: u32| {
        instructions.get(target as usize).is_some_and(|instruction| *instruction != Instruction::Second)
    };
    for (index, instruction) in instructions.iter().enumerate() {
        if instruction.target().is_some_and(|target| !is_instruction(target)) {
            return Err(Unsound::Target(index));
        }
    }
    match instructions.last() {
        Some(Instruction::Exit | Instruction::Jump { .. }) => Ok(()),
        _ => Err(Unsound::End(instructions.len().saturating_sub(1))),
    }
}
