//! Secrets and keys of hosts for a running server, read from files.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use byway::serve::requests::HostSecrets;
use byway_console::files;

use crate::args::{AddSubsystem, AllowHost};

/// The hosts that a new subsystem lets in, each with what its files say.
///
/// # Errors
/// A file that cannot be read, or is of other hosts too; a host that is in one and not in it.
pub fn of_hosts(args: &AddSubsystem) -> Result<Vec<HostSecrets>> {
    let mut hosts: Vec<_> = args.allow_host.iter().map(|host| HostSecrets::of(host)).collect();
    if let Some(path) = &args.dhchap_secrets {
        files::for_each_line_of_words(path, |words| {
            let (host, secret, controller) = match words {
                [host, secret] => (host, secret, None),
                [host, secret, controller] => (host, secret, Some(controller)),
                _ => bail!("expected HOSTNQN SECRET, and perhaps the controller's secret"),
            };
            let of = named(&mut hosts, host)?;
            of.dhchap = Some((*secret).to_owned());
            of.controller = controller.map(|secret| (*secret).to_owned());
            Ok(())
        })?;
        check_all(path, &hosts, |of| of.dhchap.is_some())?;
    }
    if let Some(path) = &args.tls_keys {
        files::for_each_line_of_words(path, |words| {
            let [host, key] = words else { bail!("expected HOSTNQN KEY") };
            named(&mut hosts, host)?.tls = Some((*key).to_owned());
            Ok(())
        })?;
        check_all(path, &hosts, |of| of.tls.is_some())?;
    }
    Ok(hosts)
}

fn named<'a>(hosts: &'a mut [HostSecrets], host: &str) -> Result<&'a mut HostSecrets> {
    let found = hosts.iter_mut().find(|of| of.host == host);
    found.with_context(|| format!("{host} is not let in by --allow-host"))
}

fn check_all(path: &Path, hosts: &[HostSecrets], has: impl Fn(&HostSecrets) -> bool) -> Result<()> {
    match hosts.iter().find(|of| !has(of)) {
        Some(of) => bail!("{} has nothing for {}, which may connect", path.display(), of.host),
        None => Ok(()),
    }
}

/// A host that is let in, with what its files say.
///
/// # Errors
/// A file that cannot be read, or has something else.
pub fn of_host(args: &AllowHost) -> Result<HostSecrets> {
    let mut of = HostSecrets::of(&args.host.host);
    if let Some(path) = &args.dhchap_secret_file {
        let mut words = words_of(path)?.into_iter();
        of.dhchap = words.next();
        of.controller = words.next();
        ensure!(
            of.dhchap.is_some() && words.next().is_none(),
            "{}: expected one secret, or two",
            path.display()
        );
    }
    if let Some(path) = &args.tls_key_file {
        let mut words = words_of(path)?.into_iter();
        of.tls = words.next();
        ensure!(of.tls.is_some() && words.next().is_none(), "{}: expected one key", path.display());
    }
    Ok(of)
}

fn words_of(path: &Path) -> Result<Vec<String>> {
    let text = String::from_utf8(files::read_settings(path)?).with_context(|| path.display().to_string())?;
    Ok(text.split_whitespace().map(str::to_owned).collect())
}
