//! One connection: reads requests, starts them in order, and sends their answers in order.
//!
//! Reader and writer are two halves of one task. The reader parses every complete request that has arrived before it
//! lets the writer run, so that answers to pipelined requests leave in one system call.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use futures::future::{join, select};
use taffrail_runtime::net::{ReadHalf, TcpStream};
use taffrail_runtime::shutdown::Shutdown;
use taffrail_runtime::time::Alarm;
use taffrail_runtime::{task, time};

use super::limits::{ListenerLimits, REQUESTS_IN_FLIGHT_MAX};
use super::memory::{Budget, Share};
use super::outbox::Outbox;
use super::service::{CloseReason, Pace, Service, Started};
use super::writer;

/// Room for a read from a client of whom nothing is known: ten thousand of them must not cost much.
const READ_MIN_BYTES: usize = 1024;
/// Room for a read from a client that sends much, at most.
const READ_MAX_BYTES: usize = 256 * 1024;
/// What a connection may hold without paying from the budget for requests.
const UNPAID_BYTES: usize = 16 * 1024;
/// A request that is not worth being paid for, even where as many of them are under way as may be.
const SMALL_BYTES: usize = 512;
/// For how large a part of the longest wait for memory a client may hold some for a request of which nothing more comes.
const HOARDING_PART: u32 = 3;
/// How slowly it is forgotten that a client sends much: by this part with each smaller read.
const FORGOTTEN: usize = 8;
/// The buffer of an unfinished request grows by this factor, so that a client holds what it sent and not what it announced.
const GROWTH: usize = 4;
/// Bytes of the length in front of a request.
const LENGTH_BYTES: usize = 4;
/// An empty buffer is given back when nothing came for this long.
const EMPTY_BUFFER_KEPT: Duration = Duration::from_secs(1);

/// What a connection needs beside its socket.
pub(crate) struct Context<S> {
    pub(crate) service: std::sync::Arc<S>,
    pub(crate) limits: std::sync::Arc<ListenerLimits>,
    pub(crate) budget: Budget,
    pub(crate) shutdown: Shutdown,
}

/// Serves a connection until it ends; tells why it did.
pub(crate) async fn serve<S: Service>(mut stream: TcpStream, context: Context<S>) -> CloseReason {
    let peer = match stream.peer_addr() {
        Ok(peer) => peer,
        Err(error) => return CloseReason::Broken(error.to_string()),
    };
    let connection = context.service.connected(peer);
    let outbox = Rc::new(Outbox::default());
    let (receiving, sending) = stream.split();
    let mut reader = Reader {
        stream: receiving,
        context: &context,
        connection,
        outbox: Rc::clone(&outbox),
        buffer: BytesMut::new(),
        share: context.budget.empty_share(),
        expected_bytes: READ_MIN_BYTES,
        has_buffer: false,
        last_active: time::monotonic(),
    };
    let reading = async {
        let Err(reason) = reader.run().await;
        outbox.end(reason);
        outbox.drop_waiting();
    };
    // `join` polls the reader first: see `Signal::raise_quietly`.
    let work = join(reading, writer::run(&sending, &outbox, context.limits.idle_max, &*context.service));
    let too_late = async {
        context.shutdown.triggered().await;
        time::sleep(context.limits.drain_max).await;
    };
    select(pin!(work), pin!(too_late)).await;
    outbox.reason().unwrap_or(CloseReason::Stopping)
}

struct Reader<'a, S: Service> {
    stream: ReadHalf<'a>,
    context: &'a Context<S>,
    connection: S::Connection,
    outbox: Rc<Outbox>,
    buffer: BytesMut,
    /// Whether there is room in `buffer`; an idle connection has none.
    has_buffer: bool,
    /// Pays for the unfinished request in `buffer`.
    share: Share,
    /// How much the next read is expected to bring, by what came lately.
    expected_bytes: usize,
    last_active: time::Instant,
}

impl<S: Service> Reader<'_, S> {
    /// Reads and starts requests until there is a reason to stop.
    async fn run(&mut self) -> Result<Infallible, CloseReason> {
        let shutdown = self.context.shutdown.clone();
        let mut stop = pin!(async move { shutdown.triggered().await });
        let mut alarm = Alarm::new(self.next_look());
        loop {
            let handled = self.start_complete_requests().await?;
            if !self.has_buffer {
                self.has_buffer = true;
                alarm.set(self.next_look());
            }
            self.make_room().await?;
            let at_once = futures::poll!(pin!(self.stream.read_buf(&mut self.buffer)));
            match at_once {
                Poll::Pending => self.wait_for_bytes(&mut alarm, stop.as_mut()).await?,
                Poll::Ready(read) => {
                    self.note_read(read)?;
                    if handled > 0 {
                        // The writer and other connections get their turn, however fast this client sends.
                        task::yield_now().await;
                    }
                }
            }
        }
    }

    /// Starts every request that has arrived in full; tells how many there were.
    async fn start_complete_requests(&mut self) -> Result<usize, CloseReason> {
        let mut handled = 0;
        while let Some(frame) = self.next_frame()? {
            let mut share = std::mem::replace(&mut self.share, self.context.budget.empty_share());
            if !self.is_unpaid(frame.len()) {
                self.context.budget.grow(&mut share, frame.len()).await.map_err(CloseReason::NoMemory)?;
            }
            handled += 1;
            if self.context.service.is_joinable(&frame) {
                handled += self.start_joined(frame, share).await?;
            } else {
                let started = self.context.service.start(&self.connection, frame, self.last_active);
                self.see_through(started, share).await;
            }
            while self.outbox.is_full() && !self.outbox.has_ended() {
                self.outbox.wait_freed().await;
            }
            if self.outbox.has_ended() {
                return Err(CloseReason::Stopping);
            }
        }
        Ok(handled)
    }

    /// Whether a request of so many bytes needs no share of the budget: a small one does not stand in line behind large ones.
    fn is_unpaid(&self, bytes: usize) -> bool {
        bytes <= SMALL_BYTES || (bytes <= UNPAID_BYTES && self.outbox.len() == 0)
    }

    /// Starts a request together with those behind it that can be started with it; tells how many these were.
    async fn start_joined(&mut self, first: Bytes, share: Share) -> Result<usize, CloseReason> {
        let (mut frames, mut shares) = (vec![first], vec![share]);
        while self.outbox.len() + frames.len() < REQUESTS_IN_FLIGHT_MAX
            && let Some(length) = self.complete()?
            && self.context.service.is_joinable(&self.buffer[LENGTH_BYTES..LENGTH_BYTES + length])
            && self.context.budget.try_grow(&mut self.share, length)
        {
            frames.extend(self.next_frame()?);
            shares.push(std::mem::replace(&mut self.share, self.context.budget.empty_share()));
        }
        let joined = frames.len() - 1;
        let started = self.context.service.start_together(&self.connection, frames, self.last_active);
        for (started, share) in started.into_iter().zip(shares) {
            self.see_through(started, share).await;
        }
        Ok(joined)
    }

    /// Length of the request at the front of the buffer, once its prefix is there.
    fn announced(&self) -> Result<Option<usize>, CloseReason> {
        let Some(prefix) = self.buffer.first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
        let length = i32::from_be_bytes(*prefix);
        let max_bytes = self.context.limits.request_max_bytes;
        match usize::try_from(length) {
            Ok(bytes) if bytes > 0 && bytes <= max_bytes => Ok(Some(bytes)),
            _ => Err(CloseReason::FrameSize(length, max_bytes)),
        }
    }

    /// Length of the request at the front of the buffer, if it is there in full.
    fn complete(&self) -> Result<Option<usize>, CloseReason> {
        Ok(self.announced()?.filter(|length| self.buffer.len() >= LENGTH_BYTES + length))
    }

    fn next_frame(&mut self) -> Result<Option<Bytes>, CloseReason> {
        let Some(length) = self.complete()? else { return Ok(None) };
        self.expected_bytes = self.expected_bytes.max(LENGTH_BYTES + length).min(READ_MAX_BYTES);
        self.buffer.advance(LENGTH_BYTES);
        Ok(Some(self.buffer.split_to(length).freeze()))
    }

    /// Makes room for the next read, and pays for it where it is much.
    async fn make_room(&mut self) -> Result<(), CloseReason> {
        let held = self.buffer.len();
        let missing = self.announced()?.map_or(self.expected_bytes, |length| LENGTH_BYTES + length - held);
        let cautious = missing.min((held * (GROWTH - 1)).max(READ_MIN_BYTES));
        // A client's requests are mostly alike: where they were large, one read may bring all of the next.
        let hopeful = missing.min(self.expected_bytes).max(cautious);
        let budget = &self.context.budget;
        let room = if held + hopeful <= UNPAID_BYTES || budget.try_grow(&mut self.share, held + hopeful) {
            hopeful
        } else {
            if held + cautious > UNPAID_BYTES {
                budget.grow(&mut self.share, held + cautious).await.map_err(CloseReason::NoMemory)?;
            }
            cautious
        };
        // Without spare capacity a read looks like the end of the stream.
        self.buffer.reserve(room.max(READ_MIN_BYTES));
        Ok(())
    }

    /// Takes the next place for a request that was started. Many are answered already; others go on by themselves if their
    /// kind allows it. `share` pays for the request.
    async fn see_through(&self, started: Started, share: Share) {
        let place = self.outbox.open();
        let (mut work, pace) = match started {
            Started::Done(reply) => return self.outbox.fill(place, reply, true),
            Started::Running(work, pace) => (work, pace),
        };
        if let Poll::Ready(reply) = futures::poll!(work.as_mut()) {
            return self.outbox.fill(place, reply, true);
        }
        let since = time::monotonic();
        if pace == Pace::Alone {
            let reply = work.await.having_waited(since);
            return self.outbox.fill(place, reply, true);
        }
        let outbox = Rc::clone(&self.outbox);
        let task = task::spawn_local(async move {
            let reply = work.await.having_waited(since);
            drop(share);
            outbox.fill(place, reply, false);
        });
        if pace == Pace::Waiting {
            self.outbox.droppable(place, task);
        }
    }

    /// Waits until bytes were read, or can be if the buffer was given back meanwhile; ends by error when there is a reason to
    /// wait no more.
    async fn wait_for_bytes<F>(&mut self, alarm: &mut Alarm, mut stop: Pin<&mut F>) -> Result<(), CloseReason>
    where
        F: Future<Output = ()>,
    {
        loop {
            let Self { stream, buffer, outbox, has_buffer, .. } = self;
            let read = async {
                if *has_buffer {
                    return stream.read_buf(buffer).await.map(Some);
                }
                stream.readable().await.map(|()| None)
            };
            let ended = async {
                while !outbox.has_ended() {
                    outbox.wait_freed().await;
                }
            };
            tokio::select! {
                biased;
                read = read => return match read.transpose() {
                    Some(read) => self.note_read(read),
                    None => Ok(()),
                },
                () = ended => return Err(CloseReason::Stopping),
                () = stop.as_mut() => return Err(CloseReason::Stopping),
                () = alarm.rung() => {}
            }
            self.look_at_clock()?;
            alarm.set(self.next_look());
        }
    }

    /// Does what the time demands: gives an empty buffer back, and ends a connection that is idle.
    fn look_at_clock(&mut self) -> Result<(), CloseReason> {
        let now = time::monotonic();
        let silence = now - self.last_active;
        if silence >= self.context.limits.idle_max {
            if self.outbox.len() == 0 {
                return Err(CloseReason::Idle);
            }
            // A connection that waits for an answer is not idle: that is our silence, not the client's.
            self.last_active = now;
        }
        let hoarding_max = self.context.limits.request_memory_wait_max / HOARDING_PART;
        if silence >= hoarding_max && !self.share.is_empty() && self.context.budget.is_wanted() {
            return Err(CloseReason::StalledRequest);
        }
        if silence >= EMPTY_BUFFER_KEPT && self.buffer.is_empty() {
            // What an idle connection holds is its socket and little else.
            self.buffer = BytesMut::new();
            self.share = self.context.budget.empty_share();
            self.has_buffer = false;
        }
        Ok(())
    }

    /// When to look at the clock next. While there is a buffer that is soon, however active the client is: the timer is not
    /// set anew with each request.
    fn next_look(&self) -> time::Instant {
        let idle = self.last_active + self.context.limits.idle_max;
        if self.has_buffer { idle.min(time::monotonic() + EMPTY_BUFFER_KEPT) } else { idle }
    }

    fn note_read(&mut self, read: io::Result<usize>) -> Result<(), CloseReason> {
        match read {
            Ok(0) => Err(self.closed_by_client()),
            Ok(count) => {
                self.last_active = time::monotonic();
                let is_full = self.buffer.len() == self.buffer.capacity();
                let expected = if is_full { self.expected_bytes * 2 } else { self.expected_bytes.max(count) };
                let forgotten = if is_full { 0 } else { expected / FORGOTTEN };
                self.expected_bytes = (expected - forgotten).clamp(READ_MIN_BYTES, READ_MAX_BYTES);
                Ok(())
            }
            Err(error) => Err(broken(&error)),
        }
    }

    fn closed_by_client(&self) -> CloseReason {
        if self.buffer.is_empty() {
            return CloseReason::ClientClosed;
        }
        let announced = self.announced().ok().flatten().map_or(LENGTH_BYTES, |length| LENGTH_BYTES + length);
        CloseReason::ClientClosedInFrame { received: self.buffer.len(), announced }
    }
}

/// The connection failed.
pub(super) fn broken(error: &io::Error) -> CloseReason {
    match error.kind() {
        // How many clients leave: with a response on its way to them.
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => CloseReason::ClientClosed,
        _ => CloseReason::Broken(error.to_string()),
    }
}

/// Runs `work` for at most `limit`, without a timer when it is done at the first try.
pub(super) async fn within<F: Future>(limit: Duration, work: F) -> Result<F::Output, time::Elapsed> {
    let mut work = pin!(work);
    match futures::poll!(work.as_mut()) {
        Poll::Ready(output) => Ok(output),
        Poll::Pending => time::timeout(limit, work).await,
    }
}
