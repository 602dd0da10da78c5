//! Flipped bits anywhere in an image: found by checksum, named, and contained to what they hit.
#![allow(clippy::unwrap_used)]

use byway_crash_tests::flip::everywhere;

#[test]
fn a_flipped_bit_is_found_or_harmless_and_takes_nothing_beside_what_it_hit() {
    let dir = tempfile::tempdir().unwrap();
    let mut broken = Vec::new();
    let tallies = everywhere(&dir.path().join("image"), 256, &mut |said| broken.push(said)).unwrap();
    for tallied in &tallies {
        println!("{tallied:?}");
    }
    assert_eq!(broken, Vec::<String>::new());
    let sum =
        |of: fn(&byway_crash_tests::flip::Tally) -> u64| tallies.iter().map(|t| of(&t.tally)).sum::<u64>();
    assert!(sum(|tally| tally.flips) > 300 && sum(|tally| tally.refused) > 0);
    assert!(sum(|tally| tally.found_by_reads) > 20 && sum(|tally| tally.found_by_check) > 20);
    assert!(tallies.iter().map(|tallied| tallied.repaired.flips).sum::<u64>() > 0);
}
