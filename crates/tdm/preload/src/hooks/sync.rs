//! Syncs. What is asked of part of a file (sync_file_range) promises nothing and goes to the kernel unseen.

use std::ffi::c_int;

use byway_tdm_client::Extent;

use super::home::answer;
use crate::calm::cancellation_point;
use crate::{real, state};

fn synced(fd: c_int, extent: Extent, real: impl Fn() -> c_int) -> c_int {
    cancellation_point();
    let Some(file) = state::file(fd).or_else(|| state::found(fd)) else { return real() };
    let before = state::errno();
    let below = || match real() {
        0 => Ok(()),
        _ => Err(state::errno()),
    };
    if file.is_home()
        && let Some(done) = answer(file.sync_home(extent, below), |()| 0)
    {
        return done;
    }
    match file.sync(extent, below) {
        Ok(()) => {
            file.come_home();
            state::set_errno(before);
            0
        }
        Err(error) => {
            state::set_errno(error);
            -1
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fsync(fd: c_int) -> c_int {
    synced(fd, Extent::All, || unsafe { real::fsync(fd) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fdatasync(fd: c_int) -> c_int {
    synced(fd, Extent::Data, || unsafe { real::fdatasync(fd) })
}
