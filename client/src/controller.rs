//! Calls to the controllers, tried again until a deadline.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use taffrail_core::control::{Command, ControlError, JudgeRestart, Reply, RestartVerdict, SmallPartitions};
use taffrail_core::errors::ErrorCode;
use taffrail_core::ids::{BrokerId, Uuid};
use taffrail_protocol::rpc::{
    CallError, Committed, ControllerCalls, ControllerStatus, Controllers, MetadataStream, Quorum, VoterChange,
};
use taffrail_runtime::grpc::{self, Target};
use taffrail_runtime::time;
use tonic::transport::Channel;

/// The controllers of one cluster, for the operator and the command line.
#[derive(Debug)]
pub struct ControllerClient {
    controllers: Controllers<Channel>,
}

impl ControllerClient {
    /// A client of the controllers at `members`: their addresses as the cluster knows them, and where to reach them.
    /// Nothing is dialled yet.
    ///
    /// # Errors
    /// When an address is no host and port.
    pub fn new(members: Vec<(String, Target)>) -> io::Result<Self> {
        let member = |(address, target)| Ok((address, ControllerCalls::new(grpc::connect(target)?)));
        let members = members.into_iter().map(member).collect::<io::Result<_>>()?;
        Ok(Self { controllers: Controllers::new(members) })
    }

    /// Has the active controller carry out `command`, and waits for its commit at most for `timeout`.
    ///
    /// A command whose answer was lost on the way is sent again, so a topic may be reported as existing that this very
    /// call has created.
    ///
    /// # Errors
    /// The refusal of the command as a whole; REQUEST_TIMED_OUT if no controller answered in time.
    pub async fn propose(&self, command: &Command, timeout: Duration) -> Result<Committed, ControlError> {
        self.call(timeout, |controller| async move { controller.propose(command).await }).await
    }

    /// Whether `brokers` may be taken down together; of none, which partitions are below their minimum as it is.
    ///
    /// # Errors
    /// REQUEST_TIMED_OUT if no controller answered in time.
    pub async fn judge_restart(
        &self,
        brokers: BTreeSet<BrokerId>,
        policy: SmallPartitions,
        timeout: Duration,
    ) -> Result<RestartVerdict, ControlError> {
        let question = Command::JudgeRestart(JudgeRestart { brokers, policy });
        match self.propose(&question, timeout).await?.reply {
            Reply::RestartJudged(verdict) => Ok(verdict),
            other => {
                let text = format!("the controller gave an answer to another question: {other:?}");
                Err(ControlError::new(ErrorCode::UnknownServerError, text))
            }
        }
    }

    /// Who votes and how far each controller is, as the active one sees it.
    ///
    /// # Errors
    /// REQUEST_TIMED_OUT if none answered in time.
    pub async fn describe_quorum(&self, timeout: Duration) -> Result<Quorum, ControlError> {
        self.call(timeout, |controller| async move { controller.describe_quorum().await }).await
    }

    /// Has the active controller change who votes, and waits for the commit at most for `timeout`.
    ///
    /// # Errors
    /// The refusal, as [`ControllerCalls::change_voters`] lists them; REQUEST_TIMED_OUT if no controller answered in time.
    pub async fn change_voters(&self, change: &VoterChange, timeout: Duration) -> Result<(), ControlError> {
        self.call(timeout, |controller| async move { controller.change_voters(change).await }).await
    }

    /// How the controllers are, as the first that answers within `timeout` sees it.
    ///
    /// # Errors
    /// REQUEST_TIMED_OUT if none answered in time.
    pub async fn status(&self, timeout: Duration) -> Result<ControllerStatus, ControlError> {
        self.call(timeout, |controller| async move { controller.status().await }).await
    }

    /// The same for a broker whose disks are of `cluster`: controllers that know of none do not found it again.
    ///
    /// # Errors
    /// REQUEST_TIMED_OUT if none answered in time.
    pub async fn status_for(&self, cluster: Option<Uuid>, timeout: Duration) -> Result<ControllerStatus, ControlError> {
        self.call(timeout, |controller| async move { controller.status_for(cluster).await }).await
    }

    /// The metadata from `from_offset` on; a controller of another cluster than `cluster_id` refuses.
    ///
    /// # Errors
    /// REQUEST_TIMED_OUT if no controller answered within `timeout`.
    pub async fn follow(
        &self,
        from_offset: i64,
        cluster_id: Option<Uuid>,
        timeout: Duration,
    ) -> Result<MetadataStream, ControlError> {
        self.call(timeout, |controller| async move { controller.follow(from_offset, cluster_id).await }).await
    }

    async fn call<A, C>(
        &self,
        timeout: Duration,
        call: impl Fn(ControllerCalls<Channel>) -> C,
    ) -> Result<A, ControlError>
    where
        C: Future<Output = Result<A, CallError>>,
    {
        match time::timeout(timeout, self.controllers.call(time::sleep, call)).await {
            Ok(outcome) => outcome.map_err(CallError::into_refusal),
            Err(_) => Err(ControlError::new(ErrorCode::RequestTimedOut, "No controller answered in time.")),
        }
    }
}
