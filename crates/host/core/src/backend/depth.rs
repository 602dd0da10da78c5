//! Depth of a queue.

/// Most commands that are outstanding at once on a queue, from 1.
///
/// A number converts into [`Depth::Exactly`]: what a program asks for by argument is honoured or refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Depth {
    /// At most this depth: less if the device's queues hold fewer commands. For defaults, and for options of URIs.
    UpTo(u32),
    /// Exactly this depth: refused if the device's queues hold fewer commands.
    Exactly(u32),
}

impl Depth {
    /// Default depth of a queue: up to 128 commands.
    pub const DEFAULT: Self = Self::UpTo(128);

    /// The number of commands.
    #[must_use]
    pub const fn commands(self) -> u32 {
        match self {
            Self::UpTo(commands) | Self::Exactly(commands) => commands,
        }
    }

    /// The same for a device whose queues hold `most` commands, 0 where that is not known. What was asked for exactly stays,
    /// to be refused.
    #[must_use]
    pub fn capped(self, most: u32) -> Self {
        match self {
            Self::UpTo(commands) if most > 0 => Self::UpTo(commands.min(most)),
            Self::UpTo(_) | Self::Exactly(_) => self,
        }
    }
}

impl From<u32> for Depth {
    fn from(depth: u32) -> Self {
        Self::Exactly(depth)
    }
}

#[cfg(test)]
mod tests {
    use super::Depth;

    #[test]
    fn depth_up_to_is_capped_and_an_exact_depth_is_not() {
        assert_eq!(Depth::DEFAULT.capped(127), Depth::UpTo(127));
        assert_eq!(Depth::DEFAULT.capped(1000), Depth::UpTo(128));
        assert_eq!(Depth::DEFAULT.capped(0), Depth::UpTo(128));
        assert_eq!(Depth::from(128).capped(127), Depth::Exactly(128));
    }
}
