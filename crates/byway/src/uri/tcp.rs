//! URIs of NVMe/TCP subsystems: `tcp://HOST[:PORT][,HOST[:PORT]…]/NQN`, and their options.

use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use byway_core::{Depth, Error, Nsid, QueueOptions, Result};
use byway_sys::Idle;
use byway_tcp_initiator::{
    AuthSecrets, DISCOVERY_PORT, DhchapSecret, Digests, Nqn, PORT, PskForm, PskFormError, SecretError,
    TcpOptions, TcpPlace, TlsKey, TlsKeyError, TlsWith,
};

use crate::uri::grammar::{
    invalid, number, on_or_off, one_of, pairs_of, parse, parse_depth, seconds, shown, unknown,
};
use crate::uri::tables::{DISCOVERY_OPTIONS, TCP_OPTIONS};

/// A subsystem at a TCP address, or at several, and how it is to be used.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TcpUri {
    /// Where it is: each is a path to the same.
    pub places: Vec<TcpPlace>,
    /// How it is connected to.
    pub options: TcpOptions,
    /// `depth=`: commands outstanding on a queue.
    pub depth: u32,
    /// `ns=`: the namespace that calls without one mean.
    pub ns: Option<Nsid>,
}

/// Options whose values must not appear in messages.
const SECRET_OPTIONS: [&str; 3] = ["dhchap-secret", "dhchap-ctrl-secret", "tls-key"];

impl FromStr for TcpUri {
    type Err = byway_core::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (address, query) = text.split_once('?').unwrap_or((text, ""));
        let (portals, name) = parts_of(address)?;
        let Some(name) = name else {
            return Err(invalid(without_name(address, &portals)));
        };
        let subsystem = named(name)?;
        let place = |(host, port): (String, Option<u16>)| TcpPlace {
            host,
            port: port.unwrap_or(PORT),
            subsystem: subsystem.clone(),
        };
        let places = portals.into_iter().map(place).collect();
        let mut uri = Self { places, options: TcpOptions::default(), depth: 128, ns: None };
        uri.set_all(query)?;
        Ok(uri)
    }
}

/// What helps where an address has no subsystem's name behind it.
fn without_name(address: &str, portals: &[Portal]) -> String {
    let service = portals.first().map_or_else(|| "tcp://HOST".to_owned(), service_of);
    format!(
        "{address}: the subsystem's name follows the address: tcp://HOST:4420/NQN; `byway discover {service}` lists the subsystems \
         of a host that serves discovery"
    )
}

/// The address of a portal, with its port where one is given.
pub(crate) fn service_of((host, port): &Portal) -> String {
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    match port {
        Some(port) => format!("tcp://{host}:{port}"),
        None => format!("tcp://{host}"),
    }
}

/// `tcp://HOST[:PORT]`: an address without the name of a subsystem.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NamelessUri {
    pub host: String,
    pub port: Option<u16>,
    /// Discovery services to ask for the subsystem, in this order.
    pub services: Vec<String>,
}

impl NamelessUri {
    /// `None` for an address with a name, with several hosts, or of another kind. Options that discovery knows are passed to the services.
    pub fn of(text: &str) -> Option<Self> {
        let (address, query) = text.split_once('?').unwrap_or((text, ""));
        let (mut portals, None) = parts_of(address).ok()? else { return None };
        let (host, port) = portals.pop().filter(|_| portals.is_empty())?;
        let known = pairs_of(query).ok()?.into_iter().filter(|(name, _)| DISCOVERY_OPTIONS.contains(name));
        let options: Vec<String> = known.map(|(name, value)| format!("{name}={value}")).collect();
        let options = if options.is_empty() { String::new() } else { format!("?{}", options.join("&")) };
        let ports = port.map_or(vec![DISCOVERY_PORT, PORT], |port| vec![port]);
        let service = |port| format!("{}{options}", service_of(&(host.clone(), Some(port))));
        let services = ports.into_iter().map(service).collect();
        Some(Self { host, port, services })
    }
}

impl TcpUri {
    /// The discovery service at `tcp://HOST[:PORT]`, port 8009 where none is given.
    pub(crate) fn of_discovery(text: &str) -> Result<Self> {
        let (address, query) = text.split_once('?').unwrap_or((text, ""));
        let (mut portals, name) = parts_of(address)?;
        let subsystem = name.map_or_else(|| Ok(Nqn::discovery()), named)?;
        let Some((host, port)) = portals.pop().filter(|_| portals.is_empty()) else {
            return Err(invalid(format!("{address}: one discovery service is asked at a time")));
        };
        let places = vec![TcpPlace { host, port: port.unwrap_or(DISCOVERY_PORT), subsystem }];
        let mut uri = Self { places, options: TcpOptions::default(), depth: 128, ns: None };
        for (name, value) in pairs_of(query)? {
            if !DISCOVERY_OPTIONS.contains(&name) {
                let known = TCP_OPTIONS.into_iter().filter(|(known, ..)| DISCOVERY_OPTIONS.contains(known));
                let shown = shown(value);
                return Err(unknown(&known.collect::<Vec<_>>()).doing(format!("option {name}={shown}")));
            }
        }
        uri.set_all(query)?;
        // It is asked once, and left.
        uri.options.keep_alive = Duration::ZERO;
        Ok(uri)
    }

    fn set_all(&mut self, query: &str) -> Result<()> {
        let (mut secrets, mut tls) = (Secrets::default(), Tls::default());
        for (name, value) in pairs_of(query)? {
            let set = match name {
                "dhchap-secret" => secret(value).map(|found| secrets.host = Some(found)),
                "dhchap-ctrl-secret" => secret(value).map(|found| secrets.controller = Some(found)),
                "dhchap-secret-file" => secrets.read(value),
                "tls-key" => tls_key(value).map(|found| tls.key = Some(found)),
                "tls-key-file" => {
                    read(value).and_then(|text| tls_key(text.trim())).map(|found| tls.key = Some(found))
                }
                "tls-identity" => tls_form(value).map(|found| tls.form = Some(found)),
                _ => self.set(name, value),
            };
            let shown = if SECRET_OPTIONS.contains(&name) { "…".to_owned() } else { shown(value) };
            set.map_err(|e| e.doing(format!("option {name}={shown}")))?;
        }
        self.options.dhchap = secrets.both()?;
        self.options.tls = tls.both()?;
        match (self.options.concatenate, &self.options.dhchap, &self.options.tls) {
            (true, None, _) => Err(invalid("concat goes with dhchap-secret-file or dhchap-secret")),
            (true, _, Some(_)) => Err(invalid("concat derives the key of TLS: leave out tls-key")),
            _ => Ok(()),
        }
    }

    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "ns" => self.ns = Some(Nsid::new(number(value)?)?),
            "depth" => self.depth = parse_depth(value)?,
            "queues" => self.options.queues = queues(value)?,
            "hostnqn" => self.options.host = Some(named(value)?),
            "hostid" => self.options.host_id = Some(parse(value)?),
            "concat" => self.options.concatenate = on_or_off(value)?,
            "digests" => self.options.digests = one_of(value, &DIGESTS)?,
            "keep-alive" => self.options.keep_alive = seconds(value)?,
            "ctrl-loss-tmo" => self.options.controller_loss = seconds(value)?,
            "timeout" => self.options.connect_timeout = seconds(value)?,
            "idle" => self.options.idle = one_of(value, &IDLE)?,
            _ => return Err(unknown(&TCP_OPTIONS)),
        }
        Ok(())
    }

    /// Options of queues.
    pub(crate) fn queue_options(&self) -> QueueOptions {
        QueueOptions::default().depth(Depth::UpTo(self.depth))
    }
}

const IDLE: [(&str, Idle); 3] = [("adaptive", Idle::Adaptive), ("sleep", Idle::Sleep), ("poll", Idle::Poll)];

/// The secrets that options name.
#[derive(Default)]
struct Secrets {
    host: Option<DhchapSecret>,
    controller: Option<DhchapSecret>,
}

impl Secrets {
    /// Reads a file: the host's secret, and the controller's if it has two.
    fn read(&mut self, path: &str) -> Result<()> {
        let text = read(path)?;
        let words: Vec<&str> = text.split_whitespace().collect();
        let (host, controller) = match words.as_slice() {
            [host] => (host, None),
            [host, controller] => (host, Some(controller)),
            _ => return Err(invalid("expected one secret, or two: the host's and the controller's")),
        };
        self.host = Some(secret(host)?);
        self.controller = controller.map(|text| secret(text)).transpose()?.or(self.controller.take());
        Ok(())
    }

    /// A controller is asked by a host that can be asked as well.
    fn both(self) -> Result<Option<AuthSecrets>> {
        match (self.host, self.controller) {
            (Some(host), controller) => Ok(Some(AuthSecrets { host, controller })),
            (None, None) => Ok(None),
            (None, Some(_)) => Err(invalid("dhchap-ctrl-secret goes with dhchap-secret")),
        }
    }
}

/// The options of TLS.
#[derive(Default)]
struct Tls {
    key: Option<TlsKey>,
    form: Option<PskForm>,
}

impl Tls {
    fn both(self) -> Result<Option<TlsWith>> {
        match (self.key, self.form) {
            (Some(key), form) => Ok(Some(TlsWith { key, form: form.unwrap_or_default() })),
            (None, None) => Ok(None),
            (None, Some(_)) => Err(invalid("tls-identity goes with tls-key-file or tls-key")),
        }
    }
}

fn tls_key(text: &str) -> Result<TlsKey> {
    text.parse().map_err(|wrong: TlsKeyError| invalid(wrong.to_string()))
}

fn tls_form(text: &str) -> Result<PskForm> {
    text.parse().map_err(|wrong: PskFormError| invalid(wrong.to_string()))
}

fn read(path: &str) -> Result<String> {
    byway_sys::text::read_settings(Path::new(path)).map_err(|e| Error::kernel("it cannot be read", e))
}

fn secret(text: &str) -> Result<DhchapSecret> {
    text.parse().map_err(|wrong: SecretError| invalid(wrong.to_string()))
}

const DIGESTS: [(&str, Digests); 4] = [
    ("none", Digests::NONE),
    ("header", Digests { header: true, data: false }),
    ("data", Digests { header: false, data: true }),
    ("both", Digests::BOTH),
];

fn queues(value: &str) -> Result<u16> {
    match number(value)? {
        0 => Err(invalid("a controller has one queue at least")),
        queues => Ok(queues),
    }
}

fn named(name: &str) -> Result<Nqn> {
    Nqn::new(name).map_err(|wrong| invalid(format!("{name:?}: {wrong}")))
}

/// A host, and its port where one is given.
type Portal = (String, Option<u16>);

/// Portals and name of `tcp://HOST[:PORT][,HOST[:PORT]…][/NAME]`.
fn parts_of(address: &str) -> Result<(Vec<Portal>, Option<&str>)> {
    let rest = address.strip_prefix("tcp://");
    let rest =
        rest.ok_or_else(|| invalid(format!("{address:?} is no TCP address: expected tcp://HOST[:PORT]")))?;
    let (authority, name) = match rest.split_once('/') {
        Some((authority, name)) => (authority, Some(name).filter(|name| !name.is_empty())),
        None => (rest, None),
    };
    let portals = authority.split(',').map(|authority| portal_of(address, authority));
    Ok((portals.collect::<Result<_>>()?, name))
}

fn portal_of(address: &str, authority: &str) -> Result<Portal> {
    let (host, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, port)) => (host, port.strip_prefix(':').or_else(|| port.is_empty().then_some(""))),
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, Some("")),
        },
    };
    let wrong = || {
        invalid(format!("{address}: expected a host and a port of 1 to 65535, as in tcp://[::1]:4420/NQN"))
    };
    let port = match port.ok_or_else(wrong)? {
        "" if authority.ends_with(':') => return Err(wrong()),
        "" => None,
        port => Some(port.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?),
    };
    if host.is_empty() {
        return Err(wrong());
    }
    Ok((host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const NAME: &str = "nqn.2026-01.org.example:disk";

    fn error(text: &str) -> String {
        text.parse::<TcpUri>().unwrap_err().to_string()
    }

    fn places(text: &str) -> Vec<(String, u16)> {
        let places = text.parse::<TcpUri>().unwrap().places.into_iter();
        places.map(|TcpPlace { host, port, .. }| (host, port)).collect()
    }

    fn place(text: &str) -> (String, u16) {
        let mut places = places(text);
        assert_eq!(places.len(), 1);
        places.remove(0)
    }

    #[test]
    fn several_portals_are_separated_by_commas() {
        let wanted = [("a".into(), 4420), ("::1".into(), 5), ("b".into(), 4420)];
        assert_eq!(places(&format!("tcp://a,[::1]:5,b:4420/{NAME}?ns=1")), wanted);
        for wrong in ["tcp://a,/x", "tcp://,a/x", "tcp://a:1,b:0/x"] {
            assert!(error(wrong).contains("a port of 1 to 65535"), "{wrong}: {}", error(wrong));
        }
        let error = TcpUri::of_discovery("tcp://a,b").unwrap_err().to_string();
        assert!(error.contains("one discovery service"), "{error}");
    }

    #[test]
    fn a_host_a_port_and_a_name_are_read_and_the_port_may_be_left_out() {
        assert_eq!(place(&format!("tcp://server:5000/{NAME}")), ("server".into(), 5000));
        assert_eq!(place(&format!("tcp://10.0.0.1/{NAME}")), ("10.0.0.1".into(), 4420));
        assert_eq!(place(&format!("tcp://[fe80::1]/{NAME}")), ("fe80::1".into(), 4420));
        assert_eq!(place(&format!("tcp://[::1]:1/{NAME}")), ("::1".into(), 1));
    }

    #[test]
    fn every_option_is_read() {
        let uri: TcpUri = format!(
            "tcp://a/{NAME}?ns=2&depth=7&queues=3&hostnqn=nqn.2026-01.org.example:host&digests=header&\
             hostid=00112233-4455-6677-8899-aabbccddeeff&keep-alive=0&ctrl-loss-tmo=9&timeout=4&idle=poll"
        )
        .parse()
        .unwrap();
        assert_eq!((uri.ns.unwrap().get(), uri.depth, uri.options.queues), (2, 7, 3));
        assert_eq!(uri.options.host.unwrap().as_str(), "nqn.2026-01.org.example:host");
        assert!(uri.options.digests.header && !uri.options.digests.data);
        assert_eq!((uri.options.host_id.unwrap().0[15], uri.options.idle), (0xff, Idle::Poll));
        let times = (uri.options.keep_alive, uri.options.controller_loss, uri.options.connect_timeout);
        assert_eq!(times, (Duration::ZERO, Duration::from_secs(9), Duration::from_secs(4)));
    }

    const SECRET: &str = "DHHC-1:01:OQmBqENm7JeUZcaf95IgU6vDcimlMupTz9ZK2y86loTjQ9PD:";

    #[test]
    fn secrets_are_read_and_not_repeated() {
        let dhchap =
            |query: &str| format!("tcp://a/{NAME}?{query}").parse::<TcpUri>().map(|uri| uri.options.dhchap);
        assert!(dhchap(&format!("dhchap-secret={SECRET}")).unwrap().unwrap().controller.is_none());
        let both = dhchap(&format!("dhchap-ctrl-secret={SECRET}&dhchap-secret={SECRET}")).unwrap().unwrap();
        assert_eq!(both.controller, Some(both.host));
        let text = |query: &str| error(&format!("tcp://a/{NAME}?{query}"));
        assert!(text(&format!("dhchap-ctrl-secret={SECRET}")).contains("goes with dhchap-secret"));
        let wrong = text("dhchap-secret=DHHC-1:01:c2VjcmV0:");
        assert!(wrong.contains("32, 48 or 64 bytes") && !wrong.contains("c2VjcmV0"), "{wrong}");
        assert!(text("dhchap-secret-file=/nowhere").contains("cannot be read"));
    }

    #[test]
    fn keys_of_tls_are_read_and_not_repeated() {
        const KEY: &str = "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:";
        let tls = |query: &str| {
            let uri: TcpUri = format!("tcp://a/{NAME}?{query}").parse().unwrap();
            uri.options.tls
        };
        assert_eq!(tls("depth=1"), None);
        assert_eq!(tls(&format!("tls-key={KEY}")).unwrap().form, PskForm::LATEST);
        assert_eq!(tls(&format!("tls-identity=0&tls-key={KEY}")).unwrap().form, PskForm::V0);
        let text = |query: &str| error(&format!("tcp://a/{NAME}?{query}"));
        assert!(text("tls-identity=0").contains("goes with tls-key-file"));
        assert!(text(&format!("tls-key={KEY}&tls-identity=2")).contains("version is 0 or 1"));
        let wrong = text("tls-key=NVMeTLSkey-1:01:c2VjcmV0:");
        assert!(wrong.contains("32 or 48 bytes") && !wrong.contains("c2VjcmV0"), "{wrong}");
        assert!(text("tls-key-file=/nowhere").contains("cannot be read"));
        assert!(text("concat=on").contains("goes with dhchap-secret-file"));
        assert!(
            text(&format!("concat=on&dhchap-secret={SECRET}&tls-key={KEY}")).contains("leave out tls-key")
        );
        let both = format!("tcp://a/x?tls-key={KEY}&dhchap-secret={SECRET}&ns=1");
        assert_eq!(shown(&both), "tcp://a/x?tls-key=…&dhchap-secret=…&ns=1");
    }

    #[test]
    fn invalid_tcp_addresses_and_options_are_refused() {
        for (address, discovery) in [("tcp://a", "tcp://a`"), ("tcp://[::1]:4420/", "tcp://[::1]:4420`")] {
            let error = error(address);
            assert!(error.contains("the subsystem's name follows") && error.contains(discovery), "{error}");
        }
        assert!(error("tcp:a").contains("expected tcp://HOST"));
        for wrong in
            ["tcp:///x", "tcp://a:/x", "tcp://a:0/x", "tcp://a:65536/x", "tcp://[::1/x", "tcp://[::1]4420/x"]
        {
            assert!(error(wrong).contains("a port of 1 to 65535"), "{wrong}: {}", error(wrong));
        }
        assert!(error("tcp://a/x?transfer=prp").contains("known are ns, depth"));
        assert!(error("tcp://a/x?digests=crc").contains("expected none or header"));
        assert!(error("tcp://a/x?queues=0").contains("one queue at least"));
    }

    #[test]
    fn discovery_uri_needs_no_name_and_takes_connection_options_only() {
        let uri = TcpUri::of_discovery("tcp://server?digests=both").unwrap();
        assert_eq!((uri.places[0].port, uri.places[0].subsystem.is_discovery()), (8009, true));
        let error = TcpUri::of_discovery("tcp://server?ns=1").unwrap_err();
        assert!(error.to_string().contains("known are hostnqn, hostid, dhchap-secret"), "{error}");
    }

    #[test]
    fn address_without_a_name_says_where_discovery_is_asked() {
        let services = |text: &str| NamelessUri::of(text).map(|nameless| nameless.services);
        assert_eq!(services("tcp://a").unwrap(), ["tcp://a:8009", "tcp://a:4420"]);
        assert_eq!(services("tcp://[::1]:5/?ns=2&hostnqn=h").unwrap(), ["tcp://[::1]:5?hostnqn=h"]);
        for other in ["tcp://a/nqn", "tcp://a,b", "disk.img", "embedded-ram:1M"] {
            assert_eq!(services(other), None, "{other}");
        }
    }
}
