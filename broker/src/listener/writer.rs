//! The writing half of a connection.
//!
//! All answers that are ready leave in one vectored write; parts that lie in files go by `sendfile` in between.

use std::io::IoSlice;
use std::time::Duration;

use bytes::Bytes;
use taffrail_runtime::net::WriteHalf;
use taffrail_runtime::time;
use taffrail_storage::FileRange;

use super::connection::{broken, within};
use super::outbox::{Front, Outbox};
use super::service::{Chunk, Chunks, CloseReason, Frame, Service};

/// Answers that are taken for one round of writing.
const FRAMES_PER_ROUND_MAX: usize = 64;
/// Pieces of memory in one vectored write.
const SLICES_MAX: usize = 32;
/// Bytes of a file that are sent under one limit of time, so that a slow reader is told from a stalled one.
const FILE_STEP_BYTES: u64 = 1024 * 1024;

/// Sends answers until the outbox has ended or the connection is broken. `stall_max`: how long the other end may take
/// nothing. `service` is told what has been sent.
pub(super) async fn run<S: Service>(stream: &WriteHalf<'_>, outbox: &Outbox, stall_max: Duration, service: &S) {
    let mut frames: Vec<Frame> = Vec::new();
    loop {
        let mut at_end = false;
        while frames.len() < FRAMES_PER_ROUND_MAX {
            match outbox.pop() {
                Front::Frame(frame) => frames.push(frame),
                Front::Wait => break,
                Front::End => {
                    at_end = true;
                    break;
                }
            }
        }
        if frames.is_empty() {
            if at_end {
                return;
            }
            outbox.wait_filled().await;
            continue;
        }
        let taken = time::monotonic();
        if let Err(reason) = send(stream, &frames, stall_max).await {
            outbox.end(reason);
            outbox.drop_waiting();
            return;
        }
        let sent = time::monotonic();
        for times in frames.iter().filter_map(|frame| frame.times.as_ref()) {
            service.sent(times, taken, sent);
        }
        outbox.sent(&frames);
        frames.clear();
    }
}

async fn send(stream: &WriteHalf<'_>, frames: &[Frame], stall_max: Duration) -> Result<(), CloseReason> {
    let mut batch = Batch::default();
    for frame in frames {
        match &frame.chunks {
            Chunks::One(bytes) => batch.add(stream, bytes, stall_max).await?,
            Chunks::Many(chunks) => {
                for chunk in chunks {
                    match chunk {
                        Chunk::Bytes(bytes) => batch.add(stream, bytes, stall_max).await?,
                        Chunk::File(range) => {
                            batch.flush(stream, true, stall_max).await?;
                            send_file(stream, range, stall_max).await?;
                        }
                    }
                }
            }
        }
    }
    batch.flush(stream, false, stall_max).await
}

async fn send_file(stream: &WriteHalf<'_>, range: &FileRange, stall_max: Duration) -> Result<(), CloseReason> {
    // Ranges without a file of the operating system are copied where answers are made.
    let Some(file) = range.file.as_file() else { return Err(CloseReason::Broken("records without a file".to_owned())) };
    let (mut position, end) = (range.position, range.position + range.length);
    while position < end {
        let step = FILE_STEP_BYTES.min(end - position);
        let sent = within(stall_max, stream.send_file(file, position, step)).await;
        sent.map_err(|_| CloseReason::StalledReader)?.map_err(|error| broken(&error))?;
        position += step;
    }
    Ok(())
}

/// Pieces of memory that leave together.
#[derive(Default)]
struct Batch<'a> {
    pieces: [&'a [u8]; SLICES_MAX],
    count: usize,
}

impl<'a> Batch<'a> {
    async fn add(&mut self, stream: &WriteHalf<'_>, bytes: &'a Bytes, stall_max: Duration) -> Result<(), CloseReason> {
        if bytes.is_empty() {
            return Ok(());
        }
        if self.count == SLICES_MAX {
            self.flush(stream, true, stall_max).await?;
        }
        self.pieces[self.count] = bytes;
        self.count += 1;
        Ok(())
    }

    /// `more`: other bytes follow at once.
    async fn flush(&mut self, stream: &WriteHalf<'_>, more: bool, stall_max: Duration) -> Result<(), CloseReason> {
        let mut slices = self.pieces.map(IoSlice::new);
        let mut rest = &mut slices[..std::mem::take(&mut self.count)];
        while !rest.is_empty() {
            let written = within(stall_max, stream.write_vectored(rest, more)).await;
            let written = written.map_err(|_| CloseReason::StalledReader)?.map_err(|error| broken(&error))?;
            IoSlice::advance_slices(&mut rest, written);
        }
        Ok(())
    }
}
