//! Identify Namespace, of either command set and of none.

use byway::spec::base::identify::IndependentNamespace;
use byway::spec::kv::{KvController, KvNamespace};
use byway::spec::nvm::{NvmController, NvmNamespace, NvmNamespaceExtended};

use super::Fields;

const NSFEAT: &[&str] =
    &["thin provisioning", "atomic units", "errors of deallocated blocks", "", "optimal sizes"];
const NMIC: &[&str] = &["shared"];
const NSATTR: &[&str] = &["write protected"];
const NSTAT: &[&str] = &["ready"];
const DLFEAT: &[&str] = &["", "", "", "write zeroes deallocates"];

/// A namespace of blocks (CNS 00h).
pub fn blocks(data: &NvmNamespace) -> Fields {
    let index = usize::from(data.flbas.index_low() | data.flbas.index_high() << 4);
    let shift = data.lbaf.get(index).map_or(0, |format| format.lbads());
    let bytes = |blocks: u64| u128::from(blocks) << shift.min(63);
    let fields = Fields::default()
        .number("nsze", data.nsze, "size in blocks")
        .bytes("nsze_bytes", bytes(data.nsze), "size")
        .bytes("ncap_bytes", bytes(data.ncap), "capacity")
        .bytes("nuse_bytes", bytes(data.nuse), "in use")
        .bits("nsfeat", data.nsfeat, NSFEAT, "features")
        .number("flbas", index as u64, "format in use")
        .hex("mc", data.mc, "metadata capabilities")
        .hex("dpc", data.dpc, "protection capabilities")
        .hex("dps", data.dps, "protection settings")
        .bits("nmic", data.nmic, NMIC, "sharing")
        .hex("rescap", data.rescap, "reservation capabilities")
        .bits("dlfeat", data.dlfeat & 8, DLFEAT, "deallocation")
        .number("nawun", u32::from(data.nawun_z) + 1, "blocks that are written at once")
        .number(
            "nawupf",
            u32::from(data.nawupf_z) + 1,
            "blocks that are written at once even when power fails",
        )
        .number("noiob", data.noiob, "optimal boundary of commands, in blocks; 0 for none")
        .bytes("nvmcap_bytes", data.nvmcap_bytes.get(), "room that it takes")
        .number("mssrl", data.mssrl, "longest source range of a copy, in blocks")
        .number("mcl", data.mcl, "longest copy, in blocks")
        .number("msrc", u16::from(data.msrc_z) + 1, "source ranges of a copy");
    let fields = belongs(fields, data.anagrpid, data.nvmsetid, data.endgid, data.nsattr)
        .identifier("nguid", &data.nguid, "globally unique identifier")
        .identifier("eui64", &data.eui64, "IEEE extended unique identifier");
    let formats = data.lbaf.iter().take(usize::from(data.nlbaf_z) + 1).enumerate();
    formats.filter(|(_, format)| format.lbads() != 0).fold(fields, |fields, (number, format)| {
        let block_bytes = 1u64 << format.lbads().min(63);
        let shown = format!("{block_bytes} B + {} B", format.ms());
        let in_use = if number == index { ", in use" } else { "" };
        let about = format!("block and metadata of format {number}{in_use}; performance {}", format.rp());
        fields.with(format!("lbaf{number}_bytes"), block_bytes, shown, about)
    })
}

fn belongs(fields: Fields, ana: u32, set: u16, group: u16, attributes: u8) -> Fields {
    fields
        .number("anagrpid", ana, "ANA group")
        .number("nvmsetid", set, "NVM set")
        .number("endgid", group, "endurance group")
        .bits("nsattr", attributes, NSATTR, "attributes")
}

/// What the NVM command set adds (CNS 05h, command set 0).
pub fn blocks_extended(data: &NvmNamespaceExtended) -> Fields {
    Fields::default()
        .hex("lbstm", data.lbstm, "storage tag mask")
        .hex("pic", data.pic, "protection information capabilities")
        .hex("pifa", data.pifa, "protection information format attributes")
}

/// A namespace of keys and values (CNS 05h, command set 1).
pub fn pairs(data: &KvNamespace) -> Fields {
    let fields = Fields::default()
        .bytes("nsze_bytes", data.nsze_bytes, "size")
        .bytes("nuse_bytes", data.nuse_bytes, "in use by keys and values")
        .hex("nsfeat", data.nsfeat, "features")
        .number("kvfc", data.kvfc & 0xf, "format in use")
        .bits("nmic", data.nmic, NMIC, "sharing")
        .hex("rescap", data.rescap, "reservation capabilities")
        .bytes("novg_bytes", data.novg_bytes, "optimal granularity of values; 0 for not reported");
    let fields = belongs(fields, data.anagrpid, data.nvmsetid, data.endgid, data.nsattr)
        .identifier("nguid", &data.nguid, "globally unique identifier")
        .identifier("eui64", &data.eui64, "IEEE extended unique identifier");
    let formats = data.kvf.iter().take(usize::from(data.nkvf_z) + 1).enumerate();
    formats.fold(fields, |fields, (number, format)| {
        fields
            .bytes(format!("kvf{number}_key_max_bytes"), format.key_max_bytes, "longest key")
            .bytes(format!("kvf{number}_value_max_bytes"), format.value_max_bytes, "longest value")
            .number(format!("kvf{number}_keys_max"), format.keys_max, "most keys; 0 for no limit")
    })
}

/// What every namespace has, whatever its command set (CNS 08h).
pub fn independent(data: &IndependentNamespace) -> Fields {
    let fields = Fields::default()
        .hex("nsfeat", data.nsfeat, "features")
        .bits("nmic", data.nmic, NMIC, "sharing")
        .hex("rescap", data.rescap, "reservation capabilities")
        .hex("fpi", data.fpi, "progress of a format");
    belongs(fields, data.anagrpid, data.nvmsetid, data.endgid, data.nsattr)
        .bits("nstat", data.nstat, NSTAT, "status")
}

/// Limits of a controller in the NVM command set (CNS 06h, command set 0).
pub fn blocks_limits(data: &NvmController) -> Fields {
    let pages = |fields: Fields, name: &'static str, exponent: u8, about: &'static str| match exponent {
        0 => fields.with(name, serde_json::Value::Null, "no limit", about),
        exponent => fields.bytes(name, 4096u64 << exponent.min(40), about),
    };
    let fields = pages(Fields::default(), "vsl_bytes", data.vsl, "longest verify");
    let fields = pages(fields, "wzsl_bytes", data.wzsl, "longest write zeroes");
    pages(fields, "wusl_bytes", data.wusl, "longest write uncorrectable")
        .number("dmrl", data.dmrl, "ranges of a deallocation; 0 for no limit")
        .number("dmrsl", data.dmrsl, "blocks of one range; 0 for no limit")
        .number("dmsl", data.dmsl, "blocks of all ranges; 0 for no limit")
}

/// What a controller knows of the Key Value command set (CNS 06h, command set 1).
pub fn pairs_version(data: &KvController) -> Fields {
    let version = format!("{}.{}.{}", data.mjr, data.mnr, data.ter);
    Fields::default().with("version", version.clone(), version, "version of the Key Value command set")
}
