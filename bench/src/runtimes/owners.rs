//! Strict ownership: each log belongs to one shard, and only that shard appends to it.
//!
//! Made as cheap as it can be: what a connection has for one other shard travels as one message and comes back as one,
//! batches are checked before they travel, and what belongs to the connection's own shard does not travel. (The log's
//! lock is still taken, but nobody else wants it.)

use std::io;
use std::sync::Arc;

use taffrail_core::record::Batch;
use taffrail_runtime::net::TcpStream;
use taffrail_runtime::shard::Shards;
use tokio::sync::{mpsc, oneshot};

use super::logs::{Logs, checked};
use super::wire::Wire;

/// Jobs that may wait for a shard.
const JOBS_MAX: usize = 1024;

/// An append, with its place among the requests that were read together.
struct Append {
    place: usize,
    partition: usize,
    batch: Batch,
}

/// Appends for one shard, and where their places and offsets go.
struct Job {
    appends: Vec<Append>,
    reply: oneshot::Sender<io::Result<Vec<(usize, i64)>>>,
}

/// The shards as owners of logs: partition p belongs to shard p modulo their number.
pub(super) struct Owners {
    logs: Arc<Logs>,
    queues: Vec<mpsc::Sender<Job>>,
}

impl Owners {
    /// Makes each shard wait for appends to its logs.
    ///
    /// # Errors
    /// When a shard takes no work.
    pub(super) fn start(shards: &Shards, logs: &Arc<Logs>) -> io::Result<Self> {
        let mut queues = Vec::with_capacity(shards.count());
        for shard in 0..shards.count() {
            let (sender, mut receiver) = mpsc::channel::<Job>(JOBS_MAX);
            let logs = Arc::clone(logs);
            let appending = move || async move {
                while let Some(Job { appends, reply }) = receiver.recv().await {
                    // A connection that has gone wants no answer.
                    let _ = reply.send(append_all(&logs, appends));
                }
            };
            shards.spawn_on(shard, appending).map_err(io::Error::other)?;
            queues.push(sender);
        }
        Ok(Self { logs: Arc::clone(logs), queues })
    }

    /// Serves a connection that lives on `shard`.
    ///
    /// # Errors
    /// When the connection breaks or a log refuses.
    pub(super) async fn serve(&self, stream: TcpStream, shard: usize) -> io::Result<()> {
        let mut wire = Wire::new(stream);
        let mut requests = Vec::new();
        while wire.receive(&mut requests).await? {
            let mut by_owner: Vec<Vec<Append>> = self.queues.iter().map(|_| Vec::new()).collect();
            for (place, request) in requests.iter().enumerate() {
                let (partition, batch) = (request.partition, checked(&request.batch)?);
                by_owner[partition % self.queues.len()].push(Append { place, partition, batch });
            }
            let own = std::mem::take(&mut by_owner[shard]);
            let replies = self.send(by_owner).await?;
            let mut offsets = vec![0; requests.len()];
            for (place, offset) in append_all(&self.logs, own)? {
                offsets[place] = offset;
            }
            for reply in replies {
                for (place, offset) in reply.await.map_err(io::Error::other)?? {
                    offsets[place] = offset;
                }
            }
            for (request, offset) in requests.drain(..).zip(offsets) {
                wire.answer(request.correlation, offset);
            }
            wire.send().await?;
        }
        Ok(())
    }

    /// Sends each shard what belongs to it.
    async fn send(
        &self,
        by_owner: Vec<Vec<Append>>,
    ) -> io::Result<Vec<oneshot::Receiver<io::Result<Vec<(usize, i64)>>>>> {
        let mut replies = Vec::new();
        for (queue, appends) in self.queues.iter().zip(by_owner) {
            if appends.is_empty() {
                continue;
            }
            let (reply, receiver) = oneshot::channel();
            queue.send(Job { appends, reply }).await.map_err(|_| io::Error::other("a shard has ended"))?;
            replies.push(receiver);
        }
        Ok(replies)
    }
}

fn append_all(logs: &Logs, appends: Vec<Append>) -> io::Result<Vec<(usize, i64)>> {
    appends.into_iter().map(|append| Ok((append.place, logs.append(append.partition, append.batch)?))).collect()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use taffrail_runtime::net::TcpListener;
    use taffrail_runtime::task;

    use super::super::load::{self, Load};
    use super::super::wire;
    use super::*;

    #[test]
    fn answers_keep_the_order_of_requests_whichever_shard_appends() {
        let dir = tempfile::tempdir().unwrap();
        task::block_on(1, async {
            let logs = Logs::open(dir.path(), 4).await.unwrap();
            let shards = Shards::start(2, "owner").unwrap();
            let owners = Owners::start(&shards, &logs).unwrap();
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0).into()).await.unwrap();
            let load = Load { connections: 1, in_flight: 5, partitions: 4 };
            let address = listener.local_addr().unwrap();
            let running = load::start(address, &load, Duration::ZERO, Duration::from_millis(50)).unwrap();
            let (stream, _) = listener.accept().await.unwrap();
            let serving = move || async move { drop(owners.serve(stream.attach().unwrap(), 0).await) };
            shards.spawn_on(0, serving).unwrap();
            running.finish().expect("the load finds each answer in its place");
            let batch = wire::request().unwrap().freeze().slice(12..);
            let offset = logs.append(1, checked(&batch).unwrap()).unwrap();
            assert!(offset > 0, "shard 1 has appended to the log that it owns");
        })
        .unwrap();
    }
}
