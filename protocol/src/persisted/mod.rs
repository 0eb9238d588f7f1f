//! Encodings that are kept on disk, and so outlive the release that wrote them.

pub mod metadata;
pub mod offsets;
