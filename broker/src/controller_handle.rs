//! The broker's way to the controllers.

use std::future::Future;
use std::io;
use std::time::Duration;

use taffrail_core::control::{Command, ControlError};
use taffrail_core::errors::ErrorCode;
use taffrail_core::ids::Uuid;
use taffrail_protocol::rpc::{
    CallError, Committed, ControllerCalls, Controllers, Heartbeat, HeartbeatAnswer, MetadataStream, Quorum, VoterChange,
};
use taffrail_runtime::grpc::{self, Target};
use taffrail_runtime::time;
use tonic::transport::Channel;

use crate::broker::{Answer, Controller};

/// How long a call is tried again when its caller sets no limit.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Calls to the active controller, tried again while there is none. Shared by all who have something to ask.
#[derive(Debug)]
pub struct ControllerHandle {
    controllers: Controllers<Channel>,
}

impl ControllerHandle {
    /// A handle to the controllers at `members`: their addresses as the cluster knows them, and where to reach them.
    /// Nothing is dialled yet.
    ///
    /// # Errors
    /// When an address is no host and port.
    pub fn new(members: Vec<(String, Target)>) -> io::Result<Self> {
        let member = |(address, target)| Ok((address, ControllerCalls::new(grpc::connect(target)?)));
        let members = members.into_iter().map(member).collect::<io::Result<_>>()?;
        Ok(Self { controllers: Controllers::new(members) })
    }

    /// Tells the active controller that this broker lives.
    ///
    /// # Errors
    /// REQUEST_TIMED_OUT if no controller answered in time; STALE_BROKER_EPOCH or BROKER_ID_NOT_REGISTERED if the registration is gone.
    pub async fn heartbeat(&self, heartbeat: Heartbeat) -> Result<HeartbeatAnswer, ControlError> {
        self.call(|controller| async move { controller.heartbeat(heartbeat).await }).await
    }

    /// The metadata from `from_offset` on, from a controller of the cluster `cluster_id`.
    ///
    /// # Errors
    /// REQUEST_TIMED_OUT if no controller answered in time.
    pub async fn follow(&self, from_offset: i64, cluster_id: Option<Uuid>) -> Result<MetadataStream, ControlError> {
        self.call(|controller| async move { controller.follow(from_offset, cluster_id).await }).await
    }

    async fn call<A, C>(&self, call: impl Fn(ControllerCalls<Channel>) -> C) -> Result<A, ControlError>
    where
        C: Future<Output = Result<A, CallError>>,
    {
        match time::timeout(CALL_TIMEOUT, self.controllers.call(time::sleep, call)).await {
            Ok(outcome) => outcome.map_err(CallError::into_refusal),
            Err(_) => Err(ControlError::new(ErrorCode::RequestTimedOut, "No controller answered in time.")),
        }
    }
}

impl Controller for ControllerHandle {
    fn propose(&self, command: Command) -> Answer<'_, Committed> {
        Box::pin(async move {
            let command = &command;
            self.call(|controller| async move { controller.propose(command).await }).await
        })
    }

    fn describe_quorum(&self) -> Answer<'_, Quorum> {
        Box::pin(self.call(|controller| async move { controller.describe_quorum().await }))
    }

    fn change_voters(&self, change: VoterChange) -> Answer<'_, ()> {
        Box::pin(async move {
            let change = &change;
            self.call(|controller| async move { controller.change_voters(change).await }).await
        })
    }
}
