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

/// By which account bytes are compared with the papers (facts/papers.md section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Account {
    /// Completion and two doorbells beside command and data: 24 bytes a command.
    Payload,
    /// And the interrupt: 28.
    Interrupt,
    /// And one read of a 4-byte pointer: 32.
    Pointer,
    /// With packet headers, framing and check sums.
    Wire,
}

impl Account {
    /// Every account.
    pub const ALL: [Self; 4] = [Self::Payload, Self::Interrupt, Self::Pointer, Self::Wire];

    /// How it is headed in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Payload => "payload",
            Self::Interrupt => "+ interrupt",
            Self::Pointer => "+ pointer read",
            Self::Wire => "wire",
        }
    }

    /// Bytes a put.
    pub fn bytes(self, row: &TransferRow) -> f64 {
        match self {
            Self::Payload => row.payload_bytes,
            Self::Interrupt => row.payload_bytes + row.interrupt_bytes,
            Self::Pointer => row.payload_bytes + row.interrupt_bytes + 4.0 * row.commands,
            Self::Wire => row.wire_bytes,
        }
    }
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
pub mod tests {
    use super::*;
    use byway_link::{Method, Profile, cost};

    /// A row as the closed form of the link's cost has it.
    pub fn reckoned(profile: &Profile, method: Method, size: u32) -> TransferRow {
        let put = cost::of_put(method, size.into(), profile);
        let ns = put.ps as f64 / 1000.0;
        TransferRow {
            profile: profile.name.to_owned(),
            method: method.name().to_owned(),
            size: size.into(),
            count: 1,
            mps: profile.link.mps_bytes(),
            mrrs: profile.link.mrrs_bytes(),
            payload_bytes: put.ledger.payload_bytes() as f64,
            wire_bytes: put.ledger.wire_bytes() as f64,
            interrupt_bytes: put.ledger.interrupt_bytes() as f64,
            commands: put.commands.into(),
            slots: put.slots.into(),
            model_ns_mean: Some(ns),
            model_ns_p50: Some(ns),
            model_ns_p99: Some(ns),
            wall_ns_mean: 0.5,
        }
    }

    #[test]
    fn a_row_has_the_fields_in_their_order_and_whole_numbers_are_plain() {
        let row = reckoned(&Profile::by_name("cosmos").unwrap(), Method::Inline, 32);
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
        let mut put = reckoned(&Profile::by_name("gen4x4").unwrap(), Method::Prp, 8);
        put.model_ns_mean = None;
        let row = WorkloadRow { workload: "B".into(), put, ops_per_s_model: None, nand_pages: 3, waf: 1.25 };
        let json: serde_json::Value = serde_json::to_value(&row).unwrap();
        assert_eq!(json["workload"], "B");
        assert_eq!(json["method"], "prp");
        assert!(json["model_ns_mean"].is_null() && json["ops_per_s_model"].is_null());
        assert_eq!((json["nand_pages"].as_u64(), json["waf"].as_f64()), (Some(3), Some(1.25)));
    }

    #[test]
    fn the_accounts_of_a_32_byte_put_are_those_of_the_notes() {
        let row = reckoned(&Profile::by_name("cosmos").unwrap(), Method::Prp, 32);
        let bytes = Account::ALL.map(|account| account.bytes(&row));
        assert_eq!(bytes, [4184.0, 4188.0, 4192.0, 4836.0]);
    }

    #[test]
    fn percentiles_are_times_that_occurred() {
        let mut times: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        assert_eq!(percentiles(&mut times), Some((100.0, 198.0)));
        assert_eq!(percentiles(&mut [7.0]), Some((7.0, 7.0)));
        assert_eq!(percentiles(&mut []), None);
    }
}
