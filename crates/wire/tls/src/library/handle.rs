//! One session of OpenSSL's.

use std::ffi::{c_int, c_void};
use std::ptr::{NonNull, null, null_mut};

use super::{
    ALERTS, APP_DATA, BINDER_DOES_NOT_VERIFY, BIO_PENDING, Bio, Context, Functions, LIB_SSL, VERIFY_PEER,
    WANT_READ, WANT_WRITE, ZERO_RETURN, reason_of, refusal, suite_of,
};
use crate::error::{TlsError, TlsUnavailable};
use crate::session::{Keys, Used};

/// One OpenSSL session, its input and output buffers (BIOs), and the state of its callbacks.
pub(crate) struct Handle {
    functions: &'static Functions,
    ssl: NonNull<c_void>,
    /// Owned by `ssl`.
    incoming: Bio,
    /// Owned by `ssl`.
    outgoing: Bio,
    /// From `Box::into_raw`; callbacks receive its address.
    state: NonNull<State>,
}

/// The state of a session's callbacks.
pub(super) struct State {
    pub keys: Keys,
    pub used: Used,
}

// SAFETY: OpenSSL's sessions may be used by any thread, one at a time; errors are a thread's own, and are cleared before each call.
unsafe impl Send for Handle {}
// SAFETY: nothing of OpenSSL's is called by a shared reference.
unsafe impl Sync for Handle {}

impl Handle {
    /// A session that begins, or answers, by `keys`.
    pub fn new(context: &Context, keys: Keys) -> Result<Self, TlsUnavailable> {
        let functions = context.functions;
        // SAFETY: the context is live.
        let ssl = unsafe { (functions.SSL_new)(context.ctx.as_ptr()) };
        let ssl = NonNull::new(ssl).ok_or_else(|| refusal(functions))?;
        let [incoming, outgoing] = match memory_bios(functions) {
            Some(both) => both,
            None => {
                // SAFETY: the session was created above, and no other reference to it exists.
                unsafe { (functions.SSL_free)(ssl.as_ptr()) };
                return Err(refusal(functions));
            }
        };
        // SAFETY: all are live; the session owns both from here on.
        unsafe { (functions.SSL_set_bio)(ssl.as_ptr(), incoming, outgoing) };
        let hash = keys.hash_of_host();
        let state = NonNull::from(Box::leak(Box::new(State { keys, used: Used::default() })));
        let handle = Self { functions, ssl, incoming, outgoing, state };
        // SAFETY: the session is live, and the state lives as long.
        let is_set = unsafe {
            match hash {
                Some(_) => {
                    (functions.SSL_set_verify)(ssl.as_ptr(), VERIFY_PEER, null());
                    (functions.SSL_set_connect_state)(ssl.as_ptr());
                }
                None => (functions.SSL_set_accept_state)(ssl.as_ptr()),
            }
            let suite = hash.map(|hash| suite_of(hash).0.as_ptr());
            (functions.SSL_set_ex_data)(ssl.as_ptr(), APP_DATA, state.as_ptr().cast()) == 1
                && suite.is_none_or(|suite| (functions.SSL_set_ciphersuites)(ssl.as_ptr(), suite) == 1)
        };
        if is_set { Ok(handle) } else { Err(refusal(functions)) }
    }

    /// The keys of the endpoint that created the session.
    pub fn keys(&self) -> &Keys {
        // SAFETY: callbacks, which have the state as well, run in calls of `&mut self` alone.
        unsafe { &self.state.as_ref().keys }
    }

    /// What became of it.
    pub fn used(&self) -> &Used {
        // SAFETY: as above.
        unsafe { &self.state.as_ref().used }
    }

    /// Passes received bytes to the session.
    pub fn put(&mut self, bytes: &[u8]) -> Result<(), TlsError> {
        for piece in bytes.chunks(1 << 30) {
            // SAFETY: the memory is live, as long as it is said to be, and shorter than an int.
            let put = unsafe {
                (self.functions.BIO_write)(self.incoming, piece.as_ptr().cast(), piece.len() as c_int)
            };
            if put != piece.len() as c_int {
                return Err(refusal(self.functions).into());
            }
        }
        Ok(())
    }

    /// Appends the bytes that the session has to send to `out`.
    pub fn take(&mut self, out: &mut Vec<u8>) {
        // SAFETY: the memory BIO is live, and `pending` bytes of it are readable.
        let pending = unsafe { (self.functions.BIO_ctrl)(self.outgoing, BIO_PENDING, 0, null_mut()) };
        let pending = usize::try_from(pending).unwrap_or(0).min(1 << 30);
        let start = out.len();
        out.resize(start + pending, 0);
        let room = out.get_mut(start..).unwrap_or_default();
        // SAFETY: the room is live and as long as is said, which is shorter than an int.
        let taken = unsafe {
            (self.functions.BIO_read)(self.outgoing, room.as_mut_ptr().cast(), room.len() as c_int)
        };
        out.truncate(start + usize::try_from(taken).unwrap_or(0));
    }

    /// Goes on with the handshake; whether it is done, by a pre-shared key.
    pub fn shake(&mut self) -> Result<bool, TlsError> {
        // SAFETY: the session is live, and no other thread uses it.
        let done = unsafe {
            (self.functions.ERR_clear_error)();
            (self.functions.SSL_do_handshake)(self.ssl.as_ptr())
        };
        if done != 1 {
            return self.outcome(done).map(|()| false);
        }
        // SAFETY: as above.
        match unsafe { (self.functions.SSL_session_reused)(self.ssl.as_ptr()) } {
            1 => Ok(true),
            _ => Err(TlsError::Broken("no pre-shared key was used".into())),
        }
    }

    /// Reads decrypted bytes, up to the size of `into`; 0 if there are none yet.
    pub fn read(&mut self, into: &mut [u8]) -> Result<usize, TlsError> {
        let mut read = 0;
        // SAFETY: the session is live, the memory as long as is said.
        let done = unsafe {
            (self.functions.ERR_clear_error)();
            (self.functions.SSL_read_ex)(
                self.ssl.as_ptr(),
                into.as_mut_ptr().cast(),
                into.len(),
                &raw mut read,
            )
        };
        if done == 1 { Ok(read) } else { self.outcome(done).map(|()| 0) }
    }

    /// Encrypts bytes, to be sent by [`Self::take`]; returns how many were taken.
    pub fn write(&mut self, bytes: &[u8]) -> Result<usize, TlsError> {
        let mut written = 0;
        // SAFETY: the session is live, the memory as long as is said.
        let done = unsafe {
            (self.functions.ERR_clear_error)();
            (self.functions.SSL_write_ex)(
                self.ssl.as_ptr(),
                bytes.as_ptr().cast(),
                bytes.len(),
                &raw mut written,
            )
        };
        if done == 1 { Ok(written) } else { self.outcome(done).map(|()| 0) }
    }

    /// Sends close_notify: no more data follows.
    pub fn close(&mut self) {
        // SAFETY: the session is live. The result is ignored: nothing more is read.
        unsafe {
            (self.functions.ERR_clear_error)();
            (self.functions.SSL_shutdown)(self.ssl.as_ptr());
        }
    }

    /// The result of a call that failed: `Ok` if it needs more input, else the error.
    fn outcome(&mut self, done: c_int) -> Result<(), TlsError> {
        // SAFETY: the session is live, and its last call was this thread's.
        match unsafe { (self.functions.SSL_get_error)(self.ssl.as_ptr(), done) } {
            WANT_READ | WANT_WRITE => Ok(()),
            ZERO_RETURN => Err(TlsError::Closed),
            _ => Err(self.failure()),
        }
    }

    #[cold]
    fn failure(&self) -> TlsError {
        // SAFETY: no conditions.
        let code = unsafe { (self.functions.ERR_get_error)() };
        let (library, reason) = (code >> 23 & 0xff, code & 0x7f_ffff);
        let used = self.used();
        let asked = || used.asked.clone().unwrap_or_default();
        if let Some(bytes) = used.other_hash_bytes {
            return TlsError::OtherHash { identity: asked(), bytes };
        }
        match (library, reason) {
            (LIB_SSL, BINDER_DOES_NOT_VERIFY) => TlsError::WrongKey(asked()),
            (LIB_SSL, alert) if (ALERTS..ALERTS + 256).contains(&alert) => {
                TlsError::Alert((alert - ALERTS) as u8)
            }
            _ if used.is_refused && used.asked.is_some() => TlsError::UnknownIdentity(asked()),
            _ if used.is_refused => TlsError::NoIdentity,
            _ => TlsError::Broken(reason_of(self.functions, code)),
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the session is freed once, with its buffers; the state came from a box, and no reference to it
        // remains.
        unsafe {
            (self.functions.SSL_free)(self.ssl.as_ptr());
            drop(Box::from_raw(self.state.as_ptr()));
        }
    }
}

fn memory_bios(functions: &Functions) -> Option<[Bio; 2]> {
    // SAFETY: the method is a constant of the library; a context that cannot be used is freed once.
    unsafe {
        let make = || (functions.BIO_new)((functions.BIO_s_mem)());
        let (one, other) = (make(), make());
        if !one.is_null() && !other.is_null() {
            return Some([one, other]);
        }
        // Freeing none is no fault.
        (functions.BIO_free)(one);
        (functions.BIO_free)(other);
        None
    }
}
