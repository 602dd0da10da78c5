//! Secrets of DH-HMAC-CHAP for a server.

use anyhow::{Context, Result, bail, ensure};
use byway::serve::{AuthSecrets, AuthSuites, Dhchap, DhchapSecret, Nqn};
use byway_console::files;

use crate::args::ServeDhchap;

/// Secrets of hosts; `None` where hosts need not authenticate.
///
/// # Errors
/// A secret or a name that is none, a host with two secrets. Nothing of a secret is repeated.
pub fn of_serve(args: &ServeDhchap) -> Result<Option<Dhchap>> {
    let mut hosts = Vec::new();
    for given in &args.dhchap_secret {
        let (Some(host), secret) = named(given, "--dhchap-secret")? else {
            bail!("--dhchap-secret: expected HOSTNQN=SECRET");
        };
        add(&mut hosts, host, AuthSecrets { host: secret, controller: None })?;
    }
    if let Some(path) = &args.dhchap_secrets {
        files::for_each_line_of_words(path, |words| take_line(&mut hosts, words))?;
        ensure!(!hosts.is_empty(), "{} has no secret", path.display());
    }
    for given in &args.dhchap_ctrl_secret {
        answer_with(&mut hosts, given)?;
    }
    ensure!(
        !hosts.is_empty() || (args.dhchap_hash.is_empty() && args.dhchap_group.is_empty()),
        "no host has a secret: give one by --dhchap-secret or --dhchap-secrets"
    );
    let suites = AuthSuites::default();
    let suites = AuthSuites {
        hashes: given_or(&args.dhchap_hash, suites.hashes),
        groups: given_or(&args.dhchap_group, suites.groups),
    };
    Ok((!hosts.is_empty()).then_some(Dhchap { hosts, suites, timeout: Dhchap::TIMEOUT }))
}

fn given_or<T: Clone>(given: &[T], usual: Vec<T>) -> Vec<T> {
    if given.is_empty() { usual } else { given.to_vec() }
}

/// A host's line of a file.
fn take_line(hosts: &mut Vec<(Nqn, AuthSecrets)>, words: &[&str]) -> Result<()> {
    let (host, secret, controller) = match words {
        [host, secret] => (host, secret, None),
        [host, secret, controller] => (host, secret, Some(controller.parse()?)),
        _ => bail!("expected HOSTNQN SECRET, and at most the controller's secret behind it"),
    };
    add(hosts, Nqn::new(host)?, AuthSecrets { host: secret.parse()?, controller })
}

fn add(hosts: &mut Vec<(Nqn, AuthSecrets)>, host: Nqn, secrets: AuthSecrets) -> Result<()> {
    ensure!(hosts.iter().all(|(other, _)| *other != host), "{host} has two secrets");
    hosts.push((host, secrets));
    Ok(())
}

/// The controller's secret, for one host or for all.
fn answer_with(hosts: &mut [(Nqn, AuthSecrets)], given: &str) -> Result<()> {
    let (for_host, secret) = named(given, "--dhchap-ctrl-secret")?;
    let mut any = false;
    for (_, secrets) in hosts.iter_mut().filter(|(host, _)| for_host.as_ref().is_none_or(|one| one == host)) {
        secrets.controller = Some(secret.clone());
        any = true;
    }
    let whom = for_host.map_or_else(|| "any host".to_owned(), |host| host.to_string());
    ensure!(any, "--dhchap-ctrl-secret: there is no secret of {whom} that it would answer");
    Ok(())
}

/// `[HOSTNQN=]SECRET`. A name may have `=` in it.
fn named(given: &str, option: &'static str) -> Result<(Option<Nqn>, DhchapSecret)> {
    let (host, secret) = match given.rfind("=DHHC-1:") {
        Some(at) => (given.get(..at), given.get(at + 1..).unwrap_or_default()),
        None => (None, given),
    };
    let host = host.map(Nqn::new).transpose().context(option)?;
    Ok((host, secret.parse().context(option)?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use byway::serve::AuthHash;

    use super::*;

    const SECRET: &str = "DHHC-1:01:OQmBqENm7JeUZcaf95IgU6vDcimlMupTz9ZK2y86loTjQ9PD:";

    fn args(set: impl FnOnce(&mut ServeDhchap)) -> ServeDhchap {
        let mut args = ServeDhchap {
            dhchap_secret: Vec::new(),
            dhchap_ctrl_secret: Vec::new(),
            dhchap_secrets: None,
            dhchap_hash: Vec::new(),
            dhchap_group: Vec::new(),
        };
        set(&mut args);
        args
    }

    #[test]
    fn secret_options_name_one_host_each() {
        assert!(of_serve(&args(|_| {})).unwrap().is_none());
        let both = args(|args| {
            args.dhchap_secret = vec![format!("nqn.a:b=c={SECRET}"), format!("other={SECRET}")];
            args.dhchap_ctrl_secret = vec![format!("other={SECRET}")];
        });
        let hosts = of_serve(&both).unwrap().unwrap().hosts;
        let found: Vec<_> =
            hosts.iter().map(|(host, secrets)| (host.as_str(), secrets.controller.is_some())).collect();
        assert_eq!(found, [("nqn.a:b=c", false), ("other", true)]);
    }

    #[test]
    fn invalid_secret_is_refused_and_not_printed() {
        let said = |set: fn(&mut ServeDhchap)| format!("{:#}", of_serve(&args(set)).unwrap_err());
        let wrong = said(|args| args.dhchap_secret = vec!["host=DHHC-1:01:c2VjcmV0:".into()]);
        assert!(wrong.contains("32, 48 or 64 bytes") && !wrong.contains("c2VjcmV0"), "{wrong}");
        assert!(said(|args| args.dhchap_secret = vec![SECRET.into()]).contains("HOSTNQN=SECRET"));
        let twice =
            |args: &mut ServeDhchap| args.dhchap_secret = vec![format!("a={SECRET}"), format!("a={SECRET}")];
        assert!(said(twice).contains("a has two secrets"));
        assert!(said(|args| args.dhchap_ctrl_secret = vec![SECRET.into()]).contains("no secret of any host"));
        assert!(said(|args| args.dhchap_hash = vec![AuthHash::Sha256]).contains("no host has a secret"));
    }

    #[test]
    fn secrets_file_has_one_host_per_line() {
        let mut hosts = Vec::new();
        for line in [&["a", SECRET][..], &["b", SECRET, SECRET]] {
            take_line(&mut hosts, line).unwrap();
        }
        assert_eq!(hosts.len(), 2);
        assert!(hosts[0].1.controller.is_none() && hosts[1].1.controller.is_some());
        assert!(take_line(&mut hosts, &["c"]).is_err());
    }
}
