//! The table.

use byway_benches::rounds::Row;

use crate::Resident;
use crate::load::Work;

/// Prints what was measured.
pub fn show(rows: &[Row], resident: Option<&Resident>) {
    let find = |name: &str| rows.iter().find(|row| row.case == name);
    println!("one at a time           p50 µs    p99 µs   bare p50   over bare   local p50   network's share");
    for row in rows.iter().filter(|row| row.depth == 1 && is_over_tcp(&row.case)) {
        let work = Work::SMALL.into_iter().find(|work| row.case.starts_with(work.name()));
        let of =
            |name: &str| work.and_then(|work| find(&name.replace('*', work.name()))).map(|row| row.ns_p50);
        let (bare, local) = (of("ping-pong *"), of("*-local"));
        println!(
            "{:20} {} {} {} {} {} {:>15}",
            row.case,
            us(Some(row.ns_p50)),
            us(Some(row.ns_p99)),
            us(bare),
            us(bare.map(|bare| row.ns_p50 - bare)),
            us(local),
            local.map_or("-".into(), |local| format!("{:.0} %", 100.0 * (1.0 - local / row.ns_p50))),
        );
    }
    println!("many at a time       depth    k a second       best");
    for row in rows.iter().filter(|row| row.depth > 1) {
        let (median, best) = (row.per_second_median, row.per_second_best);
        match row.case.ends_with("-1m") {
            true => println!(
                "{:20} {:5} {:9.2} GiB/s {:10.2}",
                row.case,
                row.depth,
                median / 1024.0,
                best / 1024.0
            ),
            false => println!("{:20} {:5} {:13.1} {:10.1}", row.case, row.depth, median / 1e3, best / 1e3),
        }
    }
    for row in rows.iter().filter(|row| row.case.starts_with("wait ")) {
        println!("{:52} p50 {} µs, p99 {} µs", row.case, us(Some(row.ns_p50)), us(Some(row.ns_p99)));
    }
    if let Some(Resident { data_mib, resident_mib, beyond_mib, .. }) = resident {
        println!(
            "resident {resident_mib:.1} MiB with {data_mib:.1} MiB in namespaces: {beyond_mib:.1} MiB beyond"
        );
    }
}

fn is_over_tcp(case: &str) -> bool {
    !["ping-pong", "wait"].iter().any(|other| case.starts_with(other)) && !case.ends_with("-local")
}

fn us(ns: Option<f64>) -> String {
    ns.map_or_else(|| format!("{:>10}", "-"), |ns| format!("{:10.2}", ns / 1e3))
}
