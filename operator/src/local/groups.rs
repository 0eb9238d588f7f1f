//! The ConsumerGroups of the files: looked at beside the topics, because a coordinator may take long to answer.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;

use futures::future::select;
use parking_lot::Mutex;
use taffrail_client::groups::GroupClient;
use taffrail_runtime::shutdown::Shutdown;
use taffrail_runtime::time;
use tokio::sync::{Notify, watch};

use super::now;
use crate::crd::ConsumerGroupStatus;
use crate::crd::parts::condition;
use crate::crd::reasons::Reason;
use crate::platform::groups::GroupAdmin;
use crate::reconcile::consumer_group::{
    self, ANSWER_TIMEOUT, LOOK_EVERY, LOOK_EVERY_BUSY, Look, Lookout, Removal, ValidGroup,
};

/// What the operator calls itself before brokers.
const CLIENT_ID: &str = "taffrail-operator";

/// Groups by their ids.
pub type Groups = BTreeMap<String, ValidGroup>;

/// What there is to do about groups.
#[derive(Debug, Default)]
struct Due {
    /// Groups that have a resource.
    wanted: Groups,
    /// Groups whose resources went, and that are still to be dealt with.
    removed: Groups,
}

/// Hands over what there is to do about groups.
#[derive(Debug, Default)]
pub(super) struct GroupInbox {
    due: Mutex<Due>,
    news: Notify,
}

impl GroupInbox {
    /// Takes over which groups have a resource from now on.
    pub(super) fn want(&self, groups: Groups) {
        let mut due = self.due.lock();
        let before = std::mem::replace(&mut due.wanted, groups);
        due.removed.extend(before);
        let Due { wanted, removed } = &mut *due;
        removed.retain(|id, _| !wanted.contains_key(id));
        drop(due);
        self.news.notify_one();
    }
}

/// Looks after the consumer groups of the one cluster of this process.
pub struct LocalGroups<A> {
    admin: A,
    lookout: Lookout<String>,
    /// The last report on each.
    reports: BTreeMap<String, ConsumerGroupStatus>,
    /// Where brokers are, if they come and go.
    places: Option<watch::Receiver<BTreeMap<i32, String>>>,
}

impl LocalGroups<GroupClient> {
    /// Asks the brokers that are at these places at the time: host and port by their ids.
    pub fn at(mut places: watch::Receiver<BTreeMap<i32, String>>) -> Self {
        places.mark_changed();
        let client = GroupClient::new(CLIENT_ID, ANSWER_TIMEOUT);
        Self { places: Some(places), ..Self::new(client) }
    }
}

impl<A: GroupAdmin> LocalGroups<A> {
    /// Asks by these means.
    pub fn new(admin: A) -> Self {
        Self { admin, lookout: Lookout::default(), reports: BTreeMap::new(), places: None }
    }

    /// The means.
    pub fn admin(&mut self) -> &mut A {
        &mut self.admin
    }

    /// The last report on a group, as its resource would show it on Kubernetes.
    pub fn report(&self, id: &str) -> Option<&ConsumerGroupStatus> {
        self.reports.get(id)
    }

    /// Works until the word to stop. What is cut off is seen by the next start: coordinators know which resets were done.
    pub(super) async fn run(mut self, inbox: &GroupInbox, stop: &Shutdown) {
        let working = async {
            loop {
                let again = if self.look(inbox).await { LOOK_EVERY_BUSY } else { LOOK_EVERY };
                select(pin!(inbox.news.notified()), pin!(time::sleep(again))).await;
            }
        };
        select(pin!(working), pin!(stop.triggered())).await;
    }

    async fn look(&mut self, inbox: &GroupInbox) -> bool {
        if let Some(places) = self.places.as_mut().filter(|places| places.has_changed().unwrap_or(false)) {
            let places = places.borrow_and_update().clone();
            self.admin.set_places(places);
        }
        let (wanted, removed) = {
            let mut due = inbox.due.lock();
            (due.wanted.clone(), std::mem::take(&mut due.removed))
        };
        let (is_waiting, undone) = self.pass(&wanted, removed).await;
        let mut due = inbox.due.lock();
        let Due { wanted, removed } = &mut *due;
        removed.extend(undone);
        // A resource may have come back meanwhile.
        removed.retain(|id, _| !wanted.contains_key(id));
        is_waiting
    }

    /// One pass over groups that have a resource, and over those whose resources went. Whether something waits, and those
    /// that could not be dealt with.
    pub async fn pass(&mut self, wanted: &Groups, removed: Groups) -> (bool, Groups) {
        let mut is_waiting = false;
        for (id, group) in wanted {
            is_waiting |= self.look_at(id, group).await;
        }
        let mut undone = Groups::new();
        for (id, gone) in removed {
            if !self.remove(&id, &gone).await {
                undone.insert(id, gone);
            }
        }
        self.reports.retain(|id, _| wanted.contains_key(id));
        self.lookout.retain(|id| wanted.contains_key(id));
        (is_waiting || !undone.is_empty(), undone)
    }

    /// Looks at one group, does what its resource asks for, and reports. Whether it waits for something.
    async fn look_at(&mut self, id: &String, group: &ValidGroup) -> bool {
        let (before, now) = (self.reports.get(id).cloned().unwrap_or_default(), now());
        let (is_waiting, after) = match self.lookout.look((id, group, None), &before, &mut self.admin, &now).await {
            Ok(Look { applied, status }) => (applied.is_waiting(), status),
            Err(error) => (true, consumer_group::unreachable(&before, &error, None, &now)),
        };
        log(id, &before, &after);
        self.reports.insert(id.clone(), after);
        is_waiting
    }

    /// Deals with a group whose resource went. Whether that is done.
    async fn remove(&mut self, id: &str, gone: &ValidGroup) -> bool {
        match consumer_group::remove(id, gone.management, gone.deletion_policy, &mut self.admin).await {
            Ok(Removal::Kept | Removal::Absent) => {}
            Ok(Removal::Deleted) => {
                tracing::info!(group = id, "group deleted, as its resource's deletionPolicy says");
            }
            Ok(Removal::HasMembers) => {
                tracing::warn!(group = id, "the group has members and stays, although its resource is gone");
            }
            Err(error) => {
                tracing::info!(group = id, %error, "the group is not deleted yet");
                return false;
            }
        }
        true
    }
}

/// Logs what is new in a report.
fn log(id: &str, before: &ConsumerGroupStatus, after: &ConsumerGroupStatus) {
    let mut told = BTreeSet::new();
    for found in &after.conditions {
        let is_known = before
            .conditions
            .iter()
            .any(|known| (&known.type_, &known.status, &known.reason) == (&found.type_, &found.status, &found.reason));
        // That a reset is done was told when it was; and several conditions may say the same.
        if is_known || found.type_ == condition::RESET_COMPLETE || !told.insert(&found.reason) {
            continue;
        }
        let (type_, status, reason) = (&found.type_, &found.status, &found.reason);
        let is_trouble = (found.type_ == condition::READY) != (found.status == "True");
        if is_trouble && found.reason != Reason::NotFound.name() {
            tracing::warn!(group = id, condition = type_, status, reason, "{}", found.message);
        } else {
            tracing::info!(group = id, condition = type_, status, reason, "{}", found.message);
        }
    }
}
