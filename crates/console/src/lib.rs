//! What commands share: what they read and print, how they end, and how long work is shown.

#![forbid(unsafe_code)]

#[macro_use]
pub mod visible;

pub mod event;
pub mod failure;
pub mod files;
pub mod generate;
pub mod json;
pub mod logging;
pub mod number;
pub mod progress;
pub mod records;
pub mod size;
pub mod table;
pub mod terminal;
