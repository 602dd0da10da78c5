//! Options of the adaptive policy, which mean something only together.

use byway_core::{AdaptivePolicy, Result};
use byway_link::Method;

use crate::uri::grammar::{invalid, parse, parse_size_u32};

/// What `policy=`, `tau=`, `alpha=` and `below=` say, until all options are read.
#[derive(Debug, Default)]
pub(crate) struct PolicyOptions {
    policy: Option<String>,
    tau_bytes: Option<u32>,
    alpha: Option<f32>,
    below: Option<Method>,
}

impl PolicyOptions {
    /// Takes one of the four options.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "policy" => self.policy = Some(value.to_owned()),
            "tau" => self.tau_bytes = Some(parse_size_u32(value)?),
            "alpha" => self.alpha = Some(parse(value)?),
            _ => self.below = Some(parse(value)?),
        }
        Ok(())
    }

    /// The policy that the options name, of a queue whose payloads cross by `transfer`.
    pub(crate) fn of(self, transfer: Method) -> Result<AdaptivePolicy> {
        let Some(policy) = self.named()? else { return Ok(AdaptivePolicy::default()) };
        if transfer != Method::Adaptive {
            return Err(invalid("policy is an option of transfer=adaptive"));
        }
        Ok(policy)
    }

    fn named(&self) -> Result<Option<AdaptivePolicy>> {
        let given = self.tau_bytes.is_some() || self.alpha.is_some() || self.below.is_some();
        Ok(Some(match self.policy.as_deref() {
            None | Some("bytes" | "time") if given => {
                return Err(invalid("tau, alpha and below are of policy=threshold"));
            }
            None => return Ok(None),
            Some("bytes") => AdaptivePolicy::Bytes,
            Some("time") => AdaptivePolicy::Time,
            Some("threshold") => AdaptivePolicy::Threshold {
                tau_bytes: self.tau_bytes.ok_or_else(|| invalid("policy=threshold needs tau=BYTES"))?,
                alpha: self.alpha.unwrap_or(1.0),
                below: self.below.unwrap_or(Method::Piggyback),
            },
            Some(other) => {
                return Err(invalid(format!("policy {other:?}: expected bytes, time or threshold")));
            }
        }))
    }
}
