//! Fetch, the fast way out: the response is a list of chunks, so that records go from the page cache to the socket.

mod request;
mod response;

pub use self::request::{FetchPartition, FetchRequestView};
pub use self::response::{Chunk, FetchResponse, PartitionFetched, Records, error_for_version};
use crate::versions::ApiKey;

const KEY: ApiKey = ApiKey::Fetch;

/// The first version that gives topics by id.
const TOPIC_IDS_SINCE: i16 = 13;
