//! `byway-lab` from outside.
#![allow(clippy::unwrap_used)]

mod browser;
mod calibration;
mod common;
mod data;
mod endurance;
mod fit;
mod kv;
mod report;
mod tutorial;
mod workload;
