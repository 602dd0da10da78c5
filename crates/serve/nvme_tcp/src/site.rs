//! A subsystem that is served: its device, who may connect to it, and the hosts that are here.
//!
//! A connection has one from its Connect on, and reaches no device but that one's.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use byway_controller::PortId;
use byway_fabrics::Nqn;
use byway_fabrics::tls::TlsPsk;
use byway_local::{CapsuleDevice, Capsules};

use crate::association::{Association, Associations};
use crate::ended::Ended;
use crate::keys::Keys;
use crate::options::SubsystemTerms;

/// Keys of TLS from authentications that are known at once: some for each of many hosts.
const GENERATED_MAX: usize = 1024;

/// A subsystem that is served.
#[derive(Debug)]
pub struct Site {
    /// The subsystem's name.
    pub nqn: Nqn,
    /// The device.
    pub device: Capsules,
    /// The hosts that are here.
    pub associations: Associations,
    /// Hosts that may connect; all where there is nothing.
    allowed: RwLock<Option<Vec<Nqn>>>,
    /// Ports by which it is found; every one where there is nothing.
    ports: RwLock<Option<Vec<PortId>>>,
    /// By what they show who they are.
    keys: RwLock<Arc<Keys>>,
    /// Keys of TLS that hosts have from their authentications, the oldest first.
    generated: Mutex<VecDeque<TlsPsk>>,
    /// It is served no more.
    closed: AtomicBool,
    /// Its device failed, and that was told.
    is_failure_told: AtomicBool,
}

impl Site {
    /// One that is served from here on.
    pub fn new(terms: SubsystemTerms, device: Capsules) -> Self {
        let SubsystemTerms { nqn, hosts, ports, dhchap, tls, .. } = terms;
        Self {
            nqn,
            device,
            associations: Associations::default(),
            allowed: RwLock::new((!hosts.is_empty()).then_some(hosts)),
            ports: RwLock::new(ports),
            keys: RwLock::new(Arc::new(Keys { dhchap, tls })),
            generated: Mutex::new(VecDeque::new()),
            closed: AtomicBool::new(false),
            is_failure_told: AtomicBool::new(false),
        }
    }

    /// Hosts that may connect; all where there is nothing.
    pub fn allowed(&self) -> Option<Vec<Nqn>> {
        self.allowed.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Has these connect from here on. Others that are here are to be [sent away](Self::dismiss_strangers).
    pub fn set_allowed(&self, hosts: Option<Vec<Nqn>>) {
        *self.allowed.write().unwrap_or_else(PoisonError::into_inner) = hosts;
    }

    /// Ports by which it is found; every one where there is nothing.
    pub fn ports(&self) -> Option<Vec<PortId>> {
        self.ports.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Has it be found by these from here on. Those who came by others are to be [sent away](Self::dismiss_strangers).
    pub fn set_ports(&self, ports: Option<Vec<PortId>>) {
        *self.ports.write().unwrap_or_else(PoisonError::into_inner) = ports;
    }

    /// Whether it is found by a port.
    pub fn is_at(&self, port: PortId) -> bool {
        let ports = self.ports.read().unwrap_or_else(PoisonError::into_inner);
        ports.as_ref().is_none_or(|ports| ports.contains(&port))
    }

    /// Whether a host may connect. One that cannot show who it is may not where that is asked for.
    pub fn admits(&self, host: &Nqn) -> bool {
        let allowed = self.allowed.read().unwrap_or_else(PoisonError::into_inner);
        !self.is_closed()
            && allowed.as_ref().is_none_or(|hosts| hosts.contains(host))
            && self.keys().admit(host)
    }

    /// By what hosts that come show who they are.
    pub fn keys(&self) -> Arc<Keys> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Keys of TLS that hosts have from their authentications.
    pub fn generated(&self) -> Vec<TlsPsk> {
        self.generated.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// Has one more. Of too many, the oldest goes: its host shows anew who it is.
    pub fn add_generated(&self, psk: TlsPsk) {
        let mut generated = self.generated.lock().unwrap_or_else(PoisonError::into_inner);
        generated.push_back(psk);
        while generated.len() > GENERATED_MAX {
            generated.pop_front();
        }
    }

    /// Has hosts that come go by these, and by none that were made by what held before. Those that are here go on.
    pub fn set_keys(&self, keys: Keys) {
        self.generated.lock().unwrap_or_else(PoisonError::into_inner).clear();
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
    }

    /// Forgets by what a host shows who it is, and what was made of that. Others are not touched.
    pub fn forget(&self, host: &Nqn) {
        let mut generated = self.generated.lock().unwrap_or_else(PoisonError::into_inner);
        generated.retain(|psk| psk.parties().host != *host);
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        *keys = Arc::new(Keys::clone(&keys).without(host));
    }

    /// Works with the device in hand, and every queue in where it `is_alone`; nothing where the device failed before.
    #[inline]
    pub fn work<R>(
        &self,
        is_alone: bool,
        work: impl FnOnce(&mut CapsuleDevice<'_>) -> Result<R, Ended>,
    ) -> Option<Result<R, Ended>> {
        let mut is_begun = false;
        let work = |device: &mut CapsuleDevice<'_>| {
            is_begun = true;
            work(device)
        };
        let worked = if is_alone { self.device.run_alone(work) } else { self.device.run(work) };
        match worked {
            Ok(worked) => Some(worked),
            Err(_) => is_begun.then_some(Err(Ended::DeviceFailed)),
        }
    }

    /// Whether it is served no more.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Relaxed)
    }

    /// Whether its device failed, to be told once.
    pub fn take_failure(&self) -> bool {
        self.device.check().is_err() && !self.is_failure_told.swap(true, Relaxed)
    }

    /// Serves nobody any more. Those who are here are to be [sent away](Self::dismiss_strangers).
    pub fn close(&self) {
        self.closed.store(true, Relaxed);
    }

    /// Sends away those who may not connect any more. Whoever connects at this moment is looked at again with the device in hand, as
    /// here.
    pub fn dismiss_strangers(&self) {
        let (is_closed, allowed) = (self.is_closed(), self.allowed());
        let is_out = |host: &Nqn| is_closed || allowed.as_ref().is_some_and(|hosts| !hosts.contains(host));
        self.dismiss(|association| is_out(&association.host) || !self.is_at(association.port));
    }

    /// Is found no more by a port that there is no more, and sends away those who came by it.
    pub fn dismiss_port(&self, port: PortId) {
        let mut ports = self.ports.write().unwrap_or_else(PoisonError::into_inner);
        ports.iter_mut().for_each(|ports| ports.retain(|other| *other != port));
        drop(ports);
        self.dismiss(|association| association.port == port);
    }

    /// With the device in hand: nobody is in the middle of executing what a host sent.
    fn dismiss(&self, are_out: impl Fn(&Association) -> bool) {
        // A device that failed executes nothing either.
        let _ = self.device.run_alone(|_| self.associations.dismiss(are_out));
        self.device.ring();
    }
}
