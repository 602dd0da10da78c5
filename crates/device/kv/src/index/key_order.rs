//! The order in which keys are walked.

/// Ascending or descending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyOrder {
    /// From the first key on.
    Ascending,
    /// From the last key down.
    Descending,
}
