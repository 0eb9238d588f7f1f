//! Typed calls to a controller over any transport.
//!
//! Brokers, the operator and the command line make the same calls; only how long they try again is their own affair.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tonic::body::Body as RequestBody;
use tonic::client::GrpcService;
use tonic::codegen::{Body, Bytes, StdError};
use tonic::{Code, Status, Streaming};

use taffrail_core::control::{Command, ControlError, Reply};
use taffrail_core::errors::ErrorCode;
use taffrail_core::ids::Uuid;
use taffrail_core::image::MetadataImage;

use super::v1::controller_client::ControllerClient;
use super::{
    FormatError, MESSAGE_BYTES_MAX, RPC_VERSION, check_version, command_to_message, id_from_bytes, id_to_bytes,
    refusal_from_message, reply_from_message, required, v1,
};
use crate::persisted::metadata::{EventBatch, SnapshotFormatError, SnapshotReader};

/// Why a call gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The controller refuses.
    #[error("{error}")]
    Refused {
        /// Its refusal.
        error: ControlError,
        /// Where to ask instead, if it knows.
        active: Option<ControllerAddress>,
    },
    /// Nobody answered, or the transport failed.
    #[error("the controller cannot be reached: {0}")]
    Unreachable(Status),
    /// It does not speak as we do.
    #[error("the controller refuses the call: {0}")]
    Protocol(Status),
    /// The answer cannot be understood.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// A snapshot in the stream does not hold together.
    #[error(transparent)]
    Snapshot(#[from] SnapshotFormatError),
}

impl CallError {
    /// Whether the same call may succeed later or at another controller.
    pub fn is_retriable(&self) -> bool {
        match self {
            Self::Refused { error, .. } => {
                matches!(error.code, ErrorCode::NotController | ErrorCode::CoordinatorNotAvailable)
            }
            Self::Unreachable(_) => true,
            Self::Protocol(_) | Self::Format(_) | Self::Snapshot(_) => false,
        }
    }

    /// The refusal that a Kafka client is told.
    pub fn into_refusal(self) -> ControlError {
        match self {
            Self::Refused { error, .. } => error,
            Self::Unreachable(_) => ControlError::new(ErrorCode::RequestTimedOut, self.to_string()),
            Self::Protocol(_) | Self::Format(_) | Self::Snapshot(_) => {
                ControlError::new(ErrorCode::UnknownServerError, self.to_string())
            }
        }
    }
}

impl From<Status> for CallError {
    fn from(status: Status) -> Self {
        match status.code() {
            Code::FailedPrecondition | Code::InvalidArgument | Code::Unimplemented | Code::OutOfRange => {
                Self::Protocol(status)
            }
            _ => Self::Unreachable(status),
        }
    }
}

/// A controller and where its gRPC service is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControllerAddress {
    /// Number of the controller.
    pub id: i32,
    /// Host and port.
    pub address: String,
}

impl From<v1::ControllerAddress> for ControllerAddress {
    fn from(message: v1::ControllerAddress) -> Self {
        Self { id: message.id, address: message.address }
    }
}

/// A reply, and when its effect is visible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// The reply.
    pub reply: Reply,
    /// Whoever has applied the metadata up to this offset sees the effect.
    pub offset: i64,
}

/// How the controllers are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControllerStatus {
    /// Identity of the cluster, once it is founded.
    pub cluster_id: Option<Uuid>,
    /// Number of the controller that answers.
    pub controller_id: i32,
    /// Identity of its metadata directory.
    pub directory_id: Uuid,
    /// The active controller, if it is known.
    pub active: Option<ControllerAddress>,
    /// Raft's term.
    pub term: u64,
    /// Index of the last entry of its Raft log.
    pub last_log_index: u64,
    /// Index of the last entry that it has applied.
    pub applied_log_index: u64,
    /// Offset of the last metadata event that it has applied.
    pub metadata_offset: i64,
    /// The controllers that vote.
    pub voters: Vec<ControllerAddress>,
}

/// What a follower of the metadata gets.
#[derive(Debug)]
pub enum Update {
    /// Everything anew.
    Snapshot(MetadataImage),
    /// What came next.
    Events(EventBatch),
}

/// Calls to one controller.
#[derive(Debug, Clone)]
pub struct ControllerCalls<T> {
    pub(super) client: ControllerClient<T>,
}

impl<T> ControllerCalls<T>
where
    T: GrpcService<RequestBody> + Clone,
    T::Error: Into<StdError>,
    T::ResponseBody: Body<Data = Bytes> + Send + 'static,
    <T::ResponseBody as Body>::Error: Into<StdError> + Send,
{
    /// Calls over `channel`.
    pub fn new(channel: T) -> Self {
        let client = ControllerClient::new(channel);
        Self {
            client: client.max_decoding_message_size(MESSAGE_BYTES_MAX).max_encoding_message_size(MESSAGE_BYTES_MAX),
        }
    }

    /// Has the controller carry out `command`; answers when it is committed.
    ///
    /// # Errors
    /// The refusal of the command as a whole, or why there is no answer.
    pub async fn propose(&self, command: &Command) -> Result<Committed, CallError> {
        use v1::propose_reply::Outcome;
        let command = Some(command_to_message(command));
        let request = v1::ProposeRequest { format_version: RPC_VERSION, command, forwarded: false };
        let answer = self.client.clone().propose(request).await?.into_inner();
        check_version("a controller's reply", answer.format_version, RPC_VERSION)?;
        match required("a controller's reply", "outcome", answer.outcome)? {
            Outcome::Reply(reply) => {
                Ok(Committed { reply: reply_from_message(reply)?, offset: answer.metadata_offset })
            }
            Outcome::Refusal(refusal) => {
                let active = answer.active.map(Into::into);
                Err(CallError::Refused { error: refusal_from_message(refusal), active })
            }
        }
    }

    /// The metadata from `from_offset` on; a controller of another cluster than `cluster_id` refuses.
    ///
    /// # Errors
    /// Why there is no stream.
    pub async fn follow(&self, from_offset: i64, cluster_id: Option<Uuid>) -> Result<MetadataStream, CallError> {
        let request =
            v1::FollowRequest { format_version: RPC_VERSION, from_offset, cluster_id: cluster_id.map(id_to_bytes) };
        let stream = self.client.clone().follow(request).await?.into_inner();
        Ok(MetadataStream { stream, snapshot: None })
    }

    /// How the controllers are.
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn status(&self) -> Result<ControllerStatus, CallError> {
        self.status_for(None).await
    }

    /// The same for a broker whose disks are of `cluster`: a controller that knows of none does not found it again.
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn status_for(&self, cluster: Option<Uuid>) -> Result<ControllerStatus, CallError> {
        let request = v1::StatusRequest { format_version: RPC_VERSION, cluster_id: cluster.map(id_to_bytes) };
        let answer = self.client.clone().status(request).await?.into_inner();
        let what = "a controller's status";
        check_version(what, answer.format_version, RPC_VERSION)?;
        let cluster_id = answer.cluster_id.map(|bytes| id_from_bytes(what, "cluster_id", &bytes)).transpose()?;
        let voter = |voter: v1::Voter| ControllerAddress { id: voter.id, address: voter.address };
        Ok(ControllerStatus {
            cluster_id,
            controller_id: answer.controller_id,
            directory_id: id_from_bytes(what, "directory_id", &answer.directory_id)?,
            active: answer.active.map(Into::into),
            term: answer.term,
            last_log_index: answer.last_log_index,
            applied_log_index: answer.applied_log_index,
            metadata_offset: answer.metadata_offset,
            voters: answer.voters.into_iter().map(voter).collect(),
        })
    }
}

/// The stream of metadata from one controller.
#[derive(Debug)]
pub struct MetadataStream {
    stream: Streaming<v1::MetadataUpdate>,
    snapshot: Option<SnapshotReader>,
}

impl MetadataStream {
    /// The next update; `None` = the controller has ended the stream.
    ///
    /// # Errors
    /// When the stream breaks or cannot be understood; the follower asks anew then.
    pub async fn next(&mut self) -> Result<Option<Update>, CallError> {
        use v1::metadata_update::Update as Part;
        let what = "a metadata update";
        while let Some(message) = self.stream.message().await? {
            check_version(what, message.format_version, RPC_VERSION)?;
            match required(what, "update", message.update)? {
                Part::Snapshot(header) => self.snapshot = Some(SnapshotReader::new(&header)?),
                Part::SnapshotChunk(chunk) => {
                    required(what, "snapshot header", self.snapshot.as_mut())?.push(chunk)?;
                }
                Part::Events(batch) => return Ok(Some(Update::Events(EventBatch::from_message(batch)?))),
            }
            if let Some(snapshot) = self.snapshot.take_if(|snapshot| snapshot.is_complete()) {
                return Ok(Some(Update::Snapshot(snapshot.finish()?)));
            }
        }
        Ok(None)
    }
}

/// Pause before the first retry; it doubles up to [`BACKOFF_MAX`].
const BACKOFF_MIN: Duration = Duration::from_millis(5);

/// Longest pause between retries.
const BACKOFF_MAX: Duration = Duration::from_millis(50);

/// The controllers of a cluster, and which of them to ask.
#[derive(Debug)]
pub struct Controllers<T> {
    members: Vec<(String, ControllerCalls<T>)>,
    current: AtomicUsize,
}

impl<T> Controllers<T> {
    /// Controllers by address.
    pub fn new(members: Vec<(String, ControllerCalls<T>)>) -> Self {
        assert!(!members.is_empty(), "a cluster has a controller");
        Self { members, current: AtomicUsize::new(0) }
    }

    /// The one that was right last.
    fn current(&self) -> &ControllerCalls<T> {
        &self.members[self.current.load(Ordering::Relaxed) % self.members.len()].1
    }

    /// Makes a call until it succeeds or is refused for good, at the current controller, then at others. Time is the
    /// caller's: `sleep` waits, and whoever has no patience drops the future.
    ///
    /// # Errors
    /// The first error that is not retriable.
    pub async fn call<A, C, S>(
        &self,
        sleep: impl Fn(Duration) -> S,
        call: impl Fn(ControllerCalls<T>) -> C,
    ) -> Result<A, CallError>
    where
        T: Clone,
        C: Future<Output = Result<A, CallError>>,
        S: Future<Output = ()>,
    {
        let mut pause = BACKOFF_MIN;
        loop {
            match call(self.current().clone()).await {
                Err(error) if error.is_retriable() => {
                    self.turn(&error);
                    sleep(pause).await;
                    pause = (pause * 2).min(BACKOFF_MAX);
                }
                outcome => return outcome,
            }
        }
    }

    /// Has the next call made at another controller than the last one.
    pub fn turn_to_next(&self) {
        let next = (self.current.load(Ordering::Relaxed) + 1) % self.members.len();
        self.current.store(next, Ordering::Relaxed);
    }

    /// Turns to the one that a refusal names, else to the next.
    fn turn(&self, error: &CallError) {
        let named = match error {
            CallError::Refused { active: Some(active), .. } => {
                self.members.iter().position(|(address, _)| *address == active.address)
            }
            _ => None,
        };
        match named {
            Some(named) => self.current.store(named, Ordering::Relaxed),
            None => self.turn_to_next(),
        }
    }
}
