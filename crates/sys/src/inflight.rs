//! Operations under way, each in a place of its own: what the kernel works on stays there until the kernel is done.
//!
//! A table has as many places as operations can be under way, all made with it: putting an operation in one allocates
//! nothing, but for the list of pieces of the first operation in a place that has that many.

use std::cell::UnsafeCell;
use std::fmt;
use std::ptr::NonNull;

use crate::free_list::FreeList;
use crate::lent::KernelMemory;

/// Most pieces of memory that one operation takes (the kernel's UIO_MAXIOV). What is over is left for the next.
const PIECES_MAX: usize = 1024;

/// Most bytes that one operation moves (the kernel's MAX_RW_COUNT). What is over is left for the next.
const BYTES_MAX: usize = 0x7fff_f000;

/// Operations under way. `H` is what each holds; `C` is what the interface itself keeps beside it, such as a control
/// block that the kernel knows by its address.
///
/// It knows nothing of the kernel: a caller that hands its addresses to the kernel takes a place's operation out, or drops
/// the table, only when the kernel is done with it.
pub struct Inflight<H, C = ()> {
    /// Never grown: what stands in it is known by its address.
    places: Vec<Place<H, C>>,
    free: FreeList<u32>,
}

struct Place<H, C> {
    held: UnsafeCell<Option<H>>,
    pieces: Vec<libc::iovec>,
    control: UnsafeCell<C>,
}

// SAFETY: the pieces point into what the places hold, which goes where the table goes; the rest is `H`s and `C`s.
unsafe impl<H: Send, C: Send> Send for Inflight<H, C> {}

/// Where the memory of an operation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Contiguous, with its length in bytes.
    Piece(NonNull<u8>, u32),
    /// Scattered: number of entries in an array that lives as long as the operation.
    Pieces(NonNull<libc::iovec>, u32),
}

impl<H: KernelMemory, C: Default> Inflight<H, C> {
    /// A table of `count` places.
    #[must_use]
    pub fn new(count: u32) -> Self {
        let place = || Place {
            held: UnsafeCell::new(None),
            pieces: Vec::new(),
            control: UnsafeCell::new(C::default()),
        };
        Self { places: (0..count).map(|_| place()).collect(), free: FreeList::new(0..count) }
    }

    /// Puts an operation in a free place, and says in which: the one that was freed last, which the cache still has.
    ///
    /// # Errors
    /// It is given back if there is none.
    #[inline(always)]
    pub fn put(&mut self, held: H) -> Result<u32, H> {
        let Some(index) = self.free.take() else { return Err(held) };
        match self.places.get_mut(index as usize) {
            Some(place) => {
                *place.held.get_mut() = Some(held);
                Ok(index)
            }
            None => Err(held),
        }
    }

    /// Takes an operation out, and frees its place. The kernel is done with it.
    #[inline(always)]
    pub fn take(&mut self, index: u32) -> Option<H> {
        let held = self.places.get_mut(index as usize)?.held.get_mut().take()?;
        self.free.free(index);
        Some(held)
    }

    /// What an operation holds.
    #[must_use]
    #[inline(always)]
    pub fn get(&self, index: u32) -> Option<&H> {
        let place = self.places.get(index as usize)?;
        // SAFETY: what a place holds is changed by `put` and `take` alone, which cannot be called while this is borrowed.
        unsafe { (*place.held.get()).as_ref() }
    }

    /// The interface's own part of a place. Its address stays the same as long as the table; the part stays as it is
    /// from one operation to the next.
    #[must_use]
    #[inline]
    pub fn control(&self, index: u32) -> Option<NonNull<C>> {
        NonNull::new(self.places.get(index as usize)?.control.get())
    }

    /// Where an operation's memory is, but for the first `done` bytes. Not to be asked while the kernel works on the
    /// operation: it writes the array of pieces anew.
    #[inline(always)]
    pub fn extent(&mut self, index: u32, done: usize) -> Option<Extent> {
        let held = self.get(index)?;
        match held.segments() {
            0 => Some(Extent::Piece(NonNull::dangling(), 0)),
            1 => {
                let (start, len) = held.segment(0)?;
                Some(piece(start, len, done))
            }
            _ => self.pieces(index, done),
        }
    }

    #[inline(never)]
    fn pieces(&mut self, index: u32, mut done: usize) -> Option<Extent> {
        let place = self.places.get_mut(index as usize)?;
        let held = place.held.get_mut().as_ref()?;
        place.pieces.clear();
        let mut room = BYTES_MAX;
        for (start, len) in (0..held.segments()).map_while(|segment| held.segment(segment)) {
            if place.pieces.len() == PIECES_MAX || room == 0 {
                break;
            }
            let skipped = done.min(len);
            done -= skipped;
            let taken = (len - skipped).min(room);
            room -= taken;
            if taken > 0 {
                let base = start.as_ptr().wrapping_add(skipped).cast();
                place.pieces.push(libc::iovec { iov_base: base, iov_len: taken });
            }
        }
        let first = NonNull::new(place.pieces.as_mut_ptr())?;
        Some(Extent::Pieces(first, place.pieces.len() as u32))
    }

    /// The places that hold an operation.
    pub fn under_way(&self) -> impl Iterator<Item = u32> {
        (0..self.places.len() as u32).filter(|index| self.get(*index).is_some())
    }

    /// How many operations there are.
    #[must_use]
    #[inline]
    pub fn len(&self) -> u32 {
        (self.places.len() - self.free.len()) as u32
    }

    /// Whether there is none.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.places.len() == self.free.len()
    }
}

/// One piece without its first `done` bytes.
#[inline(always)]
fn piece(start: NonNull<u8>, len: usize, done: usize) -> Extent {
    let skipped = done.min(len);
    // Within the piece, or one byte behind it.
    let start = NonNull::new(start.as_ptr().wrapping_add(skipped)).unwrap_or(start);
    Extent::Piece(start, (len - skipped).min(BYTES_MAX) as u32)
}

impl<H, C> fmt::Debug for Inflight<H, C> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Inflight({} of {} places)", self.places.len() - self.free.len(), self.places.len())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Boxes of bytes.
    struct Boxes(Vec<Box<[u8]>>);

    // SAFETY: the boxes stay where they are wherever their owner goes.
    unsafe impl KernelMemory for Boxes {
        fn segments(&self) -> usize {
            self.0.len()
        }

        fn segment(&self, index: usize) -> Option<(NonNull<u8>, usize)> {
            let piece = self.0.get(index)?;
            Some((NonNull::from(&**piece).cast(), piece.len()))
        }
    }

    fn boxes(lens: impl IntoIterator<Item = usize>) -> Boxes {
        Boxes(lens.into_iter().map(|len| vec![0; len].into_boxed_slice()).collect())
    }

    /// Pieces of an extent, as places in the boxes and lengths.
    fn pieces(table: &mut Inflight<Boxes>, index: u32, done: usize) -> Vec<(usize, usize)> {
        let Some(Extent::Pieces(first, count)) = table.extent(index, done) else { panic!("several pieces") };
        // SAFETY: `extent` made this array, of this length, for an operation that stays in place.
        let pieces = unsafe { std::slice::from_raw_parts(first.as_ptr(), count as usize) };
        let starts: Vec<usize> =
            table.get(index).unwrap().0.iter().map(|piece| piece.as_ptr().addr()).collect();
        let offset = |piece: &libc::iovec| {
            let at = piece.iov_base.addr();
            starts.iter().filter(|start| **start <= at).map(|start| at - start).min().unwrap()
        };
        pieces.iter().map(|piece| (offset(piece), piece.iov_len)).collect()
    }

    #[test]
    fn places_are_given_out_once_and_again_after_they_are_freed() {
        let mut table: Inflight<Boxes> = Inflight::new(2);
        assert_eq!((table.put(boxes([1])).ok(), table.put(boxes([2])).ok()), (Some(0), Some(1)));
        assert_eq!(table.put(boxes([3])).err().unwrap().0[0].len(), 3);
        assert_eq!(table.take(0).unwrap().0[0].len(), 1);
        assert!(table.take(0).is_none(), "an operation is taken once");
        assert!(table.take(7).is_none());
        assert_eq!(table.under_way().collect::<Vec<_>>(), [1]);
        assert_eq!((table.put(boxes([4])).ok(), table.len()), (Some(0), 2));
    }

    #[test]
    fn one_piece_is_described_without_what_is_done() {
        let mut table: Inflight<Boxes> = Inflight::new(1);
        let index = table.put(boxes([100])).ok().unwrap();
        let (start, _) = table.get(index).unwrap().segment(0).unwrap();
        assert_eq!(table.extent(index, 0), Some(Extent::Piece(start, 100)));
        let Some(Extent::Piece(rest, 60)) = table.extent(index, 40) else { panic!("60 bytes") };
        assert_eq!(rest.as_ptr().addr(), start.as_ptr().addr() + 40);
        assert!(matches!(table.extent(index, 100), Some(Extent::Piece(_, 0))));
        assert_eq!(table.extent(1, 0), None);
    }

    #[test]
    fn pieces_are_described_without_what_is_done_up_to_the_kernels_limit() {
        let mut table: Inflight<Boxes> = Inflight::new(2);
        let index = table.put(boxes([10, 0, 20, 30])).ok().unwrap();
        assert_eq!(pieces(&mut table, index, 0), [(0, 10), (0, 20), (0, 30)]);
        assert_eq!(pieces(&mut table, index, 15), [(5, 15), (0, 30)]);
        assert_eq!(pieces(&mut table, index, 60), []);
        let many = table.put(boxes((0..3000).map(|_| 1))).ok().unwrap();
        assert_eq!(pieces(&mut table, many, 0).len(), PIECES_MAX);
        assert_eq!(pieces(&mut table, many, 2500).len(), 500);
    }

    #[test]
    fn an_interfaces_own_part_stays_where_it_is() {
        let mut table: Inflight<Boxes, u64> = Inflight::new(3);
        let before: Vec<_> = (0..3).map(|index| table.control(index).unwrap()).collect();
        (0..3).for_each(|_| assert!(table.put(boxes([1])).is_ok()));
        let table = Box::new(table);
        assert!(before.iter().enumerate().all(|(n, part)| table.control(n as u32) == Some(*part)));
    }
}
