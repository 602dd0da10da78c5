//! Transfer methods: how a command's payload crosses the link. One file for each.
//!
//! `prp`, `sgl` and `inline` carry any I/O command; `piggyback`, `piggyback-pt`, `prp+tail`, `hybrid` and `cxl` carry
//! KV Store. On a queue of such a method, the payload of any other command goes by `prp`, beside `hybrid`, where it
//! goes by `inline` as far as that reaches.

pub(crate) mod adaptive;
pub(crate) mod bulk;
pub(crate) mod byte_store;
pub(crate) mod cxl;
pub(crate) mod hybrid;
pub(crate) mod inline;
pub(crate) mod pair;
pub(crate) mod piggyback;
pub(crate) mod piggyback_pt;
pub(crate) mod prp;
pub(crate) mod prp_tail;
pub(crate) mod sgl;

use byway_core::{Buffer, Error, ErrorKind, Key, Nsid, Payload, Result, StoreOptions, encode};
use byway_link::Method;
use byway_spec::Command as Entry;
use byway_spec::vendor::VendorOpcode;

use crate::bus::Bus;
use crate::queue_pair::Queue;
use crate::table::OpIndex;

/// Bytes on their way to the device, and the buffer that they stand in, if it is one.
#[derive(Clone, Copy)]
pub(crate) struct Out<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// The buffer that begins with them.
    pub buffer: Option<&'a Buffer>,
}

impl<'a> Out<'a> {
    /// The bytes of a payload.
    #[inline]
    pub(crate) fn of(payload: &'a Payload) -> Self {
        let buffer = match payload {
            Payload::Buffer(buffer) => Some(buffer),
            Payload::Empty | Payload::Small(_) | Payload::Vectored(_) => None,
        };
        // What stands in several buffers was gathered before (`Carried::bounce`).
        debug_assert!(!matches!(payload, Payload::Vectored(_)), "vectored data reached a transfer method");
        Self { bytes: payload.contiguous().unwrap_or_default(), buffer }
    }
}

/// A store on its way to the device.
#[derive(Clone, Copy)]
pub(crate) struct Put<'a> {
    /// Namespace.
    pub nsid: Nsid,
    /// Key.
    pub key: &'a Key,
    /// Value.
    pub value: Out<'a>,
    /// Conditions.
    pub options: StoreOptions,
}

impl<'a> Put<'a> {
    /// Length of the value.
    #[inline]
    fn len(&self) -> usize {
        self.value.bytes.len()
    }

    /// The standard command of the store.
    #[inline]
    fn standard(&self) -> Entry {
        encode::store(self.nsid, self.key, self.len() as u32, self.options)
    }

    /// A vendor command of the store: key, and length of the whole value.
    #[inline(always)]
    fn vendor(&self, opcode: VendorOpcode) -> Entry {
        let mut entry = Entry::new(opcode.0, 0, self.nsid.get());
        entry.set_key(self.key.padded());
        entry.cdw10 = self.len() as u32;
        entry.cdw11 = self.key.len() as u32;
        entry
    }

    /// The first `n` bytes of the value, or all if it has no more, and the rest.
    #[inline]
    fn split(&self, n: usize) -> (&'a [u8], &'a [u8]) {
        self.value.bytes.split_at(n.min(self.len()))
    }

    /// Refuses a store whose options have no room in the commands of `method`.
    #[inline]
    fn without_options(&self, method: Method) -> Result<()> {
        if !self.options.any() {
            return Ok(());
        }
        let said = format!("store options cannot travel by {method}; they can by inline, prp and sgl");
        Err(Error::host(ErrorKind::Unsupported, said))
    }
}

/// Refuses a payload over the limit that the device announced for a method.
#[inline]
pub(crate) fn within(len: usize, limit: u64, method: Method) -> Result<()> {
    if len as u64 <= limit {
        return Ok(());
    }
    Err(over_limit(len, limit, method))
}

#[cold]
fn over_limit(len: usize, limit: u64, method: Method) -> Error {
    let said = format!("value of {len} bytes is over the device's limit of {limit} bytes for {method}");
    Error::host(ErrorKind::TooLarge, said)
}

/// Sends a store by the queue's method.
#[inline]
pub(crate) fn store<B: Bus>(queue: &mut Queue<B>, op: OpIndex, put: &Put<'_>) -> Result<()> {
    match queue.method() {
        Method::Adaptive => {
            let mut method = adaptive::choose(queue, put.len(), put.options);
            if method.needs_device_memory() && queue.window_for(put.nsid.get()).is_err() {
                queue.chooser.do_without_windows();
                method = adaptive::choose(queue, put.len(), put.options);
            }
            store_by(queue, op, method, put)
        }
        method => store_by(queue, op, method, put),
    }
}

/// Sends a store by `method`.
#[inline]
pub(crate) fn store_by<B: Bus>(
    queue: &mut Queue<B>,
    op: OpIndex,
    method: Method,
    put: &Put<'_>,
) -> Result<()> {
    if !matches!(method, Method::Cxl | Method::CxlPiggyback) {
        queue.note_placement(op, put.nsid.get());
    }
    match method {
        Method::Inline => inline::send(queue, op, put.standard(), put.value.bytes),
        Method::Prp | Method::Adaptive => prp::send(queue, op, put.standard(), put.value),
        Method::Sgl => sgl::send(queue, op, put.standard(), put.value),
        Method::Piggyback => piggyback::store(queue, op, put),
        Method::PiggybackPt => piggyback_pt::store(queue, op, put),
        Method::PrpTail => prp_tail::store(queue, op, put),
        Method::Hybrid => hybrid::store(queue, op, put),
        Method::Cxl => cxl::store(queue, op, put),
        Method::CxlPiggyback => cxl::store_piggyback(queue, op, put),
    }
}

/// Sends a command other than a store, with its payload.
///
/// The entry is made where it is used: one that is at hand for several ways stands in memory, and the ring's wider
/// stores wait for those of its fields.
#[inline]
pub(crate) fn send<B: Bus>(
    queue: &mut Queue<B>,
    op: OpIndex,
    entry: impl FnOnce() -> Entry,
    out: Out<'_>,
) -> Result<()> {
    let method = match queue.method() {
        Method::Adaptive => adaptive::choose_for_any(queue, out.bytes.len()),
        method => method,
    };
    match method {
        Method::Inline => inline::send(queue, op, entry(), out.bytes),
        Method::Hybrid if out.bytes.len() as u64 <= queue.limits().inline_max_bytes => {
            inline::send(queue, op, entry(), out.bytes)
        }
        Method::Sgl => sgl::send(queue, op, entry(), out),
        _ => prp::send(queue, op, entry(), out),
    }
}
