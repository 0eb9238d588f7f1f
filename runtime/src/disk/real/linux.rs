//! Calls that only Linux has: `pwritev` at a position, `fdatasync`, and a read that does not wait for the device.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::num::NonZero;

use rustix::fs::{Advice, FallocateFlags, fadvise};
use rustix::io::{Errno, ReadWriteFlags, preadv2, pwritev};

use super::Calls;

/// Linux.
pub struct LinuxCalls;

/// Distance of the bytes that are asked for when a range is checked. Whoever reads from the device asks for as much at
/// once, so what lies between two cached bytes was most probably read with them.
const PROBE_BYTES: u64 = 128 * 1024;

impl Calls for LinuxCalls {
    fn write_at(file: &File, buffers: &[IoSlice<'_>], position: u64) -> io::Result<usize> {
        Ok(pwritev(file, buffers, position)?)
    }

    fn read_cached_at(file: &File, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        Ok(preadv2(file, &mut [IoSliceMut::new(buffer)], position, ReadWriteFlags::NOWAIT)?)
    }

    fn allocate(file: &File, len: u64) -> io::Result<()> {
        Ok(rustix::fs::fallocate(file, FallocateFlags::empty(), 0, len)?)
    }

    fn sync(file: &File) -> io::Result<()> {
        Ok(rustix::fs::fdatasync(file)?)
    }

    fn is_cached(file: &File, position: u64, length: u64) -> Option<bool> {
        let Some(last) = position.checked_add(length)?.checked_sub(1).filter(|_| length > 0) else {
            return Some(true);
        };
        let mut at = position;
        loop {
            let mut byte = [0];
            match preadv2(file, &mut [IoSliceMut::new(&mut byte)], at, ReadWriteFlags::NOWAIT) {
                Ok(_) => {}
                Err(Errno::AGAIN) => return Some(false),
                Err(_) => return None,
            }
            if at == last {
                return Some(true);
            }
            at = (at + PROBE_BYTES).min(last);
        }
    }

    fn disable_read_ahead(file: &File) {
        advise(file, 0, 0, Advice::Random);
    }

    fn prefetch(file: &File, position: u64, length: u64) {
        advise(file, position, length, Advice::WillNeed);
    }
}

/// `length` 0 = to the end of the file.
fn advise(file: &File, position: u64, length: u64, advice: Advice) {
    // Without the advice everything is read all the same, only slower.
    let _refused = fadvise(file, position, NonZero::new(length), advice);
}
