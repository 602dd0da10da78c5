//! What ByteExpress (HotStorage'25) claims: Cosmos+, PCIe Gen2 x8, NAND off, a million writes a point.

use byway::Method;

use super::super::measured::COSMOS;
use super::reckon::{most_time_saved, most_traffic_saved, time_crossing, traffic_over};
use super::times::{Range, Statement};
use super::{Claim, Figure, Topic};

const SLIDES: &str = "ByteExpress, slides";
const ABSTRACT: &str = "ByteExpress, abstract";
const README: &str = "ByteExpress, repository";
const INLINE: Method = Method::Inline;
const PIGGYBACK: Method = Method::Piggyback;
const PRP: Method = Method::Prp;

pub const CLAIMS: &[Claim] = &[
    Claim {
        id: "be-130",
        topic: Topic::Traffic,
        paper: SLIDES,
        says: "A 32-byte payload by PRP moves 4 KB, more than 130 times its size",
        figure: Figure::Times(130.0),
        times: &[],
        how: "bytes of a 32-byte put by prp, over 32",
        why: "",
        ours: |measured| traffic_over(measured, (COSMOS, "prp", 32), 32.0),
    },
    Claim {
        id: "be-96.3",
        topic: Topic::Traffic,
        paper: SLIDES,
        says: "Up to 96.3 % less traffic than PRP below 4 KB",
        figure: Figure::Percent(96.3),
        times: &[],
        how: "inline against prp, best size below 4 KiB",
        why: "",
        ours: |measured| most_traffic_saved(measured, COSMOS, ("inline", "prp"), 1..=4095),
    },
    Claim {
        id: "be-39.8",
        topic: Topic::Traffic,
        paper: SLIDES,
        says: "Up to 39.8 % less traffic than BandSlim from 64 bytes to 4 KB",
        figure: Figure::Percent(39.8),
        times: &[],
        how: "inline against piggyback, best size from 64 bytes to 4 KiB",
        why: "The best size is 4 KiB, where piggyback sends 74 commands; 39.8 needs 30 bytes a command beside \
              command and data, between the account with the interrupt (28) and the one with a pointer read (32).",
        ours: |measured| most_traffic_saved(measured, COSMOS, ("inline", "piggyback"), 64..=4096),
    },
    Claim {
        id: "be-98",
        topic: Topic::Traffic,
        paper: ABSTRACT,
        says: "Up to 98 % less traffic",
        figure: Figure::Percent(98.0),
        times: &[],
        how: "inline against prp, best size of all",
        why: "One chunk over one page is 98.4 %. No account that has the command and its completion in it reaches \
              98 %; the slides of the same paper say 96.3 %.",
        ours: |measured| most_traffic_saved(measured, COSMOS, ("inline", "prp"), 1..=1 << 20),
    },
    Claim {
        id: "be-latency-prp",
        topic: Topic::Latency,
        paper: SLIDES,
        says: "Up to 40.4 % less latency than PRP from 32 to 128 bytes",
        figure: Figure::Percent(40.4),
        times: &[Statement::puts(INLINE, PRP, 32, Range::percent_less(40.4))],
        how: "inline against prp, best size from 32 to 128 bytes",
        why: "In our model the firmware takes a chunk by 17 uncached register reads of 160 ns, longer than it \
              takes to start and move a page; both figures come from the sources named in the profile. It needs a page that \
              takes 8 µs or more beyond what is known of it: see cosmos-fitted.",
        ours: |measured| most_time_saved(measured, COSMOS, ("inline", "prp"), 32..=128),
    },
    Claim {
        id: "be-latency-bandslim",
        topic: Topic::Latency,
        paper: SLIDES,
        says: "72 % less latency than BandSlim at 128 bytes",
        figure: Figure::Percent(72.0),
        times: &[Statement::puts(INLINE, PIGGYBACK, 128, Range::percent_less(72.0))],
        how: "inline against piggyback at 128 bytes",
        why: "128 bytes take three piggyback commands: against one that takes as long, two thirds is the most that can be \
              saved, with chunks that cost nothing. No fit reproduces it.",
        ours: |measured| most_time_saved(measured, COSMOS, ("inline", "piggyback"), 128..=128),
    },
    Claim {
        id: "be-latency-abstract-prp",
        topic: Topic::Latency,
        paper: ABSTRACT,
        says: "40 % lower latency than PRP for payloads below a page",
        figure: Figure::Percent(40.0),
        // The slides' 40.4, rounded.
        times: &[Statement::puts(INLINE, PRP, 32, Range::between(0.595, 0.605))],
        how: "inline against prp, best size below 4 KiB",
        why: "As for the slides' 40.4 %: the chunk's register reads.",
        ours: |measured| most_time_saved(measured, COSMOS, ("inline", "prp"), 1..=4095),
    },
    Claim {
        id: "be-latency-abstract-sota",
        topic: Topic::Latency,
        paper: ABSTRACT,
        says: "39 % lower latency than a state-of-the-art approach",
        figure: Figure::Percent(39.0),
        // Neither size nor method is named: read at 64 bytes of BandSlim, where the two begin to part.
        times: &[Statement::puts(INLINE, PIGGYBACK, 64, Range::percent_less(39.0))],
        how: "inline against piggyback at 64 bytes, where the two begin to part",
        why: "The slides give 39.8 % as traffic and 72 % as latency; the abstract does not name a size.",
        ours: |measured| most_time_saved(measured, COSMOS, ("inline", "piggyback"), 64..=64),
    },
    Claim {
        id: "be-256",
        topic: Topic::Latency,
        paper: README,
        says: "Use it up to 256 bytes; above, PRP is quicker",
        figure: Figure::Bytes(256.0),
        // Advice in powers of two: at the next one PRP is quicker.
        times: &[
            Statement::puts(INLINE, PRP, 256, Range::at_most(1.0)),
            Statement::puts(INLINE, PRP, 512, Range::at_least(1.0)),
        ],
        how: "size at which inline takes as long as prp",
        why: "A chunk costs 17 uncached register reads of 160 ns in our model, a page of PRP one round trip and the \
              wire: their ratio sets the crossing. Neither time was published.",
        ours: |measured| time_crossing(measured, COSMOS, ("inline", "prp")),
    },
];
