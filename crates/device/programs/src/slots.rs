//! Places for programs: loading in parts, activation, and what may not happen to a program that is in use.

use std::sync::Arc;

use byway_spec::programs::{LoadProgramCdw10, ProgramDescriptor, ProgramState, ProgramType};

use crate::builtin::BuiltIn;
use crate::program::Program;
use crate::refusal::Refusal;

/// Bounds of programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlotLimits {
    /// Places for programs of hosts. Those of the device come before them.
    pub loaded_max: u16,
    /// Most programs activated at a time.
    pub activated_max: u16,
    /// Largest program, in bytes.
    pub program_max_bytes: u64,
    /// Most bytes of all programs of hosts together, those that are being loaded included.
    pub programs_max_bytes: u64,
}

impl Default for SlotLimits {
    /// 32 programs of hosts, 32 activated, 512 KiB a program, 4 MiB all.
    fn default() -> Self {
        Self { loaded_max: 32, activated_max: 32, program_max_bytes: 512 << 10, programs_max_bytes: 4 << 20 }
    }
}

/// One command's part of a program.
#[derive(Debug, Clone, Copy)]
pub struct ProgramPart<'a> {
    /// Where the program goes.
    pub index: u16,
    /// Its type.
    pub program_type: ProgramType,
    /// Its identifier, if it has one.
    pub identifier: Option<u64>,
    /// Size of the whole program in bytes.
    pub size_bytes: u32,
    /// Position of this part in the program.
    pub offset: u32,
    /// The part.
    pub bytes: &'a [u8],
}

/// One place.
#[derive(Debug)]
enum Slot {
    Empty,
    Loading(Partial),
    Loaded(Arc<Program>),
    Activated(Arc<Program>),
}

/// A program of which not all parts have come.
#[derive(Debug)]
struct Partial {
    program_type: ProgramType,
    identifier: Option<u64>,
    size_bytes: u32,
    bytes: Vec<u8>,
}

/// All places: first those of the device's programs, then those for programs of hosts.
#[derive(Debug)]
pub struct Slots {
    limits: SlotLimits,
    slots: Vec<Slot>,
}

impl Slots {
    /// The device's programs, and places for those of hosts.
    #[must_use]
    pub fn new(limits: SlotLimits) -> Self {
        let built_in = BuiltIn::ALL.iter().map(|&program| Slot::Loaded(Arc::new(Program::built_in(program))));
        let empty = (0..limits.loaded_max).map(|_| Slot::Empty);
        Self { limits, slots: built_in.chain(empty).collect() }
    }

    /// Takes a part of a program. The first one has offset 0, and discards what the place held. The last one has the program verified;
    /// an unsound one leaves the place empty.
    ///
    /// # Errors
    /// [`Refusal::NotDownloadable`], [`Refusal::ProgramInUse`], [`Refusal::OutOfOrder`] and others for what the part says.
    pub fn load(&mut self, part: &ProgramPart<'_>) -> Result<(), Refusal> {
        self.may_change(part.index)?;
        if part.offset == 0 {
            self.begin(part)?;
        }
        let slot = self.slots.get_mut(usize::from(part.index)).ok_or(Refusal::InvalidProgramIndex)?;
        let Slot::Loading(partial) = slot else { return Err(Refusal::OutOfOrder) };
        if !partial.take(part)? {
            return Ok(());
        }
        let program = partial.verify();
        *slot = Slot::Empty;
        *slot = Slot::Loaded(Arc::new(program?));
        Ok(())
    }

    /// Empties a place.
    ///
    /// # Errors
    /// [`Refusal::NotDownloadable`], [`Refusal::NoProgram`], [`Refusal::ProgramInUse`].
    pub fn unload(&mut self, index: u16) -> Result<(), Refusal> {
        self.may_change(index)?;
        let slot = self.slot(index)?;
        if matches!(slot, Slot::Empty) {
            return Err(Refusal::NoProgram);
        }
        *slot = Slot::Empty;
        Ok(())
    }

    /// Lets a program be run. One that is activated already stays so.
    ///
    /// # Errors
    /// [`Refusal::NoProgram`], [`Refusal::TooManyActivated`].
    pub fn activate(&mut self, index: u16) -> Result<(), Refusal> {
        let activated = self.slots.iter().filter(|slot| matches!(slot, Slot::Activated(_))).count();
        let has_room = activated < usize::from(self.limits.activated_max);
        let slot = self.slot(index)?;
        let program = match slot {
            Slot::Activated(_) => return Ok(()),
            Slot::Loaded(program) => Arc::clone(program),
            Slot::Empty | Slot::Loading(_) => return Err(Refusal::NoProgram),
        };
        if !has_room {
            return Err(Refusal::TooManyActivated);
        }
        *slot = Slot::Activated(program);
        Ok(())
    }

    /// Lets a program no longer be run. One that is not activated stays so.
    ///
    /// # Errors
    /// [`Refusal::NoProgram`], [`Refusal::ProgramInUse`] while it runs.
    pub fn deactivate(&mut self, index: u16) -> Result<(), Refusal> {
        let slot = self.slot(index)?;
        let program = match slot {
            Slot::Loaded(_) => return Ok(()),
            Slot::Activated(program) => Arc::clone(program),
            Slot::Empty | Slot::Loading(_) => return Err(Refusal::NoProgram),
        };
        // One is the slot's, one is held here.
        if Arc::strong_count(&program) > 2 {
            return Err(Refusal::ProgramInUse);
        }
        *slot = Slot::Loaded(program);
        Ok(())
    }

    /// A program to run.
    ///
    /// # Errors
    /// [`Refusal::InvalidProgramIndex`], [`Refusal::NoProgram`], [`Refusal::NotActivated`].
    pub fn program(&self, index: u16) -> Result<Arc<Program>, Refusal> {
        match self.slots.get(usize::from(index)).ok_or(Refusal::InvalidProgramIndex)? {
            Slot::Activated(program) => Ok(Arc::clone(program)),
            Slot::Loaded(_) => Err(Refusal::NotActivated),
            Slot::Empty | Slot::Loading(_) => Err(Refusal::NoProgram),
        }
    }

    /// The activated programs of an identifier, by index.
    pub fn activated(&self, identifier: u64) -> impl Iterator<Item = &Arc<Program>> {
        self.slots.iter().filter_map(move |slot| match slot {
            Slot::Activated(program) if program.identifier() == Some(identifier) => Some(program),
            _ => None,
        })
    }

    /// The list of programs, by index.
    pub fn descriptors(&self) -> impl Iterator<Item = ProgramDescriptor> {
        self.slots.iter().enumerate().map(|(index, slot)| slot.descriptor(is_built_in(index)))
    }

    /// Whether the program at an index may be replaced or unloaded.
    fn may_change(&mut self, index: u16) -> Result<(), Refusal> {
        let slot = self.slot(index)?;
        match slot {
            _ if is_built_in(index.into()) => Err(Refusal::NotDownloadable),
            Slot::Activated(_) => Err(Refusal::ProgramInUse),
            Slot::Empty | Slot::Loading(_) | Slot::Loaded(_) => Ok(()),
        }
    }

    fn slot(&mut self, index: u16) -> Result<&mut Slot, Refusal> {
        self.slots.get_mut(usize::from(index)).ok_or(Refusal::InvalidProgramIndex)
    }

    /// Makes room for a program.
    fn begin(&mut self, part: &ProgramPart<'_>) -> Result<(), Refusal> {
        let size_bytes = u64::from(part.size_bytes);
        if !Program::is_loadable(part.program_type) {
            return Err(Refusal::InvalidProgramType);
        }
        if size_bytes == 0 {
            return Err(Refusal::InvalidField);
        }
        if size_bytes > self.limits.program_max_bytes {
            return Err(Refusal::ProgramTooBig);
        }
        let others = self.slots.iter().enumerate().filter(|(index, _)| *index != usize::from(part.index));
        let others_bytes: u64 = others.map(|(_, slot)| slot.bytes()).sum();
        if others_bytes + size_bytes > self.limits.programs_max_bytes {
            return Err(Refusal::TooManyProgramBytes);
        }
        *self.slot(part.index)? = Slot::Loading(Partial::new(part));
        Ok(())
    }
}

/// Whether the place is that of a program of the device.
const fn is_built_in(index: usize) -> bool {
    index < BuiltIn::ALL.len()
}

impl Slot {
    /// Bytes that the place takes of the limit for all.
    fn bytes(&self) -> u64 {
        match self {
            Self::Empty => 0,
            Self::Loading(partial) => partial.size_bytes.into(),
            Self::Loaded(program) | Self::Activated(program) => program.size_bytes(),
        }
    }

    fn descriptor(&self, is_built_in: bool) -> ProgramDescriptor {
        let (program, is_active) = match self {
            Self::Empty | Self::Loading(_) => (None, false),
            Self::Loaded(program) => (Some(program), false),
            Self::Activated(program) => (Some(program), true),
        };
        let identifier = program.and_then(|program| program.identifier());
        let pit = identifier.map_or(LoadProgramCdw10::NO_IDENTIFIER, |_| LoadProgramCdw10::UNIQUE_IDENTIFIER);
        let occupied = match program {
            None => ProgramState::EMPTY,
            Some(_) if is_built_in => ProgramState::BUILT_IN,
            Some(_) => ProgramState::LOADED,
        };
        ProgramDescriptor {
            state: ProgramState::new().with_occupied(occupied).with_active(is_active).with_pit(pit),
            ptype: program.map_or(0, |program| program.program_type().into_bits()),
            reserved_2: [0; 6],
            pid: identifier.unwrap_or(0),
            reserved_16: [0; 48],
        }
    }
}

impl Partial {
    const fn new(part: &ProgramPart<'_>) -> Self {
        let ProgramPart { program_type, identifier, size_bytes, .. } = *part;
        Self { program_type, identifier, size_bytes, bytes: Vec::new() }
    }

    /// Takes the next part. Gives whether the program is whole.
    fn take(&mut self, part: &ProgramPart<'_>) -> Result<bool, Refusal> {
        let is_same = self.program_type == part.program_type
            && self.identifier == part.identifier
            && self.size_bytes == part.size_bytes;
        let size_bytes = self.size_bytes as usize;
        if !is_same || part.bytes.len() > size_bytes {
            return Err(Refusal::InvalidField);
        }
        if part.offset as usize != self.bytes.len() || self.bytes.len() + part.bytes.len() > size_bytes {
            return Err(Refusal::OutOfOrder);
        }
        self.bytes.extend_from_slice(part.bytes);
        Ok(self.bytes.len() == size_bytes)
    }

    fn verify(&self) -> Result<Program, Refusal> {
        Program::load(self.program_type, self.identifier, &self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ebpf::Unsound;

    /// `r0 = 7; exit`.
    const SEVEN: [u8; 16] = [0xb7, 0, 0, 0, 7, 0, 0, 0, 0x95, 0, 0, 0, 0, 0, 0, 0];

    /// The first place that is not the device's.
    const FIRST: u16 = BuiltIn::ALL.len() as u16;

    fn slots() -> Slots {
        Slots::new(SlotLimits {
            loaded_max: 3,
            activated_max: 1,
            program_max_bytes: 64,
            programs_max_bytes: 80,
        })
    }

    fn whole(index: u16, bytes: &[u8]) -> ProgramPart<'_> {
        part(index, bytes, bytes.len() as u32, 0)
    }

    const fn part(index: u16, bytes: &[u8], size_bytes: u32, offset: u32) -> ProgramPart<'_> {
        ProgramPart { index, program_type: ProgramType::EBPF, identifier: Some(9), size_bytes, offset, bytes }
    }

    #[test]
    fn a_program_comes_in_pieces_in_their_order() {
        let mut slots = slots();
        assert_eq!(slots.load(&part(FIRST, &SEVEN[8..], 16, 8)), Err(Refusal::OutOfOrder));
        assert_eq!(slots.load(&part(FIRST, &SEVEN[..8], 16, 0)), Ok(()));
        assert_eq!(slots.load(&part(FIRST, &SEVEN[12..], 16, 12)), Err(Refusal::OutOfOrder));
        assert_eq!(slots.load(&part(FIRST, &SEVEN[8..], 24, 8)), Err(Refusal::InvalidField));
        assert_eq!(slots.activate(FIRST), Err(Refusal::NoProgram));
        assert_eq!(slots.load(&part(FIRST, &SEVEN[8..], 16, 8)), Ok(()));
        assert_eq!(slots.activate(FIRST), Ok(()));
    }

    #[test]
    fn an_unsound_program_leaves_its_place_empty() {
        let mut slots = slots();
        assert_eq!(slots.load(&whole(FIRST, &SEVEN[..8])), Err(Refusal::InvalidProgram(Unsound::End(0))));
        assert_eq!(slots.activate(FIRST), Err(Refusal::NoProgram));
    }

    #[test]
    fn sizes_and_types_outside_the_limits_are_refused() {
        let mut slots = slots();
        let builtin = ProgramPart { program_type: ProgramType::BUILT_IN, ..whole(FIRST, &SEVEN) };
        assert_eq!(slots.load(&builtin), Err(Refusal::InvalidProgramType));
        assert_eq!(slots.load(&whole(FIRST + 3, &SEVEN)), Err(Refusal::InvalidProgramIndex));
        assert_eq!(slots.load(&whole(FIRST, &[])), Err(Refusal::InvalidField));
        assert_eq!(slots.load(&part(FIRST, &SEVEN, 65, 0)), Err(Refusal::ProgramTooBig));
        assert_eq!(slots.load(&part(FIRST, &SEVEN, 64, 0)), Ok(()));
        assert_eq!(slots.load(&part(FIRST + 1, &SEVEN, 24, 0)), Err(Refusal::TooManyProgramBytes));
        assert_eq!(slots.load(&part(FIRST, &SEVEN, 24, 0)), Ok(()));
        assert_eq!(slots.load(&part(FIRST + 1, &SEVEN, 24, 0)), Ok(()));
    }

    #[test]
    fn a_program_in_use_is_neither_replaced_nor_unloaded_nor_deactivated() {
        let mut slots = slots();
        slots.load(&whole(FIRST, &SEVEN)).expect("sound");
        assert_eq!(slots.program(FIRST).err(), Some(Refusal::NotActivated));
        slots.activate(FIRST).expect("loaded");
        let running = slots.program(FIRST).expect("activated");
        assert_eq!(slots.load(&whole(FIRST, &SEVEN)), Err(Refusal::ProgramInUse));
        assert_eq!(slots.unload(FIRST), Err(Refusal::ProgramInUse));
        assert_eq!(slots.deactivate(FIRST), Err(Refusal::ProgramInUse));
        drop(running);
        assert_eq!(slots.deactivate(FIRST), Ok(()));
        assert_eq!((slots.unload(FIRST), slots.unload(FIRST)), (Ok(()), Err(Refusal::NoProgram)));
    }

    #[test]
    fn as_many_programs_are_activated_as_may_be() {
        let mut slots = slots();
        slots.load(&whole(FIRST, &SEVEN)).expect("sound");
        assert_eq!((slots.activate(FIRST), slots.activate(FIRST)), (Ok(()), Ok(())));
        assert_eq!(slots.activate(0), Err(Refusal::TooManyActivated));
        assert_eq!(slots.deactivate(FIRST), Ok(()));
        assert_eq!(slots.activate(0), Ok(()));
    }

    #[test]
    fn programs_of_the_device_stay() {
        let mut slots = slots();
        assert_eq!(slots.load(&whole(0, &SEVEN)), Err(Refusal::NotDownloadable));
        assert_eq!(slots.unload(0), Err(Refusal::NotDownloadable));
    }

    #[test]
    fn descriptors_say_what_is_where() {
        let mut slots = slots();
        slots.load(&whole(FIRST, &SEVEN)).expect("sound");
        slots.activate(FIRST).expect("loaded");
        let descriptors: Vec<ProgramDescriptor> = slots.descriptors().collect();
        let (first, loaded) = (descriptors[0], descriptors[usize::from(FIRST)]);
        assert_eq!(
            (first.state.occupied(), first.pid),
            (ProgramState::BUILT_IN, BuiltIn::ALL[0].identifier())
        );
        assert_eq!(
            (loaded.state.occupied(), loaded.state.active(), loaded.pid),
            (ProgramState::LOADED, true, 9)
        );
        assert_eq!(descriptors[usize::from(FIRST) + 1].state.occupied(), ProgramState::EMPTY);
    }
}
