//! What the benches print: one object a line.

use serde::{Deserialize, Serialize, Serializer};

/// What one put cost, as a mean over `count` puts of one size by one method.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TransferRow {
    /// Profile of the device.
    pub profile: String,
    /// Transfer method, as it was asked for.
    pub method: String,
    /// Value size in bytes; a mean in workloads of several sizes.
    #[serde(serialize_with = "plain")]
    pub size: f64,
    /// Puts.
    pub count: u64,
    /// Maximum payload size of the link, in bytes.
    pub mps: u32,
    /// Maximum read request size of the link, in bytes.
    pub mrrs: u32,
    /// Payload bytes a put, without the interrupt.
    #[serde(serialize_with = "plain")]
    pub payload_bytes: f64,
    /// Wire bytes a put, with the interrupt.
    #[serde(serialize_with = "plain")]
    pub wire_bytes: f64,
    /// Payload bytes of interrupts a put.
    #[serde(serialize_with = "plain")]
    pub interrupt_bytes: f64,
    /// Commands a put.
    #[serde(serialize_with = "plain")]
    pub commands: f64,
    /// Submission queue slots a put: commands and chunks.
    #[serde(serialize_with = "plain")]
    pub slots: f64,
    /// Modelled time of a put, in nanoseconds; nothing with the clock off.
    #[serde(serialize_with = "plain_or_null")]
    pub model_ns_mean: Option<f64>,
    /// Its median.
    #[serde(serialize_with = "plain_or_null")]
    pub model_ns_p50: Option<f64>,
    /// Its 99th percentile.
    #[serde(serialize_with = "plain_or_null")]
    pub model_ns_p99: Option<f64>,
    /// Time of a put on the clock of this machine, in nanoseconds.
    #[serde(serialize_with = "plain")]
    pub wall_ns_mean: f64,
}

/// What a workload cost, as means over its puts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkloadRow {
    /// Its letter, with the size for A.
    pub workload: String,
    /// What a put cost.
    #[serde(flatten)]
    pub put: TransferRow,
    /// Puts a second of modelled time; nothing with the clock off.
    #[serde(serialize_with = "plain_or_null")]
    pub ops_per_s_model: Option<f64>,
    /// NAND pages programmed, for whatever cause.
    pub nand_pages: u64,
    /// Bytes programmed into NAND for each byte of key and value.
    pub waf: f64,
}

/// What it cost to put records.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stored {
    /// What a put cost.
    #[serde(flatten)]
    pub row: TransferRow,
    /// Flash pages programmed.
    pub nand_pages: u64,
}

/// The median and the 99th percentile of some times, which are put in order. Nearest rank: a time that occurred.
pub fn percentiles(times_ns: &mut [f64]) -> Option<(f64, f64)> {
    times_ns.sort_unstable_by(f64::total_cmp);
    let rank = |percent: usize| times_ns.get((times_ns.len() * percent).div_ceil(100).max(1) - 1).copied();
    Some((rank(50)?, rank(99)?))
}

/// Whole numbers without a fraction, others as they are.
fn plain<S: Serializer>(number: &f64, to: S) -> Result<S::Ok, S::Error> {
    // Below 2⁵³ every whole number of a double is exact.
    if number.fract() == 0.0 && number.abs() < 9e15 {
        to.serialize_i64(*number as i64)
    } else {
        to.serialize_f64(*number)
    }
}

fn plain_or_null<S: Serializer>(number: &Option<f64>, to: S) -> Result<S::Ok, S::Error> {
    match number {
        Some(number) => plain(number, to),
        None => to.serialize_none(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// What a put of 32 bytes by `inline` costs on the drive of the papers.
    fn inline_row() -> TransferRow {
        TransferRow {
            profile: "cosmos".to_owned(),
            method: "inline".to_owned(),
            size: 32.0,
            count: 1,
            mps: 256,
            mrrs: 512,
            payload_bytes: 152.0,
            wire_bytes: 336.0,
            interrupt_bytes: 4.0,
            commands: 1.0,
            slots: 2.0,
            model_ns_mean: Some(7250.5),
            model_ns_p50: Some(7250.5),
            model_ns_p99: Some(7250.5),
            wall_ns_mean: 0.5,
        }
    }

    #[test]
    fn a_row_has_the_fields_in_their_order_and_whole_numbers_are_plain() {
        let row = inline_row();
        let text = serde_json::to_string(&row).unwrap();
        let start = "{\"profile\":\"cosmos\",\"method\":\"inline\",\"size\":32,\"count\":1,\"mps\":256,\"mrrs\":512,\
                     \"payload_bytes\":152,\"wire_bytes\":336,\"interrupt_bytes\":4,\"commands\":1,\"slots\":2,\
                     \"model_ns_mean\":";
        assert!(text.starts_with(start), "{text}");
        assert!(text.ends_with("\"wall_ns_mean\":0.5}"), "{text}");
        assert_eq!(serde_json::from_str::<TransferRow>(&text).unwrap(), row);
    }

    #[test]
    fn a_workload_row_is_flat_and_time_that_was_not_modelled_is_null() {
        let mut put = inline_row();
        put.model_ns_mean = None;
        let row = WorkloadRow { workload: "B".into(), put, ops_per_s_model: None, nand_pages: 3, waf: 1.25 };
        let json: serde_json::Value = serde_json::to_value(&row).unwrap();
        assert_eq!(json["workload"], "B");
        assert_eq!(json["method"], "inline");
        assert!(json["model_ns_mean"].is_null() && json["ops_per_s_model"].is_null());
        assert_eq!((json["nand_pages"].as_u64(), json["waf"].as_f64()), (Some(3), Some(1.25)));
    }

    #[test]
    fn percentiles_are_times_that_occurred() {
        let mut times: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        assert_eq!(percentiles(&mut times), Some((100.0, 198.0)));
        assert_eq!(percentiles(&mut [7.0]), Some((7.0, 7.0)));
        assert_eq!(percentiles(&mut []), None);
    }
}
