//! Services: how pods and clients find brokers and controllers.

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::owned;
use crate::crd::cluster::ListenerType;
use crate::kubernetes::listeners::ExtraListener;
use crate::kubernetes::names::{CONTROLLER_PORT, ID_LABEL, KAFKA_PORT, LISTENER_LABEL, METRICS_PORT, Role};
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

/// The port of a listener beside the first, whose name must not be that of another port.
fn further(listener: &ExtraListener) -> ServicePort {
    port(&format!("kafka-{}", listener.name), listener.port)
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

/// The Service that clients within the Kubernetes cluster begin with.
pub fn bootstrap(wanted: &Wanted) -> Service {
    let names = &wanted.names;
    let internal = wanted.listeners.iter().filter(|listener| !listener.has_services());
    let further = internal.map(further);
    Service {
        metadata: owned(wanted, names.bootstrap(), names.role_labels(Role::Broker)),
        spec: Some(ServiceSpec {
            type_: Some("ClusterIP".to_owned()),
            publish_not_ready_addresses: Some(true),
            selector: Some(names.selector(Role::Broker)),
            ports: Some(std::iter::once(port("kafka", KAFKA_PORT)).chain(further).collect()),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

/// The Services by which clients of other networks reach broker `id`: one for each listener.
pub fn of_listeners(wanted: &Wanted, id: i32) -> Vec<Service> {
    let names = &wanted.names;
    let service = |listener: &ExtraListener| {
        let mut labels = names.role_labels(Role::Broker);
        labels.insert(ID_LABEL.to_owned(), id.to_string());
        labels.insert(LISTENER_LABEL.to_owned(), listener.name.clone());
        let mut selector = names.selector(Role::Broker);
        selector.insert(ID_LABEL.to_owned(), id.to_string());
        let type_ = if listener.type_ == ListenerType::NodePort { "NodePort" } else { "LoadBalancer" };
        Service {
            metadata: owned(wanted, names.listener(id, &listener.name), labels),
            spec: Some(ServiceSpec {
                type_: Some(type_.to_owned()),
                publish_not_ready_addresses: Some(true),
                selector: Some(selector),
                ports: Some(vec![further(listener)]),
                ..ServiceSpec::default()
            }),
            status: None,
        }
    };
    wanted.listeners.iter().filter(|listener| listener.has_services()).map(service).collect()
}
