//! The measured server: answers requests when they are appended.

use std::future::Future;
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;

use taffrail_runtime::net::{DetachedStream, TcpListener, TcpStream};
use taffrail_runtime::shard::Shards;
use taffrail_runtime::task;

use super::logs::{Logs, checked};
use super::owners::Owners;
use super::variant::Variant;
use super::wire::Wire;

/// Serves as `variant` says until the process is killed; the first line on stdout is the address.
///
/// # Errors
/// When an argument makes no sense or the server cannot start.
pub(crate) fn serve(variant: &str, threads: &str, partitions: &str, dir: &Path) -> io::Result<()> {
    let number = |text: &str| text.parse::<usize>().map_err(io::Error::other);
    let variant = Variant::named(variant).ok_or_else(|| io::Error::other(format!("no variant {variant}")))?;
    let (threads, partitions) = (number(threads)?, number(partitions)?);
    match variant {
        Variant::Shards => task::block_on_current_thread(async {
            let logs = Logs::open(dir, partitions).await?;
            let shards = Shards::start(threads, "shard")?;
            accept(|index, stream| {
                let logs = Arc::clone(&logs);
                let serving = move || until_closed(async { append_here(stream.attach()?, logs).await });
                shards.spawn_on(index, serving).map_err(io::Error::other)
            })
            .await
        })?,
        Variant::Stealing => task::block_on(threads, async {
            let logs = Logs::open(dir, partitions).await?;
            accept(|_, stream| {
                let logs = Arc::clone(&logs);
                drop(task::spawn(until_closed(async { append_here(stream.attach()?, logs).await })));
                Ok(())
            })
            .await
        })?,
        Variant::Owners => task::block_on_current_thread(async {
            let logs = Logs::open(dir, partitions).await?;
            let shards = Shards::start(threads, "owner")?;
            let owners = Arc::new(Owners::start(&shards, &logs)?);
            accept(|index, stream| {
                let (owners, shard) = (Arc::clone(&owners), index % shards.count());
                let serving = move || until_closed(async move { owners.serve(stream.attach()?, shard).await });
                shards.spawn_on(shard, serving).map_err(io::Error::other)
            })
            .await
        })?,
    }
}

/// Deals out connections, numbered from 0.
async fn accept(mut start: impl FnMut(usize, DetachedStream) -> io::Result<()>) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0).into()).await?;
    let mut stdout = io::stdout();
    writeln!(stdout, "{}", listener.local_addr()?)?;
    stdout.flush()?;
    let mut index = 0;
    loop {
        let (stream, _) = listener.accept().await?;
        start(index, stream)?;
        index += 1;
    }
}

async fn until_closed(serving: impl Future<Output = io::Result<()>>) {
    if let Err(error) = serving.await
        && !matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
    {
        // The load notices that its connection is gone, and fails.
        let _ = writeln!(io::stderr(), "a connection failed: {error}");
    }
}

/// Serves a connection on the thread that reads it.
async fn append_here(stream: TcpStream, logs: Arc<Logs>) -> io::Result<()> {
    let mut wire = Wire::new(stream);
    let mut requests = Vec::new();
    while wire.receive(&mut requests).await? {
        for request in requests.drain(..) {
            let offset = logs.append(request.partition, checked(&request.batch)?)?;
            wire.answer(request.correlation, offset);
        }
        wire.send().await?;
    }
    Ok(())
}
