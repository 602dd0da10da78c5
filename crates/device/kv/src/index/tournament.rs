//! Which of several sources in key order comes next: a tree of losers.
//!
//! Taking the winner and entering its next key costs one comparison for each level of the tree. Of sources that are
//! at the same key, the first wins: the newest. In descending order keys are complemented.

use crate::index::entry::Entry;
use crate::index::key_order::KeyOrder;
use byway_spec::kv::KEY_MAX_BYTES;

/// A source's current key: its number, then its length and the source. A source at its end sorts behind all keys.
type Head = (u128, u64);

const AT_END: Head = (u128::MAX, u64::MAX);

/// The least current key of the sources other than the winner: its number and length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit(u128, u64);

impl Limit {
    /// Whether an entry's key is below it.
    #[inline]
    pub(crate) fn is_above(self, entry: &Entry) -> bool {
        entry.number() < self.0 || entry.number() == self.0 && (entry.shape().key_len() as u64) < self.1
    }
}

/// A tree of losers over numbered sources.
pub(crate) struct Tournament {
    heads: Vec<Head>,
    /// The winner at 0, and at each inner node the source that lost there.
    nodes: Vec<usize>,
    order: KeyOrder,
}

impl Tournament {
    /// A tournament of sources with the current keys `heads`; `None` for one at its end.
    pub(crate) fn new<'a>(order: KeyOrder, heads: impl Iterator<Item = Option<&'a Entry>>) -> Self {
        let heads: Vec<Head> =
            heads.enumerate().map(|(source, entry)| head_of(order, source, entry)).collect();
        let mut tournament = Self { nodes: vec![0; heads.len().max(1)], heads, order };
        if tournament.heads.len() > 1 {
            tournament.nodes[0] = tournament.play(1);
        }
        tournament
    }

    /// The source that comes next; `None` when all are at their end.
    #[inline]
    pub(crate) fn winner(&self) -> Option<usize> {
        let winner = self.nodes[0];
        self.heads.get(winner).filter(|head| **head != AT_END).map(|_| winner)
    }

    /// In ascending order: the least current key of the sources other than the winner, whose entries below it come next.
    #[inline]
    pub(crate) fn limit(&self) -> Limit {
        let mut least = AT_END;
        let mut node = (self.nodes[0] + self.heads.len()) / 2;
        while node > 0 {
            least = least.min(self.heads.get(self.nodes[node]).copied().unwrap_or(AT_END));
            node /= 2;
        }
        Limit(least.0, least.1 >> 32)
    }

    /// Updates the tree after the winner moved to another entry, or to its end.
    #[inline]
    pub(crate) fn replace(&mut self, entry: Option<&Entry>) {
        let mut winner = self.nodes[0];
        let Some(head) = self.heads.get_mut(winner) else { return };
        *head = head_of(self.order, winner, entry);
        let mut node = (winner + self.heads.len()) / 2;
        while node > 0 {
            let loser = self.nodes[node];
            if self.heads[loser] < self.heads[winner] {
                self.nodes[node] = winner;
                winner = loser;
            }
            node /= 2;
        }
        self.nodes[0] = winner;
    }

    /// Plays everything below a node; its winner.
    fn play(&mut self, node: usize) -> usize {
        let sources = self.heads.len();
        if node >= sources {
            return node - sources;
        }
        let (one, other) = (self.play(2 * node), self.play(2 * node + 1));
        let one_wins = self.heads[one] < self.heads[other];
        let (winner, loser) = if one_wins { (one, other) } else { (other, one) };
        self.nodes[node] = loser;
        winner
    }
}

#[inline]
fn head_of(order: KeyOrder, source: usize, entry: Option<&Entry>) -> Head {
    let Some(entry) = entry else { return AT_END };
    let (number, len) = (entry.number(), entry.shape().key_len() as u64);
    match order {
        KeyOrder::Ascending => (number, len << 32 | source as u64),
        KeyOrder::Descending => (!number, (KEY_MAX_BYTES as u64 - len) << 32 | source as u64),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::value_log::record::{Kind, Shape};
    use byway_spec::Key;
    use proptest::prelude::*;

    fn entry(key: u8, source: usize) -> Entry {
        let key = Key::new(&[key]).unwrap();
        Entry::new(&key, Shape::new(Kind::Value, 1, 0), source as u64, 1)
    }

    proptest! {
        #[test]
        fn sources_come_in_order_and_the_first_of_equals_before_the_others(
            sources in proptest::collection::vec(proptest::collection::btree_set(any::<u8>(), 0..20), 0..9),
        ) {
            let entries = |(source, keys): (usize, &std::collections::BTreeSet<u8>)| {
                keys.iter().map(|key| entry(*key, source)).collect::<Vec<_>>()
            };
            let lists: Vec<Vec<Entry>> = sources.iter().enumerate().map(entries).collect();
            let mut places = vec![0; lists.len()];
            let mut tournament = Tournament::new(KeyOrder::Ascending, lists.iter().map(|list| list.first()));
            let mut merged = Vec::new();
            while let Some(source) = tournament.winner() {
                let others = (0..lists.len()).filter(|other| *other != source);
                let least = others.filter_map(|other| lists[other].get(places[other])).map(Entry::key).min();
                for entry in &lists[source][places[source]..] {
                    let is_above = tournament.limit().is_above(entry);
                    prop_assert_eq!(is_above, least.is_none_or(|least| entry.key() < least));
                }
                merged.push(lists[source][places[source]]);
                places[source] += 1;
                tournament.replace(lists[source].get(places[source]));
            }
            let mut wanted: Vec<Entry> = lists.concat();
            wanted.sort_by_key(|entry| (entry.key(), entry.address()));
            prop_assert_eq!(merged, wanted);
        }

        #[test]
        fn descending_sources_come_in_reverse_and_the_first_of_equals_before_the_others(
            sources in proptest::collection::vec(proptest::collection::btree_set(proptest::collection::vec(any::<u8>(), 1..3), 0..20), 0..9),
        ) {
            let entry = |key: &Vec<u8>, source: usize| {
                let key = Key::new(key).unwrap();
                Entry::new(&key, Shape::new(Kind::Value, key.len(), 0), source as u64, 1)
            };
            let lists: Vec<Vec<Entry>> = (0..).zip(&sources)
                .map(|(source, keys)| keys.iter().rev().map(|key| entry(key, source)).collect())
                .collect();
            let mut places = vec![0; lists.len()];
            let mut tournament = Tournament::new(KeyOrder::Descending, lists.iter().map(|list| list.first()));
            let mut merged = Vec::new();
            while let Some(source) = tournament.winner() {
                merged.push(lists[source][places[source]]);
                places[source] += 1;
                tournament.replace(lists[source].get(places[source]));
            }
            let mut wanted: Vec<Entry> = lists.concat();
            wanted.sort_by(|one, other| other.key().cmp(&one.key()).then(one.address().cmp(&other.address())));
            prop_assert_eq!(merged, wanted);
        }
    }
}
