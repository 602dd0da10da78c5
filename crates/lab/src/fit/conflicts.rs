//! Which points hold together, and which contradict each other.
//!
//! A set of points is *irreducible* if no values satisfy all of it and some satisfy it without any one of its points. Every such set
//! has to lose a point. The fewest points that all of them can lose are found by implicit hitting sets (Reiter 1987): guess the
//! fewest from the sets known, look whether the rest hold together, and if not reduce the rest to one more set.

use anyhow::Result;

/// A set of points, a bit for each, by their place.
pub type Set = u32;

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Largest {
    /// Each choice of the fewest points without which the others hold together.
    pub dropped: Vec<Set>,
    /// Irreducible sets that show that fewer would not do.
    pub conflicts: Vec<Set>,
}

/// Reduces a set that does not hold to an irreducible one: points are taken out from the last to the first.
///
/// # Errors
/// Those of `holds`.
pub fn irreducible(set: Set, holds: &mut impl FnMut(Set) -> Result<bool>) -> Result<Set> {
    let mut left = set;
    for point in places(set).rev() {
        let without = left & !(1 << point);
        if !holds(without)? {
            left = without;
        }
    }
    Ok(left)
}

/// The irreducible sets of at most `most` points that, beside one point, do not hold.
///
/// # Errors
/// Those of `holds`.
pub fn against(
    point: Set,
    among: Set,
    most: u32,
    holds: &mut impl FnMut(Set) -> Result<bool>,
) -> Result<Vec<Set>> {
    let mut found: Vec<Set> = Vec::new();
    for size in 0..=most {
        for set in subsets(among, size) {
            if found.iter().all(|less| less & set != *less) && !holds(set | point)? {
                found.push(set);
            }
        }
    }
    Ok(found)
}

/// The subsets of so many points.
fn subsets(of: Set, size: u32) -> impl Iterator<Item = Set> {
    (0..=of).filter(move |set| set & !of == 0 && set.count_ones() == size)
}

/// The places of the points of a set, in their order.
pub fn places(set: Set) -> impl DoubleEndedIterator<Item = usize> {
    (0..Set::BITS as usize).filter(move |place| set & (1 << place) != 0)
}

/// Finds the largest sets of `count` points that hold.
///
/// # Errors
/// Those of `holds`.
pub fn largest(count: usize, holds: &mut impl FnMut(Set) -> Result<bool>) -> Result<Largest> {
    let all: Set = (1 << count) - 1;
    let (mut dropped, mut conflicts): (Vec<Set>, Vec<Set>) = (Vec::new(), Vec::new());
    for size in 0..=count as u32 {
        let mut guess = 0;
        while let Some(found) = next_hitting(guess, all, size, &conflicts) {
            if holds(all & !found)? {
                dropped.push(found);
            } else {
                conflicts.push(irreducible(all & !found, holds)?);
            }
            guess = found + 1;
        }
        if !dropped.is_empty() {
            break;
        }
    }
    Ok(Largest { dropped, conflicts })
}

/// The first set from `from` on of `size` points that has a point of every conflict.
fn next_hitting(from: Set, all: Set, size: u32, conflicts: &[Set]) -> Option<Set> {
    (from..=all).find(|set| set.count_ones() == size && conflicts.iter().all(|conflict| conflict & set != 0))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Whether a set has none of some conflicts whole.
    fn without(conflicts: &[Set]) -> impl FnMut(Set) -> Result<bool> {
        move |set| Ok(conflicts.iter().all(|conflict| conflict & set != *conflict))
    }

    #[test]
    fn set_is_reduced_to_points_that_each_matter() {
        let mut holds = without(&[0b0110, 0b1001]);
        assert_eq!(irreducible(0b1111, &mut holds).unwrap(), 0b0110);
        assert_eq!(irreducible(0b1101, &mut holds).unwrap(), 0b1001);
        assert_eq!(places(0b1010).collect::<Vec<_>>(), [1, 3]);
    }

    #[test]
    fn fewest_points_are_dropped_in_each_way_that_there_is() {
        let largest = super::largest(4, &mut without(&[0b0001, 0b0110])).unwrap();
        assert_eq!(largest.dropped, [0b0011, 0b0101]);
        assert_eq!(largest.conflicts, [0b0001, 0b0110]);
    }

    #[test]
    fn sets_against_a_point_are_the_smallest() {
        let mut holds = without(&[0b1001, 0b1110, 0b1111]);
        assert_eq!(against(0b1000, 0b0111, 2, &mut holds).unwrap(), [0b0001, 0b0110]);
        assert_eq!(against(0b0001, 0b0110, 2, &mut holds).unwrap(), Vec::<Set>::new());
        assert_eq!(against(0b0001, 0b0110, 2, &mut without(&[0b0001])).unwrap(), [0]);
    }

    #[test]
    fn points_that_hold_together_are_all_kept() {
        let largest = super::largest(3, &mut without(&[])).unwrap();
        assert_eq!((largest.dropped, largest.conflicts), (vec![0], vec![]));
    }
}
