//! Properties: the registers of a controller that is reached by commands (Base 2.1, sections 3.1.4 and 6.4).

use byway_spec::base::register::{Cap, Cc, Crto, Csts, NSSR_MAGIC, Register, Vs};
use byway_spec::fabrics::PropertyCdw10;
use byway_spec::{Command, Status};

/// A property that a controller over fabrics has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Property {
    /// Controller Capabilities.
    Cap,
    /// Version.
    Vs,
    /// Controller Configuration.
    Cc,
    /// Controller Status.
    Csts,
    /// NVM Subsystem Reset.
    Nssr,
    /// Controller Ready Timeouts.
    Crto,
}

impl Property {
    /// The register with the same name.
    pub const fn register(self) -> Register {
        match self {
            Self::Cap => Register::CAP,
            Self::Vs => Register::VS,
            Self::Cc => Register::CC,
            Self::Csts => Register::CSTS,
            Self::Nssr => Register::NSSR,
            Self::Crto => Register::CRTO,
        }
    }

    /// 4 or 8.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Cap => 8,
            _ => 4,
        }
    }

    const fn at(offset: u32) -> Option<Self> {
        Some(match Register(offset) {
            Register::CAP => Self::Cap,
            Register::VS => Self::Vs,
            Register::CC => Self::Cc,
            Register::CSTS => Self::Csts,
            Register::NSSR => Self::Nssr,
            Register::CRTO => Self::Crto,
            _ => return None,
        })
    }
}

/// A property as Property Get and Property Set name it: there, and of the right size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PropertyAccess(pub Property);

/// Why a property cannot be read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PropertyError {
    /// There is none.
    #[error("there is no property at {0:#x}")]
    Offset(u32),
    /// It has another size.
    #[error("the property at {offset:#x} does not have size {size}")]
    Size {
        /// Offset of the property.
        offset: u32,
        /// ATTRIB: 0 for 4 bytes, 1 for 8.
        size: u8,
    },
    /// It cannot be written, or not here.
    #[error("property {0:?} cannot be written")]
    ReadOnly(Property),
}

impl PropertyError {
    /// Status of the completion, as Linux has it.
    pub const fn status(&self) -> Status {
        Status::INVALID_FIELD.with_dnr()
    }
}

impl PropertyAccess {
    /// From ATTRIB and the offset.
    ///
    /// # Errors
    /// If there is no such property, or not of that size.
    pub const fn parse(size: u8, offset: u32) -> Result<Self, PropertyError> {
        let Some(property) = Property::at(offset) else { return Err(PropertyError::Offset(offset)) };
        match (size, property.bytes()) {
            (0, 4) | (1, 8) => Ok(Self(property)),
            _ => Err(PropertyError::Size { offset, size }),
        }
    }

    pub(crate) fn encode(self, command: &mut Command) {
        let size = if self.0.bytes() == 8 { 1 } else { 0 };
        command.cdw10 = PropertyCdw10::new().with_size(size).into_bits();
        command.cdw11 = self.0.register().0;
    }
}

/// What a property write requests of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    None,
    /// Become ready; then call [`Properties::set_ready`].
    Enable,
    /// To reset itself: its I/O queues end, the admin queue stays.
    Reset,
    /// Shut down; then call [`Properties::set_shut_down`]. The keep alive timer stops.
    Shutdown,
    /// Reset the whole subsystem.
    SubsystemReset,
}

/// Properties of a controller without a device that has registers, such as a discovery controller. With a device, its
/// registers are the properties.
#[derive(Clone, Debug)]
pub struct Properties {
    cap: Cap,
    cc: Cc,
    csts: Csts,
    crto: Crto,
}

impl Properties {
    /// As after power-on.
    pub const fn new(cap: Cap, crto: Crto) -> Self {
        Self { cap, cc: Cc::new(), csts: Csts::new(), crto }
    }

    /// Controller Configuration as last written.
    pub const fn cc(&self) -> Cc {
        self.cc
    }

    /// Controller Status.
    pub const fn csts(&self) -> Csts {
        self.csts
    }

    /// Whether I/O queues can be connected: the controller is ready, and its queue entry sizes are the only supported
    /// ones.
    pub const fn takes_io_queues(&self) -> bool {
        let sizes = self.cc.iosqes() == Cc::IOSQES_64 && self.cc.iocqes() == Cc::IOCQES_16;
        sizes && self.cc.en() && self.csts.rdy() && !self.csts.cfs()
    }

    /// Answers Property Get: the completion's result.
    pub const fn get(&self, PropertyAccess(property): PropertyAccess) -> u64 {
        match property {
            Property::Cap => self.cap.into_bits(),
            Property::Vs => Vs::V2_1.into_bits() as u64,
            Property::Cc => self.cc.into_bits() as u64,
            Property::Csts => self.csts.into_bits() as u64,
            Property::Nssr => 0,
            Property::Crto => self.crto.into_bits() as u64,
        }
    }

    /// Answers Property Set.
    ///
    /// # Errors
    /// If the property cannot be written.
    pub fn set(
        &mut self,
        PropertyAccess(property): PropertyAccess,
        value: u64,
    ) -> Result<Change, PropertyError> {
        let value = value as u32;
        match property {
            Property::Cc => Ok(self.set_cc(Cc::from_bits(value))),
            Property::Csts => {
                let occurred = self.csts.nssro() && !Csts::from_bits(value).nssro();
                self.csts.set_nssro(occurred);
                Ok(Change::None)
            }
            Property::Nssr if self.cap.nssrs() => {
                Ok(if value == NSSR_MAGIC { Change::SubsystemReset } else { Change::None })
            }
            Property::Cap | Property::Vs | Property::Nssr | Property::Crto => {
                Err(PropertyError::ReadOnly(property))
            }
        }
    }

    fn set_cc(&mut self, new: Cc) -> Change {
        let old = core::mem::replace(&mut self.cc, new);
        match (old.en(), new.en()) {
            (false, true) if !self.can_run(new) => {
                self.set_fatal();
                Change::None
            }
            (false, true) => Change::Enable,
            (true, false) => {
                self.csts = Csts::new().with_nssro(self.csts.nssro());
                Change::Reset
            }
            _ if new.shn() != Cc::SHN_NONE && old.shn() == Cc::SHN_NONE => {
                self.csts.set_shst(Csts::SHST_OCCURRING);
                Change::Shutdown
            }
            _ => Change::None,
        }
    }

    /// What Linux's target asks of CC as well: page size, arbitration and command sets that there are.
    const fn can_run(&self, cc: Cc) -> bool {
        let css = match cc.css() {
            Cc::CSS_NVM => self.cap.css() & Cap::CSS_NVM != 0,
            Cc::CSS_IO_SETS => self.cap.css() & Cap::CSS_IO_SETS != 0,
            Cc::CSS_ADMIN_ONLY => true,
            _ => false,
        };
        css && cc.ams() == 0 && cc.mps() >= self.cap.mpsmin() && cc.mps() <= self.cap.mpsmax()
    }

    /// Reports the controller as ready, as requested.
    pub fn set_ready(&mut self) {
        self.csts.set_rdy(self.cc.en() && !self.csts.cfs());
    }

    /// It is shut down.
    pub fn set_shut_down(&mut self) {
        self.csts.set_shst(Csts::SHST_COMPLETE);
    }

    /// Sets the fatal status, as after a keep alive timeout: only a reset clears it.
    pub fn set_fatal(&mut self) {
        self.csts.set_cfs(true);
    }

    /// Applies a reset of the subsystem.
    pub fn subsystem_reset(&mut self) {
        *self = Self::new(self.cap, self.crto);
        self.csts.set_nssro(true);
    }
}
