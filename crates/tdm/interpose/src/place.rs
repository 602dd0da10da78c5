//! The calling thread's mark in the shared file table.
//!
//! A thread-local of the initial-exec model: two instructions. Rust's thread-locals in a library take a call and twenty.

use byway_tdm_engine::client::ThreadPlace;

#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".pushsection .tbss.byway_tdm_place, \"awT\", @nobits",
    ".p2align 3",
    ".globl byway_tdm_place",
    ".hidden byway_tdm_place",
    ".type byway_tdm_place, @object",
    ".size byway_tdm_place, 8",
    "byway_tdm_place:",
    ".zero 8",
    ".popsection",
);

/// The calling thread's word. It cannot be sent to other threads.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn own() -> &'static ThreadPlace {
    let place: *const ThreadPlace;
    // SAFETY: computes an address: where the thread's words are, and how far from there the loader has put this one.
    unsafe {
        std::arch::asm!(
            "mov {place}, qword ptr [rip + byway_tdm_place@GOTTPOFF]",
            "add {place}, qword ptr fs:[0]",
            place = out(reg) place,
            options(nostack, pure, readonly),
        );
    }
    // SAFETY: eight bytes, aligned, zeroes at first, the calling thread's alone and there for as long as it is.
    unsafe { &*place }
}

/// The calling thread's word.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn own() -> &'static ThreadPlace {
    thread_local!(static PLACE: ThreadPlace = const { ThreadPlace::new() });
    let place: *const ThreadPlace = PLACE.with(std::ptr::from_ref);
    // SAFETY: it has nothing to drop and is there for as long as its thread; no other one is given it.
    unsafe { &*place }
}
