//! The few reckonings that most claims share.

use std::ops::RangeInclusive;

use byway_measure::rows::TransferRow;

use super::super::account::Account;
use super::super::measured::Measured;
use super::{Figure, Ours};

/// A figure under every account, where there is one.
fn by_account(figure: impl Fn(Account) -> Option<Figure>) -> Vec<Ours> {
    let ours = |account: Account| Some(Ours { by: account.name(), figure: figure(account)? });
    Account::ALL.into_iter().filter_map(ours).collect()
}

/// One figure, reckoned one way.
pub fn one(by: &'static str, figure: Option<Figure>) -> Vec<Ours> {
    figure.map(|figure| Ours { by, figure }).into_iter().collect()
}

/// How many percent less one figure is than another.
pub fn percent_less(less: f64, more: f64) -> f64 {
    (1.0 - less / more) * 100.0
}

/// Pairs of rows of two methods at the same sizes.
pub fn pairs<'a>(
    measured: &'a Measured,
    setting: &str,
    (method, base): (&str, &str),
    sizes: RangeInclusive<u32>,
) -> impl Iterator<Item = (&'a TransferRow, &'a TransferRow)> {
    measured
        .of(setting, method)
        .filter(move |row| (f64::from(*sizes.start())..=f64::from(*sizes.end())).contains(&row.size))
        .filter_map(move |row| Some((row, measured.point(setting, base, row.size as u32)?)))
}

/// The most that one method's traffic is less than another's, in percent.
pub fn most_traffic_saved(
    measured: &Measured,
    setting: &str,
    methods: (&str, &str),
    sizes: RangeInclusive<u32>,
) -> Vec<Ours> {
    by_account(|account| {
        pairs(measured, setting, methods, sizes.clone())
            .map(|(row, base)| percent_less(account.bytes(row), account.bytes(base)))
            .reduce(f64::max)
            .map(Figure::Percent)
    })
}

/// The most that one method's modelled time is less than another's, in percent.
pub fn most_time_saved(
    measured: &Measured,
    setting: &str,
    methods: (&str, &str),
    sizes: RangeInclusive<u32>,
) -> Vec<Ours> {
    let saved = pairs(measured, setting, methods, sizes)
        .filter_map(|(row, base)| Some(percent_less(row.model_ns_mean?, base.model_ns_mean?)))
        .reduce(f64::max);
    one("modelled time", saved.map(Figure::Percent))
}

/// A method's traffic at one size, over a number of bytes.
pub fn traffic_over(
    measured: &Measured,
    (setting, method, size): (&str, &str, u32),
    over_bytes: f64,
) -> Vec<Ours> {
    by_account(|account| {
        let row = measured.point(setting, method, size)?;
        Some(Figure::Times(account.bytes(row) / over_bytes))
    })
}

/// The first size at which a method's traffic is at least another's, between measured sizes by proportion.
pub fn traffic_crossing(measured: &Measured, setting: &str, methods: (&str, &str)) -> Vec<Ours> {
    by_account(|account| {
        let curve = pairs(measured, setting, methods, 0..=1 << 20)
            .map(|(row, base)| (row.size, account.bytes(row) - account.bytes(base)));
        crossing(curve).map(Figure::Bytes)
    })
}

/// The first size at which a method's modelled time is at least another's.
pub fn time_crossing(measured: &Measured, setting: &str, methods: (&str, &str)) -> Vec<Ours> {
    let curve = pairs(measured, setting, methods, 0..=1 << 20)
        .filter_map(|(row, base)| Some((row.size, row.model_ns_mean? - base.model_ns_mean?)));
    one("modelled time", crossing(curve).map(Figure::Bytes))
}

/// Where a curve first reaches zero from below.
fn crossing(curve: impl Iterator<Item = (f64, f64)>) -> Option<f64> {
    let mut before: Option<(f64, f64)> = None;
    for (size, height) in curve {
        if height >= 0.0 {
            return Some(match before {
                Some((lower, depth)) => lower + (size - lower) * depth / (depth - height),
                None => size,
            });
        }
        before = Some((size, height));
    }
    None
}

/// How many percent less one workload run's traffic is than another's.
pub fn workload_traffic_saved(
    measured: &Measured,
    setting: &str,
    workload: &str,
    (label, base): (&str, &str),
) -> Vec<Ours> {
    by_account(|account| {
        let row = measured.workload(setting, label, workload)?;
        let base = measured.workload(setting, base, workload)?;
        Some(Figure::Percent(percent_less(account.bytes(&row.put), account.bytes(&base.put))))
    })
}

/// One workload run's throughput over another's.
pub fn throughput_ratio(
    measured: &Measured,
    setting: &str,
    workload: &str,
    (label, base): (&str, &str),
) -> Option<f64> {
    let ops = measured.workload(setting, label, workload)?.ops_per_s_model?;
    Some(ops / measured.workload(setting, base, workload)?.ops_per_s_model?)
}

/// Whether something holds for every one of some measured pairs; nothing if there are none.
pub fn for_all<T>(items: impl Iterator<Item = T>, holds: impl Fn(T) -> bool) -> Option<Figure> {
    let mut items = items.peekable();
    items.peek()?;
    Some(Figure::Holds(items.all(holds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crossing_lies_between_the_sizes_around_it() {
        assert_eq!(crossing([(1.0, -4.0), (2.0, -2.0), (4.0, 2.0)].into_iter()), Some(3.0));
        assert_eq!(crossing([(8.0, 1.0)].into_iter()), Some(8.0));
        assert_eq!(crossing([(8.0, -1.0)].into_iter()), None);
    }

    #[test]
    fn claim_over_no_rows_has_no_figure() {
        assert_eq!(for_all(std::iter::empty::<u32>(), |_| true), None);
        assert_eq!(for_all([1, 2].into_iter(), |number| number < 2), Some(Figure::Holds(false)));
    }
}
