//! What fuzzers call: one function a target, any bytes in, a panic if a promise is broken.
//!
//! `fuzz/` at the root of the tree runs them under libFuzzer; `tests/smoke.rs` here runs each over its committed
//! corpus and a bounded number of further inputs, on stable Rust.

mod capsules;
mod controller;
mod input;
mod kv_image;
mod machine;
mod page_store;
mod uri;

/// A target: its name, which is its corpus folder's, and what it does with an input.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: [Target; 6] = [
    ("controller", controller::controller),
    ("capsules", capsules::capsules),
    ("prp", byway_dma::fuzz::prp),
    ("sgl", byway_dma::fuzz::sgl),
    ("uri", uri::uri),
    ("kv_image", kv_image::kv_image),
];

/// Runs the target called `name` on `bytes`.
///
/// # Panics
/// If a promise is broken, or there is no such target.
pub fn run(name: &str, bytes: &[u8]) {
    let found = TARGETS.iter().find(|(known, _)| *known == name);
    let (_, target) = found.unwrap_or_else(|| panic!("no target {name}"));
    target(bytes);
}
