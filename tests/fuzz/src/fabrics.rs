//! Fabrics commands and what goes with them: entries, data of Connect, properties, the discovery log.

use byway_fabrics::{
    ConnectData, DiscoveryLog, Entry, FabricsCommand, LogReading, Nqn, Properties, PropertyAccess, Step,
};
use byway_spec::Command;
use byway_spec::base::register::{Cap, Crto};

use crate::input::Input;

/// The first byte selects the structure. What parses encodes to the same, and nothing panics.
pub fn fabrics(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    match input.byte() % 6 {
        0 => command(&input.array()),
        1 => connect_data(&input.array::<1024>()),
        2 => entry(&input.array()),
        3 => log(&mut input),
        4 => properties(&mut input),
        _ => name(&mut input),
    }
}

fn command(bytes: &[u8; 64]) {
    let raw = Command::from_bytes(bytes);
    match FabricsCommand::parse(&raw) {
        Ok(command) => assert_eq!(FabricsCommand::parse(&command.encode(raw.cid())), Ok(command)),
        Err(error) => assert!(!error.status().is_success() && error.status().dnr(), "{error}"),
    }
}

fn connect_data(bytes: &[u8]) {
    match ConnectData::parse(bytes) {
        Ok(data) => assert_eq!(ConnectData::parse(&data.encode()), Ok(data)),
        Err(refusal) => assert!(!refusal.status().is_success()),
    }
}

fn entry(bytes: &[u8; 1024]) {
    if let Ok(entry) = Entry::parse(bytes) {
        assert_eq!(Entry::parse(&entry.encode()), Ok(entry));
    }
}

/// Reads a log of arbitrary parts: it ends with entries, an error, or the input.
fn log(input: &mut Input<'_>) {
    let mut reading = LogReading::new(input.number());
    while !input.is_empty() {
        let Step::Read { offset, bytes } = reading.step() else { return known(&reading) };
        assert!(offset.is_multiple_of(1024) && bytes.is_multiple_of(1024) && bytes > 0);
        let mut part = input.bytes(usize::from(input.clone().word())).to_vec();
        part.resize(part.len().max(bytes.min(1 << 16) as usize), 0);
        if reading.take(&part).is_err() {
            return;
        }
    }
}

/// Encodes the entries as a log, and reads the same entries back.
fn known(reading: &LogReading) {
    let Step::Done(entries) = reading.step() else { return };
    let mut log = DiscoveryLog::default();
    log.set(1, entries.clone());
    let mut again = LogReading::new(4096);
    while let Step::Read { offset, bytes } = again.step() {
        again.take(&log.read(offset, bytes as usize)).expect("our own log can be read");
    }
    assert_eq!(again.step(), Step::Done(entries));
}

fn properties(input: &mut Input<'_>) {
    let mut properties = Properties::new(Cap::from_bits(input.qword()), Crto::new());
    while !input.is_empty() {
        let Ok(access) = PropertyAccess::parse(input.byte() & 1, u32::from(input.byte())) else { continue };
        let before = properties.get(access);
        if properties.set(access, input.qword()).is_err() {
            assert_eq!(properties.get(access), before, "what is refused changes nothing");
        }
        match input.byte() % 4 {
            0 => properties.set_ready(),
            1 => properties.set_shut_down(),
            2 => properties.set_fatal(),
            _ => {}
        }
        assert!(!properties.csts().rdy() || properties.cc().en(), "ready without being enabled");
    }
}

fn name(input: &mut Input<'_>) {
    let Ok(text) = core::str::from_utf8(input.bytes(300)) else { return };
    if let Ok(name) = Nqn::new(text) {
        _ = name.form();
        assert_eq!(Nqn::from_field(&name.to_field()), Ok(name));
    }
}
