//! Which namespace of a device is meant.

use byway_core::{Error, ErrorKind, Namespace, NamespaceKind, Nsid, Result};

/// The namespace `nsid` of those there are.
///
/// # Errors
/// When it is not among them; the message lists them.
pub(crate) fn namespace(all: &[Namespace], nsid: Nsid) -> Result<Namespace> {
    let found = all.iter().find(|namespace| namespace.nsid == nsid).cloned();
    found.ok_or_else(|| {
        let there: Vec<String> = all.iter().map(|namespace| namespace.nsid.to_string()).collect();
        let there = match there.as_slice() {
            [] => "the device has none".to_owned(),
            [only] => format!("the device has namespace {only} alone"),
            several => format!("the device has namespaces {}", several.join(", ")),
        };
        let said = format!("there is no namespace {nsid}; {there}");
        Error::host(ErrorKind::NotFound, said)
    })
}

/// A namespace of blocks: `nsid`, or the first.
///
/// # Errors
/// When there is none, or it is of another kind.
pub(crate) fn nvm(all: &[Namespace], nsid: Option<Nsid>) -> Result<Namespace> {
    of_kind(all, nsid, "block", |kind| matches!(kind, NamespaceKind::Nvm { .. }))
}

/// A key-value namespace: `nsid`, or the first.
///
/// # Errors
/// When there is none, or it is of another kind.
pub(crate) fn kv(all: &[Namespace], nsid: Option<Nsid>) -> Result<Namespace> {
    of_kind(all, nsid, "key-value", |kind| matches!(kind, NamespaceKind::Kv { .. }))
}

fn of_kind(
    all: &[Namespace],
    nsid: Option<Nsid>,
    what: &str,
    fits: impl Fn(&NamespaceKind) -> bool,
) -> Result<Namespace> {
    let Some(nsid) = nsid else {
        let none = || {
            let there: Vec<String> =
                all.iter().map(|one| format!("{} ({})", one.nsid, one.kind.name())).collect();
            let there = if there.is_empty() { "none at all".to_owned() } else { there.join(", ") };
            Error::host(ErrorKind::NotFound, format!("the device has no {what} namespace; it has {there}"))
        };
        return all.iter().find(|namespace| fits(&namespace.kind)).cloned().ok_or_else(none);
    };
    let namespace = namespace(all, nsid)?;
    if fits(&namespace.kind) {
        return Ok(namespace);
    }
    let said = format!("namespace {nsid} is no {what} namespace, it is {}", namespace.kind.name());
    Err(Error::host(ErrorKind::InvalidArgument, said))
}
