//! `byway tdm pin`, `unpin`, `evict`, `drain` and `prefetch`: orders for a file.

use std::fmt;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use anyhow::Result;
use byway_console::failure::No;
use byway_console::files;
use byway_console::terminal::print_done;
use byway_tdm_engine::client::Session;
use byway_tdm_engine::control::{Channel, Order, Reply, Request};
use byway_tdm_engine::table::{FileKey, Identified, Reason, is_in_mount, lower_of};
use serde::Serialize;

use super::ask::{self, NamedFile};
use crate::args::TdmFile;

/// Sends an order to the daemon.
///
/// # Errors
/// The file does not exist, no daemon answers, or the order is refused with a reason.
pub fn run(order: Order, args: &TdmFile, out: &mut impl Write) -> Result<()> {
    let file = NamedFile::find(&args.file)?;
    let path = file.path.display();
    let Some(identified) = file.identified else {
        return Err(No(format!("{path} can have no log: {}", no_log(&file.path))).into());
    };
    let socket = args.socket.path()?;
    let channel = ask::connect(&socket)?;
    let done = match order {
        Order::Pin => pin(&channel, &socket, &file, identified.key)?,
        _ => ask(&channel, Request::Order(order, identified.key), None)?,
    };
    match done {
        Ok(()) => {
            let has_cache = order == Order::Prefetch && ask::report(&channel)?.region.cache.is_some();
            Ok(print_done(out, args.json, &Done { order: name(order), path: file.path, has_cache })?)
        }
        Err(Reason::Unknown) => Err(No(format!("{path} is not absorbed: {}", unknown(&identified))).into()),
        Err(why) => Err(No(format!("{path} is not absorbed: {why}")).into()),
    }
}

/// Why the daemon does not know a file.
fn unknown(file: &Identified) -> String {
    let me = rustix::process::geteuid();
    if !me.is_root() && file.owner_uid != me.as_raw() {
        return Reason::OtherOwner.to_string();
    }
    "no program that is served has opened it, or none has synced it yet; \
     for files that are to come there are rules (`byway tdm serve --rules`)"
        .to_owned()
}

/// Why a path can have no log.
fn no_log(path: &Path) -> String {
    match path.metadata() {
        _ if is_in_mount(path) => Reason::Mounted.to_string(),
        Ok(found) if found.is_dir() => {
            "it is a folder; for the files in it there are rules (`byway tdm serve --rules`)".to_owned()
        }
        Ok(found) if !found.is_file() => "it is no file".to_owned(),
        _ => Reason::NoBirthTime.to_string(),
    }
}

/// Pins a file, absorbing it first if needed.
fn pin(channel: &Channel, socket: &Path, file: &NamedFile, key: FileKey) -> Result<Result<(), Reason>> {
    let order = |order| ask(channel, Request::Order(order, key), None);
    let (first, path) = (order(Order::Pin)?, file.path.as_path());
    // A session would open a partition for a user without one.
    if first.is_ok() || !is_in_our_table(channel, file)? {
        return Ok(first);
    }
    let session = Session::begin(socket)?;
    // Root's table has no files of other users, who pin their own.
    let Some(entry) = session.file_table().find(key) else { return Ok(first) };
    let lower = lower_of(path);
    let below = lower.as_deref().unwrap_or(path);
    let file =
        File::options().append(true).open(below).map_err(|cause| files::refused("open", path, cause))?;
    match ask(channel, Request::Absorb(entry.index()), Some(&file))? {
        Ok(()) => order(Order::Pin),
        refused => Ok(refused),
    }
}

fn is_in_our_table(channel: &Channel, file: &NamedFile) -> Result<bool> {
    let mut report = ask::report(channel)?;
    report.users.retain(|user| user.uid == rustix::process::geteuid().as_raw());
    Ok(file.reported_in(&report).is_some())
}

fn ask(channel: &Channel, request: Request, file: Option<&File>) -> Result<Result<(), Reason>> {
    let files: Vec<_> = file.iter().map(|file| file.as_fd()).collect();
    match channel.ask(request, &files)?.0 {
        Reply::Done => Ok(Ok(())),
        Reply::Refused(why) => Ok(Err(why)),
        reply => Err(ask::unexpected(reply)),
    }
}

const fn name(order: Order) -> &'static str {
    match order {
        Order::Pin => "pin",
        Order::Unpin => "unpin",
        Order::Evict => "evict",
        Order::Drain => "drain",
        Order::Prefetch => "prefetch",
        Order::Promote => "promote",
    }
}

/// Result of an order.
#[derive(Serialize)]
struct Done {
    order: &'static str,
    path: PathBuf,
    /// Loaded into the device's cache.
    #[serde(skip)]
    has_cache: bool,
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.order {
            "pin" => "pinned: it stays absorbed however seldom it is synced",
            "unpin" => "the policy decides of it again",
            "prefetch" if self.has_cache => "what it has of device memory is in the device's cache",
            "prefetch" => "what it has of device memory is resident, as there is no cache in front of it",
            "promote" => "pinned: it is DAX-resident from its next sync on",
            "evict" => "synced below, and the kernel's alone",
            _ => "synced below, and absorbed as before",
        };
        write!(f, "{}: {what}", self.path.display())
    }
}
