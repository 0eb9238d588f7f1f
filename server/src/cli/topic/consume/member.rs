//! `taffrail topic consume -g`: reads as a member of a group. What was printed is committed on the way and at the end, so a group
//! never goes on behind what nobody has seen; after a crash it may see some records twice.

use std::collections::BTreeMap;
use std::pin::pin;

use anyhow::bail;
use futures::future::{Either, select};
use taffrail_client::kafka::{Consumer, KafkaClient, Membership, PartitionKey};
use taffrail_runtime::{signal, time};

use super::{ConsumeArgs, Left, Printer, consumer};
use crate::exit::Exit;

/// Reads until the end, or until it is told to stop.
pub(super) async fn run(args: &ConsumeArgs, group: &str, mut client: KafkaClient) -> anyhow::Result<Exit> {
    for name in &args.names {
        // A member of a topic that is not there would wait for it in silence.
        client.partitions(name, &[]).await?;
    }
    let membership =
        Membership::new(group, &args.names).with_assignor(args.assignor).with_instance_id(args.instance_id.clone());
    let (left, printer) = (Left::new(args), Printer::new(args));
    let mut reading = Reading { args, group, client, membership, left, printer, printed: BTreeMap::new() };
    let ended = match select(pin!(reading.run()), pin!(signal::terminate())).await {
        Either::Left((ended, _)) => ended,
        Either::Right((signal, _)) => signal.map(|_| ()).map_err(Into::into),
    };
    // However it ended: what was printed is told, and nobody has to wait for a member that is gone.
    let committed = reading.commit().await;
    let left = reading.membership.leave(&mut reading.client).await;
    ended?;
    if !committed? {
        bail!("group {group} has given these partitions to others: what was printed last is not committed");
    }
    left?;
    Ok(Exit::Done)
}

/// A member, and how far it is.
struct Reading<'a> {
    args: &'a ConsumeArgs,
    group: &'a str,
    client: KafkaClient,
    membership: Membership,
    left: Left,
    printer: Printer,
    /// The offsets behind what was printed, or where reading begins, as long as they are not committed.
    printed: BTreeMap<PartitionKey, i64>,
}

impl Reading<'_> {
    async fn run(&mut self) -> anyhow::Result<()> {
        loop {
            let assigned = self.membership.join(&mut self.client).await?;
            let mut consumer = self.begin(&assigned).await?;
            if self.read(&mut consumer).await? {
                return Ok(());
            }
            // Others read on from what is committed; what is not, they print again.
            self.printed.clear();
        }
    }

    /// A consumer of what the member was given, from where the group is.
    async fn begin(&mut self, assigned: &[PartitionKey]) -> anyhow::Result<Consumer> {
        let committed = self.client.committed(self.group).await?;
        let (from, now_ms) = (self.args.from, time::unix_ms());
        let mut places = from.resolve(&mut self.client, assigned, &BTreeMap::new(), now_ms).await?;
        for place in &mut places {
            match committed.get(&place.partition) {
                Some(committed) => place.offset = committed.offset.clamp(place.start, place.end.max(place.start)),
                // Noted even if nothing comes: whoever reads on must not begin elsewhere.
                None => drop(self.printed.insert(place.partition.clone(), place.offset)),
            }
        }
        self.left.begin(&places);
        Ok(consumer(&places))
    }

    /// Prints what comes; `true` at the end, `false` when the group rebalances.
    async fn read(&mut self, consumer: &mut Consumer) -> anyhow::Result<bool> {
        self.left.without(consumer);
        while !self.left.is_done() {
            let due = self.membership.heartbeat_at();
            if time::monotonic() >= due
                && !(self.commit().await? && self.membership.heartbeat(&mut self.client).await?)
            {
                return Ok(false);
            }
            let due = self.membership.heartbeat_at();
            let Ok(fetched) = time::timeout_at(due, consumer.next(&mut self.client)).await else { continue };
            let fetched = fetched?;
            let next_offset = self.printer.print(&fetched, &mut self.left)?;
            if !self.printer.flush()? {
                return Ok(true);
            }
            self.printed.insert(fetched.partition, next_offset);
            self.left.without(consumer);
        }
        Ok(true)
    }

    /// Commits what was printed since the last time; `false` if the group has moved on without this member.
    async fn commit(&mut self) -> anyhow::Result<bool> {
        if self.printed.is_empty() {
            return Ok(true);
        }
        let is_noted = self.membership.commit(&mut self.client, &self.printed).await?;
        if is_noted {
            self.printed.clear();
        }
        Ok(is_noted)
    }
}
