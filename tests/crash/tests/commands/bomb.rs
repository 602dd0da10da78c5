//! What goes off at a given point from here on: before a store to protected memory, or an operation of the medium.

use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;

use byway_crash_tests::sparse;
use byway_flash::cut::watch;

/// A power cut to come: at its point the image is copied, as that is what a cut there leaves.
pub struct Bomb {
    pub copy: PathBuf,
    gone_off: Rc<Cell<bool>>,
}

impl Bomb {
    pub fn arm(points: u32, image: PathBuf, copy: PathBuf) -> Self {
        let gone_off = Rc::new(Cell::new(false));
        let (left, here, to) = (Cell::new(points), Rc::clone(&gone_off), copy.clone());
        watch(Some(Box::new(move |_| match left.get() {
            _ if here.get() => {}
            0 => {
                sparse::copy(&image, &to).unwrap();
                here.set(true);
            }
            more => left.set(more - 1),
        })));
        Self { copy, gone_off }
    }

    pub fn has_gone_off(&self) -> bool {
        self.gone_off.get()
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        watch(None);
    }
}

/// Kills this process at that point.
pub fn kill_after(points: u32) {
    let left = Cell::new(points);
    watch(Some(Box::new(move |_| match left.get() {
        0 => kill_now(),
        more => left.set(more - 1),
    })));
}

/// Nothing of this process runs any more after this.
pub fn kill_now() {
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).unwrap();
}
