//! Raft's messages from other controllers.

use std::sync::Arc;

use openraft::ServerState;
use openraft::error::{InstallSnapshotError, RaftError};
use openraft::metrics::RaftServerMetrics;
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, VoteRequest};
use taffrail_protocol::rpc::v1::raft_server::Raft as RaftCalls;
use taffrail_protocol::rpc::{FormatError, check_version, required, v1};
use taffrail_runtime::shutdown::Shutdown;
use taffrail_runtime::{task, time};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::messages::{
    RAFT_VERSION, entry_from_message, log_id_to_message, meta_from_message, optional_log_id, vote_from_message,
    vote_to_message,
};
use super::network::fatal;
use super::route::Route;
use super::{LEASE, Member, NodeId, Raft};
use crate::quorum::formation::Seat;
use crate::quorum::liveness::{Liveness, PULSE, is_as_long, listen};
use crate::quorum::members::Members;
use crate::quorum::view::{View, leads};

/// Answers the calls of `taffrail.v1.Raft`.
pub(crate) struct RaftService {
    pub(crate) raft: Raft,
    pub(crate) route: Arc<Route>,
    pub(crate) liveness: Arc<Liveness>,
    /// Who this controller says that it is, when others look for a cluster.
    pub(crate) seat: Arc<Seat>,
    /// Takes in controllers whose disk is new.
    pub(crate) members: Arc<Members>,
    pub(crate) shutdown: Shutdown,
}

impl RaftService {
    fn leads(&self) -> bool {
        leads(&self.raft.metrics().borrow())
    }

    /// Whether this node would vote for who asks, and for how long it still holds to the leader that it has.
    fn would_vote(&self, request: v1::PreVoteRequest) -> Result<v1::PreVoteReply, Status> {
        check_version("a Raft request", request.format_version, RAFT_VERSION).map_err(|error| refused(&error))?;
        let candidate = self.route.check(request.route.as_ref())?;
        let theirs = optional_log_id(request.last_log_id).map_err(|error| refused(&error))?;
        let ours = self.raft.data_metrics().borrow().last_log;
        let view = View::of(&self.raft.server_metrics().borrow());
        let (known, now) = (self.liveness.known(), time::monotonic());
        let granted = known.would_vote(&view, self.leads(), candidate, now) && is_as_long(theirs, ours);
        if granted {
            self.liveness.promise(candidate);
        }
        let held = LEASE.saturating_sub(now.saturating_duration_since(known.heard));
        let wait_ms = u32::try_from(held.as_millis()).unwrap_or_default();
        Ok(v1::PreVoteReply { format_version: RAFT_VERSION, granted, wait_ms })
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
    type WatchStream = ReceiverStream<Result<v1::WatchReply, Status>>;

    async fn append_entries(
        &self,
        request: Request<v1::AppendEntriesRequest>,
    ) -> Result<Response<v1::AppendEntriesReply>, Status> {
        use v1::append_entries_reply::Outcome;
        let request = request.into_inner();
        self.route.check(request.route.as_ref())?;
        let request = append_request(request).map_err(|error| refused(&error))?;
        if request.vote.leader_id().term >= self.raft.metrics().borrow().current_term {
            // Before the entries are on disk: a disk that is slow here says nothing about the leader.
            self.liveness.heard();
        }
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
        let request = request.into_inner();
        let candidate = self.route.check(request.route.as_ref())?;
        let request = vote_request(request).map_err(|error| refused(&error))?;
        // Before it votes: as soon as it has, it knows of no leader, and would stand itself.
        self.liveness.promise(candidate);
        let answer = self.raft.vote(request).await.map_err(|error| failed(&error))?;
        if !answer.vote_granted {
            self.liveness.release(candidate);
        }
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
        let request = request.into_inner();
        self.route.check(request.route.as_ref())?;
        self.liveness.heard();
        let request = snapshot_request(request).map_err(|error| refused(&error))?;
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

    async fn pre_vote(&self, request: Request<v1::PreVoteRequest>) -> Result<Response<v1::PreVoteReply>, Status> {
        let request = request.into_inner();
        let view = View::of(&self.raft.server_metrics().borrow());
        if self.liveness.known().is_only_silent(&view) {
            listen().await;
        }
        Ok(Response::new(self.would_vote(request)?))
    }

    async fn take_over(&self, request: Request<v1::TakeOverRequest>) -> Result<Response<v1::TakeOverReply>, Status> {
        let request = request.into_inner();
        check_version("a Raft request", request.format_version, RAFT_VERSION).map_err(|error| refused(&error))?;
        let from = self.route.check(request.route.as_ref())?;
        if self.raft.metrics().borrow().current_leader != Some(from) {
            return Err(Status::failed_precondition(format!("{from} is not the leader that this controller follows")));
        }
        self.liveness.take_over();
        Ok(Response::new(v1::TakeOverReply { format_version: RAFT_VERSION }))
    }

    async fn identify(&self, request: Request<v1::IdentifyRequest>) -> Result<Response<v1::IdentifyReply>, Status> {
        let version = request.into_inner().format_version;
        check_version("a Raft request", version, RAFT_VERSION).map_err(|error| refused(&error))?;
        Ok(Response::new(self.seat.identify(&self.route)))
    }

    async fn watch(&self, request: Request<v1::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let version = request.into_inner().format_version;
        check_version("a Raft request", version, RAFT_VERSION).map_err(|error| refused(&error))?;
        let mut metrics = self.raft.server_metrics();
        let follows = |metrics: &RaftServerMetrics<NodeId, Member>| metrics.state != ServerState::Leader;
        let resigned = || Status::failed_precondition("this controller does not lead");
        if follows(&metrics.borrow_and_update()) {
            return Err(resigned());
        }
        let (sender, receiver) = mpsc::channel(1);
        let shutdown = self.shutdown.clone();
        task::spawn(async move {
            tokio::select! {
                _ = metrics.wait_for(|metrics| follows(metrics)) => {}
                () = pulse(&sender) => return,
                () = shutdown.triggered() => {}
            }
            // Whoever has gone has no need of it.
            let _ = sender.send(Err(resigned())).await;
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn join(&self, request: Request<v1::JoinRequest>) -> Result<Response<v1::JoinReply>, Status> {
        let request = request.into_inner();
        check_version("a Raft request", request.format_version, RAFT_VERSION).map_err(|error| refused(&error))?;
        let mut reply = v1::JoinReply { format_version: RAFT_VERSION, ..v1::JoinReply::default() };
        match self.members.join(request).await {
            Ok(()) => {}
            Err(error) => {
                reply.active = error.active();
                reply.refusal = Some(error.to_string());
            }
        }
        Ok(Response::new(reply))
    }
}

/// Says again and again that this process lives, until nobody listens any more.
async fn pulse(sender: &mpsc::Sender<Result<v1::WatchReply, Status>>) {
    loop {
        tokio::select! {
            () = sender.closed() => return,
            () = time::sleep(PULSE) => {}
        }
        // Who has not taken the last one has enough.
        let _ = sender.try_send(Ok(v1::WatchReply {}));
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
