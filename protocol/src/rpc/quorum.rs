//! Calls about the controllers themselves: who votes, how far each is, and changes of that.

use std::time::Duration;

use taffrail_core::ids::Uuid;
use tonic::body::Body as RequestBody;
use tonic::client::GrpcService;
use tonic::codegen::{Body, Bytes, StdError};

use super::{
    CallError, ControllerAddress, ControllerCalls, FormatError, RPC_VERSION, check_version, id_from_bytes, id_to_bytes,
    refusal_from_message, v1,
};

const WHAT: &str = "a description of the quorum";

/// A controller with one life of its disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct VoterId {
    /// Number of the controller.
    pub id: i32,
    /// Identity of its metadata directory.
    pub directory_id: Uuid,
}

/// One controller as the active one sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuorumMember {
    /// Who.
    pub voter: VoterId,
    /// Host and port of its gRPC service.
    pub address: String,
    /// Index after the last entry of the metadata log that it is known to have.
    pub log_end: Option<u64>,
    /// When it answered last, in milliseconds since the epoch.
    pub last_heard_ms: Option<i64>,
    /// When it was last known to have all that the active one has.
    pub last_caught_up_ms: Option<i64>,
}

/// The quorum as the active controller sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quorum {
    /// The active controller.
    pub active: Option<ControllerAddress>,
    /// Raft's term.
    pub term: u64,
    /// Index after the last committed entry.
    pub committed_log_end: u64,
    /// The controllers with a vote.
    pub voters: Vec<QuorumMember>,
    /// Those that only follow.
    pub observers: Vec<QuorumMember>,
}

/// A change of who has a vote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VoterChange {
    /// A controller gets one, when it has copied the metadata.
    Add {
        /// Who.
        voter: VoterId,
        /// Host and port of its gRPC service.
        address: String,
        /// How long the copy may take.
        timeout: Duration,
    },
    /// A voter loses it.
    Remove(VoterId),
}

fn member(message: v1::QuorumMember) -> Result<QuorumMember, FormatError> {
    let directory_id = id_from_bytes(WHAT, "directory_id", &message.directory_id)?;
    Ok(QuorumMember {
        voter: VoterId { id: message.id, directory_id },
        address: message.address,
        log_end: message.log_end,
        last_heard_ms: message.last_heard_ms,
        last_caught_up_ms: message.last_caught_up_ms,
    })
}

/// Fails with the refusal in an answer, if there is one.
pub(super) fn refused(refusal: Option<v1::Refusal>, active: Option<v1::ControllerAddress>) -> Result<(), CallError> {
    let Some(refusal) = refusal else { return Ok(()) };
    Err(CallError::Refused { error: refusal_from_message(refusal), active: active.map(Into::into) })
}

impl<T> ControllerCalls<T>
where
    T: GrpcService<RequestBody> + Clone,
    T::Error: Into<StdError>,
    T::ResponseBody: Body<Data = Bytes> + Send + 'static,
    <T::ResponseBody as Body>::Error: Into<StdError> + Send,
{
    /// The quorum, as the active controller sees it; another one passes the call on.
    ///
    /// # Errors
    /// NOT_CONTROLLER if there is no active one; or why there is no answer.
    pub async fn describe_quorum(&self) -> Result<Quorum, CallError> {
        let request = v1::DescribeQuorumRequest { format_version: RPC_VERSION, forwarded: false };
        let answer = self.client.clone().describe_quorum(request).await?.into_inner();
        check_version(WHAT, answer.format_version, RPC_VERSION)?;
        refused(answer.refusal, answer.active.clone())?;
        let members = |members: Vec<v1::QuorumMember>| members.into_iter().map(member).collect::<Result<_, _>>();
        Ok(Quorum {
            active: answer.active.map(Into::into),
            term: answer.term,
            committed_log_end: answer.committed_log_end,
            voters: members(answer.voters)?,
            observers: members(answer.observers)?,
        })
    }

    /// Has the active controller change who votes; answers when that is committed.
    ///
    /// # Errors
    /// DUPLICATE_VOTER, VOTER_NOT_FOUND, INVALID_VOTER_KEY (another one answers at the address), INVALID_REQUEST (the last
    /// voter), REQUEST_TIMED_OUT (no majority is in reach, another change is under way, or the newcomer is too slow).
    pub async fn change_voters(&self, change: &VoterChange) -> Result<(), CallError> {
        use v1::change_voters_request::Change;
        let key = |voter: VoterId| v1::VoterKey { id: voter.id, directory_id: id_to_bytes(voter.directory_id) };
        let change = match change {
            VoterChange::Remove(voter) => Change::Remove(key(*voter)),
            VoterChange::Add { voter, address, timeout } => Change::Add(v1::NewVoter {
                key: Some(key(*voter)),
                address: address.clone(),
                timeout_ms: u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX),
            }),
        };
        let change = Some(change);
        let request = v1::ChangeVotersRequest { format_version: RPC_VERSION, forwarded: false, change };
        let answer = self.client.clone().change_voters(request).await?.into_inner();
        check_version("a controller's reply", answer.format_version, RPC_VERSION)?;
        refused(answer.refusal, answer.active)
    }
}
