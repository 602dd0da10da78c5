//! A device that a server in a thread of this process serves, and the driver that reaches it by the socket as it would from any
//! other process.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use byway::serve::{ServeOptions, TargetPaths};
use byway::{Device, ErrorKind};
use byway_buses::VfioUserBus;
use byway_core::{
    AdminCommand, Backend, Buffer, Capabilities, Identity, Namespace, Outcome, QueueOptions, Result,
};
use byway_driver::{AttachOptions, Driver, Queue};

/// The server, ended when it is dropped.
pub struct Serving {
    stop: byway::serve::StopServing,
    thread: Option<JoinHandle<()>>,
    /// Where it is reached over TCP, by each of its ports, and the name of its subsystem.
    tcp: (Vec<SocketAddr>, String),
    paths: Option<TargetPaths>,
}

/// A device behind it.
pub struct Served {
    // Dropped first: the device is shut down while it is still served.
    pub driver: Driver<VfioUserBus>,
    _serving: Serving,
}

impl Serving {
    /// Serves the device that `uri` names at `socket`.
    pub fn start(uri: &str, socket: &Path) -> Self {
        Self::start_with(uri, &ServeOptions::at(socket))
    }

    /// Serves the device that `uri` names as `options` say.
    pub fn start_with(uri: &str, options: &ServeOptions) -> Self {
        Self::run(come_to_serve(|| byway::serve::serve(uri, options)))
    }

    /// Serves what `options` export, and nothing else.
    pub fn export(options: &ServeOptions) -> Self {
        Self::run(byway::serve::export(options).unwrap())
    }

    fn run(served: byway::serve::Served) -> Self {
        let stop = served.stopper();
        let tcp = (served.tcp_addresses().to_vec(), served.nqn().to_owned());
        let paths = served.paths();
        let thread = std::thread::spawn(move || served.run(|_| {}).unwrap());
        Self { stop, thread: Some(thread), tcp, paths }
    }

    /// Where it is reached over TCP.
    pub fn tcp_address(&self) -> SocketAddr {
        self.tcp.0[0]
    }

    /// Where it is reached over TCP, by each of its ports.
    pub fn tcp_addresses(&self) -> &[SocketAddr] {
        &self.tcp.0
    }

    /// The name of the subsystem.
    pub fn nqn(&self) -> &str {
        &self.tcp.1
    }

    /// How namespaces are reached by each port.
    pub fn paths(&self) -> &TargetPaths {
        self.paths.as_ref().unwrap()
    }

    /// What opens it over TCP.
    pub fn tcp_uri(&self) -> String {
        self.uri_by(&self.tcp.0[..1])
    }

    /// What opens it by these portals.
    pub fn uri_by(&self, portals: &[SocketAddr]) -> String {
        let portals: Vec<String> = portals.iter().map(SocketAddr::to_string).collect();
        format!("tcp://{}/{}", portals.join(","), self.tcp.1)
    }

    /// Opens it over TCP: `options` as in a URI, from the question mark on.
    ///
    /// # Errors
    /// As [`byway::open`].
    pub fn open(&self, options: &str) -> Result<Device> {
        byway::open(&format!("{}{options}", self.tcp_uri()))
    }

    /// The error of opening it with these options, which contains no secret or key.
    pub fn refused(&self, options: &str) -> String {
        let error = self.open(options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        let said = error.to_string();
        for secret in ["DHHC", "NVMeTLSkey"] {
            assert!(!said.contains(secret), "{said}");
        }
        said
    }
}

/// Has something be served. Where it was before, a child of another test may have its socket until it is the program it is to be.
fn come_to_serve(serve: impl Fn() -> Result<byway::serve::Served>) -> byway::serve::Served {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        match serve() {
            Ok(served) => return served,
            Err(error) => assert!(Instant::now() < end, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop.stop();
        self.thread.take().unwrap().join().unwrap();
    }
}

impl Served {
    /// The device that `uri` names, served at `socket` and attached.
    pub fn open(uri: &str, socket: &Path) -> Self {
        Self::open_with(uri, &ServeOptions::at(socket))
    }

    /// The device that `uri` names, served as `options` say and attached.
    pub fn open_with(uri: &str, options: &ServeOptions) -> Self {
        let serving = Serving::start_with(uri, options);
        let bus = VfioUserBus::open(options.vfio_user.as_ref().unwrap()).unwrap();
        let driver = Driver::attach(Arc::new(bus), AttachOptions::default()).unwrap();
        Self { driver, _serving: serving }
    }
}

impl Backend for Served {
    type Queue = Queue<VfioUserBus>;

    fn name(&self) -> &'static str {
        self.driver.name()
    }

    fn identity(&self) -> &Identity {
        self.driver.identity()
    }

    fn capabilities(&self) -> &Capabilities {
        self.driver.capabilities()
    }

    fn namespaces(&self) -> Result<Vec<Namespace>> {
        self.driver.namespaces()
    }

    fn buffer(&self, len: usize) -> Result<Buffer> {
        self.driver.buffer(len)
    }

    fn queue(&self, options: QueueOptions) -> Result<Self::Queue> {
        self.driver.queue(options)
    }

    fn admin(&self, command: AdminCommand) -> Result<Outcome> {
        self.driver.admin(command)
    }
}
