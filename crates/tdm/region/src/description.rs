//! Descriptions of regions: `emu:PATH?size=1G`, `fsdax:DIR?size=1G`, `devdax:/dev/dax0.0`.

use std::path::PathBuf;
use std::str::FromStr;

use byway_link::ClockMode;
use byway_sys::Bytes;

use crate::domain::Domain;
use crate::error::RegionError;

/// Folder of files named without a slash: host memory.
const MEMORY_FILES: &str = "/dev/shm";

/// Kind of a region's memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A mapped file that emulates a device.
    Emu(PathBuf),
    /// A file in this folder, on a file system with DAX.
    FsDax(PathBuf),
    /// A character device.
    DevDax(PathBuf),
}

/// A parsed description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// Its memory.
    pub place: Place,
    /// `size`: bytes; by default the file's or device's.
    pub size_bytes: Option<u64>,
    /// `domain`: persistence domain, overriding what the system says.
    pub domain: Option<Domain>,
    /// `user`: the trusted user of a device node; by default this process's.
    pub user: Option<u32>,
    /// `profile`: the device that `emu` models, if any.
    pub profile: Option<String>,
    /// `cache`: bytes of the device's cache, instead of the profile's.
    pub cache_bytes: Option<u64>,
    /// `hit`: ns of a cache line, instead of the profile's.
    pub hit_ns: Option<u32>,
    /// `clock`: mode of modelled time.
    pub clock: ClockMode,
    /// `pin`: whether the device has pins, instead of the profile's.
    pub pins: Option<bool>,
}

impl FromStr for Description {
    type Err = RegionError;

    fn from_str(text: &str) -> Result<Self, RegionError> {
        let unknown = || RegionError::Unknown(text.to_owned());
        let (kind, rest) = text.split_once(':').ok_or_else(unknown)?;
        let (path, options) = rest.split_once('?').unwrap_or((rest, ""));
        let place = match kind {
            _ if path.is_empty() => return Err(unknown()),
            "emu" if !path.contains('/') => Place::Emu(PathBuf::from(MEMORY_FILES).join(path)),
            "emu" => Place::Emu(path.into()),
            "fsdax" => Place::FsDax(path.into()),
            "devdax" => Place::DevDax(path.into()),
            _ => return Err(unknown()),
        };
        let mut described = Self::of(place);
        for option in options.split('&').filter(|option| !option.is_empty()) {
            described.set(option).map_err(|why| RegionError::option(option, why))?;
        }
        described.check_model()?;
        Ok(described)
    }
}

impl Description {
    /// Without options.
    const fn of(place: Place) -> Self {
        Self {
            place,
            size_bytes: None,
            domain: None,
            user: None,
            profile: None,
            cache_bytes: None,
            hit_ns: None,
            clock: ClockMode::Off,
            pins: None,
        }
    }

    fn set(&mut self, option: &str) -> Result<(), String> {
        let (name, value) = option.split_once('=').ok_or("it has no value")?;
        let is_emu = matches!(self.place, Place::Emu(_));
        let is_node = matches!(self.place, Place::DevDax(_));
        match name {
            "size" => self.size_bytes = Some(size(value)?),
            "domain" => self.domain = Some(domain(value)?),
            "user" if is_node => {
                self.user = Some(value.parse().map_err(|_| "expected the number of a user")?)
            }
            "user" => return Err("each user has a file of his own there".into()),
            "profile" | "cache" | "hit" | "clock" | "pin" if !is_emu => {
                return Err("only a device that is emulated has one".into());
            }
            "profile" => self.profile = Some(value.to_owned()),
            "cache" => self.cache_bytes = Some(size(value)?),
            "hit" => self.hit_ns = Some(value.parse().map_err(|_| "expected nanoseconds")?),
            "clock" => self.clock = value.parse().map_err(|error| format!("{error}"))?,
            "pin" if value == "on" || value == "off" => self.pins = Some(value == "on"),
            "pin" => return Err("expected on or off".into()),
            _ => return Err("it is not known".into()),
        }
        Ok(())
    }

    /// Refuses options that have no effect.
    fn check_model(&self) -> Result<(), RegionError> {
        let options = [
            ("cache", self.cache_bytes.is_some()),
            ("hit", self.hit_ns.is_some()),
            ("clock", self.clock.models_time()),
            ("pin", self.pins.is_some()),
        ];
        match options.into_iter().find(|(_, is_given)| *is_given && self.profile.is_none()) {
            None => Ok(()),
            Some((name, _)) => {
                Err(RegionError::option(name, "without a profile= there is no device to model"))
            }
        }
    }
}

fn size(value: &str) -> Result<u64, String> {
    let size: Bytes = value.parse().map_err(|error| format!("{error}"))?;
    if size.0 == 0 {
        return Err("at least one page".into());
    }
    Ok(size.0)
}

fn domain(value: &str) -> Result<Domain, String> {
    Domain::ALL
        .into_iter()
        .find(|domain| domain.name() == value)
        .ok_or_else(|| format!("expected {}", Domain::ALL.map(Domain::name).join(", ")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn refusal(text: &str) -> String {
        text.parse::<Description>().unwrap_err().to_string()
    }

    #[test]
    fn a_region_is_described_by_what_it_is_and_its_options() {
        let emu: Description =
            "emu:/x/y?size=1G&cache=64M&profile=cmm-h&clock=virtual&hit=150".parse().unwrap();
        assert_eq!(emu.place, Place::Emu("/x/y".into()));
        assert_eq!((emu.size_bytes, emu.cache_bytes, emu.hit_ns), (Some(1 << 30), Some(64 << 20), Some(150)));
        assert_eq!((emu.profile.as_deref(), emu.clock), (Some("cmm-h"), ClockMode::Virtual));
        let dax: Description = "devdax:/dev/dax0.0?domain=cpu_cache".parse().unwrap();
        assert_eq!((dax.place, dax.domain), (Place::DevDax("/dev/dax0.0".into()), Some(Domain::CpuCache)));
    }

    #[test]
    fn emulated_region_by_name_is_in_dev_shm() {
        let emu: Description = "emu:byway".parse().unwrap();
        assert_eq!(emu.place, Place::Emu("/dev/shm/byway".into()));
    }

    #[test]
    fn impossible_region_is_refused_with_the_reason() {
        assert!(refusal("/dev/dax0.0").contains("expected emu:PATH"));
        assert!(refusal("pmem:/dev/pmem0").contains("expected emu:PATH"));
        assert!(refusal("fsdax:").contains("expected emu:PATH"));
        assert!(refusal("emu:x?size=much").contains("expected a number"));
        assert!(refusal("emu:x?size=0").contains("at least one page"));
        assert!(refusal("emu:x?size").contains("no value"));
        assert!(refusal("emu:x?speed=9").contains("not known"));
        assert!(refusal("emu:x?user=1000").contains("a file of his own"));
        assert!(refusal("devdax:/dev/dax0.0?user=root").contains("the number of a user"));
        assert!(refusal("emu:x?cache=1G").contains("no device to model"));
        assert!(refusal("emu:x?clock=paced").contains("no device to model"));
        assert!(refusal("emu:x?profile=cmm-h&pin=maybe").contains("on or off"));
        assert!(refusal("emu:x?domain=adr").contains("memory_controller"));
        assert!(refusal("devdax:/dev/dax0.0?cache=1G").contains("only a device that is emulated"));
    }
}
