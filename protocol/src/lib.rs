//! Bytes and messages: everything that travels between a client and a broker, and nothing that opens a socket.
//!
//! The Kafka side reads frames ([`frame`]), headers ([`header`]) and bodies ([`request`], [`response`]) for exactly the
//! keys and versions of [`versions`]. Message structs come from the `kafka-protocol` crate, which no other crate names:
//! [`message`] re-exports them and adds by hand what that crate does not know yet. That crate trusts the counts it reads,
//! so [`guard`] bounds the shape of every body before it is decoded. Produce and Fetch, where the bytes are, have codecs
//! of their own ([`produce`], [`fetch`]) that never copy a record.

pub mod api_versions;
pub mod data;
pub mod fetch;
pub mod frame;
pub mod guard;
pub mod header;
pub mod message;
pub mod persisted;
pub mod produce;
pub mod request;
pub mod response;
pub mod rpc;
pub mod unread;
pub mod versions;
mod wire;
