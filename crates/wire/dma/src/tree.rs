//! A persistent (immutable) ordered map: inserting or removing yields a new map that shares all but the nodes on the
//! path. Both take logarithmic time, and readers of the old map are not disturbed.
//!
//! An AVL tree (Adelson-Velsky and Landis, 1962): the heights of siblings differ by at most 1.

use std::cmp::Ordering;
use std::sync::Arc;

type Link<T> = Option<Arc<Node<T>>>;

#[derive(Debug)]
struct Node<T> {
    key: u64,
    value: T,
    height: u8,
    left: Link<T>,
    right: Link<T>,
}

/// The map.
#[derive(Debug)]
pub(crate) struct Tree<T> {
    root: Link<T>,
}

impl<T> Default for Tree<T> {
    fn default() -> Self {
        Self { root: None }
    }
}

impl<T> Tree<T> {
    /// The value with the greatest key not above `key`.
    #[inline]
    pub fn at_or_below(&self, key: u64) -> Option<&T> {
        let (mut link, mut found) = (&self.root, None);
        while let Some(node) = link {
            if node.key <= key {
                found = Some(&node.value);
                link = &node.right;
            } else {
                link = &node.left;
            }
        }
        found
    }
}

impl<T: Clone> Tree<T> {
    /// The map with `value` at `key`, replacing any earlier value.
    pub fn with(&self, key: u64, value: T) -> Self {
        Self { root: with(&self.root, key, value) }
    }

    /// The map without `key`, and the removed value; `None` if there is none.
    pub fn without(&self, key: u64) -> Option<(Self, T)> {
        let (root, value) = without(&self.root, key)?;
        Some((Self { root }, value))
    }
}

fn height<T>(link: &Link<T>) -> u8 {
    link.as_ref().map_or(0, |node| node.height)
}

fn node<T>(key: u64, value: T, left: Link<T>, right: Link<T>) -> Link<T> {
    let height = 1 + height(&left).max(height(&right));
    Some(Arc::new(Node { key, value, height, left, right }))
}

/// A node over two trees whose heights differ by at most 2.
fn balanced<T: Clone>(key: u64, value: T, left: Link<T>, right: Link<T>) -> Link<T> {
    match (&left, &right) {
        (Some(l), _) if l.height > height(&right) + 1 => rotate_right(key, value, l, right),
        (_, Some(r)) if r.height > height(&left) + 1 => rotate_left(key, value, left, r),
        _ => node(key, value, left, right),
    }
}

/// Rotates: the left tree is too high.
fn rotate_right<T: Clone>(key: u64, value: T, left: &Node<T>, right: Link<T>) -> Link<T> {
    match &left.right {
        Some(mid) if mid.height > height(&left.left) => {
            let low = node(left.key, left.value.clone(), left.left.clone(), mid.left.clone());
            node(mid.key, mid.value.clone(), low, node(key, value, mid.right.clone(), right))
        }
        mid => {
            let high = node(key, value, mid.clone(), right);
            node(left.key, left.value.clone(), left.left.clone(), high)
        }
    }
}

/// Rotates: the right tree is too high.
fn rotate_left<T: Clone>(key: u64, value: T, left: Link<T>, right: &Node<T>) -> Link<T> {
    match &right.left {
        Some(mid) if mid.height > height(&right.right) => {
            let high = node(right.key, right.value.clone(), mid.right.clone(), right.right.clone());
            node(mid.key, mid.value.clone(), node(key, value, left, mid.left.clone()), high)
        }
        mid => {
            let low = node(key, value, left, mid.clone());
            node(right.key, right.value.clone(), low, right.right.clone())
        }
    }
}

fn with<T: Clone>(link: &Link<T>, key: u64, value: T) -> Link<T> {
    let Some(here) = link else { return node(key, value, None, None) };
    let (left, right) = (&here.left, &here.right);
    match key.cmp(&here.key) {
        Ordering::Less => balanced(here.key, here.value.clone(), with(left, key, value), right.clone()),
        Ordering::Greater => balanced(here.key, here.value.clone(), left.clone(), with(right, key, value)),
        Ordering::Equal => node(key, value, left.clone(), right.clone()),
    }
}

fn without<T: Clone>(link: &Link<T>, key: u64) -> Option<(Link<T>, T)> {
    let here = link.as_ref()?;
    let (left, right) = (&here.left, &here.right);
    match key.cmp(&here.key) {
        Ordering::Less => {
            let (rest, gone) = without(left, key)?;
            Some((balanced(here.key, here.value.clone(), rest, right.clone()), gone))
        }
        Ordering::Greater => {
            let (rest, gone) = without(right, key)?;
            Some((balanced(here.key, here.value.clone(), left.clone(), rest), gone))
        }
        Ordering::Equal => Some((joined(left, right), here.value.clone())),
    }
}

/// Joins two siblings after their parent was removed.
fn joined<T: Clone>(left: &Link<T>, right: &Link<T>) -> Link<T> {
    let Some(mut least) = right.as_ref() else { return left.clone() };
    while let Some(lesser) = &least.left {
        least = lesser;
    }
    let (rest, value) = without(right, least.key)?;
    balanced(least.key, value, left.clone(), rest)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// The tree's height; asserts that it is ordered and balanced.
    fn checked(link: &Link<u32>, above: Option<u64>, below: Option<u64>) -> u8 {
        let Some(here) = link else { return 0 };
        assert!(above.is_none_or(|above| here.key > above) && below.is_none_or(|below| here.key < below));
        let left = checked(&here.left, above, Some(here.key));
        let right = checked(&here.right, Some(here.key), below);
        assert!(left.abs_diff(right) <= 1);
        assert_eq!(here.height, 1 + left.max(right));
        here.height
    }

    #[test]
    fn tree_height_stays_within_the_avl_bound_for_any_order() {
        let orders: [fn(u64) -> u64; 3] =
            [|at| at, |at| 70_000 - at, |at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15)];
        for order in orders {
            let mut tree = Tree::default();
            for at in 0..2000 {
                tree = tree.with(order(at), 0);
            }
            // At most 1.44 log2(2000), the AVL bound.
            assert!(checked(&tree.root, None, None) <= 15);
        }
    }

    proptest! {
        #[test]
        fn tree_matches_a_map_and_older_versions_stay_unchanged(
            steps in prop::collection::vec((any::<bool>(), 0u64..40, any::<u32>()), 1..120),
        ) {
            let (mut tree, mut map) = (Tree::default(), BTreeMap::new());
            for (puts, key, value) in steps {
                let (before, known) = (Tree { root: tree.root.clone() }, map.clone());
                if puts {
                    tree = tree.with(key, value);
                    map.insert(key, value);
                } else {
                    let taken = tree.without(key);
                    prop_assert_eq!(taken.as_ref().map(|(_, value)| *value), map.remove(&key));
                    tree = taken.map_or(tree, |(rest, _)| rest);
                }
                checked(&tree.root, None, None);
                for key in 0..42 {
                    let last = |map: &BTreeMap<u64, u32>| map.range(..=key).next_back().map(|(_, value)| *value);
                    prop_assert_eq!(tree.at_or_below(key).copied(), last(&map));
                    prop_assert_eq!(before.at_or_below(key).copied(), last(&known));
                }
            }
        }
    }
}
