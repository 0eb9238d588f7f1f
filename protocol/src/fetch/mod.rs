//! Fetch, the fast way: a response goes out as a list of chunks, so that records go from the page cache to the socket, and
//! comes in with records as slices of its frame.

mod answer;
mod follower;
mod request;
mod response;

pub use self::follower::{FOLLOWER_VERSIONS, FollowerRequest};
pub use self::request::{FetchPartition, FetchRequestView};
pub use self::response::{Chunk, FetchResponse, PartitionFetched, Records, error_for_version};
use crate::versions::ApiKey;

const KEY: ApiKey = ApiKey::Fetch;

/// The first version that gives topics by id.
const TOPIC_IDS_SINCE: i16 = 13;
