//! A file that says what a server serves: JSON, with the names of nvmetcli's where it has one for the thing.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail, ensure};
use byway::serve::{
    AnaSetting, AnaState, AuthSecrets, AuthSuites, Dhchap, Nqn, PortId, SubsystemSpec, TlsKeys,
};
use byway_console::files;
use byway_console::json;
use serde::Deserialize;

use crate::args::TlsIs;
use crate::command::tls;

/// What a server serves.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Where hosts connect, numbered from 1.
    #[serde(default)]
    ports: Vec<Port>,
    /// Hosts that have keys.
    #[serde(default)]
    hosts: Vec<Host>,
    subsystems: Vec<Subsystem>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Port {
    addr: PortAddress,
    /// Those that are found there; all where it is not there.
    subsystems: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PortAddress {
    #[serde(default = "tcp")]
    trtype: String,
    traddr: String,
    #[serde(default = "io_port")]
    trsvcid: String,
}

fn tcp() -> String {
    "tcp".to_owned()
}

fn io_port() -> String {
    "4420".to_owned()
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Host {
    nqn: String,
    dhchap_key: Option<String>,
    dhchap_ctrl_key: Option<String>,
    tls_key: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Subsystem {
    nqn: String,
    /// What has namespaces of its own: an image, `embedded-ram:SIZE`.
    device: Option<String>,
    #[serde(default)]
    namespaces: Vec<Namespace>,
    /// All may connect where it is not there.
    allowed_hosts: Option<Vec<String>>,
    /// Whether its hosts may connect in the clear.
    tls: Option<TlsIs>,
    #[serde(default)]
    ana: Vec<Ana>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Namespace {
    device: NamespaceDevice,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NamespaceDevice {
    path: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ana {
    port: u16,
    nsid: Option<u32>,
    state: String,
}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// One that cannot be read, or says something else.
    pub fn read(path: &Path) -> Result<Self> {
        let text = files::read_regular(path)?;
        let config = serde_json::from_slice(&text);
        config.map_err(|error| anyhow!("{}: {}", path.display(), json::why_and_where(&error)))
    }

    /// Where hosts connect: here, and at `more` places.
    ///
    /// # Errors
    /// An address that is none; nowhere.
    pub fn addresses(&self, more: &[SocketAddr]) -> Result<Vec<SocketAddr>> {
        let mut addresses = Vec::new();
        for Port { addr: PortAddress { trtype, traddr, trsvcid }, .. } in &self.ports {
            ensure!(trtype == "tcp", "ports are served over tcp, not over {trtype}");
            let parsed = traddr.parse().ok().zip(trsvcid.parse().ok());
            let (address, port) =
                parsed.with_context(|| format!("{traddr} {trsvcid}: expected an IP address and a port"))?;
            addresses.push(SocketAddr::new(address, port));
        }
        addresses.extend(more);
        ensure!(!addresses.is_empty(), "there is no port: say where hosts connect by \"ports\" or by --tcp");
        Ok(addresses)
    }

    /// What there is to serve, where there are so many ports `more` than the file has.
    ///
    /// # Errors
    /// A contradiction, or an entry that would admit hosts by mistake.
    pub fn subsystems(&self, more: usize) -> Result<Vec<SubsystemSpec>> {
        for nqn in self.ports.iter().filter_map(|port| port.subsystems.as_ref()).flatten() {
            let is_there = self.subsystems.iter().any(|of| of.nqn == *nqn);
            ensure!(is_there, "a port has subsystem {nqn}, which there is not");
        }
        for Host { nqn, .. } in &self.hosts {
            let named = |of: &&Subsystem| of.allowed_hosts.as_ref().is_some_and(|hosts| hosts.contains(nqn));
            ensure!(self.subsystems.iter().any(|of| named(&of)), "{nqn} may connect to no subsystem");
        }
        self.subsystems.iter().map(|of| self.spec(of, more).with_context(|| of.nqn.clone())).collect()
    }

    fn spec(&self, of: &Subsystem, more: usize) -> Result<SubsystemSpec> {
        let exports = of.namespaces.iter().map(|namespace| namespace.device.path.clone()).collect();
        let hosts = match &of.allowed_hosts {
            Some(hosts) if hosts.is_empty() => {
                bail!("no host may connect: name some as \"allowed_hosts\", or leave that out for all to")
            }
            hosts => hosts.clone().unwrap_or_default(),
        };
        let dhchap = self.dhchap_of(&hosts)?;
        let tls = self.tls_of(of, &hosts, dhchap.is_some())?;
        let ana = of.ana.iter().map(Ana::setting).collect::<Result<_>>()?;
        Ok(SubsystemSpec {
            nqn: Some(of.nqn.clone()),
            device: of.device.clone(),
            exports,
            hosts,
            ports: self.ports_of(of, more)?,
            dhchap,
            ana,
            tls,
        })
    }

    /// The ports by which a subsystem is found; every one where no port has a list.
    fn ports_of(&self, of: &Subsystem, more: usize) -> Result<Option<Vec<PortId>>> {
        if self.ports.iter().all(|port| port.subsystems.is_none()) {
            return Ok(None);
        }
        let lists = self.ports.iter().map(|port| port.subsystems.as_ref());
        let lists = (1..).map(PortId).zip(lists.chain(std::iter::repeat_n(None, more)));
        let is_found = |list: Option<&Vec<String>>| list.is_none_or(|names| names.contains(&of.nqn));
        let ports: Vec<_> = lists.filter(|(_, list)| is_found(*list)).map(|(port, _)| port).collect();
        ensure!(!ports.is_empty(), "it is at no port: each has a list of \"subsystems\" without it");
        Ok(Some(ports))
    }

    fn host(&self, nqn: &str) -> Option<&Host> {
        self.hosts.iter().find(|host| host.nqn == nqn)
    }

    /// Secrets of all of a subsystem's hosts, or of none.
    fn dhchap_of(&self, hosts: &[String]) -> Result<Option<Dhchap>> {
        let mut secrets = Vec::new();
        for nqn in hosts {
            let Some(Host { dhchap_key: Some(key), dhchap_ctrl_key, .. }) = self.host(nqn) else { continue };
            let host = key.parse().with_context(|| format!("dhchap_key of {nqn}"))?;
            let controller = dhchap_ctrl_key.as_ref().map(|key| key.parse()).transpose();
            let controller = controller.with_context(|| format!("dhchap_ctrl_key of {nqn}"))?;
            secrets.push((Nqn::new(nqn)?, AuthSecrets { host, controller }));
        }
        let all = secrets.is_empty() || secrets.len() == hosts.len();
        ensure!(all, "some of the allowed hosts have a dhchap_key, and some have none");
        let suites = AuthSuites::default();
        Ok((!secrets.is_empty()).then_some(Dhchap { hosts: secrets, suites, timeout: Dhchap::TIMEOUT }))
    }

    /// Keys of all of a subsystem's hosts, or of none.
    fn tls_of(&self, of: &Subsystem, hosts: &[String], has_secrets: bool) -> Result<Option<TlsKeys>> {
        let mut keys = Vec::new();
        for nqn in hosts {
            let Some(Host { tls_key: Some(key), .. }) = self.host(nqn) else { continue };
            keys.push((Nqn::new(nqn)?, key.parse().with_context(|| format!("tls_key of {nqn}"))?));
        }
        let all = keys.is_empty() || keys.len() == hosts.len();
        ensure!(all, "some of the allowed hosts have a tls_key, and some have none");
        tls::of_policy(keys, of.tls.unwrap_or(TlsIs::Required), has_secrets).context("\"tls\"")
    }
}

impl Ana {
    fn setting(&self) -> Result<AnaSetting> {
        let known = || AnaState::ALL.iter().filter_map(|state| Some((*state, state.name()?)));
        let state = known().find(|(_, name)| *name == self.state).map(|(state, _)| state);
        let names = || known().map(|(_, name)| name).collect::<Vec<_>>().join(", ");
        let state = state.with_context(|| format!("{} is none of the states {}", self.state, names()))?;
        Ok(AnaSetting { port: PortId(self.port), nsid: self.nsid, state })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use byway::serve::TlsPolicy;
    use byway_kit::Random;

    use super::*;

    const SECRET: &str = "DHHC-1:01:OQmBqENm7JeUZcaf95IgU6vDcimlMupTz9ZK2y86loTjQ9PD:";

    fn config(text: &str) -> Config {
        serde_json::from_str(text).unwrap()
    }

    fn refusal(text: &str) -> String {
        format!("{:#}", config(text).subsystems(0).unwrap_err())
    }

    /// A configuration with every kind of entry.
    fn whole_config() -> String {
        format!(
            r#"{{
            "ports": [{{"addr": {{"trtype": "tcp", "traddr": "127.0.0.1", "trsvcid": "0"}}}}, {{"addr": {{"traddr": "::1"}}, "subsystems": ["nqn.b"]}}],
            "hosts": [{{"nqn": "nqn.h", "dhchap_key": "{SECRET}"}}],
            "subsystems": [
                {{"nqn": "nqn.a", "namespaces": [{{"device": {{"path": "blocks:1M"}}}}], "allowed_hosts": ["nqn.h"], "tls": "concat"}},
                {{"nqn": "nqn.b", "device": "ram:64M", "ana": [{{"port": 2, "nsid": 1, "state": "inaccessible"}}]}}
            ]}}"#
        )
    }

    /// Bytes of `text` with some exchanged, removed and doubled.
    fn mutated(text: &str, random: &mut Random) -> Vec<u8> {
        let mut bytes = text.as_bytes().to_vec();
        for _ in 0..=random.index(4) {
            let (at, to) = (random.index(bytes.len()), random.index(bytes.len()));
            match random.index(4) {
                0 => bytes[at] = random.next() as u8,
                1 => bytes[at] = bytes[to],
                2 => drop(bytes.drain(at..(at + random.index(40)).min(bytes.len()))),
                _ => bytes.extend_from_within(at.min(to)..at.max(to)),
            }
        }
        bytes
    }

    #[test]
    fn config_of_any_bytes_is_refused_or_admits_no_host_by_mistake() {
        let (text, mut random, mut accepted) = (whole_config(), Random::new(1), 0);
        for _ in 0..20_000 {
            let config = match serde_json::from_slice::<Config>(&mutated(&text, &mut random)) {
                Ok(config) => config,
                Err(error) => {
                    assert!(!json::why_and_where(&error).is_empty());
                    continue;
                }
            };
            let _ = config.addresses(&[]);
            for spec in config.subsystems(random.index(3)).into_iter().flatten() {
                accepted += 1;
                assert!(spec.dhchap.is_none_or(|dhchap| dhchap.hosts.len() == spec.hosts.len()));
            }
        }
        assert!(accepted > 100, "{accepted}");
    }

    #[test]
    fn config_file_lists_namespaces_and_allowed_hosts_per_subsystem() {
        let config = config(&whole_config());
        let more = ["10.0.0.1:4420".parse().unwrap()];
        let addresses = config.addresses(&more).unwrap();
        let wanted = ["127.0.0.1:0", "[::1]:4420", "10.0.0.1:4420"].map(|at| at.parse().unwrap());
        assert_eq!(addresses, wanted);
        let [a, b] = &config.subsystems(1).unwrap()[..] else { panic!() };
        assert_eq!((a.nqn.as_deref(), &a.exports[..]), (Some("nqn.a"), &["blocks:1M".to_owned()][..]));
        assert_eq!((&a.hosts[..], a.dhchap.is_some()), (&["nqn.h".to_owned()][..], true));
        assert_eq!(a.tls.as_ref().map(|tls| tls.policy), Some(TlsPolicy::Concatenated));
        assert_eq!((b.device.as_deref(), b.hosts.len(), b.dhchap.is_none()), (Some("ram:64M"), 0, true));
        assert_eq!(a.ports, Some(vec![PortId(1), PortId(3)]));
        assert_eq!(b.ports, Some([1, 2, 3].map(PortId).to_vec()));
        let state = AnaSetting { port: PortId(2), nsid: Some(1), state: AnaState::INACCESSIBLE };
        assert_eq!(b.ana, [state]);
    }

    #[test]
    fn entries_that_admit_hosts_by_mistake_are_refused() {
        let refused = refusal(r#"{"subsystems": [{"nqn": "nqn.a", "allowed_hosts": []}]}"#);
        assert!(refused.contains("nqn.a") && refused.contains("no host may connect"), "{refused}");
        let refused = refusal(r#"{"subsystems": [{"nqn": "nqn.a", "tls": "concat"}]}"#);
        assert!(refused.contains("no host has a secret to make a key of TLS by"), "{refused}");
        let keys = format!(r#""hosts": [{{"nqn": "nqn.h", "dhchap_key": "{SECRET}"}}]"#);
        let forgotten = refusal(&format!(r#"{{{keys}, "subsystems": [{{"nqn": "nqn.a"}}]}}"#));
        assert!(forgotten.contains("nqn.h may connect to no subsystem"), "{forgotten}");
        let listed = |of: &str| format!(r#""ports": [{{"addr": {{"traddr": "::1"}}, "subsystems": {of}}}]"#);
        let nowhere = refusal(&format!(r#"{{{}, "subsystems": [{{"nqn": "nqn.a"}}]}}"#, listed("[]")));
        assert!(nowhere.contains("nqn.a") && nowhere.contains("it is at no port"), "{nowhere}");
        let strange = refusal(&format!(r#"{{{}, "subsystems": []}}"#, listed(r#"["nqn.b"]"#)));
        assert!(strange.contains("nqn.b, which there is not"), "{strange}");
        let two = r#""subsystems": [{"nqn": "nqn.a", "allowed_hosts": ["nqn.h", "nqn.i"]}]"#;
        let half = refusal(&format!("{{{keys}, {two}}}"));
        assert!(half.contains("some have none"), "{half}");
        assert!(serde_json::from_str::<Config>(r#"{"subsystems": [], "allow_any": true}"#).is_err());
    }
}
