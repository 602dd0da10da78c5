//! Keys of TLS for a server.

use anyhow::{Context, Result, bail, ensure};
use byway::serve::{Nqn, TlsKey, TlsKeys, TlsPolicy};
use byway_console::files;

use crate::args::{ServeTls, TlsIs};

/// Keys of TLS; `None` without. Hosts that have secrets can come by TLS without a key that they
/// were given: their authentication makes one.
///
/// # Errors
/// A key or a name that is none, a host with two keys. Nothing of a key is repeated.
pub fn of_serve(args: &ServeTls, has_secrets: bool) -> Result<Option<TlsKeys>> {
    let mut hosts = Vec::new();
    for given in &args.tls_key {
        let Some(at) = given.rfind("=NVMeTLSkey-") else { bail!("--tls-key: expected HOSTNQN=KEY") };
        let (host, key) = given.split_at(at);
        add(&mut hosts, host, key.trim_start_matches('=')).context("--tls-key")?;
    }
    if let Some(path) = &args.tls_keys {
        files::for_each_line_of_words(path, |words| match words {
            [host, key] => add(&mut hosts, host, key),
            _ => bail!("expected HOSTNQN KEY"),
        })?;
        ensure!(!hosts.is_empty(), "{} has no key", path.display());
    }
    of_policy(hosts, args.tls, has_secrets)
}

/// The same of hosts with their keys.
///
/// # Errors
/// A policy under which no host could connect.
pub fn of_policy(hosts: Vec<(Nqn, TlsKey)>, policy: TlsIs, has_secrets: bool) -> Result<Option<TlsKeys>> {
    let policy = match policy {
        TlsIs::Required => TlsPolicy::Required,
        TlsIs::Allowed => TlsPolicy::Allowed,
        TlsIs::Concat => TlsPolicy::Concatenated,
    };
    ensure!(
        has_secrets || policy != TlsPolicy::Concatenated,
        "concat: no host has a secret to make a key of TLS by: give some by --dhchap-secrets, or as \"dhchap_key\""
    );
    ensure!(
        !hosts.is_empty() || policy == TlsPolicy::Required || has_secrets,
        "no host has a key for TLS, nor a secret to make one by: give one by --tls-key or --tls-keys, or secrets by --dhchap-secrets"
    );
    let is_spoken = !hosts.is_empty() || policy != TlsPolicy::Required;
    Ok(is_spoken.then_some(TlsKeys { hosts, policy }))
}

fn add(hosts: &mut Vec<(Nqn, TlsKey)>, host: &str, key: &str) -> Result<()> {
    let host = Nqn::new(host)?;
    ensure!(hosts.iter().all(|(other, _)| *other != host), "{host} has two keys");
    hosts.push((host, key.parse()?));
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const KEY: &str = "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:";

    fn of(keys: &[String], tls: TlsIs) -> Result<Option<TlsKeys>> {
        of_serve(&ServeTls { tls_key: keys.to_vec(), tls_keys: None, tls }, false)
    }

    #[test]
    fn key_option_names_one_host() {
        assert!(of(&[], TlsIs::Required).unwrap().is_none());
        let keys =
            of(&[format!("nqn.a:b=c={KEY}"), format!("other={KEY}")], TlsIs::Allowed).unwrap().unwrap();
        let names: Vec<_> = keys.hosts.iter().map(|(host, _)| host.as_str()).collect();
        assert_eq!((names, keys.policy), (vec!["nqn.a:b=c", "other"], TlsPolicy::Allowed));
    }

    #[test]
    fn hosts_with_secrets_may_use_tls_without_a_key() {
        let args = |tls| ServeTls { tls_key: Vec::new(), tls_keys: None, tls };
        let keys = of_serve(&args(TlsIs::Allowed), true).unwrap().unwrap();
        assert!(keys.hosts.is_empty() && keys.policy == TlsPolicy::Allowed);
        assert!(of_serve(&args(TlsIs::Required), true).unwrap().is_none());
        let keys = of_serve(&args(TlsIs::Concat), true).unwrap().unwrap();
        assert!(keys.hosts.is_empty() && keys.policy == TlsPolicy::Concatenated);
        assert!(of_serve(&args(TlsIs::Concat), false).unwrap_err().to_string().contains("--dhchap-secrets"));
    }

    #[test]
    fn invalid_key_is_refused_and_not_printed() {
        let said = |keys: &[String], tls| format!("{:#}", of(keys, tls).unwrap_err());
        let wrong = said(&["host=NVMeTLSkey-1:01:c2VjcmV0:".into()], TlsIs::Required);
        assert!(wrong.contains("32 or 48 bytes") && !wrong.contains("c2VjcmV0"), "{wrong}");
        assert!(said(&[KEY.into()], TlsIs::Required).contains("HOSTNQN=KEY"));
        let twice = [format!("a={KEY}"), format!("a={KEY}")];
        assert!(said(&twice, TlsIs::Required).contains("a has two keys"));
        assert!(said(&[], TlsIs::Allowed).contains("no host has a key"));
    }
}
