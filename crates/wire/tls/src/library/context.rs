//! OpenSSL contexts: settings that sessions of one kind share, and the callbacks that look up keys.

use std::ffi::{c_int, c_uchar, c_void};
use std::ptr::{NonNull, null, null_mut};

use byway_fabrics::tls::TlsPsk;

use super::handle::State;
use super::{
    ALERT_HANDSHAKE_FAILURE, ALERT_UNKNOWN_PSK_IDENTITY, APP_DATA, CTRL_MIN_VERSION, CTRL_MODE, Functions,
    HELLO_ERROR, HELLO_SUCCESS, MODES, Session, Ssl, TLS_1_3, functions, refusal, suite_of,
};
use crate::error::TlsUnavailable;
use crate::hello;
use crate::session::Keys;

/// What sessions of one kind share.
pub(crate) struct Context {
    pub(super) functions: &'static Functions,
    pub(super) ctx: NonNull<c_void>,
}

// SAFETY: OpenSSL counts references to a context with atomics, and nothing of it is changed once it is made.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    /// For sessions by pre-shared keys of TLS 1.3.
    pub fn new() -> Result<Self, TlsUnavailable> {
        let functions = functions()?;
        // SAFETY: the method is a constant of the library's.
        let ctx = unsafe { (functions.SSL_CTX_new)((functions.TLS_method)()) };
        let context = Self { functions, ctx: NonNull::new(ctx).ok_or_else(|| refusal(functions))? };
        // SAFETY: the context is live; callbacks have the types of their setters, and find what they need at the session.
        let is_set = unsafe {
            (functions.SSL_CTX_ctrl)(ctx, CTRL_MODE, MODES, null_mut());
            (functions.SSL_CTX_set_client_hello_cb)(ctx, Some(client_hello), null_mut());
            (functions.SSL_CTX_set_psk_use_session_callback)(ctx, Some(use_session));
            (functions.SSL_CTX_set_psk_find_session_callback)(ctx, Some(find_session));
            (functions.SSL_CTX_ctrl)(ctx, CTRL_MIN_VERSION, TLS_1_3.into(), null_mut()) == 1
                && (functions.SSL_CTX_set_num_tickets)(ctx, 0) == 1
        };
        if is_set { Ok(context) } else { Err(refusal(functions)) }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: it was made by `SSL_CTX_new` and is freed once; sessions hold references of their own.
        unsafe { (self.functions.SSL_CTX_free)(self.ctx.as_ptr()) }
    }
}

/// The state that a callback of `ssl` uses.
///
/// # Safety
/// `ssl` is that of a [`Handle`](super::Handle), and the callback is called by one of its calls of `&mut self`.
unsafe fn state_of<'a>(functions: &Functions, ssl: Ssl) -> Option<&'a mut State> {
    // SAFETY: the data is the handle's state, which outlives the session; no other code uses it during a call.
    unsafe { (functions.SSL_get_ex_data)(ssl, APP_DATA).cast::<State>().as_mut() }
}

/// Says which suite answers a host: that of the first key it names that is known.
///
/// # Safety
/// Called by OpenSSL, with a session of a [`Handle`](super::Handle).
unsafe extern "C" fn client_hello(ssl: Ssl, alert: *mut c_int, _: *mut c_void) -> c_int {
    let Ok(functions) = functions() else { return HELLO_ERROR };
    let (mut extension, mut bytes) = (null(), 0);
    // SAFETY: the session is one of a handle, in the middle of its ClientHello; the extension is live until it is answered.
    unsafe {
        let Some(state) = state_of(functions, ssl) else { return HELLO_ERROR };
        let is_there =
            (functions.SSL_client_hello_get0_ext)(ssl, hello::EXTENSION, &raw mut extension, &raw mut bytes);
        let named = if is_there == 1 { std::slice::from_raw_parts(extension, bytes) } else { &[] };
        let hash = state.used.choose(&state.keys, named);
        if let Some(hash) = hash
            && (functions.SSL_set_ciphersuites)(ssl, suite_of(hash).0.as_ptr()) == 1
        {
            return HELLO_SUCCESS;
        }
        *alert = match state.used.asked {
            Some(_) => ALERT_UNKNOWN_PSK_IDENTITY,
            None => ALERT_HANDSHAKE_FAILURE,
        };
    }
    HELLO_ERROR
}

/// Callback: sets the key of a host's session.
///
/// # Safety
/// Called by OpenSSL, with a session of a [`Handle`](super::Handle) and valid places for its results.
unsafe extern "C" fn use_session(
    ssl: Ssl,
    _: *const c_void,
    identity: *mut *const c_uchar,
    bytes: *mut usize,
    session: *mut Session,
) -> c_int {
    let Ok(functions) = functions() else { return 0 };
    // SAFETY: the session is one of a handle; its identity lives as long.
    unsafe {
        let Some(State { keys: Keys::Host(psk), .. }) = state_of(functions, ssl) else { return 0 };
        *identity = psk.identity().as_ptr();
        *bytes = psk.identity().len();
        *session = session_of(functions, ssl, psk);
        c_int::from(!(*session).is_null())
    }
}

/// Looks for the key that a host names.
///
/// # Safety
/// Called by OpenSSL, with a session of a [`Handle`](super::Handle), an identity and a valid place for its result.
unsafe extern "C" fn find_session(
    ssl: Ssl,
    identity: *const c_uchar,
    bytes: usize,
    session: *mut Session,
) -> c_int {
    let Ok(functions) = functions() else { return 0 };
    // SAFETY: as above; the identity is as long as is said.
    unsafe {
        *session = null_mut();
        let Some(state) = state_of(functions, ssl) else { return 0 };
        if let Some(psk) = state.keys.find(std::slice::from_raw_parts(identity, bytes)) {
            *session = session_of(functions, ssl, psk);
            state.used.set_psk(psk);
        }
    }
    1
}

/// A key as OpenSSL has it, which owns it from there on; null where it has no memory.
///
/// # Safety
/// `ssl` is live.
unsafe fn session_of(functions: &Functions, ssl: Ssl, psk: &TlsPsk) -> Session {
    let (key, suite) = (psk.reveal(), suite_of(psk.hash()).1);
    // SAFETY: key and suite have the lengths given; the new session is passed on, or freed once.
    unsafe {
        let session = (functions.SSL_SESSION_new)();
        let cipher = (functions.SSL_CIPHER_find)(ssl, suite.as_ptr());
        let is_made = !session.is_null()
            && !cipher.is_null()
            && (functions.SSL_SESSION_set1_master_key)(session, key.as_ptr(), key.len()) == 1
            && (functions.SSL_SESSION_set_cipher)(session, cipher) == 1
            && (functions.SSL_SESSION_set_protocol_version)(session, TLS_1_3) == 1;
        if is_made {
            return session;
        }
        (functions.SSL_SESSION_free)(session);
        null_mut()
    }
}
