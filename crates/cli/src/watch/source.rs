//! Where figures come from: a server's HTTP address, or a device that is opened.

use std::time::Instant;

use anyhow::Result;
use byway::Device;

use super::device;
use super::figures::Figures;
use super::http::Url;

/// Where figures come from.
pub enum Source {
    /// The metrics of a server.
    Server(Url),
    /// The logs of a device.
    Device(Box<Device>),
}

/// Figures, and when they were read.
pub struct Reading {
    /// The figures.
    pub figures: Figures,
    /// When.
    pub at: Instant,
}

impl Source {
    /// What `uri` names. A device is opened for reading alone.
    ///
    /// # Errors
    /// A device that cannot be opened.
    pub fn open(uri: &str) -> Result<Self> {
        match Url::parse(uri) {
            Some(url) => Ok(Self::Server(url)),
            None => Ok(Self::Device(Box::new(byway::open_to_read(uri)?))),
        }
    }

    /// Reads the figures.
    ///
    /// # Errors
    /// The server or device does not answer.
    pub fn read(&self) -> Result<Reading> {
        let figures = match self {
            Self::Server(url) => Figures::parse(&url.fetch()?)?,
            Self::Device(device) => device::read(device)?,
        };
        Ok(Reading { figures, at: Instant::now() })
    }
}
