//! DeleteGroups.

use taffrail_core::errors::ErrorCode;
use taffrail_core::group::Reply;
use taffrail_protocol::message::delete_groups_response::DeletableGroupResult;
use taffrail_protocol::message::{DeleteGroupsRequest, DeleteGroupsResponse};

use super::wire;
use crate::broker::Broker;
use crate::client_info::ClientInfo;

pub(crate) async fn handle(
    broker: &Broker,
    _client: &ClientInfo,
    request: DeleteGroupsRequest,
    _version: i16,
) -> DeleteGroupsResponse {
    let mut results = Vec::with_capacity(request.groups_names.len());
    for group_id in request.groups_names {
        let error = delete(broker, &group_id).await;
        let message = (!error.is_none()).then(|| wire::text(error.message()));
        let result = DeletableGroupResult::default().with_group_id(group_id).with_error_code(error.code());
        results.push(result.with_error_message(message));
    }
    DeleteGroupsResponse::default().with_results(results)
}

async fn delete(broker: &Broker, group_id: &str) -> ErrorCode {
    let shard = match broker.groups.shard(group_id) {
        Ok(shard) => shard,
        Err(error) => return error,
    };
    match shard.ask_to_write(|machine, _, waiter| machine.delete_group(waiter, group_id)).await {
        Ok(Reply::Done(error)) | Err(error) => error,
        Ok(_) => ErrorCode::UnknownServerError,
    }
}
