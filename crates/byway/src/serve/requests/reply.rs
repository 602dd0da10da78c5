//! Replies of a server: a frame for each item, and a last one for the outcome.

use std::net::SocketAddr;

use byway_admin::{Fields, Frame, Kind, Text};
use byway_tcp_target::{AnaState, PortId};

use super::ports::{read_ports, with_ports};
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

/// An item of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    Subsystem(ServedSubsystem),
    /// Of the subsystem before.
    Namespace(ServedNamespace),
    Exported(Exported),
    Port(PortId, SocketAddr),
    Path(PathState),
}

impl Part {
    fn all_of(Reply { subsystems, exported, ports, paths }: Reply) -> Vec<Self> {
        let mut parts = Vec::new();
        for mut subsystem in subsystems {
            let namespaces = std::mem::take(&mut subsystem.namespaces);
            parts.push(Self::Subsystem(subsystem));
            parts.extend(namespaces.into_iter().map(Self::Namespace));
        }
        parts.extend(exported.map(Self::Exported));
        parts.extend(ports.into_iter().map(|(port, address)| Self::Port(port, address)));
        parts.extend(paths.into_iter().map(Self::Path));
        parts
    }

    fn to_text(&self) -> Text {
        match self {
            Self::Subsystem(ServedSubsystem { nqn, hosts, ports, .. }) => {
                let text = with_ports(Text::of("subsystem").with(nqn), ports.as_deref());
                let text = text.with(u8::from(hosts.is_some()));
                text.with_all(hosts.as_deref().unwrap_or_default())
            }
            Self::Namespace(ServedNamespace { nsid, kind, size_bytes, exported }) => {
                let text = Text::of("namespace").with(nsid).with(kind).with(size_bytes);
                exported.iter().fold(text, |text, exported| text.with(&exported.uri).with(&exported.backend))
            }
            Self::Exported(Exported { nsid, uri, backend }) => {
                Text::of("exported").with(nsid).with(uri).with(backend)
            }
            Self::Port(port, address) => Text::of("port").with(port.0).with(address),
            Self::Path(PathState { port, nsid, state }) => {
                Text::of("path").with(port.0).with(nsid).with(state.0)
            }
        }
    }

    /// Parses the text of an item.
    pub fn of_text(text: &str) -> Option<Self> {
        let (word, mut fields) = Fields::of(text);
        Some(match word {
            "subsystem" => {
                let (nqn, ports, is_listed) =
                    (fields.text()?, read_ports(&mut fields)?, fields.parsed::<u8>()? != 0);
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
            _ => return None,
        })
    }
}

impl Reply {
    /// As it is sent: each item, then the end.
    pub(super) fn into_frames(self) -> Vec<Frame> {
        let items = Part::all_of(self).into_iter().map(|part| Frame::new(Kind::Item, part.to_text()));
        items.chain([Frame::new(Kind::Done, Text::default())]).collect()
    }

    /// Adds a parsed item.
    pub(super) fn add(&mut self, part: Part) {
        match part {
            Part::Subsystem(subsystem) => self.subsystems.push(subsystem),
            Part::Namespace(namespace) => {
                self.subsystems.last_mut().into_iter().for_each(|of| of.namespaces.push(namespace.clone()));
            }
            Part::Exported(exported) => self.exported = Some(exported),
            Part::Port(port, address) => self.ports.push((port, address)),
            Part::Path(path) => self.paths.push(path),
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
        let frames = answer.clone().into_frames();
        let (last, items) = frames.split_last().unwrap();
        assert_eq!(last.kind, Kind::Done);
        for item in items {
            let part = Part::of_text(&item.text).unwrap();
            assert_eq!((Kind::Item, part.to_text().finish()), (item.kind, item.text.clone()));
            read.add(part);
        }
        assert_eq!(read, answer);
    }

    #[test]
    fn malformed_reply_line_is_rejected() {
        for text in ["", "hello", "port\tx\ty", "path\t1\t2", "namespace\t1"] {
            assert_eq!(Part::of_text(text), None, "{text}");
        }
    }
}
