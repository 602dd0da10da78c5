//! What fuzzers call: one function a target, any bytes in, a panic if a promise is broken.
//!
//! `fuzz/` at the root of the tree runs them under libFuzzer; `tests/smoke.rs` here runs each over its committed
//! corpus and a bounded number of further inputs, on stable Rust.

mod admin;
mod answers;
mod authentication;
mod capsules;
mod compute;
mod compute_commands;
mod controller;
mod fabrics;
mod image;
mod input;
mod kv_image;
mod machine;
mod page_store;
mod programs;
mod results;
mod tcp;
mod tcp_initiator;
mod tcp_target;
mod tdm;
mod tls;
mod uri;
mod vfio_user;
mod vfio_user_device;

/// A target: its name, also that of its corpus folder, and its function.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: [Target; 42] = [
    ("controller", controller::controller),
    ("capsules", capsules::capsules),
    ("compute_commands", compute_commands::compute_commands),
    ("sql", compute::sql),
    ("parquet", compute::parquet),
    ("ebpf", programs::ebpf),
    ("wasm", programs::wasm),
    ("prp", byway_dma::fuzz::prp),
    ("sgl", byway_dma::fuzz::sgl),
    ("uri", uri::uri),
    ("results", results::results),
    ("admin", admin::admin),
    ("vfio_user", vfio_user::vfio_user),
    ("vfio_user_session", vfio_user_device::session),
    ("vfio_user_access", vfio_user_device::accesses),
    ("tcp_from_host", tcp::from_host),
    ("tcp_from_controller", tcp::from_controller),
    ("tcp_target", tcp_target::target),
    ("tcp_initiator", tcp_initiator::initiator),
    ("fabrics", fabrics::fabrics),
    ("authentication", authentication::authentication),
    ("tls", tls::tls),
    ("tdm_log", tdm::log),
    ("tdm_table", tdm::table),
    ("tdm_messages", tdm::messages),
    ("kv_image", kv_image::kv_image),
    ("image_superblock", |bytes| image::image("superblock", bytes)),
    ("image_state", |bytes| image::image("device state", bytes)),
    ("image_namespaces", |bytes| image::image("namespace table", bytes)),
    ("image_areas", |bytes| image::image("area table", bytes)),
    ("image_blocks", |bytes| image::image("block table", bytes)),
    ("image_buffer", |bytes| image::image("unit buffer", bytes)),
    ("image_presence", |bytes| image::image("map presence", bytes)),
    ("image_map", |bytes| image::image("map", bytes)),
    ("image_spare", |bytes| image::image("spare records", bytes)),
    ("kv_header", |bytes| kv_image::kv_part("key-value header", bytes)),
    ("kv_root", |bytes| kv_image::kv_part("manifest root", bytes)),
    ("kv_streams", |bytes| kv_image::kv_part("streams", bytes)),
    ("kv_segments", |bytes| kv_image::kv_part("segment table", bytes)),
    ("kv_manifests", |bytes| kv_image::kv_part("manifests", bytes)),
    ("kv_rings", |bytes| kv_image::kv_part("ring of the log", bytes)),
    ("kv_pages", |bytes| kv_image::kv_part("pages", bytes)),
];

/// The target called `name`.
///
/// # Panics
/// If there is none: the message lists the names.
pub fn find(name: &str) -> Target {
    let found = TARGETS.into_iter().find(|(known, _)| *known == name);
    found.unwrap_or_else(|| panic!("no target {name:?}; there are {:?}", TARGETS.map(|(known, _)| known)))
}

/// Runs the target called `name` on `bytes`.
///
/// # Panics
/// If the target's property is violated, or there is no such target.
pub fn run(name: &str, bytes: &[u8]) {
    let (_, target) = find(name);
    target(bytes);
}
