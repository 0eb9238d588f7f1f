//! ListGroups: all groups of this broker.

use taffrail_core::errors::ErrorCode;
use taffrail_core::group::ListedGroup as Listed;
use taffrail_protocol::message::list_groups_response::ListedGroup;
use taffrail_protocol::message::{GroupId, ListGroupsRequest, ListGroupsResponse, StrBytes};

use super::wire;
use crate::broker::Broker;
use crate::client_info::ClientInfo;

/// The first version that tells states, and asks for some.
const STATES_SINCE: i16 = 4;
/// The first version that tells types, and asks for some.
const TYPES_SINCE: i16 = 5;
/// Type of all groups that there are.
const CLASSIC: &str = "classic";

pub(crate) async fn handle(
    broker: &Broker,
    _client: &ClientInfo,
    request: ListGroupsRequest,
    version: i16,
) -> ListGroupsResponse {
    let names_one = |filter: &[StrBytes], name: &str| {
        filter.is_empty() || filter.iter().any(|wanted| wanted.eq_ignore_ascii_case(name))
    };
    if !names_one(&request.types_filter, CLASSIC) {
        return ListGroupsResponse::default();
    }
    let mut groups = Vec::new();
    for shard in broker.groups.all() {
        let listed = shard.look(|machine, _| {
            let wanted = machine.list().filter(|group| names_one(&request.states_filter, group.state.name()));
            wanted.map(|group| entry(&group, version)).collect::<Vec<_>>()
        });
        match listed {
            Ok(listed) => groups.extend(listed),
            // It moves away just now: its new coordinator lists its groups.
            Err(ErrorCode::NotCoordinator) => {}
            Err(error) => return ListGroupsResponse::default().with_error_code(error.code()),
        }
    }
    ListGroupsResponse::default().with_groups(groups)
}

fn entry(group: &Listed, version: i16) -> ListedGroup {
    let mut entry = ListedGroup::default()
        .with_group_id(GroupId(wire::text(&group.group_id)))
        .with_protocol_type(wire::text(&group.protocol_type));
    if version >= STATES_SINCE {
        entry.group_state = wire::text(group.state.name());
    }
    if version >= TYPES_SINCE {
        entry.group_type = wire::text(CLASSIC);
    }
    entry
}
