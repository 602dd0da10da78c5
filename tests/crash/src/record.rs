//! What is kept of a kill.

use serde::Serialize;

use crate::kill::{Plan, Series};
use crate::life::Life;

/// How an image came out of a kill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Every acknowledged value is intact; nothing else changed; the checks are clean.
    Kept,
    /// What is wrong.
    Broken(String),
}

/// One kill.
#[derive(Debug, Clone, Serialize)]
pub struct Record {
    /// Which of the run.
    pub number: u64,
    /// From which the writer's steps follow.
    pub seed: u64,
    /// What the writer did.
    pub workload: &'static str,
    /// How payloads crossed the link.
    pub method: &'static str,
    /// Options of the device, as in its URI.
    pub options: String,
    /// Commands on their way at once.
    pub depth: u32,
    /// The writer's first step.
    pub first_step: u64,
    /// Microseconds from the start of the writer (`from_start`) or from when it had the image open, to the kill.
    pub instant_us: u64,
    /// What the instant counts from.
    pub from_start: bool,
    /// Steps begun.
    pub begun: u64,
    /// Steps acknowledged.
    pub acknowledged: u64,
    /// Steps refused for want of room.
    pub refused: u64,
    /// The making of the image was killed, and the image is refused as what it is.
    pub refused_image: bool,
    /// How the image came out of it.
    pub verdict: Verdict,
}

impl Record {
    /// A kill that is about to be.
    #[must_use]
    pub fn of(series: &Series, life: &Life, plan: &Plan, number: u64) -> Self {
        Self {
            number,
            seed: series.seed,
            workload: series.workload.name(),
            method: series.method.name(),
            options: life.options.clone(),
            depth: life.depth,
            first_step: life.first_step,
            instant_us: plan.instant_us,
            from_start: plan.from_start,
            begun: 0,
            acknowledged: 0,
            refused: 0,
            refused_image: false,
            verdict: Verdict::Kept,
        }
    }
}
