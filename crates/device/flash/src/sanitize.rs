//! The sanitize operation that an image remembers.

/// What is written over bytes before their room is given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overwrite {
    /// Four bytes, over and over.
    pub pattern: u32,
}

/// State of a sanitize operation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SanitizeState {
    /// None was ever begun.
    #[default]
    Never,
    /// The last one is done.
    Done,
    /// One is going on.
    Running,
}

/// The sanitize operation that the image remembers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sanitize {
    /// Whether one runs, or the last one is done.
    pub state: SanitizeState,
    /// Its command's dword 10, the low 16 bits.
    pub cdw10: u16,
    /// Passes that are done.
    pub passes: u8,
    /// What is written over everything, if something is.
    pub pattern: u32,
}

impl Sanitize {
    pub(crate) fn to_value(self) -> u64 {
        let state = match self.state {
            SanitizeState::Never => 0,
            SanitizeState::Done => 1,
            SanitizeState::Running => 2,
        };
        state << 32 | u64::from(self.passes) << 16 | u64::from(self.cdw10)
    }

    pub(crate) fn from_value(value: u64, pattern: u32) -> Self {
        let state = match value >> 32 {
            0 => SanitizeState::Never,
            1 => SanitizeState::Done,
            _ => SanitizeState::Running,
        };
        Self { state, cdw10: value as u16, passes: (value >> 16) as u8, pattern }
    }
}
