//! Connections that never leave the machine.
//!
//! There is no network between their ends whose capacity would have to be found out. Where the system's default is BBR, it
//! spreads what is sent over time by a timer a connection all the same, which takes two fifths of the CPU of a broker
//! whose consumers read flat out (docs/decisions/loopback-without-pacing.md).

use std::net::IpAddr;

/// Whether both ends of a connection are on this machine, as far as their addresses tell.
pub(super) fn holds(local: IpAddr, peer: IpAddr) -> bool {
    let (local, peer) = (local.to_canonical(), peer.to_canonical());
    peer.is_loopback() || local == peer
}

/// Lets a connection between processes of this machine send without pacing. Where the system does not let us choose, its
/// default stays: everything works as well, at more CPU.
pub(super) fn tune(stream: &tokio::net::TcpStream) {
    // A connection that has no addresses any more is found broken by whoever uses it.
    if let (Ok(local), Ok(peer)) = (stream.local_addr(), stream.peer_addr())
        && holds(local.ip(), peer.ip())
    {
        without_pacing(stream);
    }
}

#[cfg(target_os = "linux")]
fn without_pacing(stream: &tokio::net::TcpStream) {
    // Every process may choose this one (net.ipv4.tcp_allowed_congestion_control).
    let _refused = rustix::net::sockopt::set_tcp_congestion(stream, "reno");
}

#[cfg(not(target_os = "linux"))]
fn without_pacing(_stream: &tokio::net::TcpStream) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_with_one_address_or_on_loopback_are_on_one_machine() {
        let cases = [
            ("127.0.0.1", "127.0.0.1", true),
            ("::1", "::1", true),
            ("::ffff:127.0.0.1", "127.0.0.2", true),
            ("10.1.0.7", "10.1.0.7", true),
            ("::ffff:10.1.0.7", "10.1.0.7", true),
            ("10.1.0.7", "10.1.0.8", false),
            ("fe80::1", "fe80::2", false),
        ];
        for (local, peer, expected) in cases {
            assert_eq!(holds(local.parse().unwrap(), peer.parse().unwrap()), expected, "{local} and {peer}");
        }
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn connections_on_loopback_are_not_paced() {
        let listener = crate::net::TcpListener::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (client, accepted) = tokio::join!(tokio::net::TcpStream::connect(address), listener.accept());
        let (client, _accepted) = (client.unwrap(), accepted.unwrap());
        tune(&client);
        assert_eq!(rustix::net::sockopt::tcp_congestion(&client).unwrap(), "reno");
    }
}
