//! Every fuzz target over its committed corpus, and over inputs made from it: mutated, joined, cut, and noise.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use byway_fuzz_targets::{TARGETS, run};
use byway_kit::Random;

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| fs::read(path).unwrap()).collect()
}

/// Runs one input; prints it in hexadecimal if it violates the target's property.
fn try_input(name: &str, bytes: &[u8]) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(name, bytes))) {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        eprintln!("{name}: broken by {hex}");
        std::panic::resume_unwind(panic);
    }
}

fn made_from(corpus: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut bytes = corpus.get(random.index(corpus.len())).cloned().unwrap_or_default();
    if random.index(4) == 0 {
        let other = corpus.get(random.index(corpus.len())).cloned().unwrap_or_default();
        bytes.truncate(random.index(bytes.len() + 1));
        bytes.extend_from_slice(&other[random.index(other.len() + 1)..]);
    }
    if random.index(8) == 0 {
        bytes = (0..random.index(600)).map(|_| random.next() as u8).collect();
    }
    for _ in 0..random.index(9) {
        let at = random.index(bytes.len() + 1);
        match random.index(4) {
            0 => bytes.insert(at, random.next() as u8),
            1 if at < bytes.len() => _ = bytes.remove(at),
            2 if at < bytes.len() => bytes[at] ^= 1 << random.index(8),
            _ if at < bytes.len() => bytes[at] = random.next() as u8,
            _ => {}
        }
    }
    bytes
}

/// The corpus, and `inputs` made from it; more of them by `BYWAY_FUZZ_INPUTS`, others by `BYWAY_FUZZ_SEED`.
fn smoke(name: &str, inputs: u64) {
    let number = |name| std::env::var(name).ok().and_then(|value| value.parse().ok());
    let corpus = corpus(name);
    assert!(!corpus.is_empty());
    corpus.iter().for_each(|bytes| try_input(name, bytes));
    let mut random = Random::new(number("BYWAY_FUZZ_SEED").unwrap_or(0));
    for _ in 0..number("BYWAY_FUZZ_INPUTS").unwrap_or(inputs) {
        try_input(name, &made_from(&corpus, &mut random));
    }
}

#[test]
fn controller_neither_panics_nor_hangs_nor_accesses_unmapped_memory() {
    smoke("controller", 1000);
}

#[test]
fn chunks_with_a_wrong_length_are_never_read_as_commands() {
    smoke("capsules", 500);
}

#[test]
fn commands_of_queries_memory_and_programs_neither_panic_nor_hang() {
    smoke("compute_commands", 1000);
}

#[test]
fn any_text_is_a_query_that_ends_or_is_refused() {
    smoke("sql", 5000);
}

#[test]
fn any_object_is_queried_or_named_damaged() {
    smoke("parquet", 2000);
}

#[test]
fn any_program_is_refused_or_stays_within_its_range() {
    smoke("ebpf", 20_000);
    smoke("wasm", 2000);
}

#[test]
fn any_page_list_ends_in_segments_that_add_up_or_in_a_status() {
    smoke("prp", 5000);
}

#[test]
fn any_scatter_gather_list_ends_in_segments_that_add_up_or_in_a_status() {
    smoke("sgl", 5000);
}

#[test]
fn any_text_is_a_uri_or_an_error() {
    smoke("uri", 20_000);
}

#[test]
fn results_and_requests_of_any_bytes_stay_within_them_and_round_trip() {
    smoke("results", 20_000);
}

#[test]
fn admin_frames_of_any_bytes_round_trip() {
    smoke("admin", 20_000);
}

#[test]
fn vfio_user_messages_do_not_depend_on_pieces_and_round_trip() {
    smoke("vfio_user", 20_000);
}

#[test]
fn vfio_user_device_answers_each_command_once_and_serves_the_next_client() {
    smoke("vfio_user_session", 500);
}

#[test]
fn an_access_is_refused_where_it_is_outside_and_nowhere_else() {
    smoke("vfio_user_access", 500);
}

#[test]
fn tcp_target_answers_each_command_once_and_serves_the_next_host() {
    smoke("tcp_target", 500);
}

#[test]
fn tcp_initiator_ends_each_command_once_and_returns_its_memory() {
    smoke("tcp_initiator", 3000);
}

#[test]
fn tdm_log_replay_of_any_bytes_ends_and_stays_within_the_ring() {
    smoke("tdm_log", 20_000);
}

#[test]
fn tdm_table_slot_of_any_bytes_is_damaged_or_round_trips() {
    smoke("tdm_table", 3000);
}

#[test]
fn tdm_messages_of_any_bytes_round_trip() {
    smoke("tdm_messages", 20_000);
}

#[test]
fn tcp_host_pdus_do_not_depend_on_pieces_and_round_trip() {
    smoke("tcp_from_host", 20_000);
}

#[test]
fn tcp_controller_pdus_do_not_depend_on_pieces_and_round_trip() {
    smoke("tcp_from_controller", 20_000);
}

#[test]
fn fabrics_structures_of_any_bytes_round_trip() {
    smoke("fabrics", 20_000);
}

#[test]
fn a_host_without_its_secret_is_never_authenticated_whatever_it_sends() {
    smoke("authentication", 20_000);
}

#[test]
fn a_host_without_its_key_is_never_let_in_by_tls_whatever_it_sends() {
    smoke("tls", 5_000);
}

#[test]
fn a_changed_key_value_namespace_is_refused_or_usable_whatever_its_checksums_say() {
    smoke("kv_image", 1000);
}

/// The structures of the flash, each by itself.
#[test]
fn an_image_with_a_changed_structure_is_refused_or_usable_and_can_be_checked_and_repaired() {
    for (name, _) in TARGETS.iter().filter(|(name, _)| name.starts_with("image_")) {
        smoke(name, 40);
    }
}

/// The structures of a key-value namespace, each by itself.
#[test]
fn a_namespace_with_a_changed_structure_is_refused_or_usable_and_can_be_checked_and_repaired() {
    for (name, _) in TARGETS.iter().filter(|(name, _)| name.starts_with("kv_") && *name != "kv_image") {
        smoke(name, 100);
    }
}
