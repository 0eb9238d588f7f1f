//! gRPC between our own processes: over TCP, or over a pipe in memory when both ends are one process.
//!
//! `taffrail up` and the simulator run the very services that machines run; only the pipe differs. Names are resolved anew
//! at each dial, because pods change their address.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::service::Routes;
use tonic::transport::server::Connected;
use tonic::transport::{Channel, Endpoint, Server, Uri};

use crate::cluster_secret::ClusterSecret;
use crate::net::{TcpListener, TcpStream, connect as dial};
use crate::shutdown::Shutdown;
use crate::{task, time};

/// Connections that one service holds at a time; more wait in the kernel.
const CONNECTIONS_MAX: usize = 1_024;

/// Calls that one connection may have under way.
const STREAMS_PER_CONNECTION_MAX: u32 = 256;

/// Bytes that a pipe in memory holds in each direction.
const PIPE_BYTES: usize = 256 << 10;

/// Connections in memory that wait to be taken.
const PIPES_WAITING_MAX: usize = 64;

/// How long a dial may take.
const DIAL_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a silent connection is trusted before it is asked whether it lives, and how long the answer may take.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// How long to wait after the system could give no connection, for instance for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Where a service is reached.
#[derive(Clone, Debug)]
pub enum Target {
    /// Host and port.
    Address(String),
    /// The same, of processes that share a secret.
    Secured(String, ClusterSecret),
    /// The other end of a [`memory`] pipe.
    Memory(MemoryConnector),
}

/// Where a service takes connections.
#[derive(Debug)]
pub enum Listener {
    /// A socket.
    Tcp(TcpListener),
    /// The same, for those only who know the secret.
    Secured(TcpListener, ClusterSecret),
    /// This end of a [`memory`] pipe.
    Memory(MemoryListener),
}

/// The side of a pipe in memory that takes connections.
#[derive(Debug)]
pub struct MemoryListener {
    receiver: mpsc::Receiver<DuplexStream>,
}

/// The side of a pipe in memory that makes connections. Clones reach the same listener.
#[derive(Clone, Debug)]
pub struct MemoryConnector {
    sender: mpsc::Sender<DuplexStream>,
}

impl MemoryConnector {
    async fn connect(&self) -> io::Result<DuplexStream> {
        let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
        self.sender.send(theirs).await.map_err(|_| io::Error::from(io::ErrorKind::ConnectionRefused))?;
        Ok(ours)
    }
}

/// A service's two ends within one process.
pub fn memory() -> (MemoryListener, MemoryConnector) {
    let (sender, receiver) = mpsc::channel(PIPES_WAITING_MAX);
    (MemoryListener { receiver }, MemoryConnector { sender })
}

/// Serves `routes` on `listener` until `shutdown` is triggered; calls under way are finished, streams are cut.
///
/// # Errors
/// When the transport itself fails; a broken connection is not such a failure.
pub async fn serve(listener: Listener, routes: Routes, shutdown: Shutdown) -> io::Result<()> {
    let (sender, receiver) = mpsc::channel(1);
    let accepting = task::spawn(accept(listener, sender, shutdown.clone()));
    let served = Server::builder()
        .max_concurrent_streams(STREAMS_PER_CONNECTION_MAX)
        .http2_keepalive_interval(Some(KEEP_ALIVE))
        .http2_keepalive_timeout(Some(KEEP_ALIVE))
        .add_routes(routes)
        .serve_with_incoming_shutdown(ReceiverStream::new(receiver), async move { shutdown.triggered().await })
        .await;
    accepting.abort();
    served.map_err(io::Error::other)
}

/// A channel to `target`. It dials at the first call and again after a loss; a call fails while nobody answers.
///
/// # Errors
/// When the address is no host and port.
pub fn connect(target: Target) -> io::Result<Channel> {
    let authority = match &target {
        Target::Address(address) | Target::Secured(address, _) => address.clone(),
        Target::Memory(_) => "memory".to_owned(),
    };
    let endpoint = Endpoint::from_shared(format!("http://{authority}"))
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, format!("'{authority}' is no address: {error}")))?
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE)
        .keep_alive_while_idle(true);
    Ok(endpoint.connect_with_connector_lazy(tower::service_fn(move |_: Uri| {
        let target = target.clone();
        async move {
            let dialled = time::timeout(DIAL_TIMEOUT, open(&target)).await;
            dialled.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())).map(TokioIo::new)
        }
    })))
}

/// Dials `target` once, to see whether anybody listens there, and says nothing.
///
/// # Errors
/// Connection refused if nobody does; another error says nothing about that.
pub async fn probe(target: &Target) -> io::Result<()> {
    let dialling = async {
        match target {
            Target::Address(address) | Target::Secured(address, _) => dial(address).await.map(drop),
            Target::Memory(connector) => connector.connect().await.map(drop),
        }
    };
    time::timeout(DIAL_TIMEOUT, dialling).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

async fn open(target: &Target) -> io::Result<Pipe> {
    match target {
        Target::Address(address) => Ok(Pipe::new(dial(address).await?)),
        Target::Secured(address, secret) => {
            let mut stream = dial(address).await?;
            let shown = secret.show(&mut stream).await;
            shown.inspect_err(|error| tracing::warn!(address, %error, "no connection to one of the cluster"))?;
            Ok(Pipe::new(stream))
        }
        Target::Memory(connector) => Ok(Pipe::new(connector.connect().await?)),
    }
}

async fn accept(mut listener: Listener, sender: mpsc::Sender<io::Result<Pipe>>, shutdown: Shutdown) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    while let Ok(permit) = Arc::clone(&permits).acquire_owned().await {
        let accepted = tokio::select! {
            accepted = next(&mut listener) => accepted,
            () = shutdown.triggered() => return,
        };
        match accepted {
            Ok(Some(Accepted::Known(stream))) => {
                if sender.send(Ok(Pipe { _permit: Some(permit), ..stream })).await.is_err() {
                    return;
                }
            }
            Ok(Some(Accepted::Stranger(stream, secret))) => {
                // Beside the others: nobody has to wait for one that takes its time.
                let sender = sender.clone();
                task::spawn(async move {
                    if let Some(stream) = introduced(stream, &secret).await {
                        let _ = sender.send(Ok(Pipe { _permit: Some(permit), ..stream })).await;
                    }
                });
            }
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(%error, "no gRPC connection can be taken");
                time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// A connection that was taken.
enum Accepted {
    Known(Pipe),
    /// It has to show that it knows the secret.
    Stranger(TcpStream, ClusterSecret),
}

/// The next connection; `None` = nobody can connect any more.
async fn next(listener: &mut Listener) -> io::Result<Option<Accepted>> {
    match listener {
        Listener::Tcp(listener) => {
            let (stream, _) = listener.accept().await?;
            Ok(Some(Accepted::Known(Pipe::new(stream.attach()?))))
        }
        Listener::Secured(listener, secret) => {
            let (stream, _) = listener.accept().await?;
            Ok(Some(Accepted::Stranger(stream.attach()?, secret.clone())))
        }
        Listener::Memory(listener) => {
            Ok(listener.receiver.recv().await.map(|stream| Accepted::Known(Pipe::new(stream))))
        }
    }
}

/// The connection, if it is one of the cluster's.
async fn introduced(mut stream: TcpStream, secret: &ClusterSecret) -> Option<Pipe> {
    let checked = secret.check(&mut stream).await;
    match checked {
        Ok(()) => Some(Pipe::new(stream)),
        // Whoever only looks whether somebody listens says nothing.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => None,
        Err(error) => {
            let peer = stream.peer_addr().map(|peer| peer.to_string()).unwrap_or_default();
            tracing::warn!(peer, %error, "a gRPC connection was refused");
            None
        }
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A connection of either kind. Holds its place among [`CONNECTIONS_MAX`] while it lives.
struct Pipe {
    stream: Box<dyn Stream>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Pipe {
    fn new(stream: impl Stream + 'static) -> Self {
        Self { stream: Box::new(stream), _permit: None }
    }
}

impl Connected for Pipe {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for Pipe {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tonic::codegen::http::{Request, StatusCode};
    use tower::ServiceExt;

    use super::*;

    /// How long a test waits for what must happen.
    const PATIENCE: Duration = Duration::from_secs(10);

    /// The gRPC status of a call to a method that nobody offers, which shows that a server has answered.
    async fn call(channel: &Channel) -> Option<String> {
        let request = Request::post("http://x/none").body(tonic::body::Body::empty()).unwrap();
        let response = channel.clone().oneshot(request).await.ok()?;
        assert_eq!(response.status(), StatusCode::OK);
        Some(response.headers()["grpc-status"].to_str().unwrap().to_owned())
    }

    const UNIMPLEMENTED: &str = "12";

    async fn tcp() -> (Listener, Target) {
        let listener = TcpListener::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        (Listener::Tcp(listener), Target::Address(address))
    }

    #[tokio::test]
    async fn the_same_service_answers_over_a_socket_and_in_memory_until_it_is_stopped() {
        let (listener, connector) = memory();
        for (listener, target) in [tcp().await, (Listener::Memory(listener), Target::Memory(connector))] {
            let name = format!("{target:?}");
            let shutdown = Shutdown::new();
            let serving = task::spawn(serve(listener, Routes::default(), shutdown.clone()));
            let channel = connect(target).unwrap();
            for _ in 0..3 {
                assert_eq!(call(&channel).await.as_deref(), Some(UNIMPLEMENTED), "{name}");
            }
            shutdown.trigger();
            time::timeout(PATIENCE, serving).await.unwrap().unwrap().unwrap();
            assert_eq!(call(&channel).await, None, "{name}");
        }
    }

    #[tokio::test]
    async fn a_channel_dials_again_when_the_service_is_back() {
        let (listener, target) = tcp().await;
        let Target::Address(address) = target.clone() else { unreachable!() };
        let channel = connect(target).unwrap();
        let mut listener = Some(listener);
        for _ in 0..2 {
            let back = match listener.take() {
                Some(listener) => listener,
                None => Listener::Tcp(TcpListener::bind(address.parse().unwrap()).await.unwrap()),
            };
            let shutdown = Shutdown::new();
            let serving = task::spawn(serve(back, Routes::default(), shutdown.clone()));
            let deadline = time::monotonic() + PATIENCE;
            while call(&channel).await.as_deref() != Some(UNIMPLEMENTED) {
                assert!(time::monotonic() < deadline, "the channel finds the service again");
                time::sleep(Duration::from_millis(5)).await;
            }
            shutdown.trigger();
            time::timeout(PATIENCE, serving).await.unwrap().unwrap().unwrap();
        }
    }

    #[tokio::test]
    async fn whoever_does_not_know_the_secret_is_not_answered() {
        let secret = |text: &str| ClusterSecret::new(text.as_bytes()).unwrap();
        let socket = TcpListener::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let address = socket.local_addr().unwrap().to_string();
        let shutdown = Shutdown::new();
        let listener = Listener::Secured(socket, secret("a secret of the cluster"));
        let serving = task::spawn(serve(listener, Routes::default(), shutdown.clone()));
        let known = connect(Target::Secured(address.clone(), secret("a secret of the cluster"))).unwrap();
        assert_eq!(call(&known).await.as_deref(), Some(UNIMPLEMENTED));
        for stranger in [Target::Address(address.clone()), Target::Secured(address.clone(), secret("another secret.."))]
        {
            assert_eq!(call(&connect(stranger).unwrap()).await, None);
        }
        assert_eq!(call(&known).await.as_deref(), Some(UNIMPLEMENTED), "nobody else is disturbed");
        shutdown.trigger();
        time::timeout(PATIENCE, serving).await.unwrap().unwrap().unwrap();
    }

    #[tokio::test]
    async fn what_is_no_address_is_refused_before_anybody_dials() {
        for address in ["", "no host", "host:port:more"] {
            let refused = connect(Target::Address(address.to_owned())).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::InvalidInput, "{address}");
        }
    }
}
