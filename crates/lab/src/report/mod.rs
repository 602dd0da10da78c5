//! The report: what was measured, the papers' claims beside it, and the page that shows both.

pub mod account;
pub mod breakdown;
pub mod claims;
pub mod compute;
pub mod figures;
mod generations;
pub mod html;
pub mod import;
pub mod measured;
mod reads;
pub mod run;
pub mod wire_bytes;
