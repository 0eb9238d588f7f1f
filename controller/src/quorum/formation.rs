//! How a controller with an empty disk finds its place: it founds the cluster with the others, or is taken in, or waits.
//!
//! Nothing is ever founded because disks are empty. All controllers must hold the same one-time grant, answer, and know of no
//! cluster; then the one with the lowest number founds it with all of them as voters. As soon as one of them knows a
//! cluster, the others can only be taken in.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::join_all;
use openraft::error::{InitializeError, RaftError};
use parking_lot::Mutex;
use taffrail_core::ids::Uuid;
use taffrail_protocol::rpc::{FormatError, check_version, id_from_bytes, id_to_bytes, required, v1};
use taffrail_runtime::blocking::Pool;
use taffrail_runtime::shutdown::Shutdown;
use taffrail_runtime::time::{self, Instant};

use crate::directory::Directory;
use crate::options::ControllerError;
use crate::raft::links::Links;
use crate::raft::messages::{RAFT_VERSION, node_from_message, node_to_message};
use crate::raft::route::Route;
use crate::raft::{Member, NodeId, Raft};

/// How long another controller may take to say who it is.
const IDENTIFY_TIMEOUT: Duration = Duration::from_millis(500);

/// How long being taken in may take, which includes a copy of the metadata.
const JOIN_TIMEOUT: Duration = Duration::from_secs(60);

/// Pause before the others are asked again.
const RETRY: Duration = Duration::from_millis(100);

/// How often the log says what a controller waits for.
const TELL_INTERVAL: Duration = Duration::from_secs(10);

/// How this controller answers those who look for a cluster.
#[derive(Debug)]
pub(crate) struct Seat {
    /// Host and port at which others reach it.
    address: String,
    /// Whether it holds the grant to found the cluster that its route names.
    granted: bool,
    /// The controllers that it was told of, sorted.
    servers: Vec<String>,
    /// Whether it has a part in a cluster.
    member: AtomicBool,
    /// The cluster that a broker's disks are of, as that has said.
    told: Mutex<Option<Uuid>>,
}

impl Seat {
    pub(crate) fn new(address: String, granted: bool, mut servers: Vec<String>, member: bool) -> Self {
        servers.sort_unstable();
        servers.dedup();
        Self { address, granted, servers, member: AtomicBool::new(member), told: Mutex::default() }
    }

    /// Whether it was told of no other controller.
    pub(crate) fn is_alone(&self) -> bool {
        self.servers.iter().all(|server| *server == self.address)
    }

    /// It has a part in a cluster from now on, and says so to those who look for one.
    pub(crate) fn take(&self) {
        self.member.store(true, Ordering::Release);
    }

    fn is_member(&self) -> bool {
        self.member.load(Ordering::Acquire)
    }

    /// A broker says that its disks are of `cluster`, so that was founded before.
    pub(crate) fn tell(&self, cluster: Uuid) {
        if !self.is_member() {
            *self.told.lock() = Some(cluster);
        }
    }

    pub(crate) fn identify(&self, route: &Route) -> v1::IdentifyReply {
        v1::IdentifyReply {
            format_version: RAFT_VERSION,
            node: Some(node_to_message(route.node())),
            address: self.address.clone(),
            cluster_id: route.cluster().map(id_to_bytes),
            member: self.is_member(),
            granted: self.granted,
            servers: self.servers.clone(),
            told_cluster_id: self.told.lock().map(id_to_bytes),
        }
    }
}

/// What another controller says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) node: NodeId,
    address: String,
    cluster: Option<Uuid>,
    member: bool,
    granted: bool,
    servers: Vec<String>,
    /// The cluster that a broker's disks are of.
    told: Option<Uuid>,
}

fn answer_from_message(message: v1::IdentifyReply) -> Result<Answer, FormatError> {
    let what = "a controller's identity";
    check_version(what, message.format_version, RAFT_VERSION)?;
    let cluster = message.cluster_id.map(|bytes| id_from_bytes(what, "cluster_id", &bytes)).transpose()?;
    let told = message.told_cluster_id.map(|bytes| id_from_bytes(what, "told_cluster_id", &bytes)).transpose()?;
    Ok(Answer {
        told,
        node: node_from_message(&required(what, "node", message.node)?)?,
        address: message.address,
        cluster,
        member: message.member,
        granted: message.granted,
        servers: message.servers,
    })
}

/// Asks whoever listens at `address` who it is.
pub(crate) async fn identify(links: &Links, address: &str) -> Result<Answer, String> {
    let call = async {
        let mut client = links.raft(address).map_err(|error| error.to_string())?;
        let request = v1::IdentifyRequest { format_version: RAFT_VERSION };
        let reply = client.identify(request).await.map_err(|status| status.message().to_owned())?;
        answer_from_message(reply.into_inner()).map_err(|error| error.to_string())
    };
    time::timeout(IDENTIFY_TIMEOUT, call).await.unwrap_or_else(|_| Err("it does not answer in time".to_owned()))
}

/// What a controller without a place does next.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// Founds the cluster with these voters.
    Found(BTreeMap<NodeId, Member>),
    /// Asks to be taken into this cluster, at these addresses.
    Join(Uuid, Vec<String>),
    /// Waits, for this.
    Wait(String),
    /// Gives up: the others are another cluster.
    Foreign(Uuid),
}

/// Decides it from what all controllers that this one was told of have answered.
fn next_step(own: &Answer, expected: Option<Uuid>, answers: &[(String, Result<Answer, String>)]) -> Step {
    let others = || answers.iter().filter_map(|(server, answer)| Some((server, answer.as_ref().ok()?)));
    let mut members = others().filter(|(_, answer)| answer.member && answer.node != own.node);
    if let Some(cluster) = members.clone().find_map(|(_, answer)| answer.cluster) {
        return match expected {
            Some(expected) if expected != cluster => Step::Foreign(cluster),
            _ => Step::Join(cluster, members.map(|(server, _)| server.clone()).collect()),
        };
    }
    if members.next().is_some() {
        return Step::Wait("the others are about to found a cluster".to_owned());
    }
    let (Some(cluster), true) = (own.cluster, own.granted && !own.member) else {
        return Step::Wait(
            "no other controller that answers knows a cluster, and this disk is empty, which founds none. If the cluster is \
             new, start all controllers once with --bootstrap; if their disks were lost, restore one of them"
                .to_owned(),
        );
    };
    if let Some(known) = std::iter::once(own).chain(others().map(|(_, answer)| answer)).find_map(|answer| answer.told) {
        return Step::Wait(format!(
            "brokers have disks of cluster {known}, so it was founded before, and its metadata are missing here: restore the \
             directory of a controller from a copy. To begin anew without those records, move the brokers' data away, and \
             start brokers and controllers again"
        ));
    }
    let mut voters = BTreeMap::new();
    for (server, answer) in answers {
        let answer = match answer {
            Ok(answer) => answer,
            Err(reason) => return Step::Wait(format!("all controllers must found the cluster; {server}: {reason}")),
        };
        if !answer.granted || answer.cluster != Some(cluster) {
            return Step::Wait(format!("{server} holds no grant to found cluster {cluster}"));
        }
        if answer.servers != own.servers {
            return Step::Wait(format!("{server} was told of other controllers: {}", answer.servers.join(", ")));
        }
        voters.insert(answer.node, Member { address: answer.address.clone() });
    }
    voters.insert(own.node, Member { address: own.address.clone() });
    let mut numbers: Vec<i32> = voters.keys().map(|node| node.controller).collect();
    numbers.dedup();
    match numbers.first() {
        _ if numbers.len() < voters.len() => Step::Wait("two controllers have the same number".to_owned()),
        Some(first) if *first == own.node.controller => Step::Found(voters),
        first => Step::Wait(format!("controller {} founds the cluster", first.copied().unwrap_or_default())),
    }
}

/// Finds this controller its place.
pub(crate) struct Former {
    pub(crate) raft: Raft,
    pub(crate) route: Arc<Route>,
    pub(crate) links: Arc<Links>,
    pub(crate) seat: Arc<Seat>,
    /// The cluster that this controller is to belong to, if it was told.
    pub(crate) expected: Option<Uuid>,
    pub(crate) directory: Option<Arc<Mutex<Directory>>>,
    pub(crate) pool: Pool,
    pub(crate) shutdown: Shutdown,
}

impl Former {
    /// Works until this controller has its place, or `shutdown`.
    ///
    /// # Errors
    /// When the others are of another cluster, or the identity cannot be written down.
    pub(crate) async fn run(self) -> Result<(), ControllerError> {
        tokio::select! {
            outcome = self.find_place() => outcome,
            () = self.shutdown.triggered() => Ok(()),
        }
    }

    async fn find_place(&self) -> Result<(), ControllerError> {
        let mut told: Option<(String, Instant)> = None;
        loop {
            if self.has_place() {
                self.seat.take();
                return Ok(());
            }
            let waits = match self.next_step().await {
                Step::Found(voters) => self.found(voters).await?,
                Step::Join(cluster, servers) => self.join(cluster, &servers).await?,
                Step::Wait(reason) => Some(reason),
                Step::Foreign(theirs) => return Err(ControllerError::ForeignCluster { theirs }),
            };
            if let Some(reason) = waits {
                let now = time::monotonic();
                let known = told.as_ref().is_some_and(|(text, at)| *text == reason && now - *at < TELL_INTERVAL);
                if !known {
                    tracing::info!(node = %self.route.node(), %reason, "waiting for a place among the controllers");
                    told = Some((reason, now));
                }
                time::sleep(RETRY).await;
            }
        }
    }

    /// Whether this node votes or follows, at the address that it has.
    fn has_place(&self) -> bool {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        let membership = metrics.membership_config.membership();
        let known = membership.get_node(&self.route.node());
        let is_voter = membership.voter_ids().any(|voter| voter == self.route.node());
        known.is_some_and(|known| known.address == self.seat.address) && (is_voter || self.seat.is_member())
    }

    async fn next_step(&self) -> Step {
        let others = self.seat.servers.iter().filter(|server| **server != self.seat.address);
        let asked = others.map(|server| async move { (server.clone(), identify(&self.links, server).await) });
        let answers: Vec<_> = join_all(asked).await;
        let has_log = self.raft.metrics().borrow().last_log_index.is_some();
        let own = Answer {
            node: self.route.node(),
            address: self.seat.address.clone(),
            cluster: self.route.cluster(),
            member: has_log,
            granted: self.seat.granted,
            servers: self.seat.servers.clone(),
            told: *self.seat.told.lock(),
        };
        next_step(&own, self.expected.or(self.route.cluster()), &answers)
    }

    async fn found(&self, voters: BTreeMap<NodeId, Member>) -> Result<Option<String>, ControllerError> {
        let count = voters.len();
        self.seat.take();
        match self.raft.initialize(voters).await {
            Ok(()) => {
                tracing::info!(node = %self.route.node(), voters = count, "founding the cluster");
                Ok(None)
            }
            Err(RaftError::APIError(InitializeError::NotAllowed(_))) => {
                Ok(Some("the founding is under way".to_owned()))
            }
            Err(error) => Err(ControllerError::raft(error)),
        }
    }

    async fn join(&self, cluster: Uuid, servers: &[String]) -> Result<Option<String>, ControllerError> {
        self.settle(cluster).await?;
        let mut refusal = String::new();
        let mut next: Vec<String> = servers.to_vec();
        let mut asked = Vec::new();
        while let Some(server) = next.pop() {
            if asked.contains(&server) {
                continue;
            }
            match self.ask_to_join(cluster, &server).await {
                Ok(None) => {
                    self.seat.take();
                    tracing::info!(node = %self.route.node(), %cluster, "taken in by the other controllers");
                    return Ok(None);
                }
                Ok(Some((reason, active))) => {
                    refusal = format!("{server}: {reason}");
                    next.extend(active);
                }
                Err(reason) => refusal = format!("{server}: {reason}"),
            }
            asked.push(server);
        }
        refusal.push_str(
            "; controllers that know the cluster take one in when a majority of them runs: start those whose disks are whole, \
             or restore theirs",
        );
        Ok(Some(refusal))
    }

    async fn ask_to_join(&self, cluster: Uuid, server: &str) -> Result<Option<(String, Option<String>)>, String> {
        let request = v1::JoinRequest {
            format_version: RAFT_VERSION,
            cluster_id: id_to_bytes(cluster),
            node: Some(node_to_message(self.route.node())),
            address: self.seat.address.clone(),
        };
        let call = async {
            let mut client = self.links.raft(server).map_err(|error| error.to_string())?;
            client.join(request).await.map_err(|status| status.message().to_owned())
        };
        let answered = time::timeout(JOIN_TIMEOUT, call).await;
        let reply = answered.unwrap_or_else(|_| Err("it does not answer in time".to_owned()))?.into_inner();
        check_version("a controller's reply", reply.format_version, RAFT_VERSION).map_err(|error| error.to_string())?;
        Ok(reply.refusal.map(|refusal| (refusal, reply.active)))
    }

    /// Writes down to which cluster this disk belongs, before anything of that cluster is taken.
    async fn settle(&self, cluster: Uuid) -> Result<(), ControllerError> {
        if self.route.cluster() == Some(cluster) {
            return Ok(());
        }
        if let Some(directory) = self.directory.clone() {
            self.pool.run(move || directory.lock().belongs_to(cluster)).await??;
        }
        match self.route.settle(cluster) {
            settled if settled == cluster => Ok(()),
            _ => Err(ControllerError::ForeignCluster { theirs: cluster }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLUSTER: Uuid = Uuid([7; 16]);

    fn servers() -> Vec<String> {
        ["a", "b", "c"].map(str::to_owned).to_vec()
    }

    fn empty(number: u64) -> Answer {
        Answer {
            node: NodeId::from(number),
            address: format!("at-{number}"),
            cluster: None,
            member: false,
            granted: false,
            servers: servers(),
            told: None,
        }
    }

    fn granted(number: u64) -> Answer {
        Answer { cluster: Some(CLUSTER), granted: true, ..empty(number) }
    }

    fn member(number: u64) -> Answer {
        Answer { member: true, ..granted(number) }
    }

    fn step(own: &Answer, others: Vec<Result<Answer, &str>>) -> Step {
        let answers: Vec<_> = servers().into_iter().skip(1).zip(others).collect();
        let answers = answers.into_iter().map(|(server, answer)| (server, answer.map_err(str::to_owned)));
        next_step(own, own.cluster, &answers.collect::<Vec<_>>())
    }

    fn waits_for(step: Step, what: &str) {
        match step {
            Step::Wait(reason) => assert!(reason.contains(what), "'{reason}' tells of '{what}'"),
            other => panic!("{other:?} instead of waiting for {what}"),
        }
    }

    #[test]
    fn the_lowest_of_all_who_were_granted_it_founds_the_cluster_with_all_of_them() {
        let voters = [1_u64, 2, 3].map(|number| (NodeId::from(number), Member { address: format!("at-{number}") }));
        assert_eq!(step(&granted(1), vec![Ok(granted(2)), Ok(granted(3))]), Step::Found(voters.into()));
        waits_for(step(&granted(2), vec![Ok(granted(1)), Ok(granted(3))]), "controller 1 founds");
    }

    #[test]
    fn nothing_is_founded_while_anybody_is_missing_or_disagrees() {
        waits_for(step(&granted(1), vec![Ok(granted(2)), Err("refused")]), "c: refused");
        waits_for(step(&granted(1), vec![Ok(granted(2)), Ok(empty(3))]), "c holds no grant");
        let other = Answer { cluster: Some(Uuid([8; 16])), ..granted(3) };
        waits_for(step(&granted(1), vec![Ok(granted(2)), Ok(other)]), "c holds no grant");
        let other = Answer { servers: vec!["x".to_owned()], ..granted(3) };
        waits_for(step(&granted(1), vec![Ok(granted(2)), Ok(other)]), "told of other controllers: x");
        let twin = Answer { node: NodeId { directory: [9; 16], ..NodeId::from(1) }, ..granted(1) };
        waits_for(step(&granted(1), vec![Ok(twin), Ok(granted(3))]), "the same number");
    }

    #[test]
    fn a_cluster_that_a_brokers_disk_knows_is_not_founded_again() {
        let told = |answer: Answer| Answer { told: Some(CLUSTER), ..answer };
        waits_for(
            step(&told(granted(1)), vec![Ok(granted(2)), Ok(granted(3))]),
            "restore the directory of a controller",
        );
        waits_for(step(&granted(1), vec![Ok(granted(2)), Ok(told(granted(3)))]), "move the brokers' data away");
        assert!(matches!(step(&told(granted(1)), vec![Ok(member(2)), Err("down")]), Step::Join(..)));
    }

    #[test]
    fn empty_disks_found_nothing_and_say_how_to_go_on() {
        waits_for(step(&empty(1), vec![Ok(empty(2)), Ok(empty(3))]), "start all controllers once with --bootstrap");
        waits_for(step(&empty(1), vec![Err("x"), Err("x")]), "restore one of them");
    }

    #[test]
    fn whoever_meets_a_cluster_is_taken_in_and_never_founds_another() {
        let at = |servers: &[&str]| Step::Join(CLUSTER, servers.iter().map(|server| (*server).to_owned()).collect());
        assert_eq!(step(&granted(1), vec![Ok(member(2)), Err("down")]), at(&["b"]));
        assert_eq!(step(&empty(1), vec![Ok(member(2)), Ok(member(3))]), at(&["b", "c"]));
        let other = Answer { cluster: Some(Uuid([8; 16])), ..granted(1) };
        assert_eq!(step(&other, vec![Ok(member(2)), Ok(member(3))]), Step::Foreign(CLUSTER));
    }
}
