//! The setting of a measurement: the device, how values are put, and the arguments that say so.

use anyhow::{Context, Result, ensure};
use byway::{AdaptivePolicy, ClockMode, Method, Packing, Profile};
use byway_console::number;
use clap::{Args, ValueEnum};

use crate::thresholds::Thresholds;
use crate::way::Way;

/// Arguments that every bench of transfer methods takes.
#[derive(Clone, Debug, Args)]
pub struct Common {
    /// Profile of the device.
    #[arg(long, default_value = "cosmos", value_name = "PROFILE")]
    pub profile: String,
    /// Another link under it, gen1x1 to gen6x16.
    #[arg(long, value_name = "LINK")]
    pub link: Option<String>,
    /// Maximum payload size of the link, exactly: a controller's own bound does not apply.
    #[arg(long, value_name = "BYTES", value_parser = number::parse::<u32>)]
    pub mps: Option<u32>,
    /// Maximum read request size of the link, exactly: a controller's own rule does not apply.
    #[arg(long, value_name = "BYTES", value_parser = number::parse::<u32>)]
    pub mrrs: Option<u32>,
    /// Whether time is modelled: off, virtual or paced.
    #[arg(long, default_value = "virtual", value_name = "CLOCK")]
    pub clock: ClockMode,
    /// What holds the flash pages.
    #[arg(long, default_value = "ram")]
    pub media: MemoryMedia,
    /// By what the adaptive method chooses.
    #[arg(long, default_value = "bytes")]
    pub policy: Policy,
    /// Policy threshold: the fine-grained method [default: piggyback].
    #[arg(long, value_name = "METHOD")]
    pub below: Option<Method>,
    /// Policy threshold: shifts it, above 1 for less traffic, below 1 for less latency [default: 1].
    #[arg(long)]
    pub alpha: Option<f32>,
    /// Decides keys, sizes and values.
    #[arg(long, default_value_t = 0, value_parser = number::parse::<u64>)]
    pub seed: u64,
    /// Print one JSON object a line.
    #[arg(long)]
    pub json: bool,
}

/// By what the adaptive method chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Policy {
    /// The fewest bytes on the wire, by the cost model.
    Bytes,
    /// The least time, by the cost model.
    Time,
    /// BandSlim's: a fine-grained method below the calibrated threshold times alpha, prp from there on.
    Threshold,
}

/// Whether something takes time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    /// It does.
    On,
    /// It does not; it is still done and counted.
    Off,
}

/// What holds the flash pages of a device that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MemoryMedia {
    /// Memory.
    Ram,
    /// Nothing: pages are accepted and forgotten.
    Null,
}

/// What is measured, and how.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The device.
    pub profile: Profile,
    /// How values are put.
    pub way: Way,
    /// By what the adaptive method chooses.
    pub policy: AdaptivePolicy,
    /// Whether time is modelled.
    pub clock: ClockMode,
    /// Whether the NAND array takes time.
    pub flash: bool,
    /// How values are packed into flash pages.
    pub packing: Packing,
    /// What the device is kept in.
    pub media: MemoryMedia,
}

impl Setting {
    /// A method under a profile, time modelled, NAND off: as the papers measured latency.
    pub fn of(profile: &Profile, method: Method) -> Self {
        Self {
            profile: profile.clone(),
            way: Way::Method(method),
            policy: AdaptivePolicy::default(),
            clock: ClockMode::Virtual,
            flash: false,
            packing: Packing::default(),
            media: MemoryMedia::Ram,
        }
    }
    /// The setting that the arguments ask for.
    ///
    /// # Errors
    /// A profile, link or packet size that does not exist; options of another policy; no calibration for policy threshold.
    pub fn of_arguments(common: &Common, flash: Switch, way: Way) -> Result<Self> {
        let profile = profile_of(common)?;
        let policy = policy_of(common, profile.name)?;
        Ok(Self {
            profile,
            way,
            policy,
            clock: common.clock,
            flash: flash == Switch::On,
            packing: Packing::default(),
            media: common.media,
        })
    }
}

/// The profile of a name.
///
/// # Errors
/// An unknown name, with those that are known.
pub fn profile(name: &str) -> Result<Profile> {
    let known = || format!("unknown profile {name:?}: expected {}", Profile::names().join(", "));
    Profile::by_name(name).with_context(known)
}

/// The profile that was asked for, with what overrides it.
fn profile_of(common: &Common) -> Result<Profile> {
    let mut profile = profile(&common.profile)?;
    if let Some(link) = &common.link {
        profile = profile.with_link(link)?;
    }
    if let Some(mps) = common.mps {
        profile = profile.with_mps(mps)?;
    }
    if let Some(mrrs) = common.mrrs {
        profile = profile.with_mrrs(mrrs)?;
    }
    Ok(profile)
}

fn policy_of(common: &Common, profile: &str) -> Result<AdaptivePolicy> {
    let is_shifted = common.below.is_some() || common.alpha.is_some();
    ensure!(
        common.policy == Policy::Threshold || !is_shifted,
        "--below and --alpha are of --policy threshold"
    );
    match common.policy {
        Policy::Bytes => Ok(AdaptivePolicy::Bytes),
        Policy::Time => Ok(AdaptivePolicy::Time),
        Policy::Threshold => {
            let below = common.below.unwrap_or(Method::Piggyback);
            let kept = Thresholds::load()?;
            let wanted =
                || format!("no threshold of {below} is kept for {profile}: run byway-lab calibrate first");
            let found = kept.of(profile, below.name()).with_context(wanted)?;
            // A method that is quicker at every size has no threshold.
            let tau_bytes = found.tau_bytes.unwrap_or(u32::MAX);
            Ok(AdaptivePolicy::Threshold { tau_bytes, alpha: common.alpha.unwrap_or(1.0), below })
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_profile_lists_the_known_ones() {
        let said = profile("x").unwrap_err().to_string();
        assert!(said.contains("cosmos") && said.contains("gen5x8-cxl"), "{said}");
    }
}
