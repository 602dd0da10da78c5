//! Making images.

use std::path::PathBuf;

use byway::{CreateOptions, Media, MediaNamespaceKind};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::errors::{Fault, invalid};

/// A namespace to be made.
#[pyclass(frozen, eq, module = "byway", from_py_object)]
#[derive(Clone, Copy, PartialEq)]
pub struct NewNamespace(byway::NewNamespace);

#[pymethods]
impl NewNamespace {
    #[new]
    #[pyo3(signature = (kind, size=None, *, lba_bytes=512))]
    fn new(kind: &str, size: Option<Size>, lba_bytes: u32) -> PyResult<Self> {
        let kind = match kind {
            "kv" => MediaNamespaceKind::Kv,
            "nvm" => MediaNamespaceKind::Nvm { lba_bytes },
            _ => return Err(invalid(format!("{kind:?} is no kind of namespace: expected kv or nvm"))),
        };
        Ok(Self(byway::NewNamespace { kind, size_bytes: size.map(|size| size.0) }))
    }
}

/// A number of bytes, given as a number or as a text like `64M`.
#[derive(Clone, Copy)]
pub struct Size(pub u64);

impl<'py> FromPyObject<'_, 'py> for Size {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        match given.cast::<PyString>() {
            Ok(text) => Ok(Self(byway::uri::parse_size(&text.to_cow()?).map_err(Fault::from)?)),
            Err(_) => Ok(Self(given.extract()?)),
        }
    }
}

/// A namespace to be made, or a text that says it: `kv`, `nvm:2G`.
#[derive(FromPyObject)]
pub enum Asked {
    Namespace(NewNamespace),
    Text(String),
}

/// Makes an image: a whole SSD in one file, which must not exist.
#[pyfunction]
#[pyo3(signature = (path, size, *, namespaces=None, profile=None, media="file", over_provisioning_percent=None))]
pub fn create(
    py: Python<'_>,
    path: PathBuf,
    size: Size,
    namespaces: Option<Vec<Asked>>,
    profile: Option<String>,
    media: &str,
    over_provisioning_percent: Option<u32>,
) -> PyResult<()> {
    let mut options = CreateOptions::new(size.0);
    if let Some(asked) = namespaces {
        options.namespaces = asked.into_iter().map(Asked::namespace).collect::<PyResult<_>>()?;
    }
    options.media = media_named(media)?;
    if let Some(profile) = profile {
        options.profile = profile;
    }
    if let Some(percent) = over_provisioning_percent {
        options.over_provisioning_percent = percent;
    }
    Ok(py.detach(|| byway::create(&path, &options)).map_err(|error| Fault::of_file(error, path))?)
}

impl Asked {
    fn namespace(self) -> PyResult<byway::NewNamespace> {
        match self {
            Self::Namespace(namespace) => Ok(namespace.0),
            Self::Text(text) => Ok(text.parse().map_err(Fault::from)?),
        }
    }
}

fn media_named(name: &str) -> PyResult<Media> {
    match name {
        "file" => Ok(Media::File),
        "ram" => Ok(Media::Ram),
        "null" => Ok(Media::Null),
        _ => Err(invalid(format!("{name:?} is no media: expected file, ram or null"))),
    }
}
