//! Who asks.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use crate::introduction::Introduction;

/// The client behind a request.
#[derive(Debug, Clone)]
pub struct ClientInfo {
    /// Where it comes from.
    pub address: SocketAddr,
    /// Name that it gave itself in the request's header; empty if none.
    pub client_id: Arc<str>,
    /// Name of the listener that it came by; answers tell it addresses of this listener.
    pub listener: Arc<str>,
    /// Whether it is another broker of the cluster.
    pub(crate) introduction: Rc<Introduction>,
}

impl ClientInfo {
    /// Its address as Kafka shows it in groups: a slash and the IP address.
    pub fn host(&self) -> String {
        format!("/{}", self.address.ip())
    }
}

/// What is remembered for one connection. Lives on one shard.
pub(crate) struct Connection {
    client: RefCell<Rc<ClientInfo>>,
}

impl Connection {
    pub(crate) fn new(address: SocketAddr, listener: &Arc<str>) -> Self {
        let (listener, introduction) = (Arc::clone(listener), Rc::default());
        let client = ClientInfo { address, client_id: "".into(), listener, introduction };
        Self { client: RefCell::new(Rc::new(client)) }
    }

    /// The client of a request with this client id. Nearly all requests of a connection have the same, so nothing is
    /// allocated for them.
    pub(crate) fn client(&self, client_id: &str) -> Rc<ClientInfo> {
        let mut client = self.client.borrow_mut();
        if *client.client_id != *client_id {
            *client = Rc::new(ClientInfo { client_id: client_id.into(), ..ClientInfo::clone(&client) });
        }
        Rc::clone(&client)
    }
}
