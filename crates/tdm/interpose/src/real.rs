//! The interposed functions' next definitions, mostly the C library's.

use std::ffi::{CStr, c_char, c_int, c_long, c_uint, c_ulong, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{
    FILE, gid_t, iovec, mmsghdr, mode_t, msghdr, off_t, pid_t, size_t, ssize_t, timespec, timeval, uid_t,
    utimbuf,
};

/// Looks a symbol up behind this library. A missing one ends the program, as its loader would.
#[cold]
#[inline(never)]
pub(crate) fn next(name: &CStr) -> *mut c_void {
    // SAFETY: a valid name; RTLD_NEXT looks behind this library.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if found.is_null() {
        let said = b"byway: a function that this program calls is in no library behind this one\n";
        // SAFETY: a valid buffer of this length.
        unsafe { libc::syscall(libc::SYS_write, 2, said.as_ptr(), said.len()) };
        // SAFETY: takes nothing.
        unsafe { libc::abort() };
    }
    found
}

macro_rules! real {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)*) => {
        $(
            #[inline]
            #[allow(non_snake_case, reason = "as the C library has it")]
            pub(crate) unsafe fn $name($($argument: $type),*) -> $answer {
                static REAL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
                let mut real = REAL.load(Ordering::Relaxed);
                if real.is_null() {
                    const NAME: &CStr = match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                        Ok(name) => name,
                        Err(_) => panic!("a name"),
                    };
                    real = next(NAME);
                    REAL.store(real, Ordering::Relaxed);
                }
                // SAFETY: the symbol of that name has this signature.
                let real: unsafe extern "C-unwind" fn($($type),*) -> $answer = unsafe { std::mem::transmute(real) };
                // SAFETY: the caller keeps the contract of the function of this name.
                unsafe { real($($argument),*) }
            }
        )*
    };
}

real! {
    fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    fn openat(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    fn openat64(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    fn open_by_handle_at(mount: c_int, handle: *mut c_void, flags: c_int) -> c_int;
    fn mkstemp(template: *mut c_char) -> c_int;
    fn mkstemp64(template: *mut c_char) -> c_int;
    fn mkstemps(template: *mut c_char, ending: c_int) -> c_int;
    fn mkstemps64(template: *mut c_char, ending: c_int) -> c_int;
    fn mkostemp(template: *mut c_char, flags: c_int) -> c_int;
    fn mkostemp64(template: *mut c_char, flags: c_int) -> c_int;
    fn mkostemps(template: *mut c_char, ending: c_int, flags: c_int) -> c_int;
    fn mkostemps64(template: *mut c_char, ending: c_int, flags: c_int) -> c_int;
    fn close(fd: c_int) -> c_int;
    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int;
    fn lseek(fd: c_int, by: off_t, from: c_int) -> off_t;
    fn lseek64(fd: c_int, by: off_t, from: c_int) -> off_t;
    fn closefrom(first: c_int) -> ();
    fn dup(fd: c_int) -> c_int;
    fn dup2(from: c_int, to: c_int) -> c_int;
    fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int;
    fn fcntl(fd: c_int, command: c_int, argument: *mut c_void) -> c_int;
    fn fcntl64(fd: c_int, command: c_int, argument: *mut c_void) -> c_int;
    fn write(fd: c_int, from: *const c_void, len: size_t) -> ssize_t;
    fn pwrite(fd: c_int, from: *const c_void, len: size_t, at: off_t) -> ssize_t;
    fn pwrite64(fd: c_int, from: *const c_void, len: size_t, at: off_t) -> ssize_t;
    fn writev(fd: c_int, iovec: *const iovec, count: c_int) -> ssize_t;
    fn pwritev(fd: c_int, iovec: *const iovec, count: c_int, at: off_t) -> ssize_t;
    fn pwritev64(fd: c_int, iovec: *const iovec, count: c_int, at: off_t) -> ssize_t;
    fn pwritev2(fd: c_int, iovec: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t;
    fn pwritev64v2(fd: c_int, iovec: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t;
    fn read(fd: c_int, into: *mut c_void, len: size_t) -> ssize_t;
    fn pread(fd: c_int, into: *mut c_void, len: size_t, from: off_t) -> ssize_t;
    fn pread64(fd: c_int, into: *mut c_void, len: size_t, from: off_t) -> ssize_t;
    fn readv(fd: c_int, iovec: *const iovec, count: c_int) -> ssize_t;
    fn preadv(fd: c_int, iovec: *const iovec, count: c_int, from: off_t) -> ssize_t;
    fn preadv64(fd: c_int, iovec: *const iovec, count: c_int, from: off_t) -> ssize_t;
    fn preadv2(fd: c_int, iovec: *const iovec, count: c_int, from: off_t, flags: c_int) -> ssize_t;
    fn preadv64v2(fd: c_int, iovec: *const iovec, count: c_int, from: off_t, flags: c_int) -> ssize_t;
    fn __read_chk(fd: c_int, into: *mut c_void, len: size_t, room: size_t) -> ssize_t;
    fn __pread_chk(fd: c_int, into: *mut c_void, len: size_t, from: off_t, room: size_t) -> ssize_t;
    fn __pread64_chk(fd: c_int, into: *mut c_void, len: size_t, from: off_t, room: size_t) -> ssize_t;
    fn sync() -> ();
    fn syncfs(fd: c_int) -> c_int;
    fn fstat(fd: c_int, found: *mut libc::stat) -> c_int;
    fn fstat64(fd: c_int, found: *mut libc::stat) -> c_int;
    fn stat(path: *const c_char, found: *mut libc::stat) -> c_int;
    fn stat64(path: *const c_char, found: *mut libc::stat) -> c_int;
    fn lstat(path: *const c_char, found: *mut libc::stat) -> c_int;
    fn lstat64(path: *const c_char, found: *mut libc::stat) -> c_int;
    fn fstatat(folder: c_int, path: *const c_char, found: *mut libc::stat, flags: c_int) -> c_int;
    fn fstatat64(folder: c_int, path: *const c_char, found: *mut libc::stat, flags: c_int) -> c_int;
    fn statx(folder: c_int, path: *const c_char, flags: c_int, mask: c_uint, found: *mut libc::statx) -> c_int;
    fn aio_read(request: *mut c_void) -> c_int;
    fn aio_read64(request: *mut c_void) -> c_int;
    fn fsync(fd: c_int) -> c_int;
    fn fdatasync(fd: c_int) -> c_int;
    fn ftruncate(fd: c_int, size: off_t) -> c_int;
    fn ftruncate64(fd: c_int, size: off_t) -> c_int;
    fn truncate(path: *const c_char, size: off_t) -> c_int;
    fn truncate64(path: *const c_char, size: off_t) -> c_int;
    fn fallocate(fd: c_int, mode: c_int, at: off_t, len: off_t) -> c_int;
    fn fallocate64(fd: c_int, mode: c_int, at: off_t, len: off_t) -> c_int;
    fn posix_fallocate(fd: c_int, at: off_t, len: off_t) -> c_int;
    fn posix_fallocate64(fd: c_int, at: off_t, len: off_t) -> c_int;
    fn fchmod(fd: c_int, mode: mode_t) -> c_int;
    fn fchown(fd: c_int, owner: uid_t, group: gid_t) -> c_int;
    fn futimens(fd: c_int, times: *const timespec) -> c_int;
    fn futimes(fd: c_int, times: *const timeval) -> c_int;
    fn fsetxattr(fd: c_int, attribute: *const c_char, value: *const c_void, len: size_t, flags: c_int) -> c_int;
    fn fremovexattr(fd: c_int, attribute: *const c_char) -> c_int;
    fn chmod(path: *const c_char, mode: mode_t) -> c_int;
    fn chown(path: *const c_char, owner: uid_t, group: gid_t) -> c_int;
    fn lchown(path: *const c_char, owner: uid_t, group: gid_t) -> c_int;
    fn utime(path: *const c_char, times: *const utimbuf) -> c_int;
    fn utimes(path: *const c_char, times: *const timeval) -> c_int;
    fn lutimes(path: *const c_char, times: *const timeval) -> c_int;
    fn setxattr(path: *const c_char, attribute: *const c_char, value: *const c_void, len: size_t, flags: c_int) -> c_int;
    fn lsetxattr(path: *const c_char, attribute: *const c_char, value: *const c_void, len: size_t, flags: c_int) -> c_int;
    fn removexattr(path: *const c_char, attribute: *const c_char) -> c_int;
    fn lremovexattr(path: *const c_char, attribute: *const c_char) -> c_int;
    fn link(path: *const c_char, to: *const c_char) -> c_int;
    fn fchmodat(folder: c_int, path: *const c_char, mode: mode_t, flags: c_int) -> c_int;
    fn fchownat(folder: c_int, path: *const c_char, owner: uid_t, group: gid_t, flags: c_int) -> c_int;
    fn utimensat(folder: c_int, path: *const c_char, times: *const timespec, flags: c_int) -> c_int;
    fn futimesat(folder: c_int, path: *const c_char, times: *const timeval) -> c_int;
    fn linkat(folder: c_int, path: *const c_char, to_folder: c_int, to: *const c_char, flags: c_int) -> c_int;
    fn rename(from: *const c_char, to: *const c_char) -> c_int;
    fn renameat(from_folder: c_int, from: *const c_char, to_folder: c_int, to: *const c_char) -> c_int;
    fn renameat2(from_folder: c_int, from: *const c_char, to_folder: c_int, to: *const c_char, flags: c_uint) -> c_int;
    fn unlink(name: *const c_char) -> c_int;
    fn unlinkat(folder: c_int, name: *const c_char, flags: c_int) -> c_int;
    fn remove(name: *const c_char) -> c_int;
    fn vdprintf(fd: c_int, format: *const c_char, arguments: *mut c_void) -> c_int;
    fn __vdprintf_chk(fd: c_int, flag: c_int, format: *const c_char, arguments: *mut c_void) -> c_int;
    fn fopen(path: *const c_char, mode: *const c_char) -> *mut FILE;
    fn fopen64(path: *const c_char, mode: *const c_char) -> *mut FILE;
    fn freopen(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE;
    fn freopen64(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE;
    fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE;
    fn fclose(stream: *mut FILE) -> c_int;
    fn mmap(at: *mut c_void, len: size_t, access: c_int, flags: c_int, fd: c_int, from: off_t) -> *mut c_void;
    fn mmap64(at: *mut c_void, len: size_t, access: c_int, flags: c_int, fd: c_int, from: off_t) -> *mut c_void;
    fn sendfile(to: c_int, from: c_int, at: *mut off_t, len: size_t) -> ssize_t;
    fn sendfile64(to: c_int, from: c_int, at: *mut off_t, len: size_t) -> ssize_t;
    fn splice(from: c_int, from_at: *mut off_t, to: c_int, to_at: *mut off_t, len: size_t, flags: c_uint) -> ssize_t;
    fn copy_file_range(from: c_int, from_at: *mut off_t, to: c_int, to_at: *mut off_t, len: size_t, flags: c_uint) -> ssize_t;
    fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int;
    fn sendmsg(socket: c_int, message: *const msghdr, flags: c_int) -> ssize_t;
    fn sendmmsg(socket: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int;
    fn io_uring_setup(entries: c_uint, parameters: *mut c_void) -> c_int;
    fn io_uring_queue_init(entries: c_uint, ring: *mut c_void, flags: c_uint) -> c_int;
    fn io_uring_queue_init_params(entries: c_uint, ring: *mut c_void, parameters: *mut c_void) -> c_int;
    fn io_setup(events: c_int, context: *mut c_void) -> c_int;
    fn aio_fsync(operation: c_int, request: *mut c_void) -> c_int;
    fn aio_fsync64(operation: c_int, request: *mut c_void) -> c_int;
    fn backtrace_symbols_fd(addresses: *const *mut c_void, count: c_int, fd: c_int) -> ();
    fn unshare(flags: c_int) -> c_int;
    fn prctl(option: c_int, a: c_ulong, b: c_ulong, c: c_ulong, d: c_ulong) -> c_int;
    fn aio_write(request: *mut c_void) -> c_int;
    fn aio_write64(request: *mut c_void) -> c_int;
    fn lio_listio(mode: c_int, list: *const *mut c_void, count: c_int, event: *mut c_void) -> c_int;
    fn lio_listio64(mode: c_int, list: *const *mut c_void, count: c_int, event: *mut c_void) -> c_int;
    fn syscall(number: c_long, a: c_long, b: c_long, c: c_long, d: c_long, e: c_long, f: c_long) -> c_long;
    fn execve(path: *const c_char, arguments: *const *const c_char, environment: *const *const c_char) -> c_int;
    fn execv(path: *const c_char, arguments: *const *const c_char) -> c_int;
    fn execvp(file: *const c_char, arguments: *const *const c_char) -> c_int;
    fn execvpe(file: *const c_char, arguments: *const *const c_char, environment: *const *const c_char) -> c_int;
    fn fexecve(fd: c_int, arguments: *const *const c_char, environment: *const *const c_char) -> c_int;
    fn execveat(folder: c_int, path: *const c_char, arguments: *const *const c_char, environment: *const *const c_char, flags: c_int) -> c_int;
    fn posix_spawn(pid: *mut pid_t, path: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: *const *mut c_char, environment: *const *mut c_char) -> c_int;
    fn posix_spawnp(pid: *mut pid_t, file: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: *const *mut c_char, environment: *const *mut c_char) -> c_int;
    fn posix_spawn_file_actions_adddup2(actions: *mut c_void, from: c_int, to: c_int) -> c_int;
    fn _Fork() -> pid_t;
    fn system(command: *const c_char) -> c_int;
    fn popen(command: *const c_char, mode: *const c_char) -> *mut FILE;
}
