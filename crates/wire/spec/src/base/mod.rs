//! NVM Express Base Specification: what every command set shares.

pub mod admin;
pub mod ana;
pub mod command;
pub mod completion;
pub mod event;
pub mod feature;
pub mod identify;
pub mod log;
pub mod prp;
pub mod register;
pub mod reservation;
pub mod sgl;
pub mod status;
pub mod telemetry;
