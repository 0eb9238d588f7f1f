//! Between which nodes of which cluster a Raft message goes.
//!
//! A controller whose disk was replaced is reached at the address of the node that it was before. It must not answer for
//! that node, which had promised what the new disk does not know; and nobody takes anything from another cluster.

use std::sync::OnceLock;

use taffrail_core::ids::Uuid;
use taffrail_protocol::rpc::{id_from_bytes, id_to_bytes, v1};
use tonic::Status;

use super::NodeId;
use super::messages::{node_from_message, node_to_message};

/// Who this node is, and in which cluster, once that is known.
#[derive(Debug)]
pub(crate) struct Route {
    node: NodeId,
    cluster: OnceLock<Uuid>,
}

impl Route {
    /// The route of `node`, which may not know its cluster yet.
    pub(crate) fn new(node: NodeId, cluster: Option<Uuid>) -> Self {
        let known = OnceLock::new();
        if let Some(cluster) = cluster {
            known.get_or_init(|| cluster);
        }
        Self { node, cluster: known }
    }

    /// This node.
    pub(crate) fn node(&self) -> NodeId {
        self.node
    }

    /// The cluster, if it is known.
    pub(crate) fn cluster(&self) -> Option<Uuid> {
        self.cluster.get().copied()
    }

    /// Remembers the cluster; gives the one that it is from now on, which is the first that was named.
    pub(crate) fn settle(&self, cluster: Uuid) -> Uuid {
        *self.cluster.get_or_init(|| cluster)
    }

    /// What a message to `to` carries.
    pub(crate) fn to(&self, to: NodeId) -> v1::RaftRoute {
        v1::RaftRoute {
            cluster_id: self.cluster().map(id_to_bytes).unwrap_or_default(),
            from: Some(node_to_message(self.node)),
            to: Some(node_to_message(to)),
        }
    }

    /// Who sent a message that carries `route`.
    ///
    /// # Errors
    /// PERMISSION_DENIED if it is from another cluster, or none is known yet; NOT_FOUND if it is for another node.
    pub(crate) fn check(&self, route: Option<&v1::RaftRoute>) -> Result<NodeId, Status> {
        let route = route.ok_or_else(|| Status::invalid_argument("a Raft request has no route"))?;
        let malformed = |error: taffrail_protocol::rpc::FormatError| Status::invalid_argument(error.to_string());
        let theirs = id_from_bytes("a Raft request", "cluster_id", &route.cluster_id).map_err(malformed)?;
        match self.cluster() {
            Some(ours) if ours == theirs => {}
            Some(ours) => return Err(Status::permission_denied(format!("this is cluster {ours}, not {theirs}"))),
            None => return Err(Status::permission_denied("this controller has no cluster yet")),
        }
        let node = |node: Option<&v1::RaftNodeId>| {
            let node = node.ok_or_else(|| Status::invalid_argument("a Raft request has half a route"))?;
            node_from_message(node).map_err(malformed)
        };
        let to = node(route.to.as_ref())?;
        if to != self.node {
            return Err(Status::not_found(format!("this is controller {}, not {to}", self.node)));
        }
        node(route.from.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_messages_for_this_node_of_this_cluster_are_taken() {
        let node = |number, disk| NodeId::new(number, Uuid([disk; 16]));
        let route = |number, disk, cluster| Route::new(node(number, disk), Some(Uuid([cluster; 16])));
        let ours = route(1, 1, 1);
        let code = |route: &Route, to| ours.check(Some(&route.to(to))).map_err(|status| status.code());
        assert_eq!(code(&route(2, 2, 1), node(1, 1)), Ok(node(2, 2)));
        assert_eq!(code(&route(2, 2, 9), node(1, 1)), Err(tonic::Code::PermissionDenied), "another cluster");
        assert_eq!(code(&route(2, 2, 1), node(1, 7)), Err(tonic::Code::NotFound), "the disk before this one");
        assert_eq!(code(&Route::new(node(2, 2), None), node(1, 1)), Err(tonic::Code::InvalidArgument));
        assert!(ours.check(None).is_err());
        let unsettled = Route::new(node(1, 1), None);
        let refused = unsettled.check(Some(&route(2, 2, 1).to(node(1, 1)))).unwrap_err();
        assert_eq!(refused.code(), tonic::Code::PermissionDenied, "no cluster yet");
        assert_eq!(unsettled.settle(Uuid([1; 16])), Uuid([1; 16]));
        assert_eq!(unsettled.settle(Uuid([2; 16])), Uuid([1; 16]), "the first counts");
        assert!(unsettled.check(Some(&route(2, 2, 1).to(node(1, 1)))).is_ok());
    }
}
