//! Identify Controller: identity, capabilities and limits.

use byway::spec::base::identify::{Controller, PowerState};

use super::{Fields, vendor};

/// Bytes of the smallest memory page, of which MDTS counts powers of two: CAP.MPSMIN is 0 wherever Linux runs.
const PAGE_BYTES: u64 = 4096;

const OACS: &[&str] = &[
    "security",
    "format",
    "firmware",
    "namespace management",
    "self-test",
    "directives",
    "MI",
    "virtualization",
    "doorbell buffer",
    "LBA status",
    "lockdown",
];
const ONCS: &[&str] = &[
    "compare",
    "write uncorrectable",
    "dataset management",
    "write zeroes",
    "save and select",
    "reservations",
    "timestamp",
    "verify",
    "copy",
];
const CMIC: &[&str] = &["several ports", "several controllers", "SR-IOV", "ANA"];
const OAES: &[&str] = &["", "", "", "", "", "", "", "", "namespace attributes", "firmware activation"];
const LPA: &[&str] = &[
    "SMART of a namespace",
    "effects",
    "extended data",
    "telemetry",
    "persistent event",
    "pages 00h, 12h and 13h",
    "telemetry area 4",
];
const FNA: &[&str] =
    &["format is of all namespaces", "erase is of all namespaces", "cryptographic erase", "no broadcast"];
const SANICAP: &[&str] = &["crypto erase", "block erase", "overwrite"];
const FUSES: &[&str] = &["compare and write"];
const VWC: &[&str] = &["present"];

/// The fields of the structure.
pub fn controller(data: &Controller) -> Fields {
    let fields = io(admin(who(data), data), data);
    let fields = (0..).zip(data.psd.iter().take(usize::from(data.npss_z) + 1)).fold(fields, power_state);
    if data.vendor.is_known() { vendor::area(fields, &data.vendor) } else { fields }
}

fn who(data: &Controller) -> Fields {
    let version = data.ver;
    let version = format!("{}.{}.{}", version >> 16, version >> 8 & 0xff, version & 0xff);
    let kind = match data.cntrltype {
        1 => "I/O",
        2 => "discovery",
        3 => "administrative",
        _ => "not reported",
    };
    Fields::default()
        .hex("vid", data.vid, "PCI vendor")
        .hex("ssvid", data.ssvid, "PCI subsystem vendor")
        .text("sn", &data.sn, "serial number")
        .text("mn", &data.mn, "model")
        .text("fr", &data.fr, "firmware revision")
        .text("subnqn", &data.subnqn, "qualified name of the subsystem")
        .hex("ieee", u32::from_le_bytes([data.ieee[0], data.ieee[1], data.ieee[2], 0]), "IEEE OUI")
        .identifier("fguid", &data.fguid, "identifier of the field replaceable unit")
        .number("cntlid", data.cntlid, "controller identifier")
        .with("ver", version.clone(), version, "version of the specification")
        .with("cntrltype", data.cntrltype, kind, "kind of controller")
        .bits("cmic", data.cmic, CMIC, "multi-path and sharing")
}

fn admin(fields: Fields, data: &Controller) -> Fields {
    let transfer = match data.mdts {
        0 => fields.with("mdts_bytes", serde_json::Value::Null, "no limit", "longest transfer"),
        mdts => fields.bytes("mdts_bytes", PAGE_BYTES << mdts.min(40), "longest transfer"),
    };
    transfer
        .bits("oacs", data.oacs.into_bits(), OACS, "optional admin commands")
        .number("acl", u16::from(data.acl_z) + 1, "abort commands at a time")
        .number("aerl", u16::from(data.aerl_z) + 1, "event requests at a time")
        .bits("oaes", data.oaes, OAES, "optional events")
        .hex("ctratt", data.ctratt, "controller attributes")
        .number("frmw_slots", data.frmw >> 1 & 7, "firmware slots")
        .bits("lpa", data.lpa, LPA, "log page attributes")
        .number("elpe", u16::from(data.elpe_z) + 1, "error log entries")
        .number("npss", u16::from(data.npss_z) + 1, "power states")
        .with("wctemp_k", data.wctemp_k, temperature(data.wctemp_k), "warning temperature")
        .with("cctemp_k", data.cctemp_k, temperature(data.cctemp_k), "critical temperature")
        .number("rtd3r_us", data.rtd3r_us, "latency of leaving RTD3, in µs")
        .number("rtd3e_us", data.rtd3e_us, "latency of entering RTD3, in µs")
        .bytes("hmpre_bytes", u64::from(data.hmpre) * PAGE_BYTES, "host memory buffer, preferred")
        .bytes("hmmin_bytes", u64::from(data.hmmin) * PAGE_BYTES, "host memory buffer, smallest")
        .bytes("tnvmcap_bytes", data.tnvmcap_bytes.get(), "capacity")
        .bytes("unvmcap_bytes", data.unvmcap_bytes.get(), "capacity that no namespace has")
        .number("kas_ms", u32::from(data.kas) * 100, "granularity of keep-alive, in ms; 0 for none")
        .bits("sanicap", data.sanicap, SANICAP, "ways to sanitize")
        .number("anatt_s", data.anatt, "time of an ANA transition, in s")
        .number("endgidmax", data.endgidmax, "largest endurance group")
        .number("nsetidmax", data.nsetidmax, "largest NVM set")
}

fn io(fields: Fields, data: &Controller) -> Fields {
    let power_of_two = |exponent: u8| 1u64 << exponent;
    let maxcmd = u64::from(data.maxcmd);
    let sgl = match data.sgls.supported() {
        0 => "not supported",
        1 => "supported",
        2 => "supported, dword aligned",
        _ => "reserved",
    };
    fields
        .bytes("sqes_bytes", power_of_two(data.sqes & 0xf), "submission entry")
        .bytes("cqes_bytes", power_of_two(data.cqes & 0xf), "completion entry")
        .number("maxcmd", maxcmd, "commands outstanding in a queue; 0 for not reported")
        .number("nn", data.nn, "largest namespace identifier")
        .number("mnan", data.mnan, "most namespaces; 0 for as many as the largest identifier")
        .bits("oncs", data.oncs.into_bits(), ONCS, "optional NVM commands")
        .bits("fuses", data.fuses, FUSES, "fused operations")
        .bits("fna", data.fna, FNA, "what a format is of")
        .bits("vwc", data.vwc & 1, VWC, "volatile write cache")
        .number("awun", u32::from(data.awun_z) + 1, "blocks that are written at once")
        .number("awupf", u32::from(data.awupf_z) + 1, "blocks that are written at once even when power fails")
        .number("acwu", u32::from(data.acwu_z) + 1, "blocks that are compared and written at once")
        .with("sgls", data.sgls.into_bits(), sgl, "scatter gather lists")
        .number("ioccsz_bytes", u64::from(data.ioccsz) * 16, "fabrics: command capsule, in bytes")
        .number("iorcsz_bytes", u64::from(data.iorcsz) * 16, "fabrics: response capsule, in bytes")
}

fn power_state(fields: Fields, (index, state): (usize, &PowerState)) -> Fields {
    let unit_mw = if state.flags & 1 == 0 { 10.0 } else { 0.1 };
    let milliwatts = f64::from(state.mp) * unit_mw;
    let shown = match state.mp {
        0 => "not reported".to_owned(),
        _ => format!("{milliwatts} mW"),
    };
    let about = format!(
        "power state {index}, {}operational: entered in {} µs, left in {} µs",
        if state.flags & 2 == 0 { "" } else { "not " },
        state.enlat_us,
        state.exlat_us
    );
    fields.with(format!("psd{index}_mw"), milliwatts, shown, about)
}

/// A temperature in kelvins, for people.
pub fn temperature(kelvins: u16) -> String {
    match kelvins {
        0 => "not reported".to_owned(),
        kelvins => format!("{} °C", i32::from(kelvins) - 273),
    }
}
