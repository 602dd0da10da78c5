//! A power cut or a kill at a given event: before a store to protected memory, or before an operation of the medium.

use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;

use byway_crash_tests::sparse;
use byway_flash::power_loss::watch;

/// A simulated power cut: at its event the image is copied, which is the state that a cut there leaves.
pub struct PowerCut {
    pub copy: PathBuf,
    has_happened: Rc<Cell<bool>>,
}

impl PowerCut {
    pub fn arm(points: u32, image: PathBuf, copy: PathBuf) -> Self {
        let has_happened = Rc::new(Cell::new(false));
        let (left, here, to) = (Cell::new(points), Rc::clone(&has_happened), copy.clone());
        watch(Some(Box::new(move |_| match left.get() {
            _ if here.get() => {}
            0 => {
                sparse::copy(&image, &to).unwrap();
                here.set(true);
            }
            more => left.set(more - 1),
        })));
        Self { copy, has_happened }
    }

    pub fn has_has_happened(&self) -> bool {
        self.has_happened.get()
    }
}

impl Drop for PowerCut {
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
