//! OpenSSL 3, loaded at run time: the small part of it that is needed.
//!
//! UNSAFETY: foreign functions. Their types are those of `openssl/ssl.h`, `bio.h` and `err.h`, which versions with this soname
//! keep. The library is never unloaded, so a function is as good as the program. Handles are owned by [`Context`] and
//! [`Handle`], which free them once; a handle is used by one thread at a time, as `&mut` has it, and a context by any.
#![expect(unsafe_code, reason = "functions of a C library")]

use std::ffi::{CStr, c_char, c_int, c_long, c_uchar, c_uint, c_ulong, c_void};
use std::ptr::{NonNull, null, null_mut};
use std::sync::OnceLock;

use byway_fabrics::tls::{PskHash, TlsPsk};
use libloading::Library;

use crate::error::{TlsError, TlsUnavailable};
use crate::hello;
use crate::session::{Keys, Used};

/// The library's name. What it is linked with is found through it.
const NAME: &str = "libssl.so.3";

/// Things of OpenSSL's, never read here.
type Ctx = *mut c_void;
type Ssl = *mut c_void;
type Bio = *mut c_void;
type Session = *mut c_void;

type UseSession =
    unsafe extern "C" fn(Ssl, *const c_void, *mut *const c_uchar, *mut usize, *mut Session) -> c_int;
type FindSession = unsafe extern "C" fn(Ssl, *const c_uchar, usize, *mut Session) -> c_int;
type ClientHello = unsafe extern "C" fn(Ssl, *mut c_int, *mut c_void) -> c_int;

macro_rules! functions {
    ($($name:ident($($argument:ty),*) $(-> $result:ty)?;)*) => {
        #[expect(non_snake_case, reason = "OpenSSL's names")]
        struct Functions {
            $($name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Functions {
            fn find(library: &Library) -> Result<Self, libloading::Error> {
                Ok(Self {
                    // SAFETY: the types are those of OpenSSL's headers, and the library is never unloaded.
                    $($name: unsafe { *library.get(concat!(stringify!($name), "\0").as_bytes())? },)*
                })
            }
        }
    };
}

functions! {
    TLS_method() -> *const c_void;
    SSL_CTX_new(*const c_void) -> Ctx;
    SSL_CTX_free(Ctx);
    SSL_CTX_ctrl(Ctx, c_int, c_long, *mut c_void) -> c_long;
    SSL_CTX_set_num_tickets(Ctx, usize) -> c_int;
    SSL_CTX_set_client_hello_cb(Ctx, Option<ClientHello>, *mut c_void);
    SSL_CTX_set_psk_use_session_callback(Ctx, Option<UseSession>);
    SSL_CTX_set_psk_find_session_callback(Ctx, Option<FindSession>);
    SSL_new(Ctx) -> Ssl;
    SSL_free(Ssl);
    SSL_set_bio(Ssl, Bio, Bio);
    SSL_set_ex_data(Ssl, c_int, *mut c_void) -> c_int;
    SSL_get_ex_data(Ssl, c_int) -> *mut c_void;
    SSL_set_ciphersuites(Ssl, *const c_char) -> c_int;
    SSL_client_hello_get0_ext(Ssl, c_uint, *mut *const c_uchar, *mut usize) -> c_int;
    SSL_set_verify(Ssl, c_int, *const c_void);
    SSL_set_accept_state(Ssl);
    SSL_set_connect_state(Ssl);
    SSL_do_handshake(Ssl) -> c_int;
    SSL_read_ex(Ssl, *mut c_void, usize, *mut usize) -> c_int;
    SSL_write_ex(Ssl, *const c_void, usize, *mut usize) -> c_int;
    SSL_shutdown(Ssl) -> c_int;
    SSL_get_error(Ssl, c_int) -> c_int;
    SSL_session_reused(Ssl) -> c_int;
    SSL_CIPHER_find(Ssl, *const c_uchar) -> *const c_void;
    SSL_SESSION_new() -> Session;
    SSL_SESSION_free(Session);
    SSL_SESSION_set1_master_key(Session, *const c_uchar, usize) -> c_int;
    SSL_SESSION_set_cipher(Session, *const c_void) -> c_int;
    SSL_SESSION_set_protocol_version(Session, c_int) -> c_int;
    BIO_new(*const c_void) -> Bio;
    BIO_s_mem() -> *const c_void;
    BIO_free(Bio) -> c_int;
    BIO_read(Bio, *mut c_void, c_int) -> c_int;
    BIO_write(Bio, *const c_void, c_int) -> c_int;
    BIO_ctrl(Bio, c_int, c_long, *mut c_void) -> c_long;
    ERR_clear_error();
    ERR_get_error() -> c_ulong;
    ERR_reason_error_string(c_ulong) -> *const c_char;
}

/// `SSL_CTRL_MODE` and what is set by it: `SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER`, `SSL_MODE_RELEASE_BUFFERS`.
const CTRL_MODE: c_int = 33;
const MODES: c_long = 0x2 | 0x10;
/// `SSL_CTRL_SET_MIN_PROTO_VERSION`, `TLS1_3_VERSION`.
const CTRL_MIN_VERSION: c_int = 123;
const TLS_1_3: c_int = 0x0304;
/// `SSL_VERIFY_PEER`: a subsystem that would show a certificate has none that is believed.
const VERIFY_PEER: c_int = 1;
/// Where `SSL_set_app_data` puts what a program has for a connection.
const APP_DATA: c_int = 0;
/// `BIO_CTRL_PENDING`.
const BIO_PENDING: c_int = 10;
/// `SSL_ERROR_WANT_READ`, `SSL_ERROR_WANT_WRITE`, `SSL_ERROR_ZERO_RETURN`.
const WANT_READ: c_int = 2;
const WANT_WRITE: c_int = 3;
const ZERO_RETURN: c_int = 6;
/// `ERR_LIB_SSL`, and reasons of its errors: the number of an alert that came stands behind 1000.
const LIB_SSL: c_ulong = 20;
const ALERTS: c_ulong = 1000;
const BINDER_DOES_NOT_VERIFY: c_ulong = 253;
/// `SSL_CLIENT_HELLO_SUCCESS`, `SSL_CLIENT_HELLO_ERROR`; alerts (RFC 8446, section 6).
const HELLO_SUCCESS: c_int = 1;
const HELLO_ERROR: c_int = 0;
const ALERT_HANDSHAKE_FAILURE: c_int = 40;
const ALERT_UNKNOWN_PSK_IDENTITY: c_int = 115;

fn functions() -> Result<&'static Functions, TlsUnavailable> {
    static FOUND: OnceLock<Result<Functions, String>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        // SAFETY: OpenSSL's initialisation has no conditions.
        let library = unsafe { Library::new(NAME) }.map_err(|why| why.to_string())?;
        let functions = Functions::find(&library).map_err(|why| why.to_string())?;
        // Never unloaded: OpenSSL has things to do when the program ends.
        std::mem::forget(library);
        Ok(functions)
    });
    found.as_ref().map_err(|why| TlsUnavailable::NotLoaded(why.clone()))
}

/// The cipher suite of a hash, by name and by number.
fn suite_of(hash: PskHash) -> (&'static CStr, [u8; 2]) {
    match hash {
        PskHash::Sha256 => (c"TLS_AES_128_GCM_SHA256", [0x13, 0x01]),
        PskHash::Sha384 => (c"TLS_AES_256_GCM_SHA384", [0x13, 0x02]),
    }
}

/// What sessions of one kind share.
pub(crate) struct Context {
    functions: &'static Functions,
    ctx: NonNull<c_void>,
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

/// One session: OpenSSL's, what it reads from and writes to, and what its callbacks find.
pub(crate) struct Handle {
    functions: &'static Functions,
    ssl: NonNull<c_void>,
    /// Owned by `ssl`.
    incoming: Bio,
    /// Owned by `ssl`.
    outgoing: Bio,
    /// Made of a box; its address is what the callbacks have.
    state: NonNull<State>,
}

struct State {
    keys: Keys,
    used: Used,
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
                // SAFETY: it was made above, and nobody has it.
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

    /// By what it was begun.
    pub fn keys(&self) -> &Keys {
        // SAFETY: callbacks, which have the state as well, run in calls of `&mut self` alone.
        unsafe { &self.state.as_ref().keys }
    }

    /// What became of it.
    pub fn used(&self) -> &Used {
        // SAFETY: as above.
        unsafe { &self.state.as_ref().used }
    }

    /// Gives it what came.
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

    /// Adds what it has to send to `out`.
    pub fn take(&mut self, out: &mut Vec<u8>) {
        // SAFETY: the memory is live; so much of it is pending.
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
        // SAFETY: the session is live, and nobody else uses it.
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

    /// Reads what came, as much as there is room for; 0 when there is nothing yet.
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

    /// Writes bytes, which are to be sent by [`Self::take`]; how many.
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

    /// Has the peer told that nothing more comes.
    pub fn close(&mut self) {
        // SAFETY: the session is live. What it answers is of no use: nothing more is read.
        unsafe {
            (self.functions.ERR_clear_error)();
            (self.functions.SSL_shutdown)(self.ssl.as_ptr());
        }
    }

    /// What a call came to that did not end well: more is wanted, or why not.
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
        // SAFETY: the session is freed once, with what it reads from and writes to; then nobody has the state, which was a box.
        unsafe {
            (self.functions.SSL_free)(self.ssl.as_ptr());
            drop(Box::from_raw(self.state.as_ptr()));
        }
    }
}

fn memory_bios(functions: &Functions) -> Option<[Bio; 2]> {
    // SAFETY: the kind is a constant of the library's; what one is made of and cannot be used is freed once.
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

#[cold]
fn refusal(functions: &Functions) -> TlsUnavailable {
    // SAFETY: no conditions.
    let code = unsafe { (functions.ERR_get_error)() };
    TlsUnavailable::Refused(reason_of(functions, code))
}

fn reason_of(functions: &Functions, code: c_ulong) -> String {
    // SAFETY: a constant text of the library's, or none.
    let text = unsafe { (functions.ERR_reason_error_string)(code) };
    match text.is_null() {
        true if code == 0 => "no reason is given".into(),
        true => format!("error {code:x}"),
        // SAFETY: it is not null, and ends with a zero.
        false => unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned(),
    }
}

/// What a callback of `ssl` finds.
///
/// # Safety
/// `ssl` is that of a [`Handle`], and the callback is called by one of its calls of `&mut self`.
unsafe fn state_of<'a>(functions: &Functions, ssl: Ssl) -> Option<&'a mut State> {
    // SAFETY: the data is the handle's state, which lives as long as the session, and nobody else uses it while a call runs.
    unsafe { (functions.SSL_get_ex_data)(ssl, APP_DATA).cast::<State>().as_mut() }
}

/// Says which suite answers a host: that of the first key it names that is known.
///
/// # Safety
/// Called by OpenSSL, with a session of a [`Handle`].
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

/// Gives a host's session its key.
///
/// # Safety
/// Called by OpenSSL, with a session of a [`Handle`] and places for what it answers.
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
/// Called by OpenSSL, with a session of a [`Handle`], an identity and a place for what it answers.
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
            state.used.found(psk);
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
    // SAFETY: key and suite are as long as is said; what is made is given away, or freed once.
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
