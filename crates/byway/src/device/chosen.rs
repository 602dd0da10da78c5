//! Which backend serves a device, and why that one.

/// The backend that serves a device, and why that one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// Its name.
    pub backend: &'static str,
    /// Why it.
    pub why: String,
    /// Faster ones that could not serve the device.
    pub passed_over: Vec<PassedOver>,
}

/// A backend that could not serve a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassedOver {
    /// Its name.
    pub backend: &'static str,
    /// Why not.
    pub why: String,
}
