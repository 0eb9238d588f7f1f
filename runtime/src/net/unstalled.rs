//! Connections on which something has to move.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::TcpStream;

/// A connection that fails when the other end sends nothing, or takes nothing, for too long while that is waited for. What
/// is kept for it does not outlive a peer that has gone to sleep.
#[derive(Debug)]
pub struct Unstalled {
    stream: TcpStream,
    reads: Patience,
    writes: Patience,
}

/// How long something may take, and until when what is under way may.
#[derive(Debug)]
struct Patience {
    limit: Duration,
    until: Option<Pin<Box<Sleep>>>,
}

impl Patience {
    fn of(limit: Duration) -> Self {
        Self { limit, until: None }
    }

    /// Something moved, or is waited for.
    fn judge<T>(&mut self, moved: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if moved.is_ready() {
            self.until = None;
            return moved;
        }
        let limit = self.limit;
        let until = self.until.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        ready!(until.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl Unstalled {
    /// Lets the other end be silent for `read_max`, and take nothing of what it is sent for `write_max`.
    pub fn new(stream: TcpStream, read_max: Duration, write_max: Duration) -> Self {
        Self { stream, reads: Patience::of(read_max), writes: Patience::of(write_max) }
    }
}

impl AsyncRead for Unstalled {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.reads.judge(read, context)
    }
}

impl AsyncWrite for Unstalled {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.writes.judge(written, context)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.writes.judge(flushed, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.writes.judge(shut, context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::net::{TcpListener, connect};

    #[tokio::test]
    async fn a_peer_that_neither_sends_nor_takes_anything_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let peer = connect(&listener.local_addr().unwrap().to_string()).await.unwrap();
        let (accepted, _) = listener.accept().await.unwrap();
        let (read_max, write_max) = (Duration::from_millis(30), Duration::from_millis(50));
        let mut stream = Unstalled::new(accepted.attach().unwrap(), read_max, write_max);
        let read = stream.read_u8().await.unwrap_err();
        assert_eq!(read.kind(), io::ErrorKind::TimedOut);
        let block = vec![0; 1 << 20];
        let write = loop {
            if let Err(error) = stream.write_all(&block).await {
                break error;
            }
        };
        assert_eq!(write.kind(), io::ErrorKind::TimedOut);
        drop(peer);
    }
}
