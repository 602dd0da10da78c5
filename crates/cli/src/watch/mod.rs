//! Watching a device: figures of one moment, what changed between two, and how that is shown.

mod device;
mod figures;
mod http;
mod quantile;
mod report;
mod screen;
mod show;
mod source;
mod wait;

pub use device::stalls;
pub use figures::Figure;
pub use report::Report;
pub use screen::{Key, Screen};
pub use source::{Reading, Source};
pub use wait::wait;
