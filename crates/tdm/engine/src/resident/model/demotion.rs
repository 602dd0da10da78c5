//! Each call is in the demoted file, or fails.

use super::{BEFORE, File, while_it_leaves};

const FIRST: u64 = 2;
const SECOND: u64 = 3;

fn append(file: &File, word: u64) -> bool {
    file.call(|file| file.append(8, &mut &word.to_le_bytes()[..]).map(|_| ()))
}

fn append_first(file: &File) -> bool {
    append(file, FIRST)
}

fn append_second(file: &File) -> bool {
    append(file, SECOND)
}

fn write_over(file: &File) -> bool {
    file.call(|file| file.write(0, 8, &mut &FIRST.to_le_bytes()[..]))
}

fn truncate(file: &File) -> bool {
    file.call(|file| file.truncate(0))
}

#[test]
fn append_is_in_the_demoted_file_or_fails() {
    while_it_leaves([append_first], |[is_done], below| {
        let expected = if is_done { vec![BEFORE, FIRST] } else { vec![BEFORE] };
        assert_eq!(below, expected);
    });
}

#[test]
fn two_appends_are_each_in_the_demoted_file_or_fail() {
    while_it_leaves([append_first, append_second], |[is_first, is_second], mut below| {
        below.sort_unstable();
        let done = [(true, BEFORE), (is_first, FIRST), (is_second, SECOND)];
        let expected: Vec<_> =
            done.into_iter().filter(|(is_done, _)| *is_done).map(|(_, word)| word).collect();
        assert_eq!(below, expected);
    });
}

#[test]
fn overwrite_is_in_the_demoted_file_or_fails() {
    while_it_leaves([write_over], |[is_done], below| {
        assert!(below == [FIRST] || !is_done && below == [BEFORE], "{below:?}");
    });
}

#[test]
fn truncation_is_in_the_demoted_file_or_fails() {
    while_it_leaves([truncate], |[is_done], below| {
        assert_eq!(below.is_empty(), is_done);
    });
}
