//! What the commands that run one node have in common: how they are told which node of which cluster it is.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::Context;
use taffrail_core::ids::Uuid;
use taffrail_runtime::cluster_secret::ClusterSecret;
use taffrail_runtime::grpc::Target;

use crate::options::OptionsError;

/// Where ids of clusters come from.
pub(crate) const NEW_ID: &str = "`taffrail cluster new-id` prints a new one";

/// Checks a node's number, and the addresses of the controllers.
///
/// # Errors
/// With the flag that is wrong.
pub(crate) fn check(node_id: i32, controllers: &[String]) -> Result<(), OptionsError> {
    if node_id < 0 {
        return Err(OptionsError::Conflict(format!("--node-id {node_id}: a number from 0 on is needed")));
    }
    check_addresses("--controllers", controllers)
}

/// Checks the addresses that a flag gives.
///
/// # Errors
/// With the flag, and the address that is none.
pub(crate) fn check_addresses(flag: &str, addresses: &[String]) -> Result<(), OptionsError> {
    let is_address =
        |text: &str| text.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    match addresses.iter().find(|address| !is_address(address)) {
        Some(wrong) => Err(OptionsError::Conflict(format!("{flag} {wrong}: host:port is needed"))),
        None => Ok(()),
    }
}

/// The cluster that `--cluster-id` names, if it was given.
///
/// # Errors
/// When that is no id.
pub(crate) fn cluster_id(given: Option<&str>) -> Result<Option<Uuid>, OptionsError> {
    let parse =
        |text: &str| text.parse().map_err(|error| OptionsError::Conflict(format!("--cluster-id: {error}; {NEW_ID}")));
    given.map(parse).transpose()
}

/// The secret that all processes of the cluster share, if there is one.
///
/// # Errors
/// When the file cannot be read, or holds none.
pub(crate) fn cluster_secret(file: Option<&Path>) -> anyhow::Result<Option<ClusterSecret>> {
    let Some(file) = file else { return Ok(None) };
    let content = std::fs::read(file);
    let content = content.with_context(|| format!("the cluster's secret in {} cannot be read", file.display()))?;
    let secret = ClusterSecret::new(&content).with_context(|| file.display().to_string())?;
    Ok(Some(secret))
}

/// Says loudly that whoever reaches `bound` is taken for one of the cluster, as long as there is no secret.
pub(crate) fn warn_if_open(bound: SocketAddr) {
    if !bound.ip().is_loopback() {
        tracing::warn!(address = %bound, "OPEN TO EVERYBODY WHO REACHES IT: set --cluster-secret-file");
    }
}

/// How a controller at `address` is reached.
pub(crate) fn controller(address: &str, secret: Option<&ClusterSecret>) -> (String, Target) {
    let target = match secret {
        Some(secret) => Target::Secured(address.to_owned(), secret.clone()),
        None => Target::Address(address.to_owned()),
    };
    (address.to_owned(), target)
}

/// Host and port as one word.
pub(crate) fn address(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_node_is_refused_with_its_flag() {
        let told = |node_id, controllers: &[&str]| {
            let controllers: Vec<String> = controllers.iter().map(|text| (*text).to_owned()).collect();
            check(node_id, &controllers).map_err(|error| error.to_string())
        };
        assert_eq!(told(0, &["a:1", "[::1]:9093"]), Ok(()));
        assert_eq!(told(-1, &[]).unwrap_err(), "--node-id -1: a number from 0 on is needed");
        for wrong in ["a", ":1", "a:", "a:x", "a:70000"] {
            assert_eq!(told(1, &[wrong]).unwrap_err(), format!("--controllers {wrong}: host:port is needed"));
        }
        assert!(cluster_id(Some("x")).unwrap_err().to_string().starts_with("--cluster-id: 'x' is not an id"));
        assert_eq!(cluster_id(None).unwrap(), None);
    }
}
