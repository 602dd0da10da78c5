//! Data sets of computational storage, generated: shapes and predicates of published ones.

mod deep_water;
mod laghos;
mod noise;
mod table;
mod tpch;
mod vpic;
mod wildfire;
mod write;

use anyhow::{Result, ensure};
use byway_console::size::counted;
use clap::ValueEnum;
use serde::Serialize;

pub use self::laghos::{QUERY as LAGHOS_QUERY, ROWS as LAGHOS_ROWS};
pub use self::table::Table;
pub use self::write::{Written, write};

/// A text that goes with a set.
#[derive(Clone, Copy, Debug)]
pub struct Text {
    /// The set.
    pub set: &'static str,
    /// What it asks for.
    pub asks: &'static str,
    /// The words behind WHERE, or a whole query.
    pub sql: &'static str,
}

/// The texts that go with the sets, as hosts send them to a device.
pub const TEXTS: [Text; 11] = [
    Text { set: "VPIC", asks: "energy threshold", sql: vpic::THRESHOLD },
    Text { set: "VPIC", asks: "one particle", sql: "ID = 1048576" },
    Text { set: "VPIC", asks: "energy band", sql: vpic::BAND },
    Text { set: "Deep Water", asks: "asteroid", sql: deep_water::DEBRIS },
    Text { set: "Deep Water", asks: "surface", sql: deep_water::SURFACE },
    Text { set: "Wildfire", asks: "fuel", sql: wildfire::WITH_FUEL },
    Text { set: "TPC-H", asks: "Q1", sql: tpch::Q1 },
    Text { set: "TPC-H", asks: "Q14", sql: tpch::Q14 },
    Text { set: "TPC-H", asks: "Q19", sql: tpch::Q19 },
    Text { set: "TPC-H", asks: "Q6", sql: tpch::Q6 },
    Text { set: "Laghos", asks: "whole query", sql: LAGHOS_QUERY },
];

/// A set that can be generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Set {
    /// A time step of Lagrangian hydrodynamics: 4,194,304 rows of 10 columns, Snappy, one row group.
    Laghos,
    /// A time step of an asteroid's impact: 27,000,000 rows of 3 columns.
    DeepWater,
    /// Particles of one rank of a plasma simulation: 1,600,000 rows of 5 columns.
    Vpic,
    /// A time step of a wildfire: 18,300,000 rows of 5 columns.
    Wildfire,
    /// The table lineitem of TPC-H: 6,001,215 rows of 16 columns at scale 1.
    TpchLineitem,
}

/// How much of a set is generated, and of which seed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Extent {
    /// Rows of a set of ours.
    Rows {
        /// How many.
        #[serde(skip)]
        rows: u64,
        /// Decides the values.
        seed: u64,
    },
    /// A scale factor of TPC-H, whose seeds are its own.
    Scale {
        /// The factor.
        scale: f64,
    },
}

impl Set {
    /// What is generated for these arguments.
    ///
    /// # Errors
    /// An argument that the set does not have, or one out of its range.
    pub fn extent(self, rows: Option<u64>, scale: Option<f64>, seed: Option<u64>) -> Result<Extent> {
        let name = self.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned());
        if self == Self::TpchLineitem {
            ensure!(rows.is_none(), "the rows of {name} follow from its scale factor: give --scale");
            ensure!(seed.is_none(), "the seeds of {name} are part of TPC-H: --seed does not apply");
            let scale = scale.unwrap_or(1.0);
            let (least, most) = (*tpch::SCALES.start(), *tpch::SCALES.end());
            ensure!(tpch::SCALES.contains(&scale), "a scale of {scale} is not in {least} to {most}");
            return Ok(Extent::Scale { scale });
        }
        ensure!(scale.is_none(), "{name} has no scale factor: give --rows");
        let (default, most) = self.rows();
        let rows = rows.unwrap_or(default);
        ensure!(rows > 0, "a file of 0 rows holds nothing: {name} has from 1 to {most} rows");
        ensure!(rows <= most, "{} are over the limit of {most} for {name}", counted(rows, "row"));
        Ok(Extent::Rows { rows, seed: seed.unwrap_or(0) })
    }

    /// Rows by default, and the most.
    const fn rows(self) -> (u64, u64) {
        match self {
            Self::Laghos => (laghos::ROWS, laghos::ROWS),
            Self::DeepWater => (deep_water::ROWS, deep_water::ROWS),
            Self::Vpic => (vpic::ROWS, vpic::MOST_ROWS),
            Self::Wildfire => (wildfire::ROWS, wildfire::ROWS),
            Self::TpchLineitem => (0, 0),
        }
    }

    /// The generator.
    pub fn table(self, extent: Extent) -> Box<dyn Table> {
        match (self, extent) {
            (_, Extent::Scale { scale }) => Box::new(tpch::LineItem::new(scale)),
            (Self::DeepWater, Extent::Rows { rows, seed }) => {
                Box::new(deep_water::DeepWater::new(rows, seed))
            }
            (Self::Vpic, Extent::Rows { rows, seed }) => Box::new(vpic::Vpic::new(rows, seed)),
            (Self::Wildfire, Extent::Rows { rows, seed }) => Box::new(wildfire::Wildfire::new(rows, seed)),
            (_, Extent::Rows { rows, seed }) => Box::new(laghos::Laghos::new(rows, seed)),
        }
    }
}
