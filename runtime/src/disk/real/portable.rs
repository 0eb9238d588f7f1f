//! The same calls with nothing but the standard library, for every other Unix.

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;

use super::Calls;

/// Any Unix.
pub struct PortableCalls;

impl Calls for PortableCalls {
    fn write_at(file: &File, buffers: &[IoSlice<'_>], position: u64) -> io::Result<usize> {
        let mut written = 0;
        for buffer in buffers {
            let mut rest: &[u8] = buffer;
            while !rest.is_empty() {
                match file.write_at(rest, position + written as u64) {
                    Ok(0) => return Ok(written),
                    Ok(count) => {
                        written += count;
                        rest = &rest[count..];
                    }
                    // What was taken before is told first; the next call then meets the error again.
                    Err(_) if written > 0 => return Ok(written),
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(written)
    }

    fn read_cached_at(_file: &File, _buffer: &mut [u8], _position: u64) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn allocate(_file: &File, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync(file: &File) -> io::Result<()> {
        file.sync_data()
    }

    fn is_cached(_file: &File, _position: u64, _length: u64) -> Option<bool> {
        None
    }
}
