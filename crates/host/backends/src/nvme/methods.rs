//! Transfer methods of commands that are passed through: what the device announced, and must have enabled before use.

use byway_core::{AdminCommand, Error, ErrorKind, KvCommand, Memory, Payload, Result};
use byway_link::Method;
use byway_spec::Status;
use byway_spec::vendor::{self, FEATURE_METHODS};
use byway_sys::NvmeAnswer;

use super::offer::{Enabled, is_refusal};
use super::passage::Passage;
use super::passed::Passed;
use super::pieces::{Onward, Pieces};
use super::target::NvmeTarget;

impl<P: Passage> NvmeTarget<P> {
    /// The same as its queue's transfer method has it go: `piggyback-pt` in pieces as far as the device takes it,
    /// `adaptive` where that is the first command alone.
    #[inline]
    pub(crate) fn by_method(&self, passed: Passed, method: Method) -> Passed {
        if method != Method::Prp && passed.can_go_in_pieces {
            return self.in_pieces(passed, method);
        }
        passed
    }

    fn in_pieces(&self, passed: Passed, method: Method) -> Passed {
        if !self.offer.carries(method, passed.command.cdw10_15[0].into()) {
            return passed;
        }
        // After a reset the method is enabled again; a device that refuses is not asked for every store.
        if !self.offer.pieces.is_enabled() && self.enable_pieces().is_err() {
            return passed;
        }
        Passed { pieces: Some(Pieces::default()), ..passed }
    }

    /// Whether a command needs to be enabled on the device, which is done here where it has not been.
    ///
    /// # Errors
    /// Where the device did not announce it, or refuses to enable it.
    #[inline]
    pub(super) fn admit_extension(&self, command: &KvCommand, len: u64) -> Result<bool> {
        match command {
            KvCommand::BulkStore { .. } => self.admit_bulk(len)?,
            KvCommand::Scan { .. } | KvCommand::RetrieveMany { .. } | KvCommand::DeleteRange { .. } => {}
            _ => return Ok(false),
        }
        self.kv().require(command)?;
        if !self.offer.extensions.is_enabled() {
            self.enable_extensions()?;
        }
        Ok(true)
    }

    /// Checks that one command may store pairs of `len` bytes in all.
    #[inline(never)]
    fn admit_bulk(&self, len: u64) -> Result<()> {
        let most = self.offer.bulk_max_bytes;
        if most == 0 {
            return Err(Error::host(ErrorKind::Unsupported, "the device did not announce bulk stores"));
        }
        if len > most.into() {
            let said = format!("a bulk store of {len} bytes is over the device's limit of {most} bytes");
            return Err(Error::host(ErrorKind::TooLarge, said));
        }
        Ok(())
    }

    fn enable_extensions(&self) -> Result<()> {
        let all = self.offer.extension_methods().into_bits();
        let with = |methods: vendor::Methods| vendor::Methods::from_bits(methods.into_bits() | all);
        self.enable(&self.offer.extensions, with, "enable bulk stores, scans and deletions of ranges")
    }

    pub(super) fn enable_pieces(&self) -> Result<()> {
        let what = "enable transfer method piggyback-pt";
        self.enable(&self.offer.pieces, |methods| methods.with_piggyback_pt(true), what)
    }

    /// Has the device do something that it offers, beside what others have it do: the methods are the controller's, which the
    /// kernel and other programs use too.
    fn enable(
        &self,
        enabled: &Enabled,
        with: impl FnOnce(vendor::Methods) -> vendor::Methods,
        doing: &'static str,
    ) -> Result<()> {
        let (feature, nsid, cdw11) = (FEATURE_METHODS.0, None, 0);
        let answer = self
            .send_admin(AdminCommand::GetFeature { feature, select: 0, nsid, cdw11, into: None })
            .and_then(|had| {
                let cdw11 = with(vendor::Methods::from_bits(had.dw0())).into_bits();
                let (save, cdw12, data) = (false, 0, Payload::Empty);
                self.send_admin(AdminCommand::SetFeature { feature, save, nsid, cdw11, cdw12, data })
            });
        match &answer {
            Ok(_) => enabled.set(true),
            Err(error) if is_refusal(error) => enabled.set(false),
            // A kernel that is short of memory, a device that was busy: that says nothing of the method.
            Err(_) => {}
        }
        answer.map(drop).map_err(|error| error.doing(doing))
    }

    /// Whether a command goes to the device again after an answer, as it is. A device that knows an
    /// enabled command no more was reset, by any host: such are enabled again, once for each command, since it has done
    /// nothing of this one.
    pub(super) fn goes_again(&self, passed: &mut Passed, answer: NvmeAnswer) -> bool {
        let is_unknown = Status(answer.status).is(Status::INVALID_OPCODE);
        if !is_unknown || !std::mem::take(&mut passed.needs_enabling) {
            return false;
        }
        self.offer.extensions.forgotten();
        self.enable_extensions().is_ok()
    }

    /// How a command goes on after an answer.
    pub(crate) fn onward(&self, passed: &mut Passed, answer: NvmeAnswer, memory: &Memory) -> Onward {
        if self.goes_again(passed, answer) {
            return Onward::Whole;
        }
        let was_in_pieces = passed.pieces.is_some();
        let onward = passed.onward(answer, memory);
        if was_in_pieces && Status(answer.status).is(Status::INVALID_OPCODE) {
            self.offer.pieces.forgotten();
        }
        onward
    }

    pub(super) fn check_method(&self, method: Method) -> Result<()> {
        if self.offer.methods().contains(method) {
            return Ok(());
        }
        let why = match method {
            Method::PiggybackPt => "is not announced by the device",
            _ => "is not to be had where the kernel passes commands on",
        };
        let said = format!(
            "transfer method {method} {why}; there are {} (the kernel chooses between PRPs and SGLs)",
            self.offer.methods()
        );
        Err(Error::host(ErrorKind::Unsupported, said))
    }
}
