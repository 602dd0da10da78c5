//! Thresholds that calibration found, kept between runs for the adaptive method.

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, bail};
use byway_console::{files, json};
use serde::{Deserialize, Serialize};

/// From which size on `prp` is as quick as a fine-grained method.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Threshold {
    /// A profile, with `@link` when the link is another than its own.
    pub setting: String,
    /// The fine-grained method.
    pub below: String,
    /// The size, to the byte; nothing if the method is quicker at every size tried.
    pub tau_bytes: Option<u32>,
    /// The first power of two from it on.
    pub tried_bytes: Option<u32>,
}

/// Everything that was calibrated on this machine, by profile and fine-grained method.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Thresholds {
    thresholds: Vec<Threshold>,
}

impl Thresholds {
    /// What was kept; nothing if there was no calibration yet.
    ///
    /// # Errors
    /// When the file is there and cannot be read.
    pub fn load() -> Result<Self> {
        let path = path()?;
        if !path.try_exists().unwrap_or(true) {
            return Ok(Self::default());
        }
        let text = files::read_settings(&path)?;
        let kept = serde_json::from_slice(&text);
        kept.map_err(|error| anyhow!("{} is no calibration: {}", path.display(), json::why_and_where(&error)))
    }

    /// Adds a threshold, in place of an older one of the same profile and method.
    pub fn keep(&mut self, new: Threshold) {
        self.thresholds.retain(|old| (&old.setting, &old.below) != (&new.setting, &new.below));
        self.thresholds.push(new);
    }

    /// The threshold of a method under a profile.
    pub fn of(&self, profile: &str, below: &str) -> Option<&Threshold> {
        self.thresholds.iter().find(|kept| kept.setting == profile && kept.below == below)
    }

    /// Writes the file anew, whole or not at all. A symbolic link in its place stays.
    ///
    /// # Errors
    /// When there is nowhere to write.
    pub fn save(&self) -> Result<PathBuf> {
        let path = path()?;
        let dir = path.parent().context("a calibration has a folder")?;
        std::fs::create_dir_all(dir).with_context(|| format!("make {}", dir.display()))?;
        let text = serde_json::to_string_pretty(self)?;
        files::replace(&path.canonicalize().unwrap_or_else(|_| path.clone()), text.as_bytes())?;
        Ok(path)
    }
}

/// `thresholds.json` in the user's configuration folder.
fn path() -> Result<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let config = folder("XDG_CONFIG_HOME").or_else(|| folder("HOME").map(|home| home.join(".config")));
    match config {
        Some(config) => Ok(config.join("byway").join("thresholds.json")),
        None => bail!("neither XDG_CONFIG_HOME nor HOME says where calibrations are kept"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_threshold_takes_the_place_of_the_older() {
        let threshold = |below: &str, tau| Threshold {
            setting: "cosmos".to_owned(),
            below: below.to_owned(),
            tau_bytes: Some(tau),
            tried_bytes: None,
        };
        let mut kept = Thresholds::default();
        for (below, tau) in [("piggyback", 128), ("cxl", 4096), ("piggyback", 64)] {
            kept.keep(threshold(below, tau));
        }
        assert_eq!(kept.thresholds.len(), 2);
        assert_eq!(kept.of("cosmos", "piggyback"), Some(&threshold("piggyback", 64)));
        assert_eq!(kept.of("gen4x4", "piggyback"), None);
    }
}
