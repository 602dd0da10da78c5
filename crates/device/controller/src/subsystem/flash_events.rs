//! Events of the flash, which does not log by itself.

use byway_flash::FlashEvent;
use tracing::{debug, warn};

pub(super) fn log(event: FlashEvent) {
    match event {
        FlashEvent::VictimChosen { block, live_units, cause } => {
            debug!(target: "byway_flash", block, live_units, ?cause, "victim chosen");
        }
        FlashEvent::BlockGivenUp { block } => {
            warn!(target: "byway_flash", block, "block given up: it failed")
        }
        FlashEvent::BlockRetired { block } => {
            warn!(target: "byway_flash", block, "block retired: its records contradict the map");
        }
        other => debug!(target: "byway_flash", ?other, "other event"),
    }
}
