//! Local memory, programs and Exec over every backend that carries their commands.

#![allow(clippy::unwrap_used)]

use std::num::NonZeroU16;

use byway::Device;
use byway::serve::{Idle, ServeOptions, TcpOptions};
use byway_conformance::scratch::Scratch;
use byway_conformance::served::Serving;

/// A device, with its server if it has one.
struct Reached {
    // Dropped first: it is shut down while it is still served.
    device: Device,
    _serving: Option<Serving>,
}

/// A device in memory over whose values some programs may run, for as long as a busy machine may take for a test.
fn uri(more: &str) -> String {
    format!("embedded-ram:64M?program-time=600&{}{more}", byway_conformance::exec::OPTION)
}

fn here(uri: &str) -> Reached {
    Reached { device: byway::open(uri).unwrap(), _serving: None }
}

fn in_process(_: &Scratch) -> Reached {
    here(&uri(""))
}

fn in_process_by_a_thread(_: &Scratch) -> Reached {
    here(&uri("&run=thread"))
}

fn in_process_by_inline_reads(_: &Scratch) -> Reached {
    here(&uri("&inline-read=on"))
}

fn by_vfio_user(
    scratch: &Scratch,
    query: &str,
    change: impl FnOnce(ServeOptions) -> ServeOptions,
) -> Reached {
    let socket = scratch.path.with_file_name("socket");
    let serving = Serving::start_with(&uri(""), &change(ServeOptions::at(&socket)));
    let device = byway::open(&format!("vfio-user:{}{query}", socket.display())).unwrap();
    Reached { device, _serving: Some(serving) }
}

fn vfio_user(scratch: &Scratch) -> Reached {
    by_vfio_user(scratch, "", |options| options)
}

fn vfio_user_by_inline_reads(scratch: &Scratch) -> Reached {
    by_vfio_user(scratch, "?inline-read=on&ring=16", |options| options)
}

fn vfio_user_by_threads_that_poll(scratch: &Scratch) -> Reached {
    by_vfio_user(scratch, "", |options| options.threads(NonZeroU16::new(2).unwrap()).idle(Idle::Poll))
}

fn tcp(_: &Scratch) -> Reached {
    let options = ServeOptions::over_tcp(TcpOptions::at("127.0.0.1:0".parse().unwrap()));
    let serving = Serving::start_with(&uri(""), &options);
    let device = serving.open("").unwrap();
    Reached { device, _serving: Some(serving) }
}

/// A module of tests for one way to a device.
macro_rules! programs {
    ($($reached:ident)*) => {
        $(mod $reached {
            programs! { @cases programs $reached:
                memory_is_what_was_written_filled_and_copied,
                blocks_are_copied_to_memory,
                memory_refuses_what_it_cannot_do,
                programs_run_over_ranges_of_memory,
                long_programs_run_to_their_end,
                programs_refuse_what_they_cannot_do,
                a_program_that_loops_goes_on_beside_other_commands_until_it_is_aborted,
                a_program_ends_with_its_memory_and_with_its_queue,
            }
            programs! { @cases exec $reached:
                exec_gives_the_output_of_a_program_over_a_value,
                exec_refuses_what_it_may_not_run,
                exec_that_loops_goes_on_beside_other_commands_until_it_is_aborted,
            }
        })*
    };
    (@cases $subject:ident $reached:ident: $($case:ident,)*) => {
        $(
            #[test]
            fn $case() {
                let scratch = byway_conformance::scratch::Scratch::new();
                byway_conformance::$subject::$case(&super::$reached(&scratch).device);
            }
        )*
    };
}

programs! {
    in_process in_process_by_a_thread in_process_by_inline_reads
    vfio_user vfio_user_by_inline_reads vfio_user_by_threads_that_poll
    tcp
}
