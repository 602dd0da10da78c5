//! Images: made, checked, repaired, resized, copied.

use std::ffi::{CString, c_char, c_int, c_void};
use std::ops::ControlFlow;

use byway::{Checked, CreateOptions, Finding, Media, MediaNamespaceKind, NewNamespace, Remedy, Result};

use crate::arg::{bytes, invalid, text, text_or_none};
use crate::device::{byway_kind, byway_namespace};
use crate::error::{border, c_text};
use crate::sized::{self, crossing};

/// Where the pages of an image's device are kept.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum byway_media {
    /// In the image: what was acknowledged is there at the next opening.
    File = 0,
    /// In memory: the image describes a device that is empty at every opening.
    Ram = 1,
    /// Nowhere: pages are accepted and forgotten.
    Null = 2,
}

/// What a device is to be like. Zeroes stand for the defaults.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct byway_create_options {
    /// sizeof(byway_create_options).
    pub size: usize,
    /// Capacity of all namespaces together, in bytes.
    pub size_bytes: u64,
    /// Name of its profile; NULL for "gen4x4".
    pub profile: *const c_char,
    /// Its namespaces, numbered from 1: of each `kind`, `lba_bytes` of blocks (0 for 512) and `size_bytes` are used, of which 0
    /// takes an equal share of what the others leave. NULL for one of keys and values.
    pub namespaces: *const byway_namespace,
    /// How many those are.
    pub namespace_count: u32,
    /// Where its pages are kept: a byway_media.
    pub media: u32,
    /// Its identity, 16 bytes; NULL for a random one.
    pub uuid: *const c_void,
    /// Not 0: flash beyond its size is `over_provisioning_percent` of it, which then may be 0.
    pub has_over_provisioning: u32,
    /// Flash beyond its size that garbage collection has to work with, in percent of it.
    pub over_provisioning_percent: u32,
}
crossing!(byway_create_options of 56);

/// What a repair does about a finding.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum byway_remedy {
    /// It restores the structure from what is kept twice or can be counted anew; no data is lost.
    Restore = 0,
    /// It drops what cannot be read, and says what that was.
    Drop = 1,
    /// It can do nothing.
    None = 2,
}

/// Something in an image that is not as it should be. It and its texts live until the callback returns.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct byway_finding {
    /// Bytes of this structure: fields behind it are not there.
    pub size: usize,
    /// The structure: "superblock", "map".
    pub structure: *const c_char,
    /// Which part of it; empty where there is only one.
    pub place: *const c_char,
    /// What is wrong, in one sentence.
    pub what: *const c_char,
    /// The data that it hits, a line for each part: "key 0041 of namespace 1".
    pub hits: *const c_char,
    /// How many lines those are.
    pub hit_count: u32,
    /// What a repair does about it: a byway_remedy.
    pub remedy: u32,
}

/// What a check or a repair came to.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct byway_checked {
    /// sizeof(byway_checked).
    pub size: usize,
    /// Namespaces that were looked at.
    pub namespaces: u64,
    /// Keys in them, as far as their engines know.
    pub keys: u64,
    /// Bytes of live data.
    pub live_bytes: u64,
    /// Entries of block namespaces that a media error took earlier, and that no host wrote since.
    pub known_lost: u64,
    /// How many findings there were.
    pub findings: u32,
    /// Not 0: the device can be used, after a repair at the latest.
    pub usable: u8,
    /// Not 0: data is lost, or will be dropped by a repair.
    pub loses: u8,
    /// 0.
    pub reserved: [u8; 2],
}
crossing!(byway_checked of 48);

/// What a snapshot took.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct byway_snapshot_report {
    /// sizeof(byway_snapshot_report).
    pub size: usize,
    /// How long the device was stopped, in nanoseconds.
    pub pause_ns: u64,
    /// Bytes that were copied; none where the file system shares blocks.
    pub copied_bytes: u64,
}
crossing!(byway_snapshot_report of 24);

/// What byway_check() calls for each finding.
pub type byway_finding_callback =
    Option<unsafe extern "C" fn(context: *mut c_void, finding: *const byway_finding)>;

/// Called by a long operation with its progress: `done` of `all`, which is 0 where that is not known; `what` names the step and
/// lives until the callback returns. Anything but 0 ends the call, where its own text says that it can be.
pub type byway_progress_callback =
    Option<unsafe extern "C" fn(context: *mut c_void, what: *const c_char, done: u64, all: u64) -> c_int>;

/// Makes an image, a whole SSD in one file, which must not exist. Nothing is left behind where it fails. "embedded:PATH" is
/// understood too; other URIs, and a path that "embedded:PATH" would not lead back to, are refused.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_create(path: *const c_char, options: *const byway_create_options) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let (path, options) = unsafe { (text(path, "path")?, create_options(options)?) };
        byway::create(path, &options).map(|()| 0)
    })
}

/// Checks an image, and leaves it as it is, or with `repair` not 0 repairs it: what is kept twice is restored, what is lost is
/// dropped and named. `on` is called for each finding, once all are known; `progress`, which cannot end it, meanwhile. Either
/// may be NULL. Returns 1 if nothing was found, else 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_check(
    path: *const c_char,
    repair: c_int,
    on: byway_finding_callback,
    progress: byway_progress_callback,
    context: *mut c_void,
    checked: *mut byway_checked,
) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let path = unsafe { text(path, "path") }?;
        let progress = Progress { on: progress, context };
        let mut watch = |what: &'static str, done, all| {
            // It cannot be ended: a repair that stops half way has more to repair.
            let _ = progress.report(what, done, all);
        };
        let found = match repair != 0 {
            true => byway::repair(path, &mut watch),
            false => byway::check(path, &mut watch),
        }?;
        if let Some(on) = on {
            // SAFETY: the program's own function, called as it is declared.
            found
                .findings
                .iter()
                .for_each(|finding| report(finding, |finding| unsafe { on(context, finding) }));
        }
        if !checked.is_null() {
            // SAFETY: by the contract.
            unsafe { sized::write(checked, &checked_of(&found)) }?;
        }
        Ok(found.is_clean().into())
    })
}

/// Gives the device of an image that no process has open room for `size_bytes`, and namespaces of blocks other sizes: of each of
/// `namespaces`, `nsid` and `size_bytes` are used. Everything keeps its content. `progress`, which may be NULL, can end it: the
/// image is then as it was, as it is after every failure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_resize(
    path: *const c_char,
    size_bytes: u64,
    namespaces: *const byway_namespace,
    namespace_count: u32,
    progress: byway_progress_callback,
    context: *mut c_void,
) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let (path, sizes) = unsafe { (text(path, "path")?, sized::each(namespaces, namespace_count)?) };
        let sizes = sizes.map(|one| one.map(|one| (one.nsid, one.size_bytes)));
        let sizes = sizes.collect::<Result<Vec<_>>>()?;
        let progress = Progress { on: progress, context };
        byway::resize(path, size_bytes, &sizes, &mut |done, all| progress.report("copy", done, all))?;
        Ok(0)
    })
}

/// Copies an image to `out`, which must not exist, as it is at one instant: by itself, or by the process that has it open,
/// whose commands go on. `progress`, which may be NULL, can end it: nothing is left of the copy then. The report may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_snapshot(
    image: *const c_char,
    out: *const c_char,
    progress: byway_progress_callback,
    context: *mut c_void,
    report: *mut byway_snapshot_report,
) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let (image, out) = unsafe { (text(image, "image")?, text(out, "out")?) };
        let progress = Progress { on: progress, context };
        let took = byway::snapshot_watched(image, out, &mut |done| progress.report("copy", done, 0))?;
        if !report.is_null() {
            let filled = byway_snapshot_report {
                size: size_of::<byway_snapshot_report>(),
                pause_ns: took.pause_ns,
                copied_bytes: took.copied_bytes,
            };
            // SAFETY: by the contract.
            unsafe { sized::write(report, &filled) }?;
        }
        Ok(0)
    })
}

/// A program's progress callback with its context.
pub(crate) struct Progress {
    pub(crate) on: byway_progress_callback,
    pub(crate) context: *mut c_void,
}

impl Progress {
    /// Calls it; whether the operation goes on.
    pub(crate) fn report(&self, what: &str, done: u64, all: u64) -> ControlFlow<()> {
        let Some(on) = self.on else { return ControlFlow::Continue(()) };
        let what = c_text(what);
        // SAFETY: the program's own function, called as it is declared.
        match unsafe { on(self.context, what.as_ptr(), done, all) } {
            0 => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        }
    }
}

/// # Safety
/// As of [`byway_create`].
unsafe fn create_options(given: *const byway_create_options) -> Result<CreateOptions> {
    // SAFETY: by the contract.
    let given = unsafe { sized::read(given) }?;
    let mut options = CreateOptions::new(given.size_bytes);
    // SAFETY: by the contract.
    if let Some(profile) = unsafe { text_or_none(given.profile, "byway_create_options.profile") }? {
        profile.clone_into(&mut options.profile);
    }
    if given.namespace_count > 0 {
        // SAFETY: by the contract.
        let asked = unsafe { sized::each(given.namespaces, given.namespace_count) }?;
        options.namespaces = asked.map(|one| new_namespace(&one?)).collect::<Result<_>>()?;
    }
    if !given.uuid.is_null() {
        // SAFETY: by the contract.
        options.uuid = unsafe { bytes(given.uuid, 16, "byway_create_options.uuid") }?.try_into().ok();
    }
    if given.has_over_provisioning != 0 {
        options.over_provisioning_percent = given.over_provisioning_percent;
    } else if given.over_provisioning_percent != 0 {
        return Err(invalid("over_provisioning_percent is given and has_over_provisioning is 0"));
    }
    options.media = media_of(given.media)?;
    Ok(options)
}

fn media_of(number: u32) -> Result<Media> {
    const ALL: [(byway_media, Media); 3] =
        [(byway_media::File, Media::File), (byway_media::Ram, Media::Ram), (byway_media::Null, Media::Null)];
    let media = ALL.into_iter().find(|(named, _)| *named as u32 == number);
    media.map(|(_, media)| media).ok_or_else(|| invalid(format!("there is no media {number}")))
}

fn new_namespace(asked: &byway_namespace) -> Result<NewNamespace> {
    let size_bytes = (asked.size_bytes > 0).then_some(asked.size_bytes);
    let kind = if asked.kind == byway_kind::Kv as u32 {
        MediaNamespaceKind::Kv
    } else if asked.kind == byway_kind::Nvm as u32 {
        MediaNamespaceKind::Nvm { lba_bytes: if asked.lba_bytes == 0 { 512 } else { asked.lba_bytes } }
    } else {
        return Err(invalid(format!("no namespace of kind {} can be made", asked.kind)));
    };
    Ok(NewNamespace { kind, size_bytes })
}

fn report(finding: &Finding, on: impl FnOnce(*const byway_finding)) {
    let hits: Vec<String> = finding.hits.iter().map(ToString::to_string).collect();
    let words: [CString; 4] =
        [finding.structure, &finding.place, &finding.what, &hits.join("\n")].map(c_text);
    let [structure, place, what, lines] = &words;
    on(&byway_finding {
        size: size_of::<byway_finding>(),
        structure: structure.as_ptr(),
        place: place.as_ptr(),
        what: what.as_ptr(),
        hits: lines.as_ptr(),
        hit_count: hits.len() as u32,
        remedy: match finding.remedy {
            Remedy::Restore => byway_remedy::Restore,
            Remedy::Drop => byway_remedy::Drop,
            Remedy::None => byway_remedy::None,
        } as u32,
    });
}

fn checked_of(found: &Checked) -> byway_checked {
    byway_checked {
        size: size_of::<byway_checked>(),
        namespaces: found.namespaces,
        keys: found.keys,
        live_bytes: found.live_bytes,
        known_lost: found.known_lost,
        findings: found.findings.len() as u32,
        usable: found.is_usable().into(),
        loses: found.loses().into(),
        reserved: [0; 2],
    }
}
