//! Whatever does a command while its caller waits: what a pool of threads runs.

use std::time::Duration;

use byway_core::{
    AdminCommand, Capabilities, Command, Error, Failed, Identity, Memory, Namespace, Outcome, QueueOptions,
    Refused, Result,
};

use byway_link::Method;

use crate::request::Request;
use crate::target::{Target, check_queue};
use crate::work;

/// An open device whose commands are done by the thread that asks for them.
///
/// An implementer may block in [`perform`](Self::perform) and nowhere else, and may rely on [`check`](Self::check)
/// having been asked about the very command first. Several threads ask at the same time.
pub trait Synchronous: Send + Sync + 'static {
    /// What a command asks for, without its memory.
    type Request: Copy + Send;

    /// What `command` asks for.
    ///
    /// # Errors
    /// When it can be refused before anything is done.
    fn check(&self, command: &Command) -> Result<Self::Request>;

    /// The same for a command that will be done, with its memory.
    ///
    /// # Errors
    /// As [`check`](Self::check); the command is given back.
    #[inline]
    fn take(&self, command: Command) -> Result<(Self::Request, Memory), Refused> {
        match self.check(&command) {
            Ok(request) => Ok((request, command.into_memory())),
            Err(error) => Err(Refused { command, error }),
        }
    }

    /// The same as a queue's transfer method has it go, on a device that has several.
    #[inline]
    fn by(&self, request: Self::Request, _method: Method) -> Self::Request {
        request
    }

    /// The same, given up after `timeout` by a device that can give up what it has begun.
    fn within(&self, request: Self::Request, _timeout: Duration) -> Self::Request {
        request
    }

    /// Does it, with the command's memory.
    ///
    /// # Errors
    /// When it fails; the memory is given back.
    fn perform(&self, request: Self::Request, memory: Memory) -> Result<Outcome, Failed>;

    /// Identity of the device.
    fn identity(&self) -> &Identity;

    /// What can be done with it by an interface whose commands go on by themselves (`overlaps`) and can be given up
    /// (`cancel`).
    fn capabilities(&self, overlaps: bool, cancel: bool) -> Capabilities;

    /// The namespaces that are attached.
    ///
    /// # Errors
    /// When the device does not report it.
    fn namespaces(&self) -> Result<Vec<Namespace>>;

    /// Refuses options of a queue that the device cannot honour.
    ///
    /// # Errors
    /// By saying which, and why.
    fn check_queue(&self, options: &QueueOptions) -> Result<()> {
        check_queue(options)
    }

    /// Does an admin command.
    ///
    /// # Errors
    /// When there is no controller to do it, or it refuses.
    fn admin(&self, _: AdminCommand) -> Result<Outcome> {
        Err(Error::no_controller(&self.identity().model))
    }
}

impl Synchronous for Target {
    type Request = Request;

    #[inline]
    fn check(&self, command: &Command) -> Result<Request> {
        Request::of(command, &self.shape())
    }

    #[inline(always)]
    fn take(&self, command: Command) -> Result<(Request, Memory), Refused> {
        let (request, memory, ()) = Request::take(command, &self.shape(), |_| Ok(()))?;
        Ok((request, memory))
    }

    #[inline(always)]
    fn perform(&self, request: Request, memory: Memory) -> Result<Outcome, Failed> {
        work::run(self, request, memory)
    }

    fn identity(&self) -> &Identity {
        self.identity()
    }

    fn capabilities(&self, overlaps: bool, cancel: bool) -> Capabilities {
        self.capabilities(overlaps, cancel)
    }

    fn namespaces(&self) -> Result<Vec<Namespace>> {
        self.namespaces()
    }

    fn admin(&self, command: AdminCommand) -> Result<Outcome> {
        self.admin(&command)
    }
}
