//! Identify: which structure an answer is, and lists.

use byway::spec::base::identify::{
    Cns, CommandSets, ControllerList, Csi, NamespaceDescriptor, NamespaceIdType, NamespaceList,
};
use zerocopy::FromBytes;

use super::{Decoded, Fields, controller, namespace, read};

/// The answer to Identify for `cns` of command set `csi`, decoded; `None` for an unknown one.
pub fn identify(cns: Cns, csi: Csi, bytes: &[u8]) -> Option<Decoded> {
    let fields = match (cns, csi) {
        (Cns::CONTROLLER, _) => controller::controller(&*read(bytes)?),
        (Cns::NAMESPACE | Cns::ALLOCATED_NAMESPACE, _) => namespace::blocks(&*read(bytes)?),
        (Cns::SET_NAMESPACE, Csi::NVM) => namespace::blocks_extended(&*read(bytes)?),
        (Cns::SET_NAMESPACE, Csi::KV) => namespace::pairs(&*read(bytes)?),
        (Cns::SET_CONTROLLER, Csi::NVM) => namespace::blocks_limits(&*read(bytes)?),
        (Cns::SET_CONTROLLER, Csi::KV) => namespace::pairs_version(&*read(bytes)?),
        (Cns::INDEPENDENT_NAMESPACE, _) => namespace::independent(&*read(bytes)?),
        _ => return entries(cns, bytes).map(Decoded::Entries),
    };
    Some(Decoded::Fields(fields))
}

fn entries(cns: Cns, bytes: &[u8]) -> Option<Vec<Fields>> {
    match cns {
        Cns::ACTIVE_NAMESPACES
        | Cns::SET_ACTIVE_NAMESPACES
        | Cns::ALLOCATED_NAMESPACES
        | Cns::SET_ALLOCATED_NAMESPACES => Some(namespaces(&*read(bytes)?)),
        Cns::NAMESPACE_DESCRIPTORS => Some(descriptors(bytes)),
        Cns::ATTACHED_CONTROLLERS | Cns::CONTROLLERS => Some(controllers(&*read(bytes)?)),
        Cns::COMMAND_SETS => Some(command_sets(&*read(bytes)?)),
        _ => None,
    }
}

fn namespaces(list: &NamespaceList) -> Vec<Fields> {
    let nsids = list.nsids.iter().take_while(|nsid| **nsid != 0);
    nsids.map(|nsid| Fields::default().number("nsid", *nsid, "")).collect()
}

fn controllers(list: &ControllerList) -> Vec<Fields> {
    let ids = list.cntlids.iter().take(list.count.into());
    ids.map(|id| Fields::default().number("cntlid", *id, "")).collect()
}

fn command_sets(sets: &CommandSets) -> Vec<Fields> {
    let words: Vec<&str> = Csi::ALL.iter().map(|set| set.name().unwrap_or_default()).collect();
    let vectors = (0u16..).zip(&sets.vectors).filter(|(_, vector)| **vector != 0);
    let row = |(index, vector): (u16, &u64)| {
        Fields::default().number("combination", index, "").bits("command_sets", *vector, &words, "")
    };
    vectors.map(row).collect()
}

/// Descriptors, each with its length in its header; the list ends at a type of zero.
fn descriptors(mut bytes: &[u8]) -> Vec<Fields> {
    let mut found = Vec::new();
    while let Ok((head, rest)) = NamespaceDescriptor::read_from_prefix(bytes) {
        let Some(identifier) = rest.get(..head.nidl_bytes.into()) else { break };
        if head.nidt == NamespaceIdType(0) {
            break;
        }
        found.push(descriptor(head.nidt, identifier));
        bytes = rest.get(identifier.len()..).unwrap_or_default();
    }
    found
}

fn descriptor(kind: NamespaceIdType, identifier: &[u8]) -> Fields {
    let named = Fields::default().with("type", kind.to_string(), kind.to_string(), "");
    match (kind, identifier) {
        (NamespaceIdType::CSI, [csi]) => {
            let set = Csi(*csi).to_string();
            named.with("identifier", set.clone(), set, "")
        }
        _ => named.identifier("identifier", identifier, ""),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn shown(cns: Cns, csi: Csi, bytes: &[u8]) -> String {
        let mut out = Vec::new();
        identify(cns, csi, bytes).unwrap().write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_list_of_descriptors_ends_where_it_says_or_where_the_answer_does() {
        let mut bytes = vec![4, 1, 0, 0, 1, 2, 16, 0, 0];
        bytes.extend([0xab; 16]);
        let text = shown(Cns::NAMESPACE_DESCRIPTORS, Csi::NVM, &bytes);
        assert!(text.contains("Command Set Identifier") && text.contains("Key Value"), "{text}");
        assert!(text.contains(&"ab".repeat(16)), "{text}");
        assert_eq!(descriptors(&[2, 16, 0, 0, 1]).len(), 0);
    }

    #[test]
    fn answer_that_is_too_short_is_not_decoded() {
        for cns in Cns::ALL {
            for csi in [Csi::NVM, Csi::KV, Csi::ZNS] {
                let decoded = identify(*cns, csi, &[0xff; 100]);
                assert!(decoded.is_none() || *cns == Cns::NAMESPACE_DESCRIPTORS, "{cns}");
            }
        }
    }

    #[test]
    fn whatever_a_device_answers_is_printed() {
        for pattern in [0x00, 0xff, 0x5a] {
            for cns in (0..=255).map(Cns) {
                for csi in [Csi::NVM, Csi::KV] {
                    if let Some(decoded) = identify(cns, csi, &[pattern; 4096]) {
                        decoded.write(&mut Vec::new()).unwrap();
                        serde_json::to_string(&decoded).unwrap();
                    }
                }
            }
        }
    }
}
