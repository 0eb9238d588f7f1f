//! Compiles the gRPC messages and services. protox parses them, so no `protoc` is needed; sockets are runtime's business,
//! so the services come without a transport.

use std::error::Error;

const FILES: [&str; 4] = ["metadata", "control", "controller", "raft"];

fn main() -> Result<(), Box<dyn Error>> {
    let files = FILES.map(|name| format!("proto/taffrail/v1/{name}.proto"));
    for file in &files {
        println!("cargo::rerun-if-changed={file}");
    }
    let descriptors = protox::compile(&files, ["proto"])?;
    tonic_prost_build::configure().build_transport(false).bytes(".taffrail.v1").compile_fds(descriptors)?;
    Ok(())
}
