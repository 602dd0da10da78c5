//! Structures that cross the border: each begins with its size, so that programs and libraries of different versions
//! understand each other.

use byway::Result;

use crate::arg::{invalid, want};

/// A size that no structure of this library will ever have: what is larger was not set.
const SIZE_MAX: usize = 4096;

/// A structure that crosses the border.
///
/// # Safety
/// It is `repr(C)`, begins with its size, any bit pattern is a value of it, and it has no padding that an older or a newer version
/// fills: zeroes stand for "not given".
pub(crate) unsafe trait Crossing: Copy {
    /// What C calls it.
    const NAME: &'static str;
    /// The size that it had in the first version that had it: less was not set.
    const FIRST_BYTES: usize;
}

/// Writes down that a structure crosses the border.
macro_rules! crossing {
    ($structure:ident of $first:expr) => {
        // SAFETY: `repr(C)`, `size` first, integers and raw pointers behind it.
        unsafe impl $crate::sized::Crossing for $structure {
            const NAME: &'static str = stringify!($structure);
            const FIRST_BYTES: usize = $first;
        }
        const _: () = assert!(std::mem::size_of::<$structure>() >= $first);
        const _: () = assert!(std::mem::offset_of!($structure, size) == 0);
    };
}
pub(crate) use crossing;

/// All zeroes.
fn zeroed<T: Crossing>() -> T {
    // SAFETY: any bit pattern is a value of a structure that crosses.
    unsafe { std::mem::zeroed() }
}

/// A structure that a program filled. What it does not know of is zero; what it knows beyond this library must be.
///
/// # Safety
/// `given` is NULL, or points to a structure that is as long as it says.
pub(crate) unsafe fn read<T: Crossing>(given: *const T) -> Result<T> {
    want(given, T::NAME)?;
    // SAFETY: not NULL; it begins with its size.
    let size = check_size::<T>(unsafe { given.cast::<usize>().read_unaligned() })?;
    let known = size.min(size_of::<T>());
    // SAFETY: it has `size` bytes, by the caller's word.
    let tail = unsafe { std::slice::from_raw_parts(given.cast::<u8>().add(known), size - known) };
    if tail.iter().any(|byte| *byte != 0) {
        let ours = size_of::<T>();
        return Err(invalid(format!(
            "{} has {size} bytes, and uses some behind the {ours} that this library knows",
            T::NAME
        )));
    }
    let mut read = zeroed::<T>();
    // SAFETY: both have `known` bytes, and they are two.
    unsafe {
        std::ptr::copy_nonoverlapping(given.cast::<u8>(), (&raw mut read).cast(), known);
    }
    Ok(read)
}

/// The structures of an array that a program filled. Of none of them it may be NULL.
///
/// # Safety
/// `first` is NULL or points to `count` structures, each as long as the first says, until the iterator is gone.
pub(crate) unsafe fn each<T: Crossing>(
    first: *const T,
    count: u32,
) -> Result<impl Iterator<Item = Result<T>> + Clone> {
    // SAFETY: the caller's word.
    let stride = if count == 0 { 0 } else { unsafe { stride(first) }? };
    // SAFETY: there are `count` of them at this distance.
    Ok((0..count as usize).map(move |index| unsafe { read(first.byte_add(index * stride)) }))
}

/// Fills a structure of a program's, as far as both know it; zeroes behind it. Its size becomes what was filled.
///
/// # Safety
/// `at` is NULL, or points to room for a structure that is as long as it says.
pub(crate) unsafe fn write<T: Crossing>(at: *mut T, value: &T) -> Result<()> {
    want(at, T::NAME)?;
    // SAFETY: not NULL; it begins with its size.
    let size = check_size::<T>(unsafe { at.cast::<usize>().read_unaligned() })?;
    let known = size.min(size_of::<T>());
    // SAFETY: `at` has `size` bytes, by the caller's word, `value` at least `known`, and they are two.
    unsafe {
        std::ptr::copy_nonoverlapping((&raw const *value).cast::<u8>(), at.cast::<u8>(), known);
        at.cast::<u8>().add(known).write_bytes(0, size - known);
        at.cast::<usize>().write_unaligned(known);
    }
    Ok(())
}

/// The distance between the structures of an array: the size that the first of them states.
///
/// # Safety
/// As [`write`], for the first of them.
#[inline(always)]
pub(crate) unsafe fn stride<T: Crossing>(first: *const T) -> Result<usize> {
    want(first, T::NAME)?;
    // SAFETY: not NULL; it begins with its size.
    let size = check_size::<T>(unsafe { first.cast::<usize>().read_unaligned() })?;
    if !size.is_multiple_of(align_of::<T>()) {
        return Err(invalid(format!("{}.size is {size}, which no array can have", T::NAME)));
    }
    Ok(size)
}

/// Fills an array of a program's, of which the first has its size set, with as many as there is room for.
///
/// # Safety
/// `first` is NULL or has room for `max` structures, each as long as the first says.
pub(crate) unsafe fn fill<T: Crossing>(
    first: *mut T,
    max: usize,
    values: impl Iterator<Item = T>,
) -> Result<()> {
    if max == 0 {
        return Ok(());
    }
    // SAFETY: the caller's word.
    let stride = unsafe { stride(first) }?;
    for (index, value) in values.take(max).enumerate() {
        // SAFETY: there is room for `max` of them, at this distance; each is as long as the first.
        unsafe {
            let at = first.byte_add(index * stride);
            at.cast::<usize>().write(stride);
            write(at, &value)?;
        }
    }
    Ok(())
}

#[inline]
fn check_size<T: Crossing>(size: usize) -> Result<usize> {
    if (T::FIRST_BYTES..=SIZE_MAX).contains(&size) { Ok(size) } else { Err(wrong_size::<T>(size)) }
}

#[cold]
fn wrong_size<T: Crossing>(size: usize) -> byway::Error {
    let (name, ours) = (T::NAME, size_of::<T>());
    invalid(format!("{name}.size is {size}: it is set to sizeof({name}), {ours} bytes here"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[repr(C)]
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct pair {
        size: usize,
        one: u64,
        two: u64,
    }
    crossing!(pair of 16);

    #[test]
    fn fields_beyond_an_older_programs_struct_are_zero() {
        let given = [16usize, 7, 99];
        // SAFETY: it has the 16 bytes that it says.
        let read = unsafe { read(given.as_ptr().cast::<pair>()) }.unwrap();
        assert_eq!(read, pair { size: 16, one: 7, two: 0 });
    }

    #[test]
    fn nonzero_fields_beyond_this_librarys_struct_are_refused() {
        let read = |given: [usize; 4]| {
            // SAFETY: it has the 32 bytes that it says.
            unsafe { read(given.as_ptr().cast::<pair>()) }
        };
        assert_eq!(read([32, 7, 8, 0]).unwrap().two, 8);
        assert!(read([32, 7, 8, 9]).unwrap_err().to_string().contains("behind the 24"));
    }

    #[test]
    fn a_size_that_was_not_set_is_refused() {
        for size in [0, 15, usize::MAX] {
            // SAFETY: no more than the size is read of what is refused.
            let read = unsafe { read([size, 0, 0].as_ptr().cast::<pair>()) };
            assert!(read.unwrap_err().to_string().contains("sizeof(pair), 24"));
        }
    }

    #[test]
    fn answer_fills_shared_fields_and_clears_the_rest() {
        let value = pair { size: 24, one: 1, two: 2 };
        let mut at = [32usize, 5, 5, 5];
        // SAFETY: it has the 32 bytes that it says.
        unsafe { write(at.as_mut_ptr().cast::<pair>(), &value) }.unwrap();
        assert_eq!(at, [24, 1, 2, 0]);
        let mut at = [16usize, 5, 5, 5];
        // SAFETY: it has the 16 bytes that it says.
        unsafe { write(at.as_mut_ptr().cast::<pair>(), &value) }.unwrap();
        assert_eq!(at, [16, 1, 5, 5]);
    }
}
