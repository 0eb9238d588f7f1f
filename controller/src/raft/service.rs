//! Raft's messages from other controllers.

use openraft::error::{InstallSnapshotError, RaftError};
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, VoteRequest};
use taffrail_protocol::rpc::v1::raft_server::Raft as RaftCalls;
use taffrail_protocol::rpc::{FormatError, check_version, required, v1};
use tonic::{Request, Response, Status};

use super::messages::{
    RAFT_VERSION, entry_from_message, log_id_to_message, meta_from_message, optional_log_id, vote_from_message,
    vote_to_message,
};
use super::network::fatal;
use super::{NodeId, Raft};

/// Answers the calls of `taffrail.v1.Raft`.
pub(crate) struct RaftService {
    raft: Raft,
}

impl RaftService {
    pub(crate) fn new(raft: Raft) -> Self {
        Self { raft }
    }
}

fn refused(error: &FormatError) -> Status {
    match error {
        FormatError::NewerVersion { .. } => Status::failed_precondition(error.to_string()),
        _ => Status::invalid_argument(error.to_string()),
    }
}

fn failed<E: std::error::Error>(error: &RaftError<NodeId, E>) -> Status {
    match error {
        RaftError::Fatal(error) => fatal(error),
        RaftError::APIError(error) => Status::internal(error.to_string()),
    }
}

#[tonic::async_trait]
impl RaftCalls for RaftService {
    async fn append_entries(
        &self,
        request: Request<v1::AppendEntriesRequest>,
    ) -> Result<Response<v1::AppendEntriesReply>, Status> {
        use v1::append_entries_reply::Outcome;
        let request = append_request(request.into_inner()).map_err(|error| refused(&error))?;
        let outcome = match self.raft.append_entries(request).await.map_err(|error| failed(&error))? {
            AppendEntriesResponse::Success => Outcome::Success(v1::RaftBlank {}),
            AppendEntriesResponse::PartialSuccess(taken) => {
                Outcome::Partial(v1::RaftPartialSuccess { taken: taken.map(log_id_to_message) })
            }
            AppendEntriesResponse::Conflict => Outcome::Conflict(v1::RaftBlank {}),
            AppendEntriesResponse::HigherVote(vote) => Outcome::HigherVote(vote_to_message(vote)),
        };
        Ok(Response::new(v1::AppendEntriesReply { format_version: RAFT_VERSION, outcome: Some(outcome) }))
    }

    async fn vote(&self, request: Request<v1::VoteRequest>) -> Result<Response<v1::VoteReply>, Status> {
        let request = vote_request(request.into_inner()).map_err(|error| refused(&error))?;
        let answer = self.raft.vote(request).await.map_err(|error| failed(&error))?;
        Ok(Response::new(v1::VoteReply {
            format_version: RAFT_VERSION,
            vote: Some(vote_to_message(answer.vote)),
            granted: answer.vote_granted,
            last_log_id: answer.last_log_id.map(log_id_to_message),
        }))
    }

    async fn install_snapshot(
        &self,
        request: Request<v1::InstallSnapshotRequest>,
    ) -> Result<Response<v1::InstallSnapshotReply>, Status> {
        let request = snapshot_request(request.into_inner()).map_err(|error| refused(&error))?;
        let mut reply =
            v1::InstallSnapshotReply { format_version: RAFT_VERSION, ..v1::InstallSnapshotReply::default() };
        match self.raft.install_snapshot(request).await {
            Ok(answer) => reply.vote = Some(vote_to_message(answer.vote)),
            Err(RaftError::APIError(InstallSnapshotError::SnapshotMismatch(mismatch))) => {
                reply.mismatch = Some(v1::SnapshotMismatch {
                    expected_id: mismatch.expect.id,
                    expected_offset: mismatch.expect.offset,
                    got_id: mismatch.got.id,
                    got_offset: mismatch.got.offset,
                });
            }
            Err(RaftError::Fatal(error)) => return Err(fatal(&error)),
        }
        Ok(Response::new(reply))
    }
}

fn append_request(message: v1::AppendEntriesRequest) -> Result<AppendEntriesRequest<super::TypeConfig>, FormatError> {
    check_version("a Raft request", message.format_version, RAFT_VERSION)?;
    Ok(AppendEntriesRequest {
        vote: vote_from_message(message.vote)?,
        prev_log_id: optional_log_id(message.prev_log_id)?,
        entries: message.entries.into_iter().map(entry_from_message).collect::<Result<_, _>>()?,
        leader_commit: optional_log_id(message.leader_commit)?,
    })
}

fn vote_request(message: v1::VoteRequest) -> Result<VoteRequest<NodeId>, FormatError> {
    check_version("a Raft request", message.format_version, RAFT_VERSION)?;
    Ok(VoteRequest { vote: vote_from_message(message.vote)?, last_log_id: optional_log_id(message.last_log_id)? })
}

fn snapshot_request(
    message: v1::InstallSnapshotRequest,
) -> Result<InstallSnapshotRequest<super::TypeConfig>, FormatError> {
    let what = "a Raft request";
    check_version(what, message.format_version, RAFT_VERSION)?;
    Ok(InstallSnapshotRequest {
        vote: vote_from_message(message.vote)?,
        meta: meta_from_message(required(what, "meta", message.meta)?)?,
        offset: message.offset,
        data: message.data.to_vec(),
        done: message.done,
    })
}
