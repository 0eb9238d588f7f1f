//! The floors: what the machine itself takes for the parts of the work that no broker can leave out. They run inside of
//! every report, as the same work costs a multiple on another machine, or an hour later on this one.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use crc_fast::crc32_iscsi;
use rustix::fs::{fdatasync, sendfile};
use rustix::time::{ClockId, clock_gettime};

use super::results::Figures;
use super::stats::Summary;

/// Bytes that each part moves, and in which pieces.
const MOVED_BYTES: usize = 256 << 20;
const PIECE_BYTES: usize = 256 << 10;
/// Pieces lie in a buffer of this size, one after the other, as a broker's do: always the same piece would never leave the
/// processor's nearest cache.
const BUFFER_BYTES: usize = 32 << 20;
/// Appended and synced so many times, this much each time.
const SYNCS: usize = 60;
const SYNC_BYTES: usize = 4 << 10;
/// Each part is run so often; its least cost is the floor.
const ROUNDS: usize = 3;

/// Measures all floors once, with files in `folder`.
///
/// # Errors
/// If a file or a socket fails.
pub(crate) fn measure(folder: &Path) -> Result<Figures> {
    let mut floors = Figures::new();
    let buffer = vec![1; BUFFER_BYTES];
    for _ in 0..ROUNDS {
        let (send, receive) = loopback(|stream| Ok(each_piece(&buffer, |piece| stream.write_all(piece))?))?;
        least(&mut floors, "send_cpu_s_per_gb", send);
        least(&mut floors, "receive_cpu_s_per_gb", receive);
        let mut file = tempfile::tempfile_in(folder).context("make a file")?;
        least(&mut floors, "append_cpu_s_per_gb", append(&mut file, &buffer)?);
        let (sendfile, _) = loopback(|stream| send_file(&file, stream))?;
        least(&mut floors, "sendfile_cpu_s_per_gb", sendfile);
        least(&mut floors, "crc_cpu_s_per_gb", crc(&buffer)?);
    }
    let (p50, p99) = sync(folder)?;
    floors.insert("fdatasync_p50_ms".to_owned(), p50);
    floors.insert("fdatasync_p99_ms".to_owned(), p99);
    Ok(floors)
}

/// Keeps the lesser of a value and what is there.
fn least(floors: &mut Figures, name: &str, value: f64) {
    let floor = floors.entry(name.to_owned()).or_insert(value);
    *floor = floor.min(value);
}

/// CPU time of the calling thread.
fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    // A thread's time is never negative.
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// CPU seconds that `work` takes of this thread, for each GB of those that are moved.
fn cost(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let before = thread_cpu();
    work()?;
    Ok((thread_cpu() - before).as_secs_f64() * 1e9 / MOVED_BYTES as f64)
}

/// Moves bytes over loopback; what sending and what receiving them takes.
fn loopback(send: impl FnOnce(&mut TcpStream) -> Result<()>) -> Result<(f64, f64)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut sender = TcpStream::connect(listener.local_addr()?)?;
    let (mut receiver, _) = listener.accept()?;
    let reading = thread::spawn(move || {
        cost(|| {
            let mut buffer = vec![0; BUFFER_BYTES];
            let mut at = 0;
            loop {
                let read = receiver.read(&mut buffer[at..at + PIECE_BYTES])?;
                if read == 0 {
                    return Ok(());
                }
                at = (at + read) % (BUFFER_BYTES - PIECE_BYTES);
            }
        })
    });
    let sent = cost(|| send(&mut sender))?;
    drop(sender);
    let received = reading.join().map_err(|_| anyhow!("the receiving thread ended early"))??;
    Ok((sent, received))
}

/// Does the same with all pieces that are moved.
fn each_piece(buffer: &[u8], work: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    buffer.chunks(PIECE_BYTES).cycle().take(MOVED_BYTES / PIECE_BYTES).try_for_each(work)
}

/// Appends to a file in the page cache.
fn append(file: &mut File, buffer: &[u8]) -> Result<f64> {
    cost(|| Ok(each_piece(buffer, |piece| file.write_all(piece))?))
}

/// Sends a file from the page cache.
fn send_file(file: &File, stream: &TcpStream) -> Result<()> {
    let mut offset = 0;
    while offset < MOVED_BYTES as u64 {
        if sendfile(stream, file, Some(&mut offset), PIECE_BYTES)? == 0 {
            break;
        }
    }
    Ok(())
}

fn crc(buffer: &[u8]) -> Result<f64> {
    cost(|| {
        each_piece(buffer, |piece| {
            std::hint::black_box(crc32_iscsi(piece));
            Ok(())
        })?;
        Ok(())
    })
}

/// How long it takes to put a little on the disk: the median and the 99th percentile in milliseconds.
fn sync(folder: &Path) -> Result<(f64, f64)> {
    let mut file = tempfile::tempfile_in(folder).context("make a file")?;
    let piece = vec![1; SYNC_BYTES];
    let mut took = Vec::with_capacity(SYNCS);
    for _ in 0..SYNCS {
        file.write_all(&piece)?;
        let begun = Instant::now();
        fdatasync(&file)?;
        took.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    took.sort_by(f64::total_cmp);
    let p99 = took[(took.len() * 99 / 100).min(took.len() - 1)];
    Ok((Summary::of(took).map_or(f64::NAN, |summary| summary.median), p99))
}
