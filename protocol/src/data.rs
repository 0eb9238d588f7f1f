//! What Produce and Fetch share: topics by name or id, and hints at the current leader (KIP-951).

use std::fmt;

use taffrail_core::ids::Uuid;

use crate::message::{BodyError, StrBytes};
use crate::wire::{Reader, WireError, Writer};

/// A topic as a request names it: by name in old versions, by id in new ones.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TopicRef {
    /// By name. It pins the frame in memory: copy it before keeping it.
    Name(StrBytes),
    /// By id.
    Id(Uuid),
}

impl fmt::Display for TopicRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Id(id) => id.fmt(f),
        }
    }
}

impl TopicRef {
    pub(crate) fn decode(by_id: bool, reader: &mut Reader<'_>) -> Result<Self, WireError> {
        if by_id { reader.uuid().map(Self::Id) } else { reader.string().map(Self::Name) }
    }

    pub(crate) fn encode(&self, by_id: bool, writer: &mut Writer<'_>) -> Result<(), BodyError> {
        match (self, by_id) {
            (Self::Name(name), false) => writer.string(name),
            (Self::Id(id), true) => writer.uuid(id),
            _ => return Err(BodyError::Codec(format!("topic {self} cannot be named in this version"))),
        }
        Ok(())
    }
}

/// Who leads a partition, sent along with NOT_LEADER_OR_FOLLOWER.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CurrentLeader {
    /// Id of the leader, or -1.
    pub leader_id: i32,
    /// Its epoch, or -1.
    pub leader_epoch: i32,
}

impl CurrentLeader {
    /// Bytes of the value of the tagged field: two numbers and an empty list of tagged fields.
    const BYTES: u32 = 9;

    pub(crate) fn encode_tagged(self, tag: u32, writer: &mut Writer<'_>) {
        writer.unsigned_varint(tag);
        writer.unsigned_varint(Self::BYTES);
        writer.i32(self.leader_id);
        writer.i32(self.leader_epoch);
        writer.no_tagged_fields();
    }
}

/// Where a leader that a response names listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeEndpoint {
    /// Id of the broker.
    pub node_id: i32,
    /// Its host on the listener of the request.
    pub host: StrBytes,
    /// Its port there.
    pub port: i32,
    /// Its rack.
    pub rack: Option<StrBytes>,
}

/// Writes the tagged fields at the end of a response: the endpoints under tag 0, if there are any and the version has
/// them.
pub(crate) fn encode_endpoints(endpoints: &[NodeEndpoint], has_endpoints: bool, writer: &mut Writer<'_>) {
    if endpoints.is_empty() || !has_endpoints {
        writer.no_tagged_fields();
        return;
    }
    writer.unsigned_varint(1);
    writer.tagged(0, |writer| {
        writer.array(endpoints, |writer, endpoint| {
            writer.i32(endpoint.node_id);
            writer.string(&endpoint.host);
            writer.i32(endpoint.port);
            writer.nullable_string(endpoint.rack.as_deref());
            writer.no_tagged_fields();
        });
    });
}

/// Reads the value of the tagged field that [`encode_endpoints`] writes.
pub(crate) fn decode_endpoints(reader: &mut Reader<'_>) -> Result<Vec<NodeEndpoint>, WireError> {
    reader.array(|reader| {
        let endpoint = NodeEndpoint {
            node_id: reader.i32()?,
            host: reader.string()?,
            port: reader.i32()?,
            rack: reader.nullable_string()?,
        };
        reader.skip_tagged_fields()?;
        Ok(endpoint)
    })
}
