//! Programs over values of a key-value namespace.

use byway_core::{Buffer, Command, Error, ErrorKind, Key, RawCommand, RawData, Result, Retry};
use byway_spec::Command as Entry;
use byway_spec::vendor::{ExecFields, VendorOpcode, exec_request_head};

use super::Kv;

impl Kv {
    /// Runs a program over the value of a key, in the device, and writes its output to `into`. Returns the length of the whole output,
    /// which may be more than fits.
    ///
    /// `operation` is the identifier that the program was loaded with ([`Programs::load`](crate::compute::Programs::load)), or the number of
    /// one of the device's own: 1 filter, 2 aggregate, 3 CRC-32C, 4 CRC-64/NVME, 5 decompress. A loaded program sees the value, `input`
    /// and room of 1 MiB for its output, and returns the output's length. One of the device takes its two parameters of 8 bytes from
    /// `input`, and its output is its result: 8 bytes where that is a number.
    ///
    /// Which programs may run is decided where the device is opened (`exec=` in its URI). In Byway's device `input` with the key, and
    /// `into`, have at most 1 MiB.
    ///
    /// ```
    /// let device = byway::open("embedded-ram:64M?exec=1:crc32c")?;
    /// let mut kv = device.kv(None)?;
    /// kv.put(b"key", b"123456789")?;
    /// let mut crc = [0; 8];
    /// assert_eq!(kv.exec(b"key", 3, b"", &mut crc)?, 8);
    /// assert_eq!(u64::from_le_bytes(crc), 0xe306_9283);
    /// # Ok::<(), byway::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] where no program may run over values of the namespace; [`ErrorKind::KeyNotFound`]; a program that may
    /// not run, is not there, or was stopped; what the device says.
    pub fn exec(&mut self, key: &[u8], operation: u32, input: &[u8], into: &mut [u8]) -> Result<usize> {
        let key = Key::new(key)?;
        let mut is_first = true;
        loop {
            match self.exec_once(&key, operation, input, into) {
                // After a lost connection the request is written anew: a part of the output may have replaced the former one.
                Err(error) if is_first && error.retry() == Retry::Once => is_first = false,
                done => {
                    return done
                        .map_err(|error| error.doing(format!("run program {operation} over key {key}")));
                }
            }
        }
    }

    fn exec_once(&mut self, key: &Key, operation: u32, input: &[u8], into: &mut [u8]) -> Result<usize> {
        let (head, head_bytes) = exec_request_head(key);
        let sent_bytes = head_bytes + input.len();
        let fields = ExecFields {
            request_bytes: length(sent_bytes)?,
            output_max_bytes: length(into.len())?,
            operation,
        };
        let mut buffer = self.many_buffer(fields.buffer_bytes() as usize)?;
        write_request(&mut buffer, &head[..head_bytes], input);
        let mut entry = Entry::new(VendorOpcode::KV_EXEC.0, 0, self.nsid().get());
        fields.write_to(&mut entry);
        let data = RawData::Both { buffer, sent_bytes };
        let done = self.execute(Command::Raw(RawCommand { entry, data }))?;
        let len = done.dw0() as usize;
        let buffer = done.buffer.ok_or_else(no_buffer)?;
        let taken = len.min(into.len());
        into[..taken].copy_from_slice(buffer.as_slice().get(..taken).ok_or_else(no_buffer)?);
        self.keep_many(buffer);
        Ok(len)
    }
}

fn write_request(buffer: &mut Buffer, head: &[u8], input: &[u8]) {
    let (before, behind) = buffer.as_mut_slice().split_at_mut(head.len());
    before.copy_from_slice(head);
    behind[..input.len()].copy_from_slice(input);
}

fn length(bytes: usize) -> Result<u32> {
    u32::try_from(bytes).map_err(|_| {
        let said = format!("{bytes} bytes are more than a command can say");
        Error::host(ErrorKind::TooLarge, said)
    })
}

fn no_buffer() -> Error {
    Error::host(ErrorKind::Protocol, "an Exec whose buffer did not come back")
}
