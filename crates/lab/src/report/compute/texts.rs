//! Texts of queries and predicates as payloads, by each method that carries a payload of any length.

use anyhow::Result;
use byway::Method;
use byway_console::terminal::Progress;
use byway_measure::experiment::{self, Run};
use byway_measure::setting::Setting;

use super::TextPoint;
use crate::data::{TEXTS, Text};
use crate::report::measured::COSMOS;
use crate::report::run::{Plan, profile_of};

/// Methods that texts are shown by.
pub const METHODS: [Method; 4] = [Method::Prp, Method::Sgl, Method::Piggyback, Method::Inline];
/// Settings that they are shown in.
pub const SETTINGS: [&str; 2] = [COSMOS, "gen4x4"];
/// Payloads of each length.
const COUNT: u64 = 10;

/// Measures every text by every method. A payload costs what it costs whichever command it goes with: it is the value of a put.
///
/// # Errors
/// When a device refuses a setting or a put, or the run is interrupted.
pub fn run(plan: &Plan) -> Result<Vec<TextPoint>> {
    let progress = Progress::new("texts", COUNT * (TEXTS.len() * METHODS.len() * SETTINGS.len()) as u64);
    let run = Run { count: COUNT, seed: plan.seed, interrupt: plan.interrupt, progress: &progress };
    let mut points = Vec::new();
    for setting in SETTINGS {
        let profile = profile_of(setting)?;
        for Text { set, asks, sql } in TEXTS {
            for method in METHODS {
                let row = experiment::transfer(&Setting::of(&profile, method), sql.len() as u32, &run)?;
                points.push(TextPoint { set: set.into(), asks: asks.into(), sql: sql.into(), row });
            }
        }
    }
    Ok(points)
}
