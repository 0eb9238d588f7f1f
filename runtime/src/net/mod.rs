//! Streams of bytes between processes.

mod dial;
mod get;
mod same_machine;
mod send_file;
mod send_more;
mod tcp;
mod unstalled;

pub use get::http_get;
pub use tcp::{DetachedStream, ReadHalf, TcpListener, TcpStream, WriteHalf, connect, lookup};
pub use unstalled::Unstalled;
