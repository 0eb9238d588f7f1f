//! Sockets that the process listens at.

use std::net::SocketAddr;

use taffrail_runtime::net::TcpListener;

/// Listens at `address`, which was given by `flag`.
///
/// # Errors
/// With what to do about it.
pub(crate) async fn listen(address: SocketAddr, flag: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|error| match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            anyhow::anyhow!("{address} is taken by another process: stop it, or choose another address with {flag}")
        }
        _ => anyhow::anyhow!("cannot listen on {address} ({flag}): {error}"),
    })
}
