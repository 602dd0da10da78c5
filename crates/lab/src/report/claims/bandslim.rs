//! What BandSlim (ICPP'24, IEEE Micro'25) claims: Cosmos+ Gen2 x8 measured, Gen5 and CXL estimated by the authors.

use byway::Method;
use byway_measure::rows::{TransferRow, WorkloadRow};
use byway_measure::workload::Workload;

use super::super::measured::{COSMOS, COSMOS_GEN5, Measured};
use super::reckon::{
    for_all, most_time_saved, most_traffic_saved, one, pairs, percent_less, throughput_ratio,
    traffic_crossing, traffic_over, workload_traffic_saved,
};
use super::times::{By, Range, Statement, Time};
use super::{Claim, Figure, Ours, Topic};

const ICPP: &str = "BandSlim, ICPP'24 abstract";
const MICRO: &str = "BandSlim, IEEE Micro'25";
const MIXED: [&str; 4] = ["B", "C", "D", "M"];
const CXL: Method = Method::Cxl;
const PIGGYBACK: Method = Method::Piggyback;
const PRP: Method = Method::Prp;
/// Adaptive transfer with the threshold of each link.
const ADAPTIVE_GEN2: By = By::Threshold(PIGGYBACK, 128);
const ADAPTIVE_GEN5: By = By::Threshold(PIGGYBACK, 64);

/// Each other way against adaptive over piggyback, in every workload; ties within 1 percent allowed.
const ADAPTIVE_BEST: [Statement; 16] = {
    let others = [By::Method(PRP), By::Method(PIGGYBACK), By::Method(CXL), By::Threshold(CXL, 64)];
    let mut all = [Statement::puts(PRP, PRP, 0, Range::at_least(0.99)); 16];
    let mut place = 0;
    while place < 16 {
        let of_other = Statement::workloads_on_gen5(others[place / 4], ADAPTIVE_GEN5, Range::at_least(0.99));
        all[place] = of_other[place % 4];
        place += 1;
    }
    all
};

pub const CLAIMS: &[Claim] = &[
    Claim {
        id: "bs-4gb",
        topic: Topic::Traffic,
        paper: MICRO,
        says: "A million puts of 1 to 4 KB move about 4 GB",
        figure: Figure::Bytes(4.096e9),
        times: &[],
        how: "a million times the bytes of a 1 KiB put by prp",
        why: "",
        ours: |measured| {
            let mut ours = traffic_over(measured, (COSMOS, "prp", 1024), 1.0);
            ours.iter_mut().for_each(|ours| {
                if let Figure::Times(bytes) = ours.figure {
                    ours.figure = Figure::Bytes(bytes * 1e6);
                }
            });
            ours
        },
    },
    Claim {
        id: "bs-130",
        topic: Topic::Traffic,
        paper: MICRO,
        says: "A 32-byte value moves roughly 130 times its size",
        figure: Figure::Times(130.0),
        times: &[],
        how: "bytes of a 32-byte put by prp, over 32",
        why: "",
        ours: |measured| traffic_over(measured, (COSMOS, "prp", 32), 32.0),
    },
    Claim {
        id: "bs-97.9",
        topic: Topic::Traffic,
        paper: MICRO,
        says: "97.9 % less traffic for values of 4 to 32 bytes",
        figure: Figure::Percent(97.9),
        times: &[],
        how: "piggyback against prp, best size from 4 to 32 bytes",
        why: "",
        ours: |measured| most_traffic_saved(measured, COSMOS, ("piggyback", "prp"), 4..=32),
    },
    Claim {
        id: "bs-2k",
        topic: Topic::Traffic,
        paper: MICRO,
        says: "Piggyback's traffic nears PRP's at about 2 KB and passes it above",
        figure: Figure::Bytes(2048.0),
        times: &[],
        how: "size at which piggyback moves as much as prp, between measured sizes by proportion",
        why: "At 2 KiB piggyback moves 78 % of prp's payload bytes; they meet at 2.6 KiB. On the wire, where each of \
              its commands pays its packets, they meet at 1.1 KiB.",
        ours: |measured| traffic_crossing(measured, COSMOS, ("piggyback", "prp")),
    },
    Claim {
        id: "bs-halved",
        topic: Topic::Latency,
        paper: MICRO,
        says: "Piggyback halves the response time up to 32 bytes",
        figure: Figure::Percent(50.0),
        // A word, not a figure: 45 to 55 percent.
        times: &[Statement::puts(PIGGYBACK, PRP, 32, Range::around(0.5, 0.05))],
        how: "piggyback against prp, best size from 4 to 32 bytes",
        why: "A command alone costs the kernel's stack, an interrupt and 3 µs of register reads in our model; only \
              the transfer of the page is saved.",
        ours: |measured| most_time_saved(measured, COSMOS, ("piggyback", "prp"), 4..=32),
    },
    Claim {
        id: "bs-tau-gen2",
        topic: Topic::Latency,
        paper: MICRO,
        says: "From 128 bytes on PRP is quicker than piggyback (τ, measured on Gen2)",
        figure: Figure::Bytes(128.0),
        // Found by powers of two.
        times: &[
            Statement::puts(PIGGYBACK, PRP, 64, Range::at_most(1.0)),
            Statement::puts(PIGGYBACK, PRP, 128, Range::at_least(1.0)),
        ],
        how: "calibrated by running: first size at which prp is as quick",
        why: "A second synchronous command costs more than the page's transfer does, so the step from one command to \
              two, at 36 bytes, decides.",
        ours: |measured| calibrated(measured, COSMOS, "piggyback"),
    },
    Claim {
        id: "bs-tau-gen5",
        topic: Topic::Latency,
        paper: MICRO,
        says: "From 64 bytes on PRP is quicker than piggyback (τ, estimated for Gen5)",
        figure: Figure::Bytes(64.0),
        times: &[
            Statement::puts(PIGGYBACK, PRP, 32, Range::at_most(1.0)).on_gen5(),
            Statement::puts(PIGGYBACK, PRP, 64, Range::at_least(1.0)).on_gen5(),
        ],
        how: "calibrated with the link at Gen5 x8",
        why: "",
        ours: |measured| calibrated(measured, COSMOS_GEN5, "piggyback"),
    },
    Claim {
        id: "bs-cxl-small",
        topic: Topic::Latency,
        paper: MICRO,
        says: "CXL-FGT is slower than piggyback from 4 to 32 bytes (Gen5)",
        figure: Figure::Holds(true),
        times: &Statement::each_on_gen5([4, 32], CXL, PIGGYBACK, Range::at_least(1.0)),
        how: "cxl against piggyback at every measured size",
        why: "",
        ours: |measured| every_size(measured, ("cxl", "piggyback"), 4..=32, |cxl, other| cxl > other),
    },
    Claim {
        id: "bs-cxl-large",
        topic: Topic::Latency,
        paper: MICRO,
        says: "CXL-FGT is faster than piggyback from 64 bytes on (Gen5)",
        figure: Figure::Holds(true),
        times: &Statement::each_on_gen5(
            [64, 128, 256, 512, 1024, 2048, 4096],
            CXL,
            PIGGYBACK,
            Range::at_most(1.0),
        ),
        how: "cxl against piggyback at every measured size",
        why: "",
        ours: |measured| every_size(measured, ("cxl", "piggyback"), 64..=4096, |cxl, other| cxl < other),
    },
    Claim {
        id: "bs-cxl-4x",
        topic: Topic::Latency,
        paper: MICRO,
        says: "CXL-FGT is nearly 4 times as fast as piggyback at 256 bytes (printed as 25; Gen5)",
        figure: Figure::Times(4.0),
        times: &[Statement::puts(PIGGYBACK, CXL, 256, Range::times(4.0)).on_gen5()],
        how: "time of piggyback over time of cxl at 256 bytes",
        why: "256 bytes take five piggyback commands against one command and five lines.",
        ours: |measured| {
            let ratio = pairs(measured, COSMOS_GEN5, ("piggyback", "cxl"), 256..=256)
                .find_map(|(slow, fast)| Some(slow.model_ns_mean? / fast.model_ns_mean?));
            one("modelled time", ratio.map(Figure::Times))
        },
    },
    Claim {
        id: "bs-cxl-prp",
        topic: Topic::Latency,
        paper: MICRO,
        says: "CXL-FGT never beats PRP on Gen5",
        figure: Figure::Holds(true),
        times: &Statement::each_on_gen5(
            [4, 32, 64, 128, 256, 512, 1024, 2048, 4096],
            CXL,
            PRP,
            Range::at_least(1.0),
        ),
        how: "cxl against prp at every measured size to 4 KiB",
        why: "The paper divides the whole payload time of PRP by 6.4. Setting a transfer up, the pages' mapping and \
              the round trip do not shrink with the link; kept as they are, they cost more than stores to device memory.",
        ours: |measured| every_size(measured, ("cxl", "prp"), 4..=4096, |cxl, prp| cxl >= prp),
    },
    Claim {
        id: "bs-rate",
        topic: Topic::Links,
        paper: MICRO,
        says: "Gen5 moves payload 6.4 times as fast as Gen2 (32 over 5 GT/s)",
        figure: Figure::Times(6.4),
        times: &[],
        how: "usable bytes a second, gen5x8 over gen2x8",
        why: "8b/10b became 128b/130b: the usable rate grows 7.9 times. And the fixed times do not scale at all.",
        ours: |_| one("usable rate", link_rates()),
    },
    Claim {
        id: "bs-m-35",
        topic: Topic::Workloads,
        paper: MICRO,
        says: "Almost 70 % of the values of W(M) are below 35 bytes",
        figure: Figure::Percent(70.0),
        times: &[],
        how: "share of sizes up to 35 bytes in 100,000 drawn sizes",
        why: "The distribution itself has 69.1 %, which is almost 70.",
        ours: |measured| {
            let sizes = if measured.workloads.is_empty() {
                vec![]
            } else {
                Workload::M.sizes(100_000, measured.seed)
            };
            let small = sizes.iter().filter(|&&size| size <= 35).count() as f64;
            let share = (!sizes.is_empty()).then(|| small * 100.0 / sizes.len() as f64);
            one("drawn sizes", share.map(Figure::Percent))
        },
    },
    Claim {
        id: "bs-m-traffic",
        topic: Topic::Workloads,
        paper: MICRO,
        says: "W(M): adaptive moves 93.3 % less than PRP",
        figure: Figure::Percent(93.3),
        times: &[],
        how: "adaptive by threshold over piggyback against prp",
        why: "",
        ours: |measured| workload_traffic_saved(measured, COSMOS, "M", ("adaptive-p", "prp")),
    },
    Claim {
        id: "bs-m-throughput",
        topic: Topic::Workloads,
        paper: MICRO,
        says: "W(M): adaptive has 12 % more throughput than piggyback",
        figure: Figure::Percent(12.0),
        times: &[Statement {
            over: Time::workload(By::Method(PIGGYBACK), Workload::M),
            under: Time::workload(ADAPTIVE_GEN2, Workload::M),
            range: Range::around(1.12, 0.005),
        }],
        how: "modelled operations a second, adaptive by threshold against piggyback",
        why: "Counting commands alone, 4.1 % of the values gain; that bounds it to about 7.5 % where PRP takes two \
              commands' time.",
        ours: |measured| {
            let ratio = throughput_ratio(measured, COSMOS, "M", ("adaptive-p", "piggyback"));
            one("modelled time", ratio.map(|ratio| Figure::Percent((ratio - 1.0) * 100.0)))
        },
    },
    Claim {
        id: "bs-c-throughput",
        topic: Topic::Workloads,
        paper: MICRO,
        says: "W(C): adaptive has nearly 13 times the throughput of piggyback",
        figure: Figure::Times(13.0),
        times: &[Statement {
            over: Time::workload(By::Method(PIGGYBACK), Workload::C),
            under: Time::workload(ADAPTIVE_GEN2, Workload::C),
            range: Range::times(13.0),
        }],
        how: "modelled operations a second, adaptive by threshold against piggyback",
        why: "2 KiB take 37 piggyback commands. 13 times needs PRP to take 2.7 times one command.",
        ours: |measured| {
            let ratio = throughput_ratio(measured, COSMOS, "C", ("adaptive-p", "piggyback"));
            one("modelled time", ratio.map(Figure::Times))
        },
    },
    Claim {
        id: "bs-c-traffic",
        topic: Topic::Workloads,
        paper: MICRO,
        says: "W(C): adaptive moves 18 % more than piggyback",
        figure: Figure::Percent(18.0),
        times: &[],
        how: "adaptive by threshold against piggyback",
        why: "",
        ours: |measured| more_traffic(measured, "C", ("adaptive-p", "piggyback")),
    },
    Claim {
        id: "bs-cxl-workloads",
        topic: Topic::Workloads,
        paper: MICRO,
        says: "CXL-FGT moves less than piggyback in all workloads but W(M) (68 bytes a line)",
        figure: Figure::Holds(true),
        times: &[],
        how: "cxl against piggyback in B, C, D and M",
        why: "The paper's 68 bytes a line leave out the header slot. With it, 85 to 136 bytes and an answer, the \
              wire account may turn.",
        ours: cxl_less_but_in_m,
    },
    Claim {
        id: "bs-cxl-throughput",
        topic: Topic::Workloads,
        paper: MICRO,
        says: "CXL-FGT has more throughput than piggyback in all workloads (Gen5)",
        figure: Figure::Holds(true),
        times: &Statement::workloads_on_gen5(By::Method(PIGGYBACK), By::Method(CXL), Range::at_least(1.0)),
        how: "modelled operations a second in B, C, D and M",
        why: "In W(M) 69 % of the values fit one command, and CXL-FGT pays its stores for them all.",
        ours: |measured| every_workload(measured, ("cxl", "piggyback"), |cxl, other| cxl > other),
    },
    Claim {
        id: "bs-adaptive-p-best",
        topic: Topic::Workloads,
        paper: MICRO,
        says: "Adaptive over piggyback has the best throughput in all workloads (Gen5)",
        figure: Figure::Holds(true),
        times: &ADAPTIVE_BEST,
        how: "against prp, piggyback, cxl and adaptive over cxl, in B, C, D and M; ties within 1 % allowed",
        why: "It can be no better than PRP above the threshold, where our CXL stores are quicker than PRP.",
        ours: |measured| {
            let holds = ["prp", "piggyback", "cxl", "adaptive-c"].map(|other| {
                every_workload(measured, ("adaptive-p", other), |best, other| best >= 0.99 * other)
            });
            let all = holds.iter().flatten().all(|ours| ours.figure == Figure::Holds(true));
            one("modelled time", (!holds.iter().all(Vec::is_empty)).then_some(Figure::Holds(all)))
        },
    },
    Claim {
        id: "bs-nand",
        topic: Topic::Packing,
        paper: ICPP,
        says: "98.1 % fewer NAND page writes, at most",
        figure: Figure::Percent(98.1),
        times: &[],
        how: "pages programmed with packing against one value in each 4 KiB, best of the mixed workloads",
        why: "The most that packing can save is 1 − s/4096 for a mean value of s bytes and its record's header; 98.1 \
              is that of 78 bytes. Which workload gave it was not published.",
        ours: |measured| {
            let saved = measured
                .packing
                .iter()
                .map(|point| percent_less(point.nand_pages as f64, point.baseline_pages as f64))
                .reduce(f64::max);
            one("pages", saved.map(Figure::Percent))
        },
    },
];

fn calibrated(measured: &Measured, setting: &str, below: &str) -> Vec<Ours> {
    let Some(found) = measured.threshold(setting, below) else { return Vec::new() };
    let bytes = |size: u32| Figure::Bytes(size.into());
    let mut ours = one("powers of two", found.tried_bytes.map(bytes));
    ours.append(&mut one("to the byte", found.tau_bytes.map(bytes)));
    ours
}

/// Compares modelled times at every measured size on Gen5.
fn every_size(
    measured: &Measured,
    methods: (&str, &str),
    sizes: std::ops::RangeInclusive<u32>,
    holds: fn(f64, f64) -> bool,
) -> Vec<Ours> {
    let times = |(row, base): (&TransferRow, &TransferRow)| Some((row.model_ns_mean?, base.model_ns_mean?));
    let times = pairs(measured, COSMOS_GEN5, methods, sizes).filter_map(times);
    one("modelled time", for_all(times, |(row, base)| holds(row, base)))
}

fn both<'a>(
    measured: &'a Measured,
    workload: &str,
    (label, base): (&str, &str),
) -> Option<(&'a WorkloadRow, &'a WorkloadRow)> {
    let row = measured.workload(COSMOS_GEN5, label, workload)?;
    Some((row, measured.workload(COSMOS_GEN5, base, workload)?))
}

/// Compares modelled throughputs in every workload on Gen5.
fn every_workload(measured: &Measured, labels: (&str, &str), holds: fn(f64, f64) -> bool) -> Vec<Ours> {
    let ops = MIXED.into_iter().filter_map(|workload| {
        let (row, base) = both(measured, workload, labels)?;
        Some((row.ops_per_s_model?, base.ops_per_s_model?))
    });
    one("modelled time", for_all(ops, |(row, base)| holds(row, base)))
}

fn cxl_less_but_in_m(measured: &Measured) -> Vec<Ours> {
    let account = |by: &'static str, bytes: fn(&TransferRow) -> f64| {
        let rows =
            MIXED.into_iter().filter_map(|name| Some((name, both(measured, name, ("cxl", "piggyback"))?)));
        let figure = for_all(rows, |(name, (cxl, piggyback))| {
            (bytes(&cxl.put) < bytes(&piggyback.put)) == (name != "M")
        });
        one(by, figure)
    };
    let mut ours = account("payload", |row| row.payload_bytes);
    ours.append(&mut account("wire", |row| row.wire_bytes));
    ours
}

/// How many percent more one run moves than another, on the drive as it is.
fn more_traffic(measured: &Measured, workload: &str, labels: (&str, &str)) -> Vec<Ours> {
    let mut ours = workload_traffic_saved(measured, COSMOS, workload, labels);
    ours.iter_mut().for_each(|ours| {
        if let Figure::Percent(less) = ours.figure {
            ours.figure = Figure::Percent(-less);
        }
    });
    ours
}

fn link_rates() -> Option<Figure> {
    let slow: byway_link::PcieLink = "gen2x8".parse().ok()?;
    let fast: byway_link::PcieLink = "gen5x8".parse().ok()?;
    Some(Figure::Times(slow.femtoseconds_per_byte() as f64 / fast.femtoseconds_per_byte() as f64))
}
