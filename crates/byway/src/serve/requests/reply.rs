//! Replies of a server: a line for each item, and a last one for the outcome.

use std::net::SocketAddr;

use byway_core::Result;
use byway_tcp_target::{AnaState, PortId};

use super::line::{Fields, Line};
use crate::serve::exports::Exported;
use crate::serve::live::{PathState, ServedNamespace, ServedSubsystem};

/// What a server answers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reply {
    /// The subsystems there are, or that were asked for.
    pub subsystems: Vec<ServedSubsystem>,
    /// What is exported now that was not before.
    pub exported: Option<Exported>,
    /// Ports, with where they are.
    pub ports: Vec<(PortId, SocketAddr)>,
    /// How namespaces are reached.
    pub paths: Vec<PathState>,
}

/// A line of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    Subsystem(ServedSubsystem),
    /// Of the subsystem before.
    Namespace(ServedNamespace),
    Exported(Exported),
    Port(PortId, SocketAddr),
    Path(PathState),
    /// The end of an answer.
    Done,
    /// It was not done, for this reason.
    Refused(String),
}

impl Part {
    /// The lines of an answer.
    pub fn all_of(answer: Result<Reply>) -> Vec<Self> {
        let Reply { subsystems, exported, ports, paths } = match answer {
            Ok(reply) => reply,
            Err(error) => return vec![Self::Refused(error.to_string())],
        };
        let mut parts = Vec::new();
        for mut subsystem in subsystems {
            let namespaces = std::mem::take(&mut subsystem.namespaces);
            parts.push(Self::Subsystem(subsystem));
            parts.extend(namespaces.into_iter().map(Self::Namespace));
        }
        parts.extend(exported.map(Self::Exported));
        parts.extend(ports.into_iter().map(|(port, address)| Self::Port(port, address)));
        parts.extend(paths.into_iter().map(Self::Path));
        parts.push(Self::Done);
        parts
    }

    pub fn to_line(&self) -> String {
        let line = match self {
            Self::Subsystem(ServedSubsystem { nqn, hosts, ports, .. }) => {
                let line = Line::of("subsystem").with(nqn).with_ports(ports.as_deref());
                let line = line.with(u8::from(hosts.is_some()));
                line.with_all(hosts.as_deref().unwrap_or_default())
            }
            Self::Namespace(ServedNamespace { nsid, kind, size_bytes, exported }) => {
                let line = Line::of("namespace").with(nsid).with(kind).with(size_bytes);
                exported.iter().fold(line, |line, exported| line.with(&exported.uri).with(&exported.backend))
            }
            Self::Exported(Exported { nsid, uri, backend }) => {
                Line::of("exported").with(nsid).with(uri).with(backend)
            }
            Self::Port(port, address) => Line::of("port").with(port.0).with(address),
            Self::Path(PathState { port, nsid, state }) => {
                Line::of("path").with(port.0).with(nsid).with(state.0)
            }
            Self::Done => Line::of("done"),
            Self::Refused(why) => Line::of("refused").with(why),
        };
        line.finish()
    }

    /// Parses a line.
    pub fn of_line(line: &str) -> Option<Self> {
        let (word, mut fields) = Fields::of(line);
        Some(match word {
            "subsystem" => {
                let (nqn, ports, is_listed) = (fields.text()?, fields.ports()?, fields.parsed::<u8>()? != 0);
                let hosts = is_listed.then(|| fields.rest());
                Self::Subsystem(ServedSubsystem { nqn, hosts, ports, namespaces: Vec::new() })
            }
            "namespace" => {
                let (nsid, kind, size_bytes) = (fields.parsed()?, fields.text()?, fields.parsed()?);
                let exported = fields.text().zip(fields.text());
                let exported = exported.map(|(uri, backend)| Exported { nsid, uri, backend });
                Self::Namespace(ServedNamespace { nsid, kind, size_bytes, exported })
            }
            "exported" => Self::Exported(Exported {
                nsid: fields.parsed()?,
                uri: fields.text()?,
                backend: fields.text()?,
            }),
            "port" => Self::Port(PortId(fields.parsed()?), fields.parsed()?),
            "path" => Self::Path(PathState {
                port: PortId(fields.parsed()?),
                nsid: fields.parsed()?,
                state: AnaState(fields.parsed()?),
            }),
            "done" => Self::Done,
            "refused" => Self::Refused(fields.text()?),
            _ => return None,
        })
    }
}

impl Reply {
    /// Adds a parsed line.
    pub(super) fn add(&mut self, part: Part) {
        match part {
            Part::Subsystem(subsystem) => self.subsystems.push(subsystem),
            Part::Namespace(namespace) => {
                self.subsystems.last_mut().into_iter().for_each(|of| of.namespaces.push(namespace.clone()));
            }
            Part::Exported(exported) => self.exported = Some(exported),
            Part::Port(port, address) => self.ports.push((port, address)),
            Part::Path(path) => self.paths.push(path),
            Part::Done | Part::Refused(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_answer_is_read_as_it_was_given() {
        let exported = Exported { nsid: 2, uri: "file:a b".to_owned(), backend: "io_uring".to_owned() };
        let namespace = |nsid, exported| ServedNamespace {
            nsid,
            kind: "blocks".to_owned(),
            size_bytes: 1 << 40,
            exported,
        };
        let subsystem = |nqn: &str, hosts, ports| ServedSubsystem {
            nqn: nqn.to_owned(),
            hosts,
            ports,
            namespaces: vec![namespace(1, None), namespace(2, Some(exported.clone()))],
        };
        let path = PathState { port: PortId(1), nsid: 2, state: AnaState::NON_OPTIMIZED };
        let answer = Reply {
            subsystems: vec![
                subsystem("a", None, None),
                subsystem("b", Some(vec![]), Some(vec![])),
                subsystem("c", Some(vec!["h".to_owned()]), Some(vec![PortId(1), PortId(300)])),
            ],
            exported: Some(exported.clone()),
            ports: vec![(PortId(3), "127.0.0.1:4420".parse().unwrap())],
            paths: vec![path],
        };
        let mut read = Reply::default();
        for part in Part::all_of(Ok(answer.clone())) {
            let again = Part::of_line(part.to_line().trim_end_matches('\n')).unwrap();
            assert_eq!(again, part);
            read.add(again);
        }
        assert_eq!(read, answer);
    }

    #[test]
    fn malformed_reply_line_is_rejected() {
        for line in ["", "hello", "port\tx\ty", "path\t1\t2", "namespace\t1"] {
            assert_eq!(Part::of_line(line), None, "{line}");
        }
    }
}
