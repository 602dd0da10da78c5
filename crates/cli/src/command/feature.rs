//! `byway feature`: settings of a controller.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::{Result, bail};
use byway::spec::Status;
use byway::spec::base::feature::{FeatureCapabilities, FeatureId, FeatureSelect};
use byway::{AdminCommand, AdminQueue, Backend, Buffer, Device, NamespaceKind, Nsid, Payload};
use byway_console::files;
use byway_console::size::counted;
use byway_console::terminal::{Interrupt, print_json};

use super::answer;
use crate::args::{FeatureCommand, Form, Select};
use crate::decode::{self, Decoded, Fields};

/// Commands on their way at once: fewer than any admin queue takes.
const AT_ONCE: usize = 32;

/// Does one of the commands.
///
/// # Errors
/// A device without a controller, a feature that it does not have, a value that it refuses.
pub fn run(command: &FeatureCommand, out: &mut impl Write, interrupt: &Interrupt) -> Result<()> {
    match command {
        FeatureCommand::List { device, ns, json } => {
            list(&byway::open_to_read(device.uri())?, *ns, *json, out)
        }
        FeatureCommand::Get { device, feature, select, ns, cdw11, length, form } => {
            let asked = Asked {
                feature: feature.0,
                select: select_of(*select),
                nsid: ns.map(Nsid::new).transpose()?,
                cdw11: *cdw11,
                length: *length,
            };
            get(&byway::open_to_read(device.uri())?, &asked, form, out)
        }
        FeatureCommand::Set { .. } => set(command, out, interrupt),
    }
}

/// One value of one feature.
struct Asked {
    feature: FeatureId,
    select: FeatureSelect,
    nsid: Option<Nsid>,
    cdw11: u32,
    length: Option<u32>,
}

impl Asked {
    fn command(&self) -> Result<AdminCommand> {
        let is_value = self.select != FeatureSelect::CAPABILITIES;
        let known = decode::feature_data_bytes(self.feature).filter(|_| is_value);
        let bytes = self.length.map(|length| length as usize).or(known).filter(|bytes| *bytes > 0);
        Ok(AdminCommand::GetFeature {
            feature: self.feature.0,
            select: self.select.0,
            nsid: self.nsid,
            cdw11: self.cdw11,
            into: bytes.map(Buffer::zeroed).transpose()?,
        })
    }
}

fn select_of(select: Select) -> FeatureSelect {
    match select {
        Select::Current => FeatureSelect::CURRENT,
        Select::Default => FeatureSelect::DEFAULT,
        Select::Saved => FeatureSelect::SAVED,
        Select::Supported => FeatureSelect::CAPABILITIES,
    }
}

fn named(feature: FeatureId) -> String {
    answer::named("feature", feature.0, feature)
}

fn get(device: &Device, asked: &Asked, form: &Form, out: &mut impl Write) -> Result<()> {
    let answered = device.admin(asked.command()?);
    let answered = answered.map_err(|error| answer::unless_missing(named(asked.feature), error))?;
    let (value, buffer) = (answered.dw0(), answered.buffer);
    let data = buffer.as_ref().map_or(&[][..], Buffer::as_slice);
    let fields = match asked.select {
        FeatureSelect::CAPABILITIES => capabilities(FeatureCapabilities::from_bits(value)),
        _ => decode::feature(asked.feature, value, data),
    };
    let bytes = if data.is_empty() { &value.to_le_bytes()[..] } else { data };
    answer::write(form, bytes, Some(&Decoded::Fields(fields)), out)
}

fn capabilities(can: FeatureCapabilities) -> Fields {
    Fields::default()
        .flag("saveable", can.saveable(), "can be kept over power cycles")
        .flag("per_namespace", can.per_namespace(), "has a value for each namespace")
        .flag("changeable", can.changeable(), "can be set")
}

fn set(command: &FeatureCommand, out: &mut impl Write, interrupt: &Interrupt) -> Result<()> {
    let FeatureCommand::Set { device, feature, value, cdw12, save, ns, input, json } = command else {
        return Ok(());
    };
    let feature = feature.0;
    if input.is_none() && feature.has_data() {
        let bytes = decode::feature_data_bytes(feature)
            .map_or_else(String::new, |bytes| format!(" of {}", counted(bytes as u64, "byte")));
        bail!("{} takes data{bytes}: give it by --input", named(feature));
    }
    let read = |path| files::read(path, interrupt);
    let data = input.as_deref().map(read).transpose()?.unwrap_or_default();
    let device = byway::open(device.uri())?;
    let command = AdminCommand::SetFeature {
        feature: feature.0,
        save: *save,
        nsid: ns.map(Nsid::new).transpose()?,
        cdw11: *value,
        cdw12: *cdw12,
        data: Payload::copy_of(&data)?,
    };
    let answered = device.admin(command);
    let answered = answered.map_err(|error| refused(&device, feature, (*value, *cdw12), error))?;
    device.close()?;
    let answer = decode::feature(feature, *value, &data).hex("dw0", answered.dw0(), "the device's answer");
    if *json { Ok(print_json(out, &answer)?) } else { Ok(put!(out, "{answer}")?) }
}

/// Why a feature was not set: the controller does not have it, or refuses the value, with what values the feature takes.
fn refused(
    device: &Device,
    feature: FeatureId,
    (value, cdw12): (u32, u32),
    error: byway::Error,
) -> anyhow::Error {
    let is_of_value = error.nvme_status().is_some_and(|status| {
        matches!(
            status.code(),
            Status::INVALID_FIELD
                | Status::FEATURE_NOT_CHANGEABLE
                | Status::COMMAND_SET_COMBINATION_REJECTED
                | Status::KEEP_ALIVE_INVALID
        )
    });
    let known = decode::feature_values(feature).filter(|_| is_of_value && has(device, feature));
    let Some(values) = known else { return answer::unless_missing(named(feature), error) };
    let second = if cdw12 == 0 { String::new() } else { format!(" with {cdw12:#x} in CDW12") };
    let what = format!("{} does not take {value:#x}{second}", named(feature));
    anyhow::anyhow!("{what}: {error}; its values: {values}")
}

/// Whether a controller says that it has a feature.
fn has(device: &Device, feature: FeatureId) -> bool {
    let asked = Asked { feature, select: FeatureSelect::CAPABILITIES, nsid: None, cdw11: 0, length: None };
    asked.command().is_ok_and(|command| device.admin(command).is_ok())
}

/// A feature's number and which of its values.
type Tag = (FeatureId, FeatureSelect);

fn list(device: &Device, ns: Option<u32>, json: bool, out: &mut impl Write) -> Result<()> {
    let places = Places::of(device, ns)?;
    let mut commands = Commands::new(device)?;
    // A controller without the select field (ONCS bit 4) has current values alone.
    let selects = match device.capabilities().admin.save_and_select {
        true => &[FeatureSelect::CURRENT, FeatureSelect::DEFAULT, FeatureSelect::SAVED][..],
        false => &[FeatureSelect::CURRENT],
    };
    let first = if selects.len() > 1 { FeatureSelect::CAPABILITIES } else { FeatureSelect::CURRENT };
    let can = commands.ask(FeatureId::ALL.iter().map(|feature| (*feature, first, None)))?;
    let can: BTreeMap<FeatureId, FeatureCapabilities> = can
        .into_iter()
        .map(|((feature, select), value)| match select {
            FeatureSelect::CAPABILITIES => (feature, FeatureCapabilities::from_bits(value)),
            _ => (feature, FeatureCapabilities::new()),
        })
        .collect();
    let asked = can.iter().flat_map(|(feature, can)| {
        let nsid = if can.per_namespace() { places.of_feature(*feature) } else { None };
        selects.iter().map(move |select| (*feature, *select, nsid))
    });
    let values = commands.ask(asked)?;
    let rows: Vec<Fields> = can.iter().map(|(feature, can)| row(*feature, *can, &values)).collect();
    let listed = Decoded::Entries(rows);
    if json { Ok(print_json(out, &listed)?) } else { Ok(listed.write(out)?) }
}

fn row(feature: FeatureId, can: FeatureCapabilities, values: &BTreeMap<Tag, u32>) -> Fields {
    let name = feature.name().unwrap_or("vendor specific");
    let begun = Fields::default()
        .with("fid", feature.0, format!("{:02x}h", feature.0), "")
        .with("name", name, name, "");
    let columns = [
        ("current", FeatureSelect::CURRENT),
        ("default", FeatureSelect::DEFAULT),
        ("saved", FeatureSelect::SAVED),
    ];
    let fields =
        columns.into_iter().fold(begun, |fields, (column, select)| match values.get(&(feature, select)) {
            Some(value) => fields.hex(column, *value, ""),
            None => fields.with(column, serde_json::Value::Null, "-", ""),
        });
    fields.bits("can_be", can.into_bits(), &["saved", "of a namespace", "set"], "")
}

/// Which namespace a feature of namespaces is asked of.
struct Places {
    any: Option<Nsid>,
    of_keys: Option<Nsid>,
}

impl Places {
    fn of(device: &Device, asked: Option<u32>) -> Result<Self> {
        let asked = asked.map(Nsid::new).transpose()?.or(device.default_namespace());
        let namespaces = device.namespaces()?;
        let is_keys = |namespace: &&byway::Namespace| matches!(namespace.kind, NamespaceKind::Kv { .. });
        let first = namespaces.first().map(|namespace| namespace.nsid);
        let of_keys = namespaces.iter().find(is_keys).map(|namespace| namespace.nsid);
        Ok(Self { any: asked.or(first), of_keys: asked.or(of_keys) })
    }

    fn of_feature(&self, feature: FeatureId) -> Option<Nsid> {
        if feature == FeatureId::KEY_VALUE { self.of_keys } else { self.any }
    }
}

/// Admin commands that are asked many at once.
struct Commands(Box<dyn AdminQueue>);

impl Commands {
    fn new(device: &Device) -> Result<Self> {
        Ok(Self(device.admin_queue()?))
    }

    /// The values that the controller has, of those that are asked for.
    fn ask(
        &mut self,
        asked: impl Iterator<Item = (FeatureId, FeatureSelect, Option<Nsid>)>,
    ) -> Result<BTreeMap<Tag, u32>> {
        let asked: Vec<_> = asked.collect();
        let mut values = BTreeMap::new();
        for some in asked.chunks(AT_ONCE) {
            for (feature, select, nsid) in some {
                let command =
                    Asked { feature: *feature, select: *select, nsid: *nsid, cdw11: 0, length: None };
                self.0.submit(command.command()?, tag_of(*feature, *select)).map_err(byway::Error::from)?;
            }
            let mut lost = Ok(());
            self.0.drain(&mut |finished| match finished.result {
                Ok(outcome) => drop(values.insert(feature_of(finished.tag), outcome.dw0())),
                Err(failed) if failed.error.nvme_status().is_some() => {}
                Err(failed) => lost = Err(failed.error),
            })?;
            lost?;
        }
        Ok(values)
    }
}

fn tag_of(feature: FeatureId, select: FeatureSelect) -> u64 {
    u64::from(feature.0) << 8 | u64::from(select.0)
}

fn feature_of(tag: u64) -> Tag {
    (FeatureId((tag >> 8) as u8), FeatureSelect(tag as u8))
}
