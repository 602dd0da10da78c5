//! byway-dma.
