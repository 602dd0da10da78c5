//! Metric families: a name, a help text and samples with labels, written by `prometheus-client`.

use std::fmt;

use byway_local::DeviceSnapshot;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, EncodeLabel, EncodeLabelSet, LabelSetEncoder,
    MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;

/// The NQN of a subsystem and its device's figures.
type Devices<'a> = &'a [(String, DeviceSnapshot)];

/// Writes families, each once and whole.
pub(super) struct Families<'e, 'd> {
    encoder: DescriptorEncoder<'e>,
    devices: Devices<'d>,
}

/// The samples of one family.
pub(super) struct Samples<'a> {
    encoder: MetricEncoder<'a>,
    /// The subsystem that a sample is of, where there are several.
    subsystem: Option<String>,
}

/// A sample's labels, the subsystem's first.
struct Labels<'a> {
    subsystem: Option<&'a str>,
    others: &'a [(&'a str, &'a str)],
}

impl EncodeLabelSet for Labels<'_> {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        let subsystem = self.subsystem.map(|nqn| ("subsystem", nqn));
        subsystem.iter().chain(self.others).try_for_each(|label| label.encode(encoder.encode_label()))
    }
}

impl<'e, 'd> Families<'e, 'd> {
    /// Families of the process and its fronts, and of `devices`.
    pub fn new(encoder: DescriptorEncoder<'e>, devices: Devices<'d>) -> Self {
        Self { encoder, devices }
    }

    /// A counter, `name` without `_total`, which is added to it.
    pub fn counter(
        &mut self,
        name: &str,
        help: &str,
        sample: impl FnOnce(&mut Samples<'_>) -> fmt::Result,
    ) -> fmt::Result {
        self.family(name, help, MetricType::Counter, sample)
    }

    /// A gauge.
    pub fn gauge(
        &mut self,
        name: &str,
        help: &str,
        sample: impl FnOnce(&mut Samples<'_>) -> fmt::Result,
    ) -> fmt::Result {
        self.family(name, help, MetricType::Gauge, sample)
    }

    /// A family with samples of each device.
    pub fn of_devices(
        &mut self,
        kind: MetricType,
        name: &str,
        help: &str,
        sample: impl Fn(&mut Samples<'_>, &DeviceSnapshot) -> fmt::Result,
    ) -> fmt::Result {
        let devices = self.devices;
        self.family(name, help, kind, |samples| {
            for (nqn, device) in devices {
                samples.subsystem = (devices.len() > 1).then(|| nqn.clone());
                sample(samples, device)?;
            }
            Ok(())
        })
    }

    fn family(
        &mut self,
        name: &str,
        help: &str,
        kind: MetricType,
        sample: impl FnOnce(&mut Samples<'_>) -> fmt::Result,
    ) -> fmt::Result {
        let encoder = self.encoder.encode_descriptor(name, help, None, kind)?;
        sample(&mut Samples { encoder, subsystem: None })
    }
}

impl Samples<'_> {
    /// Adds a sample of a counter.
    pub fn count(&mut self, labels: &[(&str, &str)], value: impl EncodeCounterValue) -> fmt::Result {
        let labels = Labels { subsystem: self.subsystem.as_deref(), others: labels };
        let exemplar: Option<&Exemplar<NoLabelSet, f64>> = None;
        self.encoder.encode_family(&labels)?.encode_counter(&value, exemplar)
    }

    /// Adds a sample of a gauge.
    pub fn value(&mut self, labels: &[(&str, &str)], value: impl EncodeGaugeValue) -> fmt::Result {
        let labels = Labels { subsystem: self.subsystem.as_deref(), others: labels };
        self.encoder.encode_family(&labels)?.encode_gauge(&value)
    }

    /// Adds a histogram: its sum, its count, and how many are in each bucket, by the bucket's upper bound.
    pub fn histogram(
        &mut self,
        labels: &[(&str, &str)],
        sum: f64,
        count: u64,
        buckets: &[(f64, u64)],
    ) -> fmt::Result {
        let labels = Labels { subsystem: self.subsystem.as_deref(), others: labels };
        self.encoder.encode_family(&labels)?.encode_histogram::<NoLabelSet>(sum, count, buckets, None)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use prometheus_client::collector::Collector;
    use prometheus_client::encoding::prometheus_text;
    use prometheus_client::registry::Registry;

    use super::*;

    #[derive(Debug)]
    struct Example;

    impl Collector for Example {
        fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
            let mut families = Families::new(encoder, &[]);
            families.gauge("a", "Of a.", |samples| {
                samples.value(&[("x", "q\"\\\n"), ("y", "")], 1.5)?;
                samples.subsystem = Some("n".to_owned());
                samples.value(&[("x", "0")], 2_u64)
            })?;
            families.counter("c", "Of c.", |samples| samples.count(&[], 7_u64))?;
            families.family("h", "Of h.", MetricType::Histogram, |samples| {
                samples.histogram(&[("x", "1")], 3.25, 2, &[(0.5, 1), (1.0, 0)])
            })
        }
    }

    #[test]
    fn labels_are_escaped_and_the_subsystem_is_the_first() {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Example));
        let mut text = String::new();
        prometheus_text::encode(&mut text, &registry).unwrap();
        let wanted = "# HELP a Of a.\n# TYPE a gauge\na{x=\"q\\\"\\\\\\n\",y=\"\"} 1.5\n\
            a{subsystem=\"n\",x=\"0\"} 2\n\
            # HELP c_total Of c.\n# TYPE c_total counter\nc_total 7\n\
            # HELP h Of h.\n# TYPE h histogram\nh_bucket{x=\"1\",le=\"0.5\"} 1\nh_bucket{x=\"1\",le=\"1\"} 1\n\
            h_bucket{x=\"1\",le=\"+Inf\"} 2\nh_sum{x=\"1\"} 3.25\nh_count{x=\"1\"} 2\n";
        assert_eq!(text, wanted);
    }
}
