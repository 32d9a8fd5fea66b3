//! Makes the messages of the interface that tells what pods were given.
//!
//! In: `proto/*.proto`. Out: the Rust code that `src/pod_resources/messages.rs` includes.
//! The compiler of the former is itself in Rust: no `protoc` is needed.

use std::error::Error;

const PROTO: &str = "proto";
const FILES: [&str; 2] = ["proto/v1.proto", "proto/v1alpha1.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={PROTO}");
    let descriptors = protox::compile(FILES, [PROTO])?;
    prost_build::Config::new().compile_fds(descriptors)?;
    Ok(())
}
