//! libFuzzer's entry: `BYWAY_FUZZ_TARGET` names the target of `byway_fuzz_targets` that gets the inputs.
#![no_main]

use std::sync::LazyLock;

use byway_fuzz_targets::{Target, find};
use libfuzzer_sys::fuzz_target;

static TARGET: LazyLock<Target> = LazyLock::new(|| find(&std::env::var("BYWAY_FUZZ_TARGET").unwrap_or_default()));

fuzz_target!(|data: &[u8]| (TARGET.1)(data));
