//! Lists of capabilities at the end of the kernel's answers.

/// The bytes of a capability behind its header: of the first with this id in the list that begins at `first`.
///
/// Offsets lead forwards only; one that does not ends the list, whatever the kernel meant by it.
pub(super) fn find(answer: &[u8], first: u32, id: u16) -> Option<&[u8]> {
    let mut at = first as usize;
    while at > 0 {
        let (head, body) = answer.get(at..)?.split_first_chunk::<8>()?;
        let [low, high, _, _, next @ ..] = *head;
        if u16::from_ne_bytes([low, high]) == id {
            return Some(body);
        }
        let next = u32::from_ne_bytes(next) as usize;
        at = if next > at { next } else { 0 };
    }
    None
}

/// The pairs of 64-bit numbers of a list: a 32-bit count, 32 bits of padding, and so many pairs, as far as they are there.
pub(super) fn pairs(body: &[u8]) -> Vec<(u64, u64)> {
    let Some((head, rest)) = body.split_first_chunk::<8>() else { return Vec::new() };
    let [a, b, c, d, ..] = *head;
    let count = u32::from_ne_bytes([a, b, c, d]) as usize;
    let (pairs, _) = rest.as_chunks::<16>();
    let pair = |bytes: &[u8; 16]| {
        let value = u128::from_ne_bytes(*bytes);
        let (low, high) = (value as u64, (value >> 64) as u64);
        if cfg!(target_endian = "little") { (low, high) } else { (high, low) }
    };
    pairs.iter().take(count).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capability(id: u16, next: u32, body: &[u64]) -> Vec<u8> {
        let mut bytes = [id.to_ne_bytes(), 1_u16.to_ne_bytes()].concat();
        bytes.extend(next.to_ne_bytes());
        bytes.extend(body.iter().flat_map(|word| word.to_ne_bytes()));
        bytes
    }

    #[test]
    fn a_capability_is_found_behind_others() {
        let other = capability(7, 48, &[0; 3]);
        let count = u64::from_ne_bytes([2_u32.to_ne_bytes(), [0; 4]].concat().try_into().unwrap_or_default());
        let ours = capability(1, 0, &[count, 0x1000, 0x2000, 0x5000, 0x6000, 9, 9]);
        let answer = [vec![0; 16], other, ours].concat();
        let found = find(&answer, 16, 1).map(pairs);
        assert_eq!(found, Some(vec![(0x1000, 0x2000), (0x5000, 0x6000)]));
        assert_eq!(find(&answer, 16, 9), None);
        assert_eq!(find(&answer, 0, 1), None);
    }

    #[test]
    fn a_list_that_leads_back_or_outside_ends() {
        let back = [vec![0; 16], capability(7, 16, &[0])].concat();
        assert_eq!(find(&back, 16, 1), None);
        let outside = [vec![0; 16], capability(7, 4000, &[0])].concat();
        assert_eq!(find(&outside, 16, 1), None);
        assert_eq!(find(&outside, 20_000, 1), None);
        assert_eq!(pairs(&u32::MAX.to_ne_bytes()), []);
    }
}
