//! A broker says that it lives, call by call or over a connection that it has just for that.

use taffrail_core::control::{FollowerLag, LagReport, REPORTED_PARTITIONS_MAX};
use taffrail_core::ids::BrokerId;
use tonic::body::Body as RequestBody;
use tonic::client::GrpcService;
use tonic::codegen::{Body, Bytes, StdError};
use tonic::{IntoStreamingRequest, Status, Streaming};

use super::quorum::refused;
use super::{CallError, ControllerCalls, FormatError, RPC_VERSION, check_version, id_from_bytes, id_to_bytes, v1};

const WHAT: &str = "a heartbeat";

/// A broker says that it lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heartbeat {
    /// Number of the broker.
    pub broker: BrokerId,
    /// Epoch of its registration.
    pub epoch: i64,
    /// Offset up to which it has applied the metadata.
    pub metadata_offset: i64,
    /// Whether it can serve and wants to be unfenced.
    pub ready: bool,
    /// Who is behind in the partitions that it leads; at most [`REPORTED_PARTITIONS_MAX`] of them.
    pub lags: LagReport,
    /// The metadata offset at which it handed over what it led, if it wants to stop.
    pub leaving_since: Option<i64>,
    /// Whether the heartbeat before this one had no answer.
    pub unanswered: bool,
}

/// What the controller says to a living broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeartbeatAnswer {
    /// Whether the broker is fenced.
    pub fenced: bool,
    /// Whether the broker has applied all that was committed when it registered.
    pub caught_up: bool,
    /// Newest metadata offset that the controller has applied.
    pub metadata_offset: i64,
    /// Whether a broker that wants to stop may: it leads nothing, and all others know.
    pub may_go: bool,
}

/// The heartbeat as it travels.
pub fn heartbeat_to_message(heartbeat: &Heartbeat) -> v1::HeartbeatRequest {
    let lag = |lag: &FollowerLag| v1::FollowerLag { broker: lag.broker.0, records: lag.records };
    let lags = heartbeat.lags.iter().take(REPORTED_PARTITIONS_MAX).map(|(topic_id, partition, followers)| {
        let followers = followers.iter().map(lag).collect();
        v1::PartitionLags { topic_id: id_to_bytes(*topic_id), partition: *partition, followers }
    });
    v1::HeartbeatRequest {
        format_version: RPC_VERSION,
        broker: heartbeat.broker.0,
        epoch: heartbeat.epoch,
        metadata_offset: heartbeat.metadata_offset,
        ready: heartbeat.ready,
        forwarded: false,
        lags: lags.collect(),
        leaving_since: heartbeat.leaving_since,
        unanswered: heartbeat.unanswered,
    }
}

/// The lags in a heartbeat.
///
/// # Errors
/// When there are more than [`REPORTED_PARTITIONS_MAX`], or a topic's id is none.
pub fn lags_from_message(lags: &[v1::PartitionLags]) -> Result<LagReport, FormatError> {
    if lags.len() > REPORTED_PARTITIONS_MAX {
        let value = i64::try_from(lags.len()).unwrap_or(i64::MAX);
        return Err(FormatError::Invalid { what: WHAT, field: "number of lags", value });
    }
    let lag = |lag: &v1::FollowerLag| FollowerLag { broker: BrokerId(lag.broker), records: lag.records };
    let report = |lags: &v1::PartitionLags| {
        let topic_id = id_from_bytes(WHAT, "topic_id", &lags.topic_id)?;
        Ok((topic_id, lags.partition, lags.followers.iter().map(lag).collect()))
    };
    lags.iter().map(report).collect()
}

fn answer(reply: v1::HeartbeatReply) -> Result<HeartbeatAnswer, CallError> {
    check_version("a controller's reply", reply.format_version, RPC_VERSION)?;
    refused(reply.refusal, reply.active)?;
    Ok(HeartbeatAnswer {
        fenced: reply.fenced,
        caught_up: reply.caught_up,
        metadata_offset: reply.metadata_offset,
        may_go: reply.may_go,
    })
}

impl<T> ControllerCalls<T>
where
    T: GrpcService<RequestBody> + Clone,
    T::Error: Into<StdError>,
    T::ResponseBody: Body<Data = Bytes> + Send + 'static,
    <T::ResponseBody as Body>::Error: Into<StdError> + Send,
{
    /// Tells the controller that a broker lives.
    ///
    /// # Errors
    /// That the broker is not, or no longer, registered so; or why there is no answer.
    pub async fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<HeartbeatAnswer, CallError> {
        answer(self.client.clone().heartbeat(heartbeat_to_message(heartbeat)).await?.into_inner())
    }

    /// Answers to all of `heartbeats`, one after the other, from the active controller.
    ///
    /// # Errors
    /// Why there will be none. A controller that is not the active one says so in its first answer.
    pub async fn attend(
        &self,
        heartbeats: impl IntoStreamingRequest<Message = v1::HeartbeatRequest>,
    ) -> Result<Attendance, CallError> {
        let answers = self.client.clone().attend(heartbeats).await?.into_inner();
        Ok(Attendance { answers })
    }
}

/// The answers to a stream of heartbeats.
#[derive(Debug)]
pub struct Attendance {
    answers: Streaming<v1::HeartbeatReply>,
}

impl Attendance {
    /// The answer to the heartbeat that was sent last.
    ///
    /// # Errors
    /// That the broker is not, or no longer, registered so; that another controller is the active one; or why there is no
    /// answer. There will be no other then.
    pub async fn next(&mut self) -> Result<HeartbeatAnswer, CallError> {
        let ended = || CallError::Unreachable(Status::unavailable("the controller has ended the attendance"));
        answer(self.answers.message().await?.ok_or_else(ended)?)
    }
}
