//! Values of features: what the completion's dword 0 holds, and their data.

use byway::spec::base::feature::{
    Arbitration, AsyncEvents, CommandSetProfile, ErrorRecovery, FeatureId, HostBehavior, InterruptCoalescing,
    InterruptVector, NumberOfQueues, TemperatureThreshold, Timestamp, VolatileWriteCache, WriteAtomicity,
};
use byway::spec::kv::KvConfiguration;

use super::controller::temperature;
use super::{Fields, read};

const SMART: &[&str] = &["spare", "temperature", "reliability", "read only", "volatile memory backup"];

/// Bytes of data that a feature has beside its value.
pub fn data_bytes(feature: FeatureId) -> Option<usize> {
    match feature {
        FeatureId::TIMESTAMP => Some(size_of::<Timestamp>()),
        FeatureId::HOST_BEHAVIOR => Some(size_of::<HostBehavior>()),
        FeatureId::AUTONOMOUS_POWER => Some(256),
        FeatureId::HOST_IDENTIFIER => Some(16),
        _ => None,
    }
}

/// The value of a feature, taken apart; only its number where it is not known here.
pub fn feature(feature: FeatureId, value: u32, data: &[u8]) -> Fields {
    let number = Fields::default().hex("value", value, "as it stands in the answer");
    match feature {
        FeatureId::ARBITRATION => arbitration(number, Arbitration::from_bits(value)),
        FeatureId::POWER_MANAGEMENT => {
            number.number("ps", value & 0x1f, "power state").number("wh", value >> 5 & 7, "workload hint")
        }
        FeatureId::TEMPERATURE_THRESHOLD => threshold(number, TemperatureThreshold::from_bits(value)),
        FeatureId::ERROR_RECOVERY => {
            let value = ErrorRecovery::from_bits(value);
            number
                .number("tler_ms", u32::from(value.tler()) * 100, "time of recovery, in ms; 0 for no limit")
                .flag("dulbe", value.dulbe(), "reading a deallocated block is an error")
        }
        FeatureId::VOLATILE_WRITE_CACHE => {
            number.flag("wce", VolatileWriteCache::from_bits(value).wce(), "the cache is in use")
        }
        FeatureId::NUMBER_OF_QUEUES => {
            let value = NumberOfQueues::from_bits(value);
            number.number("nsq", u32::from(value.nsq_z()) + 1, "submission queues").number(
                "ncq",
                u32::from(value.ncq_z()) + 1,
                "completion queues",
            )
        }
        FeatureId::INTERRUPT_COALESCING => {
            let value = InterruptCoalescing::from_bits(value);
            number.number("thr", u16::from(value.thr_z()) + 1, "completions that are gathered").number(
                "time_us",
                u32::from(value.time()) * 100,
                "longest wait, in µs; 0 for none",
            )
        }
        FeatureId::INTERRUPT_VECTOR => {
            let value = InterruptVector::from_bits(value);
            number.number("iv", value.iv(), "vector").flag("cd", value.cd(), "without coalescing")
        }
        FeatureId::WRITE_ATOMICITY => {
            number.flag("dn", WriteAtomicity::from_bits(value).dn(), "only as when power fails")
        }
        FeatureId::ASYNC_EVENTS => events(number, AsyncEvents::from_bits(value)),
        FeatureId::IO_COMMAND_SET_PROFILE => {
            number.number("iosci", CommandSetProfile::from_bits(value).iosci(), "combination in use")
        }
        FeatureId::KEEP_ALIVE => number.number("kato_ms", value, "time, in ms; 0 for none"),
        FeatureId::KEY_VALUE => {
            let ednek = KvConfiguration::from_bits(value).ednek();
            number.flag("ednek", ednek, "deleting a key that does not exist is an error")
        }
        FeatureId::TIMESTAMP => read(data).map_or(number.clone(), |data| timestamp(number, &data)),
        FeatureId::HOST_BEHAVIOR => read(data).map_or(number.clone(), |data| behavior(number, &data)),
        FeatureId::HOST_IDENTIFIER => number.identifier("hostid", data, "host"),
        _ => number,
    }
}

fn arbitration(fields: Fields, value: Arbitration) -> Fields {
    let burst = match value.ab() {
        7 => fields.with("ab", serde_json::Value::Null, "no limit", "commands of a queue at a time"),
        exponent => fields.number("ab", 1u32 << exponent, "commands of a queue at a time"),
    };
    burst
        .number("lpw", u16::from(value.lpw_z()) + 1, "weight of low priority")
        .number("mpw", u16::from(value.mpw_z()) + 1, "weight of medium priority")
        .number("hpw", u16::from(value.hpw_z()) + 1, "weight of high priority")
}

fn threshold(fields: Fields, value: TemperatureThreshold) -> Fields {
    let sensor = match value.tmpsel() {
        0 => "of the controller".to_owned(),
        15 => "of all sensors".to_owned(),
        number => format!("of sensor {number}"),
    };
    fields
        .with("tmpth_k", value.tmpth_k(), temperature(value.tmpth_k()), "threshold")
        .with("tmpsel", value.tmpsel(), sensor, "which temperature")
        .flag("under", value.thsel() == 1, "warned below it")
}

fn events(fields: Fields, value: AsyncEvents) -> Fields {
    fields
        .bits("smart", value.smart(), SMART, "critical warnings")
        .flag("namespace_changed", value.namespace_changed(), "attributes of a namespace")
        .flag("firmware", value.firmware(), "activation of firmware")
        .flag("telemetry", value.telemetry(), "telemetry")
        .flag("ana", value.ana(), "access to a namespace")
}

fn timestamp(fields: Fields, data: &Timestamp) -> Fields {
    let [a, b, c, d, e, f] = data.ms;
    let ms = u64::from_le_bytes([a, b, c, d, e, f, 0, 0]);
    fields
        .number("timestamp_ms", ms, "ms since 1970, or since power-on if no host has set it")
        .flag("stopped", data.attributes & 1 == 1, "it stood still in between")
        .flag("set_by_host", data.attributes >> 1 & 7 == 1, "a host has set it")
}

fn behavior(fields: Fields, data: &HostBehavior) -> Fields {
    fields
        .flag("acre", data.acre == 1, "commands are retried after a delay")
        .flag("etdas", data.etdas == 1, "telemetry area 4")
        .flag("lbafee", data.lbafee == 1, "extended block formats")
}
