//! Services: how pods and clients find brokers and controllers.

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::owned;
use crate::kubernetes::names::{CONTROLLER_PORT, KAFKA_PORT, METRICS_PORT, Role};
use crate::kubernetes::wanted::Wanted;

fn port(name: &str, port: u16) -> ServicePort {
    ServicePort {
        name: Some(name.to_owned()),
        port: i32::from(port),
        protocol: Some("TCP".to_owned()),
        target_port: Some(IntOrString::Int(i32::from(port))),
        ..ServicePort::default()
    }
}

/// The Service that gives the pods of a role their names. It publishes addresses before readiness: nodes have to find each
/// other to become ready.
pub fn headless(wanted: &Wanted, role: Role) -> Service {
    let first = match role {
        Role::Broker => port("kafka", KAFKA_PORT),
        Role::Controller => port("grpc", CONTROLLER_PORT),
    };
    let names = &wanted.names;
    Service {
        metadata: owned(wanted, names.headless(role), names.role_labels(role)),
        spec: Some(ServiceSpec {
            cluster_ip: Some("None".to_owned()),
            type_: Some("ClusterIP".to_owned()),
            publish_not_ready_addresses: Some(true),
            selector: Some(names.selector(role)),
            ports: Some(vec![first, port("metrics", METRICS_PORT)]),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

/// The Service that clients begin with.
pub fn bootstrap(wanted: &Wanted) -> Service {
    let names = &wanted.names;
    Service {
        metadata: owned(wanted, names.bootstrap(), names.role_labels(Role::Broker)),
        spec: Some(ServiceSpec {
            type_: Some("ClusterIP".to_owned()),
            publish_not_ready_addresses: Some(true),
            selector: Some(names.selector(Role::Broker)),
            ports: Some(vec![port("kafka", KAFKA_PORT)]),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}
