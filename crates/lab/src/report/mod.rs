//! The report: what was measured, the papers' claims beside it, and the page that shows both.

mod account;
pub mod breakdown;
pub mod claims;
mod colour;
pub mod figures;
pub mod html;
pub mod import;
pub mod measured;
mod plot;
pub mod run;
pub mod wire_bytes;
