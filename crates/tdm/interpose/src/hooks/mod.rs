//! Interposed symbols.

// Variadic functions whose arguments only the caller and the real function know: registers and stack are kept, and the real function returns to
// the caller. `behind` gets the name and the first argument.
#[cfg(target_arch = "x86_64")]
macro_rules! in_front {
    ($behind:ident: $($name:ident)*) => {
        $(
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name() {
                static NAME: &[u8] = concat!(stringify!($name), "\0").as_bytes();
                std::arch::naked_asm!(
                    "push rdi",
                    "push rsi",
                    "push rdx",
                    "push rcx",
                    "push r8",
                    "push r9",
                    "push rax",
                    "sub rsp, 128",
                    "movups [rsp], xmm0",
                    "movups [rsp + 16], xmm1",
                    "movups [rsp + 32], xmm2",
                    "movups [rsp + 48], xmm3",
                    "movups [rsp + 64], xmm4",
                    "movups [rsp + 80], xmm5",
                    "movups [rsp + 96], xmm6",
                    "movups [rsp + 112], xmm7",
                    "mov rsi, rdi",
                    "mov rdi, [rip + {name}]",
                    "call {behind}",
                    "mov r11, rax",
                    "movups xmm0, [rsp]",
                    "movups xmm1, [rsp + 16]",
                    "movups xmm2, [rsp + 32]",
                    "movups xmm3, [rsp + 48]",
                    "movups xmm4, [rsp + 64]",
                    "movups xmm5, [rsp + 80]",
                    "movups xmm6, [rsp + 96]",
                    "movups xmm7, [rsp + 112]",
                    "add rsp, 128",
                    "pop rax",
                    "pop r9",
                    "pop r8",
                    "pop rcx",
                    "pop rdx",
                    "pop rsi",
                    "pop rdi",
                    "jmp r11",
                    name = sym NAME,
                    behind = sym $behind,
                )
            }
        )*
    };
}
#[cfg(target_arch = "x86_64")]
use in_front;

mod aliases;
mod attributes;
mod close;
mod confine;
mod names;
mod open;
mod process;
mod raw_syscall;
mod read;
mod resident;
mod seek;
mod size;
mod stat;
mod stream;
mod sync;
mod untracked;
mod write;

use std::ffi::c_int;

use crate::{real, state};

/// The real sync of a descriptor, with its error as a value.
pub(crate) fn below(fd: c_int) -> impl Fn() -> Result<(), c_int> {
    // SAFETY: takes a number; an invalid one gives an error.
    move || match unsafe { real::fdatasync(fd) } {
        0 => Ok(()),
        _ => Err(state::errno()),
    }
}
