//! Regions from outside: one suite over all of them, what each refuses, and what is given to others.
#![allow(clippy::unwrap_used)]

mod given;
mod modelled;
mod refused;
mod suite;
mod support;
