//! What our own processes say to each other by gRPC: messages, services and their conversions to core's types.
//!
//! The services are generated without a transport: `taffrail_runtime::grpc` has one. Messages come from other processes,
//! perhaps of another release, perhaps hostile, so nothing in them is trusted before it is converted.

mod broker;
mod client;
mod command;
mod error;
mod heartbeat;
mod quorum;
mod replica_command;
mod replica_reply;
mod reply;

#[cfg(test)]
mod tests;

/// The messages and services as generated from `proto/taffrail/v1`.
#[allow(
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    clippy::too_many_lines,
    clippy::allow_attributes_without_reason,
    reason = "generated code; the .proto files hold its documentation"
)]
pub mod v1 {
    tonic::include_proto!("taffrail.v1");
}

pub use client::{
    CallError, Committed, ControllerAddress, ControllerCalls, ControllerStatus, Controllers, MetadataStream, Update,
};
pub use command::{command_from_message, command_to_message};
pub use error::{FormatError, check_version, id_from_bytes, id_to_bytes, required};
pub use heartbeat::{Attendance, Heartbeat, HeartbeatAnswer, heartbeat_to_message, lags_from_message};
pub use quorum::{Quorum, QuorumMember, VoterChange, VoterId};
pub use reply::{refusal_from_message, refusal_to_message, reply_from_message, reply_to_message};

pub(crate) use broker::{
    duty_from_code, grant_from_message, grant_to_message, partition_from_message, partition_to_message,
    registration_from_message, registration_to_message, resource_from_message, resource_to_message,
};

/// Version of the requests and replies that this release writes, and the newest that it reads.
pub const RPC_VERSION: u32 = 1;

/// Largest gRPC message that is taken or sent. A batch of events of one command and a chunk of a snapshot stay far below.
pub const MESSAGE_BYTES_MAX: usize = 16 << 20;
