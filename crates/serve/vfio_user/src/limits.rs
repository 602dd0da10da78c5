//! Limits of messages.

use byway_vfio_user_wire::Limits;

/// Data and descriptors of one message, at most; announced to clients. QEMU refuses servers that announce more descriptors.
pub const LIMITS: Limits = Limits { data_bytes: 1 << 20, fds: 16 };
