//! The commands that are named as in nvme-cli. Those that are spellings of ours hand on to them.

mod namespaces;
mod registers;
mod reservations;
mod telemetry;

use std::io::Write;

use anyhow::Result;
use byway::spec::base::identify::{Cns, Csi};
use byway::spec::base::log::{ErrorEntry, LogPage};
use byway_console::terminal::Interrupt;

use super::{feature, identify, log, pass};
use crate::args::{
    AskedPage, CommandSet, ErrorLog, FeatureCommand, GetFeature, GetLog, Identify, ListNs, Log, NvmeCommand,
    Page, Select, SetFeature, Structure,
};

/// Does one of the commands.
///
/// # Errors
/// A device without a controller, what it does not have, and what it refuses.
pub fn run(command: &NvmeCommand, out: &mut impl Write, interrupt: &Interrupt) -> Result<()> {
    use NvmeCommand as C;
    match command {
        C::IdCtrl(asked) => identify_as(asked, Cns::CONTROLLER, out),
        C::IdNs(asked) => identify_as(asked, Cns::NAMESPACE, out),
        C::NsDescs(asked) => identify_as(asked, Cns::NAMESPACE_DESCRIPTORS, out),
        C::ListNs(args) => list_namespaces(args, out),
        C::ListCtrl(asked) => match asked.ns {
            Some(_) => identify_as(asked, Cns::ATTACHED_CONTROLLERS, out),
            None => identify_as(asked, Cns::CONTROLLERS, out),
        },
        C::SmartLog(asked) => log_as(asked, LogPage::SMART, out),
        C::ErrorLog(args) => error_log(args, out),
        C::FwLog(asked) => log_as(asked, LogPage::FIRMWARE_SLOT, out),
        C::EffectsLog(asked) => log_as(asked, LogPage::EFFECTS, out),
        C::ChangedNsListLog(asked) => log_as(asked, LogPage::CHANGED_NAMESPACES, out),
        C::SelfTestLog(asked) => log_as(asked, LogPage::SELF_TEST, out),
        C::AnaLog(asked) => log_as(asked, LogPage::ANA, out),
        C::SanitizeLog(asked) => log_as(asked, LogPage::SANITIZE, out),
        C::SupportedLogPages(asked) => log_as(asked, LogPage::SUPPORTED_PAGES, out),
        C::GetLog(args) => get_log(args, out),
        C::TelemetryLog(args) => telemetry::run(args, out),
        C::GetFeature(args) => feature::run(&get_feature(args), out, interrupt),
        C::SetFeature(args) => feature::run(&set_feature(args), out, interrupt),
        C::CreateNs(args) => namespaces::create(args, out),
        C::DeleteNs(args) => namespaces::delete(args, out),
        C::AttachNs(args) => namespaces::attach(args, true, out),
        C::DetachNs(args) => namespaces::attach(args, false, out),
        C::ResvRegister(args) => reservations::register(args, out),
        C::ResvAcquire(args) => reservations::acquire(args, out),
        C::ResvRelease(args) => reservations::release(args, out),
        C::ResvReport(args) => reservations::report(args, out),
        C::ShowRegs(args) => registers::show(args, out),
        C::Reset(args) => registers::reset(args, out),
        C::AdminPassthru(args) => pass::admin(args, out, interrupt),
        C::IoPassthru(args) => pass::io(args, out, interrupt),
    }
}

fn identify_as(asked: &AskedPage, cns: Cns, out: &mut impl Write) -> Result<()> {
    let AskedPage { device, ns, form } = asked;
    let (device, form, structure) = (device.clone(), form.clone(), Structure(cns));
    identify::run(&Identify { device, structure, ns: *ns, csi: None, selector: 0, form }, out)
}

fn list_namespaces(args: &ListNs, out: &mut impl Write) -> Result<()> {
    let cns = if args.all { Cns::ALLOCATED_NAMESPACES } else { Cns::ACTIVE_NAMESPACES };
    let asked = AskedPage { device: args.device.clone(), ns: None, form: args.form.clone() };
    identify_as(&asked, cns, out)
}

fn log_as(asked: &AskedPage, page: LogPage, out: &mut impl Write) -> Result<()> {
    log::run(&log_of(asked, page, None), out)
}

fn error_log(args: &ErrorLog, out: &mut impl Write) -> Result<()> {
    let asked = AskedPage { device: args.device.clone(), ns: None, form: args.form.clone() };
    let length = args.log_entries.map(|entries| entries * size_of::<ErrorEntry>() as u32);
    log::run(&log_of(&asked, LogPage::ERROR, length), out)
}

fn log_of(asked: &AskedPage, page: LogPage, length: Option<u32>) -> Log {
    Log {
        device: asked.device.clone(),
        page: Page(page),
        ns: asked.ns,
        csi: CommandSet(Csi::NVM),
        offset: 0,
        length,
        retain_event: false,
        form: asked.form.clone(),
    }
}

fn get_log(args: &GetLog, out: &mut impl Write) -> Result<()> {
    let asked = Log {
        device: args.device.clone(),
        page: args.log_id,
        ns: args.ns,
        csi: args.csi,
        offset: args.lpo,
        length: args.log_len,
        retain_event: args.rae,
        form: args.form.clone(),
    };
    log::run(&asked, out)
}

fn get_feature(args: &GetFeature) -> FeatureCommand {
    FeatureCommand::Get {
        device: args.device.clone(),
        feature: args.feature_id,
        select: match args.sel {
            1 => Select::Default,
            2 => Select::Saved,
            3 => Select::Supported,
            _ => Select::Current,
        },
        ns: args.ns,
        cdw11: args.cdw11,
        length: args.data_len,
        form: args.form.clone(),
    }
}

fn set_feature(args: &SetFeature) -> FeatureCommand {
    FeatureCommand::Set {
        device: args.device.clone(),
        feature: args.feature_id,
        value: args.value,
        cdw12: args.cdw12,
        save: args.save,
        ns: args.ns,
        input: args.data.clone(),
        json: args.json,
    }
}
