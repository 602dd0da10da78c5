#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| byway_fuzz_targets::run("admin", data));
