//! The rows of the design's table, "What the ledger counts", written from its words. Shares no code with the device.
#![allow(dead_code)]

/// Bytes on the link: what the papers counted, and with packet overhead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bytes {
    pub payload: u64,
    pub wire: u64,
}

impl std::ops::Add for Bytes {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { payload: self.payload + other.payload, wire: self.wire + other.wire }
    }
}

impl std::ops::Mul<u64> for Bytes {
    type Output = Self;
    fn mul(self, n: u64) -> Self {
        Self { payload: self.payload * n, wire: self.wire * n }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Link {
    pub mps: u64,
    pub mrrs: u64,
}

impl Link {
    /// 24 per request of at most MRRS; 20 + data per completion of at most min(MPS, MRRS), split within each request;
    /// data rounds up to 4 bytes.
    pub fn read(self, n: u64) -> Bytes {
        let mut wire = 0;
        let mut left = n;
        while left > 0 {
            let mut request = left.min(self.mrrs);
            left -= request;
            wire += 24;
            while request > 0 {
                let completion = request.min(self.mps.min(self.mrrs));
                request -= completion;
                wire += 20 + completion.next_multiple_of(4);
            }
        }
        Bytes { payload: n, wire }
    }

    pub fn doorbells(self) -> Bytes {
        Bytes { payload: 8, wire: 56 }
    }

    pub fn completion(self) -> Bytes {
        Bytes { payload: 16, wire: 40 }
    }

    /// A completion with a result of `n` bytes behind it, 15 in each entry: one write.
    pub fn completion_with_result(self, n: u64) -> Bytes {
        self.write(16 * (1 + n.div_ceil(15)))
    }

    /// Its payload is a separate count; its wire bytes are in the sum.
    pub fn interrupt(self) -> Bytes {
        Bytes { payload: 0, wire: 24 }
    }

    pub fn command(self) -> Bytes {
        Bytes { payload: 64, wire: 24 + 84 }
    }

    /// One command with its doorbells, completion and interrupt.
    pub fn alone(self) -> Bytes {
        self.doorbells() + self.command() + self.completion() + self.interrupt()
    }

    /// `n` commands rung once, with one interrupt.
    pub fn together(self, n: u64) -> Bytes {
        self.doorbells() + (self.command() + self.completion()) * n + self.interrupt()
    }

    /// 24 + data per MPS-sized write.
    pub fn write(self, n: u64) -> Bytes {
        let full = (24 + self.mps) * (n / self.mps);
        let rest = n % self.mps;
        Bytes { payload: n, wire: full + if rest > 0 { 24 + rest.next_multiple_of(4) } else { 0 } }
    }

    /// Stores over MMIO, combined into cache lines.
    pub fn byte_store(self, n: u64) -> Bytes {
        Bytes { payload: n, wire: 24 * n.div_ceil(64) + n.next_multiple_of(4) }
    }

    /// One load of 8 bytes over MMIO: a request down, a completion up.
    pub fn load(self) -> Bytes {
        Bytes { payload: 8, wire: 24 + 28 }
    }

    /// Lines of device memory read over 68-byte flits: a request slot each down, five slots each up in whole flits.
    pub fn cxl_load(self, lines: u64) -> Bytes {
        Bytes { payload: 68 * lines, wire: 17 * lines + 68 * (5 * lines).div_ceil(4) }
    }

    /// Stores of `n` bytes at `at` of device memory over 68-byte flits: 68·L payload; 68·⌈5L/4⌉ down and a response
    /// slot each up. A line that is written in part is read for ownership, which the papers did not count.
    pub fn cxl_store(self, at: u64, n: u64) -> Bytes {
        if n == 0 {
            return Bytes::default();
        }
        let lines = (at + n - 1) / 64 - at / 64 + 1;
        let whole = ((at + n) / 64).saturating_sub(at.div_ceil(64));
        let stores = Bytes { payload: 68 * lines, wire: 68 * (5 * lines).div_ceil(4) + 17 * lines };
        stores + Bytes { payload: 0, ..self.cxl_load(lines - whole) }
    }
}
