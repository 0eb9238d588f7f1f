//! Raft's messages to other controllers.

use std::sync::Arc;
use std::time::Duration;

use openraft::error::{Fatal, InstallSnapshotError, RPCError, RaftError, RemoteError, SnapshotMismatch, Unreachable};
use openraft::network::RPCOption;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse, VoteRequest,
    VoteResponse,
};
use openraft::{RaftNetwork, RaftNetworkFactory, SnapshotSegmentId};
use taffrail_protocol::rpc::v1::raft_client::RaftClient;
use taffrail_protocol::rpc::{FormatError, check_version, required, v1};
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status};

use super::links::Links;
use super::messages::{
    RAFT_VERSION, entry_to_message, log_id_to_message, meta_to_message, optional_log_id, vote_from_message,
    vote_to_message,
};
use super::route::Route;
use super::{Member, NodeId, TypeConfig};

type RpcError<E = openraft::error::Infallible> = RPCError<NodeId, Member, E>;

/// How long to leave a controller alone that did not answer.
const BACKOFF: Duration = Duration::from_millis(100);

/// Calls in a row without an answer after which the next one dials anew: the other may have another address by now.
const SILENT_CALLS_MAX: u32 = 5;

/// Makes connections to other controllers.
pub(crate) struct Network {
    pub(crate) route: Arc<Route>,
    pub(crate) links: Arc<Links>,
}

impl RaftNetworkFactory<TypeConfig> for Network {
    type Network = Connection;

    async fn new_client(&mut self, target: NodeId, node: &Member) -> Connection {
        let (route, links) = (Arc::clone(&self.route), Arc::clone(&self.links));
        Connection { target, address: node.address.clone(), route, links, silent_calls: 0 }
    }
}

/// The way to one other controller.
pub(crate) struct Connection {
    target: NodeId,
    address: String,
    route: Arc<Route>,
    links: Arc<Links>,
    /// Calls in a row that gave no answer. Raft drops a call that takes too long, so each counts until it is answered.
    silent_calls: u32,
}

impl Connection {
    fn client(&mut self) -> Result<RaftClient<Channel>, Unreachable> {
        if self.silent_calls >= SILENT_CALLS_MAX {
            self.links.renew(&self.address);
            self.silent_calls = 0;
        }
        self.silent_calls += 1;
        self.links.raft(&self.address).map_err(|error| Unreachable::new(&error))
    }

    fn request<T>(message: T, option: &RPCOption) -> Request<T> {
        let mut request = Request::new(message);
        request.set_timeout(option.hard_ttl());
        request
    }

    #[allow(clippy::result_large_err, reason = "openraft's own error, passed on as it wants it")]
    /// Takes note of an answer, or of what its absence says.
    fn answer<T, E: std::error::Error>(&mut self, answer: Result<Response<T>, Status>) -> Result<T, RpcError<E>> {
        match answer {
            Ok(response) => {
                self.silent_calls = 0;
                self.links.answered(self.target);
                Ok(response.into_inner())
            }
            Err(status) => {
                if status.code() == Code::NotFound {
                    self.links.replaced(self.target);
                }
                // Whatever it is, it will not be better at once: Raft repeats other errors without a pause.
                Err(RPCError::Unreachable(Unreachable::new(&status)))
            }
        }
    }
}

fn malformed<E: std::error::Error>(error: &FormatError) -> RpcError<E> {
    RPCError::Unreachable(Unreachable::new(error))
}

impl RaftNetwork<TypeConfig> for Connection {
    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<NodeId>, RpcError<RaftError<NodeId>>> {
        let message = v1::AppendEntriesRequest {
            format_version: RAFT_VERSION,
            vote: Some(vote_to_message(request.vote)),
            prev_log_id: request.prev_log_id.map(log_id_to_message),
            entries: request.entries.iter().map(entry_to_message).collect(),
            leader_commit: request.leader_commit.map(log_id_to_message),
            route: Some(self.route.to(self.target)),
        };
        let answer = self.client()?.append_entries(Self::request(message, &option)).await;
        append_reply(self.answer(answer)?).map_err(|error| malformed(&error))
    }

    async fn install_snapshot(
        &mut self,
        request: InstallSnapshotRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<InstallSnapshotResponse<NodeId>, RpcError<RaftError<NodeId, InstallSnapshotError>>> {
        let message = v1::InstallSnapshotRequest {
            format_version: RAFT_VERSION,
            vote: Some(vote_to_message(request.vote)),
            meta: Some(meta_to_message(&request.meta)),
            offset: request.offset,
            data: request.data.into(),
            done: request.done,
            route: Some(self.route.to(self.target)),
        };
        let answer = self.client()?.install_snapshot(Self::request(message, &option)).await;
        let reply = self.answer(answer)?;
        check_version("a Raft reply", reply.format_version, RAFT_VERSION).map_err(|error| malformed(&error))?;
        if let Some(mismatch) = reply.mismatch {
            let mismatch = SnapshotMismatch {
                expect: SnapshotSegmentId { id: mismatch.expected_id, offset: mismatch.expected_offset },
                got: SnapshotSegmentId { id: mismatch.got_id, offset: mismatch.got_offset },
            };
            let error = RaftError::APIError(InstallSnapshotError::SnapshotMismatch(mismatch));
            return Err(RPCError::RemoteError(RemoteError::new(self.target, error)));
        }
        let vote = vote_from_message(reply.vote).map_err(|error| malformed(&error))?;
        Ok(InstallSnapshotResponse { vote })
    }

    async fn vote(
        &mut self,
        request: VoteRequest<NodeId>,
        option: RPCOption,
    ) -> Result<VoteResponse<NodeId>, RpcError<RaftError<NodeId>>> {
        let message = v1::VoteRequest {
            format_version: RAFT_VERSION,
            vote: Some(vote_to_message(request.vote)),
            last_log_id: request.last_log_id.map(log_id_to_message),
            route: Some(self.route.to(self.target)),
        };
        let answer = self.client()?.vote(Self::request(message, &option)).await;
        vote_reply(self.answer(answer)?).map_err(|error| malformed(&error))
    }

    fn backoff(&self) -> openraft::network::Backoff {
        openraft::network::Backoff::new(std::iter::repeat(BACKOFF))
    }
}

fn append_reply(reply: v1::AppendEntriesReply) -> Result<AppendEntriesResponse<NodeId>, FormatError> {
    use v1::append_entries_reply::Outcome;
    let what = "a Raft reply";
    check_version(what, reply.format_version, RAFT_VERSION)?;
    Ok(match required(what, "outcome", reply.outcome)? {
        Outcome::Success(_) => AppendEntriesResponse::Success,
        Outcome::Partial(partial) => AppendEntriesResponse::PartialSuccess(optional_log_id(partial.taken)?),
        Outcome::Conflict(_) => AppendEntriesResponse::Conflict,
        Outcome::HigherVote(vote) => AppendEntriesResponse::HigherVote(vote_from_message(Some(vote))?),
    })
}

fn vote_reply(reply: v1::VoteReply) -> Result<VoteResponse<NodeId>, FormatError> {
    check_version("a Raft reply", reply.format_version, RAFT_VERSION)?;
    let vote = vote_from_message(reply.vote)?;
    Ok(VoteResponse { vote, vote_granted: reply.granted, last_log_id: optional_log_id(reply.last_log_id)? })
}

/// What a controller that has failed answers to others.
pub(super) fn fatal(error: &Fatal<NodeId>) -> Status {
    Status::unavailable(format!("this controller has stopped: {error}"))
}
