//! DescribeGroups.

use taffrail_core::errors::ErrorCode;
use taffrail_core::group::DescribedGroup as Description;
use taffrail_protocol::message::describe_groups_response::{DescribedGroup, DescribedGroupMember};
use taffrail_protocol::message::{DescribeGroupsRequest, DescribeGroupsResponse, GroupId};

use super::wire;
use crate::broker::Broker;
use crate::client_info::ClientInfo;

/// The first version that says what the client may do.
const OPERATIONS_SINCE: i16 = 3;
/// The first version in which a group that does not exist is an error; before, it is "Dead".
const NOT_FOUND_SINCE: i16 = 6;
/// State of a group that does not exist.
const DEAD: &str = "Dead";
/// What everyone may do with a group while there is no authorizer, as bits by Kafka's `AclOperation`: read, delete,
/// describe, describe configs, alter configs.
const GROUP_OPERATIONS: i32 = 0b1101_0100_1000;

pub(crate) async fn handle(
    broker: &Broker,
    _client: &ClientInfo,
    request: DescribeGroupsRequest,
    version: i16,
) -> DescribeGroupsResponse {
    let include = request.include_authorized_operations && version >= OPERATIONS_SINCE;
    let groups = request.groups.iter().map(|group_id| {
        let group = describe(broker, group_id, version);
        match include && group.error_code == ErrorCode::None.code() {
            true => group.with_authorized_operations(GROUP_OPERATIONS),
            false => group,
        }
    });
    DescribeGroupsResponse::default().with_groups(groups.collect())
}

fn describe(broker: &Broker, group_id: &GroupId, version: i16) -> DescribedGroup {
    let response = DescribedGroup::default().with_group_id(group_id.clone());
    let shard = broker.groups.shard(group_id);
    match shard.and_then(|shard| shard.look(|machine, _| machine.describe(group_id))) {
        Err(error) => response.with_error_code(error.code()),
        Ok(Some(group)) => described(response, group),
        Ok(None) => {
            let response = response.with_group_state(wire::text(DEAD));
            if version < NOT_FOUND_SINCE {
                return response;
            }
            response
                .with_error_code(ErrorCode::GroupIdNotFound.code())
                .with_error_message(Some(wire::text(&format!("Group {} not found.", &***group_id))))
        }
    }
}

fn described(response: DescribedGroup, group: Description) -> DescribedGroup {
    let member = |member: taffrail_core::group::DescribedMember| {
        DescribedGroupMember::default()
            .with_member_id(wire::text(&member.member_id))
            .with_group_instance_id(member.instance_id.as_deref().map(wire::text))
            .with_client_id(wire::text(&member.client_id))
            .with_client_host(wire::text(&member.client_host))
            .with_member_metadata(member.metadata)
            .with_member_assignment(member.assignment)
    };
    response
        .with_group_state(wire::text(group.state.name()))
        .with_protocol_type(wire::text(&group.protocol_type))
        .with_protocol_data(wire::text(&group.protocol_name))
        .with_members(group.members.into_iter().map(member).collect())
}
