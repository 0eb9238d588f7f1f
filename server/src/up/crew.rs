//! Brokers that come and go while `up` runs, as the Cluster of its files says.
//!
//! One that comes gets the next number, port and folder. One that goes is the last; it gives its replicas away first, and its
//! folder goes when nothing is left in it. What to do next is decided as for clusters of pods ([`scale`]), from the metadata,
//! so what was under way when a process ended goes on with the next one.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::time::Duration;

use futures::future::{Either, select};
use taffrail_client::controller::ControllerClient;
use taffrail_core::control::Command;
use taffrail_core::event::BrokerDuty;
use taffrail_core::ids::BrokerId;
use taffrail_core::image::MetadataImage;
use taffrail_operator::kubernetes::names::Node;
use taffrail_operator::kubernetes::scale::{self, Ids, Leaving, Move};
use taffrail_runtime::{task, time};
use tokio::sync::watch;

use super::brokers::{Brokers, Joined, Seat};
use super::{PROPOSE_TIMEOUT, Plan};
use crate::exit;
use crate::http::Health;
use crate::roles::RoleEnd;

/// Pause between two steps, while there is something to do.
const STEP_EVERY: Duration = Duration::from_millis(200);

/// Pause before a step that could not be taken is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// All brokers of the process, and how many of them there are to be.
pub(super) struct Crew {
    pub(super) brokers: Brokers,
    client: ControllerClient,
    health: Health,
    zones: Vec<String>,
    /// How many the Cluster wants; `None` = it does not say.
    wanted: watch::Receiver<Option<i32>>,
    /// Replicas that a new topic gets which does not say how many.
    default_factor: i32,
    /// Told where brokers are.
    places: watch::Sender<BTreeMap<i32, String>>,
    coming: Option<task::JoinHandle<anyhow::Result<Joined>>>,
    going: Option<(i32, task::JoinHandle<anyhow::Result<()>>)>,
    /// Brokers whose duty was changed so that they can go.
    turned: BTreeSet<i32>,
    /// What was told last, so that it is told once.
    told: String,
}

/// What a [`Crew`] is made of.
pub(super) struct CrewParts {
    pub(super) brokers: Brokers,
    pub(super) client: ControllerClient,
    pub(super) health: Health,
    pub(super) zones: Vec<String>,
    pub(super) wanted: watch::Receiver<Option<i32>>,
    pub(super) default_factor: i32,
    pub(super) places: watch::Sender<BTreeMap<i32, String>>,
}

impl Crew {
    pub(super) fn new(parts: CrewParts) -> Self {
        let CrewParts { brokers, client, health, zones, wanted, default_factor, places } = parts;
        let (turned, told) = (BTreeSet::new(), String::new());
        Self { brokers, client, health, zones, wanted, default_factor, places, coming: None, going: None, turned, told }
    }

    /// Has as many brokers as are wanted, until one fails.
    pub(super) async fn keep(&mut self, plan: &Plan<'_>) -> RoleEnd {
        loop {
            let pause = match self.step(plan).await {
                Ok(true) => Some(STEP_EVERY),
                Ok(false) => None,
                Err(error) => {
                    self.tell_once(format!("the number of brokers is not as wanted: {}", exit::told(&error)));
                    Some(AGAIN)
                }
            };
            let wanted = &mut self.wanted;
            let due = async {
                match pause {
                    Some(pause) => time::sleep(pause).await,
                    // Without anybody who says so, nothing changes any more.
                    None if wanted.changed().await.is_err() => std::future::pending().await,
                    None => {}
                }
            };
            if let Either::Left((end, _)) = select(pin!(self.brokers.failed()), pin!(due)).await {
                return end;
            }
        }
    }

    /// Takes the next step; whether there may be another one.
    async fn step(&mut self, plan: &Plan<'_>) -> anyhow::Result<bool> {
        if self.is_waiting().await? {
            return Ok(true);
        }
        let Some(wanted) = *self.wanted.borrow_and_update() else { return Ok(false) };
        let count = self.brokers.count();
        let image = self.brokers.first().metadata.image();
        if wanted > count {
            let seat = Seat::take_nth(plan.options, plan.dir, u16::try_from(count)?, &self.zones).await?;
            tracing::info!(broker = count + 1, "one more broker comes");
            self.coming = Some(self.brokers.begin_to_add(seat));
            return Ok(true);
        }
        let ids = ids(wanted, count.max(plan.dir.brokers()), &image, &self.turned);
        if ids.leave.is_empty() {
            return self.turn_back(&image, wanted).await;
        }
        let is_new = |factor: &i32| count > wanted && wanted < *factor;
        if let Some(factor) = Some(self.default_factor).filter(is_new) {
            self.tell_once(format!(
                "broker {count} stays: new topics get {factor} replicas (default.replication.factor), which {wanted} brokers \
                 cannot keep. Lower it in spec.config if it stands there, and start this process again; or set \
                 spec.brokers.replicas back to {count}"
            ));
            return Ok(false);
        }
        let pods = (1..=count).map(Node::broker).collect();
        let disks = ids.leave.iter().filter(|id| plan.dir.logs_of(**id).exists()).map(|id| Node::broker(*id)).collect();
        let next = scale::brokers(&Leaving {
            ids: &ids,
            image: &image,
            pods: &pods,
            disks: &disks,
            drains: true,
            moves_max: None,
        });
        match next {
            Some(next) => self.take(next, plan, wanted).await,
            None => Ok(false),
        }
    }

    /// Whether a broker is on its way in or out; takes over those that have arrived.
    async fn is_waiting(&mut self) -> anyhow::Result<bool> {
        if self.coming.as_ref().is_some_and(|coming| !coming.is_finished())
            || self.going.as_ref().is_some_and(|(_, going)| !going.is_finished())
        {
            return Ok(true);
        }
        if let Some(coming) = self.coming.take() {
            self.brokers.add(coming.await??)?;
            self.brokers.tell_last(&self.health);
            self.places.send_replace(self.brokers.places().clone());
            let (broker, address) = (self.brokers.count(), self.brokers.advertised.last());
            tracing::info!(broker, ?address, "the broker is there and takes clients");
        }
        if let Some((broker, going)) = self.going.take() {
            going.await??;
            tracing::info!(broker, "the broker has stopped");
        }
        Ok(false)
    }

    /// Gives brokers that stay after all their duty back; whether there was one.
    async fn turn_back(&mut self, image: &MetadataImage, wanted: i32) -> anyhow::Result<bool> {
        let Some(id) = self.turned.iter().copied().find(|id| *id <= wanted) else { return Ok(false) };
        if image.broker(BrokerId(id)).is_some() && image.duty(BrokerId(id)) != BrokerDuty::Serving {
            tracing::info!(broker = id, "the broker stays after all");
            self.set_duty(id, BrokerDuty::Serving).await?;
        }
        self.turned.remove(&id);
        Ok(true)
    }

    /// Does what is next for brokers that are to go, of which `wanted` stay; whether there may be more to do.
    async fn take(&mut self, next: Move, plan: &Plan<'_>, wanted: i32) -> anyhow::Result<bool> {
        match next {
            Move::SetDuty(id, duty) => {
                self.turned.insert(id);
                self.set_duty(id, duty).await?;
            }
            Move::Draining(broker, left) => {
                self.tell_once(format!("broker {broker} gives its replicas away: {left} are left"))
            }
            Move::DeletePod(node) => {
                self.health.remove(BrokerId(node.id));
                self.going = self.brokers.begin_to_remove().map(|going| (node.id, going));
                self.places.send_replace(self.brokers.places().clone());
            }
            Move::Unregister(id) => {
                self.client.propose(&Command::UnregisterBroker { broker: BrokerId(id) }, PROPOSE_TIMEOUT).await?;
            }
            Move::DeleteClaim(node) => {
                plan.dir.forget_broker(node.id)?;
                self.turned.remove(&node.id);
                tracing::info!(broker = node.id, "the broker has gone, and its folder with it");
            }
            Move::Refused(node, why) => {
                let id = node.id;
                self.tell_once(format!(
                    "broker {id} stays: {why}. Give these topics {wanted} replicas at most first, or set \
                     spec.brokers.replicas back to {id}"
                ));
                // What stands in the way may go.
                time::sleep(AGAIN).await;
            }
            other => anyhow::bail!("{other:?} is nothing for brokers of one process"),
        }
        Ok(true)
    }

    async fn set_duty(&self, id: i32, duty: BrokerDuty) -> anyhow::Result<()> {
        let command = Command::SetBrokerDuty { broker: BrokerId(id), duty };
        self.client.propose(&command, PROPOSE_TIMEOUT).await?;
        Ok(())
    }

    fn tell_once(&mut self, text: String) {
        if self.told != text {
            tracing::warn!("{text}");
            self.told = text;
        }
    }

    /// Stops all brokers, also one that is on its way in or out.
    pub(super) async fn stop(mut self) -> anyhow::Result<()> {
        let coming = match self.coming.take() {
            Some(coming) => coming.await?.and_then(|joined| self.brokers.add(joined)),
            None => Ok(()),
        };
        let going = match self.going.take() {
            Some((_, going)) => going.await?,
            None => Ok(()),
        };
        self.brokers.stop().await?;
        coming.and(going)
    }
}

/// Who stays of brokers 1 to `present` where `wanted` are to, and who leaves. Those that stay and that somebody else has set
/// aside are not counted on, and are left alone.
fn ids(wanted: i32, present: i32, image: &MetadataImage, turned: &BTreeSet<i32>) -> Ids {
    let is_ours = |id: &i32| turned.contains(id) || image.duty(BrokerId(*id)) == BrokerDuty::Serving;
    Ids { stay: (1..=wanted).filter(is_ours).collect(), leave: (wanted + 1..=present).rev().collect() }
}

#[cfg(test)]
mod tests {
    use taffrail_core::event::MetadataEvent;

    use super::*;

    #[test]
    fn the_last_leave_first_and_who_was_set_aside_is_left_alone() {
        let mut image = MetadataImage::default();
        let all = ids(3, 5, &image, &BTreeSet::new());
        assert_eq!((all.stay, all.leave), (BTreeSet::from([1, 2, 3]), vec![5, 4]));
        assert_eq!(ids(3, 3, &image, &BTreeSet::new()).leave, Vec::<i32>::new());
        image.apply(&MetadataEvent::BrokerDutyChanged { broker: BrokerId(2), duty: BrokerDuty::Cordoned }).unwrap();
        assert_eq!(ids(3, 5, &image, &BTreeSet::new()).stay, BTreeSet::from([1, 3]));
        assert_eq!(ids(3, 5, &image, &BTreeSet::from([2])).stay, BTreeSet::from([1, 2, 3]), "this process did it");
    }
}
