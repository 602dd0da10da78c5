//! OpenSSL 3, loaded at run time: the small part of it that is needed.
//!
//! UNSAFETY: foreign functions. Their types are those of `openssl/ssl.h`, `bio.h` and `err.h`, which versions with this soname
//! keep. The library is never unloaded, so a function is as good as the program. Handles are owned by [`Context`] and
//! [`Handle`], which free them once; a handle is used by one thread at a time, as `&mut` has it, and a context by any.
#![expect(unsafe_code, reason = "functions of a C library")]

use std::ffi::{CStr, c_char, c_int, c_long, c_uchar, c_uint, c_ulong, c_void};
use std::sync::OnceLock;

use byway_fabrics::tls::PskHash;
use libloading::Library;

use crate::error::TlsUnavailable;

mod context;
mod handle;

pub(crate) use context::Context;
pub(crate) use handle::Handle;

/// The library's name. The libraries it links are found through it.
const NAME: &str = "libssl.so.3";

/// Why a program that is linked statically has no OpenSSL.
const STATIC: &str =
    "this program is linked statically, and cannot load libraries; that of a package or of the wheel can";

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

/// `SSL_CTRL_MODE`, and the modes set by it: `SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER`, `SSL_MODE_RELEASE_BUFFERS`.
const CTRL_MODE: c_int = 33;
const MODES: c_long = 0x2 | 0x10;
/// `SSL_CTRL_SET_MIN_PROTO_VERSION`, `TLS1_3_VERSION`.
const CTRL_MIN_VERSION: c_int = 123;
const TLS_1_3: c_int = 0x0304;
/// `SSL_VERIFY_PEER`: a subsystem that would show a certificate has none that is believed.
const VERIFY_PEER: c_int = 1;
/// The index that `SSL_set_app_data` uses for a program's data.
const APP_DATA: c_int = 0;
/// `BIO_CTRL_PENDING`.
const BIO_PENDING: c_int = 10;
/// `SSL_ERROR_WANT_READ`, `SSL_ERROR_WANT_WRITE`, `SSL_ERROR_ZERO_RETURN`.
const WANT_READ: c_int = 2;
const WANT_WRITE: c_int = 3;
const ZERO_RETURN: c_int = 6;
/// `ERR_LIB_SSL`, and reasons of its errors. A received alert has the reason 1000 plus its number.
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
        if cfg!(target_feature = "crt-static") {
            return Err(STATIC.into());
        }
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
