//! Listeners beside the first: how clients of other networks, or at other ports, reach each broker.
//!
//! A broker tells clients an address that only Kubernetes knows: the port of every node, or the load balancer, that a Service
//! of its own was given. It is part of the pod, so a broker whose address changes is restarted in its turn; one whose address
//! is not known yet serves its other listeners meanwhile.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{LoadBalancerIngress, Pod, Service};

use super::names::{Names, Node};
use super::wanted::Wanted;
use crate::crd::cluster::{Listener, ListenerType};
use crate::crd::cluster_status::ListenerStatus;

/// Variable of a broker's process that has the address of the machine that its pod is on.
pub const HOST_IP: &str = "HOST_IP";

/// Flag of a broker that tells it of a further listener.
pub const FLAG: &str = "--listener";

/// What stands for a broker's id in templates.
const ID: &str = "{id}";

/// Addresses that a report lists at most: any of them is as good to begin with.
const ADDRESSES_MAX: usize = 5;

/// A listener beside the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtraListener {
    /// Its name.
    pub name: String,
    /// Port that brokers listen on.
    pub port: u16,
    /// How it is reached.
    pub type_: ListenerType,
    /// Host that clients are told, with `{id}`.
    host: Option<String>,
    /// The same of the port.
    told_port: Option<String>,
}

impl ExtraListener {
    /// What a Cluster says.
    ///
    /// # Errors
    /// What makes no sense.
    pub fn read(raw: &Listener) -> Result<Self, String> {
        let (host, told_port) = raw.advertised.clone().map(|told| (told.host, told.port)).unwrap_or_default();
        let is_port = |port: &String| port.replace(ID, "0").parse::<u16>().is_ok_and(|port| port > 0);
        if let Some(wrong) = told_port.as_ref().filter(|port| !is_port(port)) {
            return Err(format!("advertised.port: {wrong} is no port"));
        }
        let port = u16::try_from(raw.port).map_err(|_| format!("port: {} is no port", raw.port))?;
        Ok(Self { name: raw.name.clone(), port, type_: raw.type_, host, told_port })
    }

    /// Whether each broker has a Service of its own for it.
    pub fn has_services(&self) -> bool {
        self.type_ != ListenerType::Internal
    }

    /// Host and port that clients are told of broker `id`, whose Service and machine these are. `None` = not known yet.
    fn told(&self, names: &Names, id: i32, service: Option<&Service>, host_ip: &str) -> Option<(String, String)> {
        let spec = service.and_then(|service| service.spec.as_ref());
        let (host, port) = match self.type_ {
            ListenerType::Internal => (Some(names.host(Node::broker(id))), Some(i32::from(self.port))),
            ListenerType::NodePort => {
                let port = spec.and_then(|spec| spec.ports.as_ref()?.first()?.node_port).filter(|port| *port > 0);
                (Some(host_ip.to_owned()), port)
            }
            ListenerType::LoadBalancer => (service.and_then(balancer), Some(i32::from(self.port))),
        };
        let filled = |template: &String| template.replace(ID, &id.to_string());
        let host = self.host.as_ref().map(filled).or(host)?;
        let port = self.told_port.as_ref().map(filled).or_else(|| port.map(|port| port.to_string()))?;
        Some((host, port))
    }
}

/// Where a load balancer takes clients, once it does.
fn balancer(service: &Service) -> Option<String> {
    let ingress = service.status.as_ref()?.load_balancer.as_ref()?.ingress.as_ref()?.first()?;
    let LoadBalancerIngress { hostname, ip, .. } = ingress;
    hostname.clone().or_else(|| ip.clone()).filter(|host| !host.is_empty())
}

/// What a broker is told of its further listeners.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// One text for each whose address is known, as the broker's flag takes it.
    pub flags: Vec<String>,
    /// Beginnings of such texts, for those whose address is not known.
    pending: Vec<String>,
}

impl Told {
    /// Whether a broker's pod was told something else. What is not known now is no difference.
    pub fn differs(&self, pod: &Pod) -> bool {
        let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
        let args: Vec<&String> = containers.flat_map(|container| container.args.iter().flatten()).collect();
        let was_told: Vec<&String> = args.windows(2).filter(|pair| pair[0] == FLAG).map(|pair| pair[1]).collect();
        let is_pending = |flag: &str| self.pending.iter().any(|pending| flag.starts_with(pending));
        self.flags.iter().any(|flag| !was_told.contains(&flag))
            || was_told.iter().any(|flag| !self.flags.contains(flag) && !is_pending(flag))
    }
}

/// What broker `id` is to be told; `service` finds its Services by their names.
pub fn told(wanted: &Wanted, id: i32, service: impl Fn(&str) -> Option<Arc<Service>>) -> Told {
    let mut all = Told::default();
    for listener in &wanted.listeners {
        let begin = format!("{}=0.0.0.0:{},", listener.name.to_uppercase(), listener.port);
        let found = service(&wanted.names.listener(id, &listener.name));
        match listener.told(&wanted.names, id, found.as_deref(), &format!("$({HOST_IP})")) {
            Some((host, port)) if host.contains(':') => all.flags.push(format!("{begin}[{host}]:{port}")),
            Some((host, port)) => all.flags.push(format!("{begin}{host}:{port}")),
            None => all.pending.push(begin),
        }
    }
    all
}

/// What clients of the further listeners begin with, as far as it is known.
pub fn report<'a>(
    wanted: &Wanted,
    brokers: impl Iterator<Item = (i32, &'a Pod)> + Clone,
    service: impl Fn(&str) -> Option<Arc<Service>>,
) -> Vec<ListenerStatus> {
    let of = |listener: &ExtraListener| {
        let address = |(id, pod): (i32, &Pod)| {
            let found = service(&wanted.names.listener(id, &listener.name));
            let host_ip = pod.status.as_ref().and_then(|status| status.host_ip.clone())?;
            let (host, port) = listener.told(&wanted.names, id, found.as_deref(), &host_ip)?;
            Some(format!("{host}:{port}"))
        };
        let addresses: Vec<String> = brokers.clone().filter_map(address).take(ADDRESSES_MAX).collect();
        (!addresses.is_empty()).then(|| ListenerStatus { name: listener.name.clone(), bootstrap: addresses.join(",") })
    };
    wanted.listeners.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::crd::Cluster;
    use crate::kubernetes::wanted;

    /// What broker 2 of a Cluster with this further listener is told, where its Service is this.
    fn said(listener: Value, service: Option<Value>) -> Option<String> {
        let spec = json!({"listeners": [{"name": "plain", "port": 9092}, listener]});
        let mut cluster = Cluster::new("log", serde_json::from_value(spec).unwrap());
        cluster.metadata.namespace = Some("shop".to_owned());
        let wanted = wanted::validate(&cluster).unwrap();
        let service = service.map(|service| Arc::new(serde_json::from_value::<Service>(service).unwrap()));
        let told = told(&wanted, 2, |name| service.clone().filter(|_| name == "log-broker-2-ext"));
        assert_eq!(told.pending.is_empty(), !told.flags.is_empty());
        told.flags.first().cloned()
    }

    fn service(spec: Value, status: Value) -> Option<Value> {
        Some(json!({"apiVersion": "v1", "kind": "Service", "metadata": {}, "spec": spec, "status": status}))
    }

    #[test]
    fn clients_are_told_what_kubernetes_gave_or_the_template_says() {
        let node_port = json!({"name": "ext", "port": 9094, "type": "NodePort"});
        let balanced = json!({"name": "ext", "port": 9094, "type": "LoadBalancer"});
        let ports = || json!({"ports": [{"port": 9094, "nodePort": 30123}]});
        let ingress = |ingress: Value| json!({"loadBalancer": {"ingress": [ingress]}});
        for (listener, service, expected) in [
            (
                json!({"name": "ext", "port": 9094}),
                None,
                Some("EXT=0.0.0.0:9094,log-broker-2.log-brokers.shop.svc:9094"),
            ),
            (node_port.clone(), None, None),
            (node_port.clone(), service(json!({"ports": [{"port": 9094}]}), json!({})), None),
            (node_port, service(ports(), json!({})), Some("EXT=0.0.0.0:9094,$(HOST_IP):30123")),
            (balanced.clone(), service(ports(), json!({})), None),
            (
                balanced.clone(),
                service(ports(), ingress(json!({"ip": "192.0.2.7"}))),
                Some("EXT=0.0.0.0:9094,192.0.2.7:9094"),
            ),
            (balanced, service(ports(), ingress(json!({"hostname": "a.lb"}))), Some("EXT=0.0.0.0:9094,a.lb:9094")),
            (
                json!({"name": "ext", "port": 9094, "type": "NodePort", "advertised": {"host": "b{id}.example", "port": "3000{id}"}}),
                None,
                Some("EXT=0.0.0.0:9094,b2.example:30002"),
            ),
        ] {
            assert_eq!(said(listener.clone(), service).as_deref(), expected, "{listener}");
        }
    }

    #[test]
    fn an_address_that_is_not_known_is_no_difference_and_holds_up_no_other() {
        let pod = |flags: &[&str]| -> Pod {
            let args: Vec<&str> = flags.iter().flat_map(|flag| [FLAG, *flag]).collect();
            let spec = json!({"containers": [{"name": "taffrail", "args": args}]});
            serde_json::from_value(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": spec})).unwrap()
        };
        let told = Told { flags: vec!["A=0.0.0.0:1,a:1".to_owned()], pending: vec!["B=0.0.0.0:2,".to_owned()] };
        for (flags, expected) in [
            (&["A=0.0.0.0:1,a:1"][..], false),
            (&["A=0.0.0.0:1,a:1", "B=0.0.0.0:2,b:2"], false),
            (&[], true),
            (&["A=0.0.0.0:1,other:1"], true),
            (&["A=0.0.0.0:1,a:1", "GONE=0.0.0.0:3,c:3"], true),
        ] {
            assert_eq!(told.differs(&pod(flags)), expected, "{flags:?}");
        }
    }
}
