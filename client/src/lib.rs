//! speaks as a client.
