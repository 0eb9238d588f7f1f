//! Nothing of its own: building this crate builds librdkafka (see `Cargo.toml`).
