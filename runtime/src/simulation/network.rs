//! The network between machines: connections that deliver in order and late, break, and are held back by cuts.
//!
//! It behaves like TCP as far as a process can see: bytes arrive in order or the connection breaks, a dial to a port that
//! nobody has is refused, a machine without power does not answer at all, and whoever writes to a process that is gone is
//! told so by a reset.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};

use super::host::Death;
use super::{State, World, wake, world};
use crate::random::Seeded;

/// Bytes that one side may have sent without the other having read them.
const WINDOW_BYTES: usize = 256 << 10;

/// First port that is given to those who dial.
const FIRST_PORT: u16 = 32_768;

/// How often a dial that gets no answer is sent again.
const DIAL_AGAIN: Duration = Duration::from_millis(20);

/// Connections, listeners and cuts.
#[derive(Debug, Default)]
pub(super) struct Network {
    connections: BTreeMap<u64, Connection>,
    listeners: BTreeMap<SocketAddr, Backlog>,
    cuts: BTreeSet<(IpAddr, IpAddr)>,
    off: BTreeSet<IpAddr>,
    next_connection: u64,
}

#[derive(Debug, Default)]
struct Backlog {
    connections: VecDeque<u64>,
    waiting: Option<Waker>,
}

#[derive(Debug)]
struct Connection {
    ends: [End; 2],
}

#[derive(Debug)]
struct End {
    address: SocketAddr,
    /// Whether the process has it still.
    open: bool,
    /// Whether its last byte was sent.
    finished: bool,
    /// On the way from here, each with the time of its arrival.
    sent: VecDeque<(u64, Piece)>,
    /// Bytes of that and of what the other end has not read.
    unread: usize,
    /// What has arrived here.
    arrived: VecDeque<Bytes>,
    /// Whether nothing more comes.
    over: bool,
    broken: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

#[derive(Debug)]
enum Piece {
    Bytes(Bytes),
    /// The sender says nothing more.
    End,
    /// The sender knows nothing of this connection.
    Reset,
}

impl End {
    fn new(address: SocketAddr) -> Self {
        Self {
            address,
            open: true,
            finished: false,
            sent: VecDeque::new(),
            unread: 0,
            arrived: VecDeque::new(),
            over: false,
            broken: false,
            reader: None,
            writer: None,
        }
    }

    fn send(&mut self, due_ms: u64, piece: Piece) {
        let due_ms = self.sent.back().map_or(due_ms, |(last, _)| due_ms.max(*last));
        self.sent.push_back((due_ms, piece));
    }

    fn wakers(&mut self) -> impl Iterator<Item = Waker> {
        self.reader.take().into_iter().chain(self.writer.take())
    }

    fn break_off(&mut self) {
        self.broken = true;
        self.sent.clear();
    }
}

impl Network {
    pub(super) fn cut(&mut self, from: IpAddr, to: IpAddr) {
        self.cuts.insert((from, to));
    }

    pub(super) fn heal(&mut self) {
        self.cuts.clear();
    }

    pub(super) fn machine_is_up(&mut self, address: IpAddr) {
        self.off.remove(&address);
    }

    /// Whether machines can talk in both directions.
    fn is_reachable(&self, from: IpAddr, to: IpAddr) -> bool {
        !self.off.contains(&to) && !self.cuts.contains(&(from, to)) && !self.cuts.contains(&(to, from))
    }

    pub(super) fn break_some(&mut self, rng: &mut Seeded, one_in: u64) -> Vec<Waker> {
        let mut woken = Vec::new();
        for connection in self.connections.values_mut() {
            if rng.one_in(one_in) {
                for end in &mut connection.ends {
                    end.break_off();
                    woken.extend(end.wakers());
                }
            }
        }
        woken
    }

    /// The process at `address` is gone. `due_ms`: when others hear of it, if they do.
    pub(super) fn host_dies(&mut self, address: IpAddr, death: Death, due_ms: u64) {
        self.listeners.retain(|listener, _| listener.ip() != address);
        if death == Death::Machine {
            self.off.insert(address);
        }
        for connection in self.connections.values_mut() {
            for end in connection.ends.iter_mut().filter(|end| end.address.ip() == address && end.open) {
                end.open = false;
                match death {
                    Death::Process => end.send(due_ms, Piece::Reset),
                    // What was on the way may have left or not: it has not.
                    Death::Machine => end.sent.clear(),
                }
            }
        }
    }

    fn end(&mut self, connection: u64, end: usize) -> Option<(&mut End, &mut End)> {
        let [first, second] = &mut self.connections.get_mut(&connection)?.ends;
        Some(if end == 0 { (first, second) } else { (second, first) })
    }
}

impl State {
    /// Lets everything arrive that is due.
    pub(super) fn deliver(&mut self) -> Vec<Waker> {
        let mut woken = Vec::new();
        let now_ms = self.elapsed_ms;
        let Network { connections, cuts, off, .. } = &mut self.network;
        connections.retain(|_, connection| {
            for from in 0..2 {
                let [first, second] = &mut connection.ends;
                let (sender, receiver) = if from == 0 { (first, second) } else { (second, first) };
                if !cuts.contains(&(sender.address.ip(), receiver.address.ip())) {
                    deliver(sender, receiver, now_ms, off, &mut woken);
                }
            }
            connection.ends.iter().any(|end| end.open) || connection.ends.iter().any(|end| !end.sent.is_empty())
        });
        woken
    }
}

fn deliver(sender: &mut End, receiver: &mut End, now_ms: u64, off: &BTreeSet<IpAddr>, woken: &mut Vec<Waker>) {
    while sender.sent.front().is_some_and(|(due_ms, _)| *due_ms <= now_ms) {
        let Some((_, piece)) = sender.sent.pop_front() else { return };
        if off.contains(&receiver.address.ip()) {
            // Nobody answers; the sender waits for ever, or as long as it is willing to.
            continue;
        }
        match piece {
            Piece::Bytes(bytes) if receiver.open => receiver.arrived.push_back(bytes),
            Piece::End if receiver.open => receiver.over = true,
            Piece::Reset => receiver.broken = true,
            // The process is gone, or has closed: its machine says so.
            Piece::Bytes(_) => {
                sender.break_off();
                woken.extend(sender.wakers());
                return;
            }
            Piece::End => {}
        }
        woken.extend(receiver.wakers());
    }
}

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct Stream {
    world: Arc<World>,
    connection: u64,
    end: usize,
}

impl Stream {
    fn with<T>(&self, work: impl FnOnce(&mut End, &mut End) -> T) -> io::Result<T> {
        let mut state = self.world.state.lock();
        let (own, other) = state.network.end(self.connection, self.end).ok_or(io::ErrorKind::NotConnected)?;
        Ok(work(own, other))
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.with(|own, _| own.address)
    }

    pub(crate) fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.with(|_, other| other.address)
    }

    /// Takes what has arrived, as far as `room` goes; 0 = nothing more comes. `None` for the context = nobody waits.
    fn poll_take(&self, context: Option<&Context<'_>>, room: usize, out: &mut impl BufMut) -> Poll<io::Result<usize>> {
        if room == 0 {
            return Poll::Ready(Ok(0));
        }
        let (outcome, woken) = self.with(|own, other| {
            let mut taken = 0;
            while let Some(bytes) = own.arrived.front_mut().filter(|_| taken < room) {
                let part = bytes.split_to(bytes.len().min(room - taken));
                taken += part.len();
                out.put_slice(&part);
                if bytes.is_empty() {
                    own.arrived.pop_front();
                }
            }
            if taken > 0 {
                other.unread -= taken;
                return (Poll::Ready(Ok(taken)), other.writer.take());
            }
            if own.broken {
                return (Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())), None);
            }
            if own.over {
                return (Poll::Ready(Ok(0)), None);
            }
            own.reader = context.map(|context| context.waker().clone());
            (Poll::Pending, None)
        })?;
        wake(woken.into_iter().collect());
        outcome
    }

    /// Waits until [`Self::try_read_buf`] gives something.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        poll_fn(|context| {
            let ready = self.with(|own, _| {
                let ready = !own.arrived.is_empty() || own.broken || own.over;
                own.reader = (!ready).then(|| context.waker().clone());
                ready
            });
            match ready {
                Ok(false) => Poll::Pending,
                other => Poll::Ready(other.map(|_| ())),
            }
        })
        .await
    }

    pub(crate) fn try_read_buf(&self, buffer: &mut BytesMut) -> io::Result<usize> {
        match self.poll_take(None, buffer.capacity() - buffer.len(), buffer) {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    pub(crate) async fn read_buf(&self, buffer: &mut BytesMut) -> io::Result<usize> {
        poll_fn(|context| self.poll_take(Some(context), buffer.capacity() - buffer.len(), buffer)).await
    }

    pub(crate) fn poll_read(&self, context: &Context<'_>, buffer: &mut tokio::io::ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.poll_take(Some(context), buffer.remaining(), buffer).map_ok(|_| ())
    }

    pub(crate) async fn write_vectored(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        poll_fn(|context| self.poll_write(context, slices)).await
    }

    pub(crate) fn poll_write(&self, context: &Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let mut state = self.world.state.lock();
        let due_ms = state.elapsed_ms + state.network_delay();
        let Some((own, _)) = state.network.end(self.connection, self.end) else {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        };
        if own.broken || own.finished {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let room = WINDOW_BYTES - own.unread;
        if room == 0 {
            own.writer = Some(context.waker().clone());
            return Poll::Pending;
        }
        let mut bytes = BytesMut::new();
        for slice in slices {
            bytes.extend_from_slice(&slice[..slice.len().min(room - bytes.len())]);
        }
        let count = bytes.len();
        tracing::trace!(from = %own.address, bytes = count, due_ms, "sent");
        if count > 0 {
            own.unread += count;
            own.send(due_ms, Piece::Bytes(bytes.freeze()));
        }
        Poll::Ready(Ok(count))
    }

    /// Says that nothing more is sent.
    pub(crate) fn finish(&self) {
        let mut state = self.world.state.lock();
        let due_ms = state.elapsed_ms + state.network_delay();
        let Some((own, _)) = state.network.end(self.connection, self.end) else { return };
        if !own.finished && own.open {
            own.finished = true;
            own.send(due_ms, Piece::End);
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.finish();
        // It is gone already when its process is.
        let _ = self.with(|own, _| own.open = false);
    }
}

/// A port that is listened on.
#[derive(Debug)]
pub(crate) struct Listener {
    world: Arc<World>,
    address: SocketAddr,
}

/// Listens on a port of the machine that works, if it is a simulated one.
pub(crate) fn listen(address: SocketAddr) -> Option<io::Result<Listener>> {
    let world = world()?;
    let mut state = world.state.lock();
    if state.here != Some(address.ip()) {
        return Some(Err(io::ErrorKind::AddrNotAvailable.into()));
    }
    if state.network.listeners.contains_key(&address) {
        return Some(Err(io::ErrorKind::AddrInUse.into()));
    }
    state.network.listeners.insert(address, Backlog::default());
    drop(state);
    Some(Ok(Listener { world, address }))
}

impl Listener {
    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.address
    }

    pub(crate) async fn accept(&self) -> io::Result<(Stream, SocketAddr)> {
        let connection = poll_fn(|context| {
            let mut state = self.world.state.lock();
            let Some(backlog) = state.network.listeners.get_mut(&self.address) else {
                return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
            };
            match backlog.connections.pop_front() {
                Some(connection) => Poll::Ready(Ok::<u64, io::Error>(connection)),
                None => {
                    backlog.waiting = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await?;
        let stream = Stream { world: Arc::clone(&self.world), connection, end: 1 };
        let peer = stream.peer_addr()?;
        Ok((stream, peer))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut state = self.world.state.lock();
        let due_ms = state.elapsed_ms + state.network_delay();
        let Some(backlog) = state.network.listeners.remove(&self.address) else { return };
        for connection in backlog.connections {
            if let Some((own, _)) = state.network.end(connection, 1) {
                own.open = false;
                own.send(due_ms, Piece::Reset);
            }
        }
    }
}

/// Dials `address` from the machine that works; `None` = it is not a simulated one.
pub(crate) async fn connect(address: &str) -> Option<io::Result<Stream>> {
    let world = world()?;
    let Ok(address) = address.parse::<SocketAddr>() else { return Some(Err(io::ErrorKind::NotFound.into())) };
    Some(dial(world, address).await)
}

async fn dial(world: Arc<World>, to: SocketAddr) -> io::Result<Stream> {
    let (from, there_and_back) = {
        let mut state = world.state.lock();
        let from = state.here.ok_or(io::ErrorKind::NetworkUnreachable)?;
        (from, state.network_delay() + state.network_delay())
    };
    tokio::time::sleep(Duration::from_millis(there_and_back)).await;
    loop {
        if let Some(outcome) = world.state.lock().network.try_to_establish(&world, from, to) {
            return outcome;
        }
        tokio::time::sleep(DIAL_AGAIN).await;
    }
}

impl Network {
    /// A connection, or its refusal; `None` = nobody answers.
    fn try_to_establish(&mut self, world: &Arc<World>, from: IpAddr, to: SocketAddr) -> Option<io::Result<Stream>> {
        if !self.is_reachable(from, to.ip()) {
            return None;
        }
        let Some(backlog) = self.listeners.get_mut(&to) else {
            return Some(Err(io::ErrorKind::ConnectionRefused.into()));
        };
        let connection = self.next_connection;
        self.next_connection += 1;
        let port = FIRST_PORT + u16::try_from(connection % u64::from(u16::MAX - FIRST_PORT)).unwrap_or_default();
        let ends = [End::new(SocketAddr::new(from, port)), End::new(to)];
        self.connections.insert(connection, Connection { ends });
        backlog.connections.push_back(connection);
        let waiting = backlog.waiting.take();
        // A waker of a listener holds no connection, so it may be woken here.
        waiting.into_iter().for_each(Waker::wake);
        Some(Ok(Stream { world: Arc::clone(world), connection, end: 0 }))
    }
}
