//! partitions as files.
