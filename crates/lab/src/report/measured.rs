//! Everything a report is made of, with the look-ups that plots and claims need.

use serde::{Deserialize, Serialize};

use byway_measure::rows::{Stored, TransferRow, WorkloadRow};
use byway_measure::thresholds::Threshold;

use super::compute::Computed;

/// The drive of both papers, as they had it.
pub const COSMOS: &str = "cosmos";
/// The same drive and host costs on a Gen5 x8 link: what BandSlim's ÷6.4 stands for.
pub const COSMOS_GEN5: &str = "cosmos@gen5x8";
/// The drive of both papers, with the times that no source gives fitted to their claims.
pub const COSMOS_FITTED: &str = "cosmos-fitted";
/// A hybrid drive of its own time.
pub const NATIVE_CXL: &str = "gen5x8-cxl";

/// Puts of one size by one method in one setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// A profile, with `@link` when the link is another than its own.
    pub setting: String,
    /// The measured row.
    #[serde(flatten)]
    pub row: TransferRow,
}

/// One workload by one method in one setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkloadPoint {
    /// As in [`Point`].
    pub setting: String,
    /// The method, with its policy if it is adaptive: `adaptive-p` and `adaptive-c` are BandSlim's, by threshold
    /// over piggyback and over cxl.
    pub label: String,
    /// The measured row.
    #[serde(flatten)]
    pub row: WorkloadRow,
}

/// One workload under one packing policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PackingPoint {
    /// The policy.
    pub packing: String,
    /// The workload.
    pub workload: String,
    /// NAND pages programmed.
    pub nand_pages: u64,
    /// Pages that one value in each 4 KiB needs, as the papers' baseline stores them.
    pub baseline_pages: u64,
    /// Modelled nanoseconds a put.
    pub model_ns_mean: f64,
}

/// The real records, once by one method.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ImportPoint {
    /// What it cost to put them.
    #[serde(flatten)]
    pub stored: Stored,
    /// Records that were read back after reopening and were the same.
    pub same: u64,
}

/// Everything a report is made of.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Sizes by methods by settings.
    pub points: Vec<Point>,
    /// Workloads by methods by settings.
    pub workloads: Vec<WorkloadPoint>,
    /// Workloads by packing policies.
    pub packing: Vec<PackingPoint>,
    /// Calibrated thresholds.
    pub thresholds: Vec<Threshold>,
    /// The real records.
    pub imports: Vec<ImportPoint>,
    /// Queries, and their texts.
    pub computed: Computed,
    /// Puts of each workload.
    pub puts: u64,
    /// The seed of keys, sizes and values.
    pub seed: u64,
}

impl Measured {
    /// Puts of one size by one method.
    pub fn point(&self, setting: &str, method: &str, size: u32) -> Option<&TransferRow> {
        self.of(setting, method).find(|row| row.size == f64::from(size))
    }

    /// All sizes of one method, in the order they were measured.
    pub fn of<'a>(&'a self, setting: &str, method: &str) -> impl Iterator<Item = &'a TransferRow> {
        let wanted = move |point: &&Point| point.setting == setting && point.row.method == method;
        self.points.iter().filter(wanted).map(|point| &point.row)
    }

    /// One workload by one method.
    pub fn workload(&self, setting: &str, label: &str, workload: &str) -> Option<&WorkloadRow> {
        let wanted = |point: &&WorkloadPoint| {
            point.setting == setting && point.label == label && point.row.workload == workload
        };
        self.workloads.iter().find(wanted).map(|point| &point.row)
    }

    /// The methods measured in a setting, in their order.
    pub fn methods(&self, setting: &str) -> Vec<&str> {
        let names = self.points.iter().filter(|point| point.setting == setting);
        distinct(names.map(|point| point.row.method.as_str()))
    }

    /// The labels of workload runs in a setting, in their order.
    pub fn labels(&self, setting: &str) -> Vec<&str> {
        let points = self.workloads.iter().filter(|point| point.setting == setting);
        distinct(points.map(|point| point.label.as_str()))
    }

    /// The workloads that were run, in their order.
    pub fn workload_names(&self) -> Vec<&str> {
        distinct(self.workloads.iter().map(|point| point.row.workload.as_str()))
    }

    /// The threshold of a method in a setting.
    pub fn threshold(&self, setting: &str, below: &str) -> Option<&Threshold> {
        self.thresholds.iter().find(|threshold| threshold.setting == setting && threshold.below == below)
    }
}

/// Each item once, in the order of its first place.
pub fn distinct<'a>(items: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for item in items {
        if !seen.contains(&item) {
            seen.push(item);
        }
    }
    seen
}

/// Measurements as the closed form of the link's cost has them, for tests of what is made from measurements.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub mod tests {
    use super::super::compute::{QueryPoint, TextPoint, both_ways, texts};
    use super::*;
    use crate::data::{TEXTS, Text};
    use byway_link::{Method, Profile, cost};
    use byway_measure::workload::Workload;

    const SIZES: [u32; 12] = [4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192];

    /// A row as the closed form of the link's cost has it.
    pub fn modelled(profile: &Profile, method: Method, size: u32) -> TransferRow {
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

    fn profile_of(setting: &str) -> Profile {
        let (name, link) = setting.split_once('@').unwrap_or((setting, ""));
        let profile = Profile::by_name(name).unwrap();
        if link.is_empty() { profile } else { profile.with_link(link).unwrap() }
    }

    /// BandSlim's adaptive labels and their thresholds.
    fn resolve(label: &str, size: u32, tau: u32) -> Method {
        match label {
            "adaptive-p" if size < tau => Method::Piggyback,
            "adaptive-c" if size < tau => Method::Cxl,
            "adaptive-p" | "adaptive-c" => Method::Prp,
            other => other.parse().unwrap(),
        }
    }

    fn mixed(setting: &str, label: &str, workload: Workload, tau: u32) -> WorkloadPoint {
        let profile = profile_of(setting);
        let sizes = workload.sizes(2000, 0);
        let rows: Vec<TransferRow> =
            sizes.iter().map(|&size| modelled(&profile, resolve(label, size, tau), size)).collect();
        let mean = |of: fn(&TransferRow) -> f64| rows.iter().map(of).sum::<f64>() / rows.len() as f64;
        let mut put = rows[0].clone();
        put.size = mean(|row| row.size);
        put.payload_bytes = mean(|row| row.payload_bytes);
        put.wire_bytes = mean(|row| row.wire_bytes);
        put.interrupt_bytes = mean(|row| row.interrupt_bytes);
        put.commands = mean(|row| row.commands);
        put.model_ns_mean = Some(mean(|row| row.model_ns_mean.unwrap()));
        let ops_per_s_model = put.model_ns_mean.map(|ns| 1e9 / ns);
        let row =
            WorkloadRow { workload: workload.name().into(), put, ops_per_s_model, nand_pages: 40, waf: 1.1 };
        WorkloadPoint { setting: setting.into(), label: label.into(), row }
    }

    pub fn modelled_all() -> Measured {
        let mut measured = Measured { puts: 2000, ..Measured::default() };
        for setting in [COSMOS, COSMOS_FITTED, COSMOS_GEN5, "gen4x4", NATIVE_CXL] {
            let profile = profile_of(setting);
            for method in Method::ALL {
                for size in SIZES {
                    let row = modelled(&profile, method, size);
                    measured.points.push(Point { setting: setting.into(), row });
                }
            }
        }
        for (setting, tau) in [(COSMOS, 128), (COSMOS_GEN5, 64)] {
            for label in ["prp", "piggyback", "inline", "hybrid", "cxl", "adaptive-p", "adaptive-c"] {
                for workload in Workload::MIXED {
                    measured.workloads.push(mixed(setting, label, workload, tau));
                }
            }
            for below in ["piggyback", "cxl"] {
                let (setting, below) = (setting.to_owned(), below.to_owned());
                measured.thresholds.push(Threshold {
                    setting,
                    below,
                    tau_bytes: Some(36),
                    tried_bytes: Some(tau),
                });
            }
        }
        for packing in ["all", "selective", "selective-backfill"] {
            for workload in Workload::MIXED {
                let (packing, workload) = (packing.to_owned(), workload.name().to_owned());
                let point = PackingPoint {
                    packing,
                    workload,
                    nand_pages: 10,
                    baseline_pages: 500,
                    model_ns_mean: 9e3,
                };
                measured.packing.push(point);
            }
        }
        measured.computed = computed();
        measured
    }

    /// Texts as the closed form has them, and a query that moves less the later its way is named.
    fn computed() -> Computed {
        let mut computed = Computed { rows: 84_000, object_bytes: 2_000_000, ..Computed::default() };
        for setting in texts::SETTINGS {
            for Text { set, asks, sql } in TEXTS {
                for method in texts::METHODS {
                    let row = modelled(&profile_of(setting), method, sql.len() as u32);
                    computed.texts.push(TextPoint {
                        set: set.into(),
                        asks: asks.into(),
                        sql: sql.into(),
                        row,
                    });
                }
            }
        }
        for setting in both_ways::SETTINGS {
            for (place, way) in (1..).zip(both_ways::WAYS) {
                computed.queries.push(QueryPoint {
                    setting: setting.into(),
                    way: way.name(),
                    commands: 2,
                    wire_bytes: 1000 * place,
                    payload_bytes: 900 * place,
                    model_ns: 500 * place,
                });
            }
        }
        computed
    }

    #[test]
    fn points_are_found_by_setting_method_and_size() {
        let measured = modelled_all();
        assert_eq!(measured.point(COSMOS, "inline", 32).unwrap().payload_bytes, 152.0);
        assert!(measured.point(COSMOS, "inline", 33).is_none());
        assert_eq!(measured.methods(COSMOS).len(), 10);
        assert_eq!(measured.workload_names(), ["B", "C", "D", "M"]);
    }

    #[test]
    fn measurements_come_back_from_json() {
        let measured = modelled_all();
        let text = serde_json::to_string(&measured).unwrap();
        assert_eq!(serde_json::from_str::<Measured>(&text).unwrap().points.len(), measured.points.len());
    }
}
