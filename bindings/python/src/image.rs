//! Images: checked, repaired, resized, copied. Making one is in [`create`](crate::create).

use std::ops::ControlFlow;
use std::path::PathBuf;

use pyo3::prelude::*;

use crate::create::Size;
use crate::errors::Fault;

/// A defect found in an image.
#[pyclass(frozen, get_all, module = "byway")]
pub struct Finding {
    /// The structure: `superblock`, `map`.
    structure: &'static str,
    /// Which part of it; empty where there is only one.
    place: String,
    /// What is wrong, in one sentence.
    what: String,
    /// The data that it hits: `key 0041 of namespace 1`.
    hits: Vec<String>,
    /// What a repair does about it: `restore`, `drop` or `none`.
    remedy: &'static str,
}

#[pymethods]
impl Finding {
    fn __repr__(&self) -> String {
        format!("<byway.Finding {} {}: {}>", self.structure, self.place, self.what)
    }
}

/// What a check or a repair came to.
#[pyclass(frozen, get_all, module = "byway")]
pub struct Checked {
    /// Defects found, and those that a repair removed.
    findings: Vec<Py<Finding>>,
    /// Whether nothing was found.
    clean: bool,
    /// Whether the device can be used, after a repair at the latest.
    usable: bool,
    /// Whether data is lost, or will be dropped by a repair.
    loses: bool,
    /// Namespaces that were looked at.
    namespaces: u64,
    /// Keys in them.
    keys: u64,
    /// Bytes of live data.
    live_bytes: u64,
    /// Entries of block namespaces that a media error took earlier, and that no host wrote since.
    known_lost: u64,
}

/// Checks an image and leaves it as it is, or with `repair` repairs it.
#[pyfunction]
#[pyo3(signature = (path, *, repair=false))]
pub fn check(py: Python<'_>, path: PathBuf, repair: bool) -> PyResult<Checked> {
    let checked = py.detach(|| match repair {
        true => byway::repair(path, &mut |_, _, _| {}),
        false => byway::check(path, &mut |_, _, _| {}),
    });
    let checked = checked.map_err(Fault::from)?;
    let findings = checked.findings.iter().map(|finding| {
        let hits = finding.hits.iter().map(ToString::to_string).collect();
        let byway::Finding { structure, place, what, remedy, .. } = finding;
        let (place, what) = (place.clone(), what.clone());
        Py::new(py, Finding { structure, place, what, hits, remedy: remedy.name() })
    });
    Ok(Checked {
        findings: findings.collect::<PyResult<_>>()?,
        clean: checked.is_clean(),
        usable: checked.is_usable(),
        loses: checked.loses(),
        namespaces: checked.namespaces,
        keys: checked.keys,
        live_bytes: checked.live_bytes,
        known_lost: checked.known_lost,
    })
}

/// Gives the device of an image that no process has open another size, and namespaces of blocks, by their numbers. Everything
/// keeps its content. Ctrl-C ends it: the image is as it was.
#[pyfunction]
#[pyo3(signature = (path, size, *, namespaces=None))]
pub fn resize(
    py: Python<'_>,
    path: PathBuf,
    size: Size,
    namespaces: Option<std::collections::BTreeMap<u32, Size>>,
) -> PyResult<()> {
    let sizes = namespaces.into_iter().flatten().map(|(nsid, size)| (nsid, size.0)).collect::<Vec<_>>();
    watched(py, |watch| byway::resize(path, size.0, &sizes, &mut |_, _| watch()))
}

/// Copies an image to `out`, which must not exist, as it is at one instant, while it is in use or not. Returns for how many
/// nanoseconds the device was stopped. Ctrl-C ends it: nothing is left of the copy.
#[pyfunction]
pub fn snapshot(py: Python<'_>, image: PathBuf, out: PathBuf) -> PyResult<u64> {
    watched(py, |watch| {
        let report = byway::snapshot_watched(image, out, &mut |_| watch())?;
        Ok(report.pause_ns)
    })
}

/// Does something with the GIL released that asks now and then whether to go on; a signal ends it.
pub fn watched<R: Send>(
    py: Python<'_>,
    what: impl FnOnce(&mut dyn FnMut() -> ControlFlow<()>) -> byway::Result<R> + Send,
) -> PyResult<R> {
    let (done, raised) = py.detach(|| {
        let mut raised = None;
        let mut watch = || match Python::attach(|py| py.check_signals()) {
            Ok(()) => ControlFlow::Continue(()),
            Err(signal) => {
                raised = Some(signal);
                ControlFlow::Break(())
            }
        };
        let done = what(&mut watch);
        (done, raised)
    });
    match (done, raised) {
        (Ok(done), _) => Ok(done),
        (Err(_), Some(raised)) => Err(raised),
        (Err(error), None) => Err(Fault::from(error).into()),
    }
}
