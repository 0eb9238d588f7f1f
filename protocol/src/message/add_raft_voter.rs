//! AddRaftVoterRequest, by hand because version 1 says whether to wait for the commit.

use bytes::{Buf, Bytes, BytesMut};
use kafka_protocol::messages::add_raft_voter_request::Listener;

use super::structs::message_struct;
use super::{BodyError, Message, StrBytes, WireUuid, from_wire_id, to_wire_id};
use crate::versions::ApiKey;
use crate::wire::{Reader, WireError, Writer};

message_struct! {
    /// AddRaftVoterRequest, versions 0 and 1.
    pub struct AddRaftVoterRequest {
        /// The cluster that is meant; null = any.
        cluster_id / with_cluster_id: Option<StrBytes> = None,
        /// How long the caller waits.
        timeout_ms / with_timeout_ms: i32 = 0,
        /// Number of the controller.
        voter_id / with_voter_id: i32 = 0,
        /// Identity of its metadata directory.
        voter_directory_id / with_voter_directory_id: WireUuid = WireUuid::nil(),
        /// Where it is reached.
        listeners / with_listeners: Vec<Listener> = Vec::new(),
        /// Whether the answer waits for the commit (1+).
        ack_when_committed / with_ack_when_committed: bool = true,
    }
}

fn encode_listener(writer: &mut Writer<'_>, listener: &Listener) {
    writer.string(&listener.name);
    writer.string(&listener.host);
    writer.raw(&listener.port.to_be_bytes());
    writer.no_tagged_fields();
}

fn decode_listener(reader: &mut Reader<'_>) -> Result<Listener, WireError> {
    let (name, host) = (reader.string()?, reader.string()?);
    let listener = Listener::default().with_name(name).with_host(host).with_port(reader.i16()?.cast_unsigned());
    reader.skip_tagged_fields()?;
    Ok(listener)
}

impl Message for AddRaftVoterRequest {
    const KEY: ApiKey = ApiKey::AddRaftVoter;
    const NAME: &'static str = "AddRaftVoterRequest";

    fn encode_body(&self, version: i16, out: &mut BytesMut) -> Result<(), BodyError> {
        let mut writer = Writer::new(out, Self::KEY.is_flexible(version));
        writer.nullable_string(self.cluster_id.as_deref());
        writer.i32(self.timeout_ms);
        writer.i32(self.voter_id);
        writer.uuid(&from_wire_id(self.voter_directory_id));
        writer.array(&self.listeners, encode_listener);
        if version >= 1 {
            writer.bool(self.ack_when_committed);
        }
        writer.no_tagged_fields();
        Ok(())
    }

    fn decode_body(version: i16, body: &mut Bytes) -> Result<Self, BodyError> {
        let mut reader = Reader::new(body, Self::KEY.is_flexible(version));
        let mut request = Self {
            cluster_id: reader.nullable_string()?,
            timeout_ms: reader.i32()?,
            voter_id: reader.i32()?,
            voter_directory_id: to_wire_id(reader.uuid()?),
            listeners: reader.array(decode_listener)?,
            ack_when_committed: true,
        };
        if version >= 1 {
            request.ack_when_committed = reader.bool()?;
        }
        reader.skip_tagged_fields()?;
        let position = reader.position();
        body.advance(position);
        Ok(request)
    }
}
