//! Fuzzer input, consumed from the front. Missing bytes read as zero, so any prefix of an input is valid.

/// The unconsumed rest of an input.
#[derive(Debug, Clone)]
pub struct Input<'a> {
    left: &'a [u8],
}

impl<'a> Input<'a> {
    /// All of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { left: bytes }
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let taken = self.bytes(N);
        array[..taken.len()].copy_from_slice(taken);
        array
    }

    /// Up to `len` next bytes.
    pub fn bytes(&mut self, len: usize) -> &'a [u8] {
        let (taken, left) = self.left.split_at(len.min(self.left.len()));
        self.left = left;
        taken
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        u8::from_le_bytes(self.array())
    }

    /// The next two bytes.
    pub fn word(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    /// The next four bytes.
    pub fn dword(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    /// The next eight bytes.
    pub fn qword(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    /// One of `choices`, by the next byte.
    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::from(self.byte()) % choices.len()]
    }

    /// A number that is small more often than not.
    pub fn number(&mut self) -> u32 {
        match self.byte() {
            few @ 0..=99 => u32::from(few),
            100..=179 => u32::from(self.word()),
            180..=199 => u32::from(self.byte()) << 12,
            200..=209 => u32::MAX - u32::from(self.byte()),
            210..=219 => u32::from(self.word()) << 16 | 4096,
            _ => self.dword(),
        }
    }
}
