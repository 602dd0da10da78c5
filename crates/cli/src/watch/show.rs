//! A report for people.

use std::fmt;

use byway_console::table::{Table, rate, time};

use super::Report;

/// Bytes in a second, in units of thousands, as drives are sold.
fn bytes_rate(per_s: f64) -> String {
    const UNITS: [(f64, &str); 3] = [(1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s")];
    let unit = UNITS.iter().find(|(unit, _)| per_s >= *unit);
    unit.map_or_else(|| format!("{per_s:.0} B/s"), |(unit, name)| format!("{:.2} {name}", per_s / unit))
}

fn seconds(time_s: Option<f64>) -> String {
    time(time_s.map(|time_s| time_s * 1e9))
}

fn count(number: f64) -> String {
    format!("{number:.0}")
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_total(f)?;
        self.write_hosts(f)?;
        self.write_health(f)?;
        self.write_commands(f)?;
        self.write_link(f)?;
        self.write_flash(f)?;
        self.write_stalls(f)
    }
}

impl Report {
    fn write_total(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = &self.total;
        write!(
            f,
            "commands  {}, in {}, out {}, errors {}",
            rate(total.per_s),
            bytes_rate(total.bytes_in_per_s),
            bytes_rate(total.bytes_out_per_s),
            rate(total.errors_per_s)
        )?;
        if let Some(at_a_time) = total.at_a_time {
            write!(f, ", {at_a_time:.2} at a time")?;
        }
        writeln!(f)
    }

    fn write_hosts(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Vec::new();
        let here = self.connections.iter().filter(|(_, count)| **count > 0.0);
        words.extend(here.map(|(state, count)| format!("{count:.0} {state}")));
        let named =
            [("hosts", "hosts"), ("vfio_user_clients", "vfio-user clients"), ("waiting", "commands wait")];
        let known =
            named.iter().filter_map(|(name, words)| Some(format!("{:.0} {words}", self.now.get(name)?)));
        words.extend(known);
        if let (Some(received), Some(sent)) = (self.total.network_in_per_s, self.total.network_out_per_s) {
            words.push(format!("network in {}, out {}", bytes_rate(received), bytes_rate(sent)));
        }
        if words.is_empty() { Ok(()) } else { writeln!(f, "hosts     {}", words.join(", ")) }
    }

    fn write_health(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let now = |name: &str| self.now.get(name).copied();
        let mut words = Vec::new();
        words.extend(now("available_spare_ratio").map(|ratio| format!("spare {:.0} %", ratio * 100.0)));
        words.extend(now("used_ratio").map(|ratio| format!("used {:.0} %", ratio * 100.0)));
        words.extend(now("write_amplification").map(|times| format!("write amplification {times:.2}")));
        words.extend(now("media_errors").map(|errors| format!("{errors:.0} media errors")));
        words.extend(now("unsafe_shutdowns").map(|count| format!("{count:.0} unsafe shutdowns")));
        words.extend(now("resident_bytes").map(|bytes| format!("memory {:.1} MB", bytes / 1e6)));
        words.extend(self.warnings.iter().map(|warning| format!("WARNING {}", warning.replace('_', " "))));
        if words.is_empty() { Ok(()) } else { writeln!(f, "health    {}", words.join(", ")) }
    }

    fn write_commands(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new(&["command", "total", "rate", "errors", "data", "p50", "p99", "p99.9"]);
        for one in &self.commands {
            let admin = if one.queue == "io" { "" } else { "admin " };
            table.push(vec![
                format!("{admin}{}", one.command.replace('_', " ")),
                count(one.total),
                rate(one.per_s),
                rate(one.errors_per_s),
                bytes_rate(one.bytes_per_s),
                seconds(one.p50_s),
                seconds(one.p99_s),
                seconds(one.p999_s),
            ]);
        }
        write_table(f, &table)
    }

    fn write_link(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new(&["link", "total", "rate", "payload", "wire"]);
        for one in &self.link {
            table.push(vec![
                one.class.replace('_', " "),
                count(one.total),
                rate(one.per_s),
                bytes_rate(one.payload_bytes_per_s),
                bytes_rate(one.wire_bytes_per_s),
            ]);
        }
        write_table(f, &table)
    }

    fn write_flash(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new(&["flash", "programmed", "programs", "data", "reads", "erases"]);
        for one in &self.flash {
            table.push(vec![
                one.cause.replace('_', " "),
                count(one.programmed),
                rate(one.programs_per_s),
                bytes_rate(one.program_bytes_per_s),
                rate(one.reads_per_s),
                rate(one.erases_per_s),
            ]);
        }
        write_table(f, &table)
    }
}

impl Report {
    /// What commands waited for. The share is of time, and of all commands together: 200 % are two that wait all the time.
    fn write_stalls(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new(&["stalls", "cause", "total", "rate", "share", "longest"]);
        for one in &self.stalls {
            table.push(vec![
                one.of.clone(),
                one.cause.replace('_', " "),
                count(one.total),
                rate(one.per_s),
                format!("{:.1} %", one.share * 100.0),
                seconds(Some(one.longest_s)),
            ]);
        }
        write_table(f, &table)
    }
}

/// A table, unless nothing is in it.
fn write_table(f: &mut fmt::Formatter<'_>, table: &Table) -> fmt::Result {
    if table.rows().is_empty() { Ok(()) } else { write!(f, "\n{table}") }
}
