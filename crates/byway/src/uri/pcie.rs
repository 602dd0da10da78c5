//! URIs of PCIe devices outside this process: `vfio-user:PATH`, `pci:ADDRESS`.

use std::path::PathBuf;
use std::str::FromStr;

use byway_buses::PciAddress;
use byway_core::{AdaptivePolicy, Depth, Error, Nsid, QueueOptions, Result};
use byway_link::Method;

use crate::uri::escape::decode;
use crate::uri::grammar::{invalid, number, on_or_off, pairs_of, parse, parse_depth, unknown};
use crate::uri::policy::PolicyOptions;
use crate::uri::split::split_options;
use crate::uri::tables::{OPTIONS, PCIE_OPTIONS};

/// A PCIe device, and how it is to be used.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PcieUri {
    /// PCI address of a function, or socket of a vfio-user server.
    pub place: PciePlace,
    /// How it is to be used.
    pub options: PcieOptions,
}

/// Options of a PCIe device: [`PCIE_OPTIONS`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PcieOptions {
    /// `transfer=`: how payloads cross the link.
    pub transfer: Method,
    /// `policy=`, `tau=`, `alpha=`, `below=`: by what `adaptive` chooses.
    pub policy: AdaptivePolicy,
    /// `inline-read=`: whether short results stand in the completion queue, behind their completions.
    pub inline_reads: bool,
    /// `ns=`: the namespace that calls without one mean.
    pub ns: Option<Nsid>,
    /// `depth=`: commands outstanding on a queue.
    pub depth: u32,
    /// `ring=`: entries of a submission ring.
    pub ring_entries: Option<u32>,
}

impl Default for PcieOptions {
    fn default() -> Self {
        let (transfer, policy) = (Method::Adaptive, AdaptivePolicy::default());
        Self { transfer, policy, inline_reads: false, ns: None, depth: 128, ring_entries: None }
    }
}

/// Where a PCIe device is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PciePlace {
    /// In another process, which serves it at a socket.
    VfioUser(PathBuf),
    /// In this machine, and in the hands of `vfio-pci`.
    Pci(PciAddress),
}

impl FromStr for PcieUri {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (place, query) = split_options(text);
        let query = query.unwrap_or_default();
        let place = match place.split_once(':') {
            Some(("vfio-user", "")) => {
                return Err(invalid(format!("{text}: a socket's path follows vfio-user:")));
            }
            Some(("vfio-user", path)) => PciePlace::VfioUser(decode(path)),
            Some(("pci", address)) => {
                let address = address.parse::<PciAddress>();
                PciePlace::Pci(address.map_err(|wrong| invalid(wrong.to_string()))?)
            }
            _ => {
                let said = format!("{text:?} is no PCIe device: expected vfio-user:PATH or pci:ADDRESS");
                return Err(invalid(said));
            }
        };
        Ok(Self { place, options: parse_options(query)? })
    }
}

fn parse_options(query: &str) -> Result<PcieOptions> {
    let (mut options, mut policy) = (PcieOptions::default(), PolicyOptions::default());
    for (name, value) in pairs_of(query)? {
        options.set(&mut policy, name, value).map_err(|e| e.doing(format!("option {name}={value}")))?;
    }
    options.policy = policy.of(options.transfer)?;
    Ok(options)
}

impl PcieOptions {
    fn set(&mut self, policy: &mut PolicyOptions, name: &str, value: &str) -> Result<()> {
        match name {
            "transfer" => self.transfer = parse(value)?,
            "policy" | "tau" | "alpha" | "below" => policy.set(name, value)?,
            "inline-read" => self.inline_reads = on_or_off(value)?,
            "ns" => self.ns = Some(Nsid::new(number(value)?)?),
            "depth" => self.depth = parse_depth(value)?,
            "ring" => self.ring_entries = Some(number(value)?),
            _ => {
                let known = OPTIONS.into_iter().filter(|(known, ..)| PCIE_OPTIONS.contains(known));
                return Err(unknown(&known.collect::<Vec<_>>()));
            }
        }
        Ok(())
    }
}

impl PcieUri {
    /// Options of queues.
    pub(crate) fn queue_options(&self) -> QueueOptions {
        QueueOptions::default()
            .depth(Depth::UpTo(self.options.depth))
            .ring_entries(self.options.ring_entries)
            .transfer(self.options.transfer)
            .policy(self.options.policy)
            .inline_reads(self.options.inline_reads)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_device_of_this_machine_is_named_by_its_address() {
        let uri: PcieUri = "pci:0000:04:00.0?depth=8".parse().unwrap();
        assert_eq!(uri.place, PciePlace::Pci("04:00.0".parse().unwrap()));
        assert!(error("pci:4").contains("expected DOMAIN:BUS:DEVICE.FUNCTION"));
        assert!(error("pci:04:00.0?gc=greedy").contains("known are"));
    }

    fn error(text: &str) -> String {
        text.parse::<PcieUri>().unwrap_err().to_string()
    }

    #[test]
    fn a_socket_and_the_host_s_own_options_are_read() {
        let uri: PcieUri = "vfio-user:/run/byway.sock?transfer=inline&depth=32&ns=2".parse().unwrap();
        assert_eq!(uri.place, PciePlace::VfioUser("/run/byway.sock".into()));
        assert_eq!((uri.options.depth, uri.queue_options().transfer), (32, byway_link::Method::Inline));
    }

    #[test]
    fn options_of_the_device_s_inside_are_its_server_s() {
        let said = error("vfio-user:/run/byway.sock?clock=virtual");
        assert!(said.contains("known are transfer, policy") && !said.contains("clock,"), "{said}");
        assert!(error("vfio-user:").contains("a socket's path follows"));
        assert!(error("vfio-user:a?depth=1&depth=2").contains("twice"));
    }
}
