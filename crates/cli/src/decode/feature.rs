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

/// Which values a feature takes (Base 2.1, section 5.1.25), for people; nothing of one that is not known here.
pub fn values(feature: FeatureId) -> Option<&'static str> {
    Some(match feature {
        FeatureId::ARBITRATION => {
            "bits 2:0 are the burst as a power of two (7 for no limit), bits 15:8, 23:16 and 31:24 the weights of low, medium \
             and high priority, less one each"
        }
        FeatureId::POWER_MANAGEMENT => {
            "bits 4:0 are a power state that the controller has (0 up to npss of `identify controller`), bits 7:5 a workload hint"
        }
        FeatureId::TEMPERATURE_THRESHOLD => {
            "bits 15:0 are kelvins, bits 19:16 a sensor that the controller has (0 for the composite temperature, 15 for all), \
             bits 21:20 are 0 for a limit above and 1 for one below"
        }
        FeatureId::ERROR_RECOVERY => {
            "bits 15:0 are a time of recovery in units of 100 ms (0 for no limit), bit 16 is 1 only where the namespace can \
             report reads of deallocated blocks"
        }
        FeatureId::VOLATILE_WRITE_CACHE => "0 and 1 for a cache that can be disabled, else 1 alone",
        FeatureId::NUMBER_OF_QUEUES => {
            "bits 15:0 are submission queues less one, bits 31:16 completion queues less one, each 0 to 65534, before any I/O \
             queue is created: 0x00030003 asks for 4 of each"
        }
        FeatureId::INTERRUPT_COALESCING => {
            "bits 7:0 are completions to gather, less one, bits 15:8 the longest wait in units of 100 µs"
        }
        FeatureId::INTERRUPT_VECTOR => {
            "bits 15:0 are an interrupt vector that the controller has, bit 16 is 1 for no coalescing"
        }
        FeatureId::WRITE_ATOMICITY => "0 and 1 (only as when power fails)",
        FeatureId::ASYNC_EVENTS => "bits 7:0 are critical warnings, bits 8 and above one kind of event each",
        FeatureId::TIMESTAMP => {
            "0, with 8 bytes of data (--input): milliseconds since 1970 in 6 bytes, little-endian, and 2 zeroes"
        }
        FeatureId::KEEP_ALIVE => "a time in ms, 0 for none",
        FeatureId::HOST_BEHAVIOR => "0, with 512 bytes of data (--input), whose first three are 0 or 1",
        FeatureId::IO_COMMAND_SET_PROFILE => {
            "bits 8:0 are the number of a combination of command sets that the controller lists (`identify command-sets`)"
        }
        FeatureId::KEY_VALUE => "0, and 1 for deleting a key that does not exist to be an error, with --ns",
        FeatureId::HOST_IDENTIFIER => "0 with 8 bytes of data (--input), 1 with 16",
        FeatureId::RESERVATION_NOTIFICATION => "bits 3:1 are notices that are not sent, with --ns",
        FeatureId::RESERVATION_PERSISTENCE => {
            "0, and 1 for reservations that survive a loss of power, with --ns"
        }
        FeatureId::METHODS => {
            "a bit for each transfer method, of those that the controller announces (`info -v`)"
        }
        FeatureId::WINDOW => {
            "bits 15:0 are a submission queue that exists, with --ns of a key-value namespace"
        }
        _ => return None,
    })
}

/// The value of a feature, decoded; only its number for an unknown one.
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
        .flag("stopped", data.attributes & 1 == 1, "it was stopped in between")
        .flag("set_by_host", data.attributes >> 1 & 7 == 1, "a host has set it")
}

fn behavior(fields: Fields, data: &HostBehavior) -> Fields {
    fields
        .flag("acre", data.acre == 1, "commands are retried after a delay")
        .flag("etdas", data.etdas == 1, "telemetry area 4")
        .flag("lbafee", data.lbafee == 1, "extended block formats")
}
