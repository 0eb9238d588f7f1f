//! The broker's way to the controllers.

use std::future::Future;
use std::io;
use std::time::Duration;

use taffrail_core::control::{Command, ControlError};
use taffrail_core::errors::ErrorCode;
use taffrail_core::ids::Uuid;
use taffrail_protocol::rpc::{
    Attendance, CallError, Committed, ControllerCalls, Controllers, Heartbeat, HeartbeatAnswer, MetadataStream, Quorum,
    VoterChange, heartbeat_to_message, v1,
};
use taffrail_runtime::grpc::{self, Target};
use taffrail_runtime::time;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use tonic::transport::Channel;

use crate::broker::{Answer, Controller};

/// How long a call is tried again when its caller sets no limit.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a controller may take before it is asked whether it is there, and how long that answer may take.
const PATIENCE: Duration = Duration::from_millis(500);

/// Calls to the active controller, tried again while there is none. Shared by all who have something to ask.
#[derive(Debug)]
pub struct ControllerHandle {
    controllers: Controllers<Channel>,
    /// Newest metadata offset that a controller has told of.
    newest: watch::Sender<i64>,
}

/// A connection to the active controller, over which heartbeats are answered.
#[derive(Debug)]
pub(crate) struct Attending {
    heartbeats: mpsc::Sender<v1::HeartbeatRequest>,
    answers: Attendance,
    /// Metadata offset that the controller was told last.
    pub(crate) told: i64,
    /// Whether the controller does not count the heartbeat by which the connection was opened, because none before it had
    /// been answered.
    pub(crate) is_uncounted: bool,
}

impl Attending {
    /// One heartbeat, answered in time.
    ///
    /// # Errors
    /// That the controller refuses, or does not answer; another connection is needed then.
    pub(crate) async fn pulse(&mut self, heartbeat: &Heartbeat) -> Result<HeartbeatAnswer, CallError> {
        self.told = heartbeat.metadata_offset;
        let pulse = async {
            let closed = |_| CallError::Unreachable(Status::unavailable("the connection is closed"));
            self.heartbeats.send(heartbeat_to_message(heartbeat)).await.map_err(closed)?;
            self.answers.next().await
        };
        let late = |_| CallError::Unreachable(Status::deadline_exceeded("the controller does not answer"));
        time::timeout(PATIENCE, pulse).await.map_err(late)?
    }
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
        let (newest, _) = watch::channel(-1);
        Ok(Self { controllers: Controllers::new(members), newest })
    }

    /// Tells the active controller that this broker lives.
    ///
    /// # Errors
    /// REQUEST_TIMED_OUT if no controller answered in time; STALE_BROKER_EPOCH or BROKER_ID_NOT_REGISTERED if the registration is gone.
    pub async fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<HeartbeatAnswer, ControlError> {
        let answer = self.call(|controller| async move { controller.heartbeat(heartbeat).await }).await?;
        self.heard_of(answer.metadata_offset);
        Ok(answer)
    }

    /// Opens a connection for heartbeats to the active controller, with the first one of them.
    ///
    /// # Errors
    /// As for [`ControllerHandle::heartbeat`].
    pub(crate) async fn attend(&self, first: &Heartbeat) -> Result<(Attending, HeartbeatAnswer), ControlError> {
        let open = |controller: ControllerCalls<Channel>| async move {
            let (heartbeats, receiver) = mpsc::channel(1);
            // There is room for one.
            let _ = heartbeats.try_send(heartbeat_to_message(first));
            let mut answers = controller.attend(ReceiverStream::new(receiver)).await?;
            let answer = answers.next().await?;
            let (told, is_uncounted) = (first.metadata_offset, first.unanswered);
            Ok((Attending { heartbeats, answers, told, is_uncounted }, answer))
        };
        let (attending, answer) = self.call(open).await?;
        self.heard_of(answer.metadata_offset);
        Ok((attending, answer))
    }

    /// Asks another controller next.
    pub(crate) fn turn(&self) {
        self.controllers.turn_to_next();
    }

    /// Takes note of how far the metadata are.
    pub(crate) fn heard_of(&self, offset: i64) {
        self.newest.send_if_modified(|newest| {
            let is_newer = offset > *newest;
            *newest = offset.max(*newest);
            is_newer
        });
    }

    /// Waits until a controller has told of metadata past `offset`.
    pub(crate) async fn is_past(&self, offset: i64) {
        // The sender lives in `self`, so the channel cannot close while we wait.
        let _ = self.newest.subscribe().wait_for(|newest| *newest > offset).await;
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
        // Boxed, because a call is a large future, and is held in several others.
        let call = |controller: ControllerCalls<Channel>| while_there(controller.clone(), Box::pin(call(controller)));
        match time::timeout(CALL_TIMEOUT, Box::pin(self.controllers.call(time::sleep, call))).await {
            Ok(outcome) => outcome.map_err(CallError::into_refusal),
            Err(_) => Err(ControlError::new(ErrorCode::RequestTimedOut, "No controller answered in time.")),
        }
    }
}

/// Waits for the answer to a call, as long as its controller is there: a process that has stopped, or a network that has, is
/// noticed long before the connection is. A commit may take its time, for instance when disks do.
async fn while_there<A>(
    controller: ControllerCalls<Channel>,
    call: impl Future<Output = Result<A, CallError>>,
) -> Result<A, CallError> {
    let silent = async {
        loop {
            time::sleep(PATIENCE).await;
            if time::timeout(PATIENCE, controller.status()).await.is_err() {
                return CallError::Unreachable(Status::deadline_exceeded("the controller does not answer"));
            }
        }
    };
    tokio::select! {
        outcome = call => outcome,
        error = silent => Err(error),
    }
}

impl Controller for ControllerHandle {
    fn propose(&self, command: Command) -> Answer<'_, Committed> {
        Box::pin(async move {
            let command = &command;
            let committed = self.call(|controller| async move { controller.propose(command).await }).await?;
            self.heard_of(committed.offset);
            Ok(committed)
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
