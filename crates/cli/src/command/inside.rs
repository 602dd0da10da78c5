//! The insides of a device, for `byway info --verbose`.

use std::fmt;

use byway::{Details, EngineDetails};
use byway_console::size::{counted, human};
use serde::Serialize;

/// With so little left, a disk has no room for a block of flash.
const FULL_BELOW_BYTES: u64 = 1 << 20;

/// What `--json` prints of a device's insides.
#[derive(Debug, Serialize)]
pub struct Inside {
    space: Space,
    namespaces: Vec<Share>,
    wear: Wear,
    write_amplification: Option<f64>,
    written_by_cause: Vec<Written>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ages: Option<Ages>,
    power: Power,
}

#[derive(Debug, Serialize)]
struct Space {
    capacity_bytes: u64,
    live_bytes: u64,
    writable_bytes: u64,
    raw_bytes: u64,
    over_provisioning_percent: f64,
    image_bytes: u64,
    disk_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    disk_free_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refuses_writes: Option<String>,
    blocks_free: u32,
    blocks_open: u32,
    blocks_full: u32,
    blocks_bad: u32,
    lost_units: u64,
}

#[derive(Debug, Serialize)]
struct Share {
    nsid: u32,
    size_bytes: u64,
    live_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    engine: Option<Engine>,
}

#[derive(Debug, Serialize)]
struct Engine {
    keys: u64,
    capacity_bytes: u64,
    unsettled_entries: u64,
    runs: u64,
    memtable_entries: u64,
    segments: u64,
    free_segments: u64,
    segment_bytes: u64,
    segments_by_fill: Vec<u32>,
    lost_log_bytes: u64,
    replayed_records: u64,
    replayed_bytes: u64,
    torn_bytes: u64,
    /// Times that a follower read everything anew from a checkpoint, its opening included; 0 where this process writes the image.
    follow_reloads: u64,
}

#[derive(Debug, Serialize)]
struct Wear {
    erases_min: u32,
    erases_mean: f64,
    erases_max: u32,
    spread_percent: f64,
    variation_percent: f64,
    histogram: Vec<(u32, u32, u32)>,
    percentage_used: u8,
    available_spare_percent: u8,
    spare_blocks: u32,
    spare_blocks_left: u32,
    factory_bad_blocks: u32,
    grown_bad_blocks: u32,
    retired_blocks: u32,
    media_errors: u64,
}

#[derive(Debug, Serialize)]
struct Written {
    cause: &'static str,
    programmed_bytes: u64,
    per_accepted_byte: f64,
    erases: u64,
}

#[derive(Debug, Serialize)]
struct Ages {
    youngest_bytes: u64,
    median_bytes: u64,
    oldest_bytes: u64,
}

#[derive(Debug, Serialize)]
struct Power {
    cycles: u64,
    unsafe_shutdowns: u64,
    last_was_unsafe: bool,
    recounted_blocks: u32,
    power_was_lost: bool,
    opened_in_ns: u64,
}

impl Inside {
    /// The figures of a device, as they are printed.
    pub fn of(details: &Details) -> Self {
        let total = details.counters.total();
        let accepted = details.counters.accepted_bytes;
        let rows = details.counters.rows().filter(|(_, row)| row.program_bytes + row.erases > 0);
        let written = rows.map(|(cause, row)| Written {
            cause: cause.name(),
            programmed_bytes: row.program_bytes,
            per_accepted_byte: row.program_bytes as f64 / accepted.max(1) as f64,
            erases: row.erases,
        });
        debug_assert!(total.program_bytes >= details.counters[byway::Cause::Host].program_bytes);
        Self {
            space: Space::of(details),
            namespaces: details.namespaces.iter().map(Share::of).collect(),
            wear: Wear::of(details),
            write_amplification: details.counters.write_amplification(),
            written_by_cause: written.collect(),
            ages: details.ages.map(|ages| Ages {
                youngest_bytes: ages.youngest_bytes,
                median_bytes: ages.median_bytes,
                oldest_bytes: ages.oldest_bytes,
            }),
            power: Power {
                cycles: details.power.power_cycles,
                unsafe_shutdowns: details.power.unsafe_shutdowns,
                last_was_unsafe: details.recovery.unclean,
                recounted_blocks: details.recovery.recounted_blocks,
                power_was_lost: details.recovery.power_lost,
                opened_in_ns: details.opened_in_ns,
            },
        }
    }
}

impl Space {
    fn of(details: &Details) -> Self {
        let (raw, capacity) = (details.raw_bytes as f64, details.capacity_bytes.max(1) as f64);
        Self {
            capacity_bytes: details.capacity_bytes,
            live_bytes: details.live_bytes,
            writable_bytes: details.free_bytes,
            raw_bytes: details.raw_bytes,
            over_provisioning_percent: (raw / capacity - 1.0) * 100.0,
            image_bytes: details.image_bytes,
            disk_bytes: details.disk_bytes,
            disk_free_bytes: details.disk_free_bytes,
            refuses_writes: details.refuses_writes.clone(),
            blocks_free: details.blocks.free,
            blocks_open: details.blocks.open,
            blocks_full: details.blocks.full,
            blocks_bad: details.blocks.bad,
            lost_units: details.lost_entries,
        }
    }
}

impl Share {
    fn of(namespace: &byway::NamespaceDetails) -> Self {
        Self {
            nsid: namespace.nsid,
            size_bytes: namespace.size_bytes,
            live_bytes: namespace.live_bytes,
            engine: namespace.engine.as_ref().map(Engine::of),
        }
    }
}

impl Engine {
    fn of(engine: &EngineDetails) -> Self {
        let stats = &engine.stats;
        Self {
            keys: stats.keys,
            capacity_bytes: stats.capacity_bytes,
            unsettled_entries: stats.unsettled_entries,
            runs: stats.runs,
            memtable_entries: stats.memtable_entries,
            segments: stats.segments,
            free_segments: stats.free_segments,
            segment_bytes: stats.segment_bytes,
            segments_by_fill: engine.segments_by_fill.to_vec(),
            lost_log_bytes: stats.lost_log_bytes,
            replayed_records: stats.replay.records,
            replayed_bytes: stats.replay.record_bytes,
            torn_bytes: stats.replay.torn_bytes,
            follow_reloads: stats.follow.reloads,
        }
    }
}

impl Wear {
    fn of(details: &Details) -> Self {
        let health = &details.health;
        Self {
            erases_min: health.wear.min,
            erases_mean: health.wear.mean,
            erases_max: health.wear.max,
            spread_percent: health.wear.spread() * 100.0,
            variation_percent: health.wear.variation() * 100.0,
            histogram: details.erases.iter().map(|b| (b.from, b.to, b.blocks)).collect(),
            percentage_used: health.percentage_used,
            available_spare_percent: health.available_spare_percent,
            spare_blocks: health.spare_blocks,
            spare_blocks_left: health.spare_blocks_left,
            factory_bad_blocks: health.factory_bad_blocks,
            grown_bad_blocks: health.grown_bad_blocks,
            retired_blocks: health.retired_blocks,
            media_errors: details.counters.media_errors,
        }
    }
}

impl fmt::Display for Inside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.space.fmt(f)?;
        self.namespaces.iter().try_for_each(|share| share.fmt(f))?;
        self.wear.fmt(f)?;
        self.fmt_written(f)?;
        if let Some(ages) = &self.ages {
            let [young, median, old] = [ages.youngest_bytes, ages.median_bytes, ages.oldest_bytes].map(human);
            writeln!(
                f,
                "ages     full blocks were filled {young} to {old} of writing ago, half of them less than {median}"
            )?;
        }
        self.power.fmt(f)
    }
}

impl fmt::Display for Power {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cycles, unsafe_shutdowns, recounted_blocks, .. } = self;
        write!(
            f,
            "power    opened {}, {}; ",
            counted(*cycles, "time"),
            counted(*unsafe_shutdowns, "unsafe shutdown")
        )?;
        match (self.power_was_lost, self.last_was_unsafe) {
            (true, _) => write!(f, "the last was one, and power was lost")?,
            (false, true) => {
                write!(f, "the last was one: {} recounted", counted(u64::from(*recounted_blocks), "block"))?
            }
            (false, false) => write!(f, "the last close was in order")?,
        }
        writeln!(f, "; this opening took {:.1} ms", self.opened_in_ns as f64 / 1e6)
    }
}

impl Inside {
    fn fmt_written(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(amplification) = self.write_amplification else { return Ok(()) };
        write!(f, "written  amplification {amplification:.2}")?;
        for written in &self.written_by_cause {
            let Written { cause, programmed_bytes, per_accepted_byte, .. } = written;
            write!(f, "; {cause} {} ({per_accepted_byte:.2})", human(*programmed_bytes))?;
        }
        writeln!(f)
    }
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [live, capacity, writable, raw, disk] =
            [self.live_bytes, self.capacity_bytes, self.writable_bytes, self.raw_bytes, self.disk_bytes]
                .map(human);
        let percent = self.over_provisioning_percent;
        write!(
            f,
            "space    {live} of {capacity} live, {writable} writable before collection; array {raw} (+{percent:.0} %), {disk} on disk"
        )?;
        match self.disk_free_bytes {
            Some(free) if free < FULL_BELOW_BYTES => writeln!(f, ", which is full")?,
            Some(free) => writeln!(f, ", which has {} free", human(free))?,
            None => writeln!(f)?,
        }
        if let Some(why) = &self.refuses_writes {
            writeln!(f, "         no writes are taken: {why}")?;
        }
        let Self { blocks_free, blocks_open, blocks_full, blocks_bad, .. } = self;
        write!(f, "blocks   {blocks_free} free, {blocks_open} open, {blocks_full} full, {blocks_bad} bad")?;
        match self.lost_units {
            0 => writeln!(f),
            lost => writeln!(f, "; {} lost to media errors", counted(lost, "unit")),
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ns {:<5} {} of {} live", self.nsid, human(self.live_bytes), human(self.size_bytes))?;
        let Some(engine) = &self.engine else { return writeln!(f) };
        writeln!(
            f,
            "; {} of pairs at most; {}{} in {} and {} in memory; {} of {} of {} free",
            human(engine.capacity_bytes),
            if engine.unsettled_entries > 0 { "at most " } else { "" },
            counted(engine.keys, "key"),
            counted(engine.runs, "run"),
            engine.memtable_entries,
            engine.free_segments,
            counted(engine.segments, "segment"),
            human(engine.segment_bytes)
        )?;
        if engine.replayed_records > 0 || engine.torn_bytes > 0 {
            let (records, bytes) = (counted(engine.replayed_records, "record"), human(engine.replayed_bytes));
            write!(f, "         {records} ({bytes}) of its log replayed at the opening")?;
            match engine.torn_bytes {
                0 => writeln!(f)?,
                torn => writeln!(f, ", {} that no sync had covered cut off", human(torn))?,
            }
        }
        if engine.follow_reloads > 0 {
            writeln!(
                f,
                "         read beside the process that writes it: what that stores is replayed here too"
            )?;
        }
        if engine.lost_log_bytes > 0 {
            let lost = human(engine.lost_log_bytes);
            writeln!(
                f,
                "         {lost} of its log could not be read at an opening: stores there are lost (byway check --repair)"
            )?;
        }
        let used: Vec<String> = (0_u32..)
            .zip(&engine.segments_by_fill)
            .filter(|(_, count)| **count > 0)
            .map(|(tenth, count)| format!("{count} to {} %", (tenth + 1) * 10))
            .collect();
        if used.is_empty() {
            Ok(())
        } else {
            writeln!(f, "         segments by what is alive: {}", used.join(", "))
        }
    }
}

impl fmt::Display for Wear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { erases_min, erases_mean, erases_max, percentage_used, .. } = self;
        let Self { spread_percent, variation_percent, .. } = self;
        write!(
            f,
            "wear     {erases_min} to {erases_max} erases, mean {erases_mean:.1}, deviation {variation_percent:.0} %, spread {spread_percent:.0} %"
        )?;
        let Self { spare_blocks, spare_blocks_left, .. } = self;
        writeln!(f, "; {percentage_used} % used, {spare_blocks_left} of {spare_blocks} spare blocks left")?;
        if self.histogram.len() > 1 {
            let bucket = |(from, to, blocks): &(u32, u32, u32)| match from == to {
                true => format!("{from}: {blocks}"),
                false => format!("{from}–{to}: {blocks}"),
            };
            let buckets: Vec<String> = self.histogram.iter().map(bucket).collect();
            writeln!(f, "         blocks by erases: {}", buckets.join(", "))?;
        }
        let Self { factory_bad_blocks, grown_bad_blocks, retired_blocks, media_errors, .. } = self;
        if factory_bad_blocks + grown_bad_blocks + retired_blocks > 0 || *media_errors > 0 {
            writeln!(
                f,
                "errors   {}; bad blocks: {factory_bad_blocks} from the factory, {grown_bad_blocks} grown, {retired_blocks} retired",
                counted(*media_errors, "media error")
            )?;
        }
        Ok(())
    }
}
