//! What holds something, and what it may hold.

use byway_forgetful::Versions;

/// Something that holds a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// A unit of the block namespace.
    Unit(u64),
    /// A page of the key-value namespace.
    Page(u64),
    /// What the owner of the block namespace keeps.
    Owner,
    /// A page and an area of a namespace that comes and goes.
    PassingPage,
    PassingArea,
}

/// Content; empty for none.
pub type Value = Vec<u8>;

pub type Model = Versions<Target, Value>;
