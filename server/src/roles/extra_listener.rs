//! Further listeners of a broker: for clients that reach it by another way than the other brokers do.

use std::net::SocketAddr;
use std::str::FromStr;

use taffrail_core::event::{Listener, SecurityProtocol};

use super::LISTENER;

/// Longest name of a listener.
const NAME_CHARS_MAX: usize = 25;

/// One more listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExtraListener {
    /// Its name, as brokers call it.
    pub(crate) name: String,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// Host and port that its clients are told.
    pub(crate) advertised: (String, u16),
}

impl ExtraListener {
    /// The same as the metadata have it.
    pub(crate) fn registered(&self) -> Listener {
        let (host, port) = &self.advertised;
        Listener {
            name: self.name.as_str().into(),
            host: host.as_str().into(),
            port: *port,
            security: SecurityProtocol::Plaintext,
        }
    }
}

impl FromStr for ExtraListener {
    type Err = String;

    /// Reads `NAME=ADDRESS,HOST:PORT`.
    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('=').and_then(|(name, rest)| Some((name, rest.split_once(',')?)));
        let (name, (address, advertised)) = parts.ok_or("NAME=ADDRESS,HOST:PORT is needed")?;
        let name = name.to_ascii_uppercase();
        let is_word = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !is_word || name.len() > NAME_CHARS_MAX || name == LISTENER {
            return Err(format!("{name} is no name of a further listener"));
        }
        let address = address.parse().map_err(|_| format!("{address} is no address to listen at"))?;
        let told = advertised.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
        let (host, port) = told
            .filter(|(host, port)| !host.is_empty() && *port > 0)
            .ok_or_else(|| format!("{advertised} is no host:port to tell clients"))?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(Self { name, address, advertised: (host, port) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_a_name_an_address_and_what_clients_are_told() {
        let read = |text: &str| text.parse::<ExtraListener>();
        let expected = ExtraListener {
            name: "EXTERNAL".to_owned(),
            address: "0.0.0.0:9094".parse().unwrap(),
            advertised: ("kafka.example".to_owned(), 30001),
        };
        assert_eq!(read("external=0.0.0.0:9094,kafka.example:30001").unwrap(), expected);
        assert_eq!(read("V6=[::]:9094,[2001:db8::1]:30001").unwrap().advertised, ("2001:db8::1".to_owned(), 30001));
        for (text, said) in [
            ("external", "NAME=ADDRESS,HOST:PORT is needed"),
            ("plaintext=0.0.0.0:9094,a:1", "PLAINTEXT is no name of a further listener"),
            ("a-b=0.0.0.0:9094,a:1", "A-B is no name of a further listener"),
            ("a=9094,a:1", "9094 is no address to listen at"),
            ("a=0.0.0.0:9094,:1", ":1 is no host:port to tell clients"),
            ("a=0.0.0.0:9094,a:0", "a:0 is no host:port to tell clients"),
        ] {
            assert_eq!(read(text).unwrap_err(), said, "{text}");
        }
    }
}
