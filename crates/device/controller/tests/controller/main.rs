//! The controller from outside, as a host sees it. One program: what all share is built once.
#![allow(clippy::unwrap_used)]

mod admin_effects;
mod admin_features;
mod admin_identify;
mod admin_logs;
mod admin_namespaces;
mod admin_queues;
mod admin_random;
mod admin_reset;
mod admin_sanitize;
mod admin_telemetry;
mod common;
mod data_pointers;
mod delegated_queues;
mod exported;
mod fused_commands;
mod host_counters;
mod inline_capsules;
mod inline_reads;
mod io;
mod kv_batches;
mod kv_commands;
mod kv_model;
mod kv_retrieve_many;
mod kv_scan;
mod kv_windows;
mod media_faults;
mod modelled_time;
mod nvm_commands;
mod nvm_model;
mod programs;
mod random_commands;
mod shadow_doorbells;
mod stalls;
mod synced_completions;
mod transfer_methods;
