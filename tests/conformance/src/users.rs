//! Other users of this machine: a thread can act as one where the test program runs as root.

use rustix::process::{Gid, Uid};

/// User ID of the least rights on every Linux; it owns no file.
pub const UNPRIVILEGED: u32 = 65_534;

/// Runs a closure in a thread of another user, which need not exist on this machine. Needs root.
pub fn as_user<T: Send>(uid: u32, act: impl FnOnce() -> T + Send) -> T {
    let act = || {
        become_user(uid);
        act()
    };
    std::thread::scope(|scope| scope.spawn(act).join().unwrap())
}

/// Makes this thread another user's, and no other thread.
fn become_user(uid: u32) {
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(uid));
    rustix::thread::set_thread_groups(&[]).unwrap();
    rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
    rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
}
