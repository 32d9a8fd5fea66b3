//! Makes the messages of the Container Runtime Interface, and the paths of its
//! calls.
//!
//! In: `proto/runtime.proto`, and what it imports. Out: the Rust code that `src/cri.rs` includes,
//! and a description of the messages for those who have to print them.
//! The compiler of the former is itself in Rust: no `protoc` is needed.

#![allow(
    clippy::disallowed_methods,
    reason = "cargo tells a build script by its environment where to write"
)]

use std::error::Error;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::{env, fs};

use prost_build::{Config, Service, ServiceGenerator};
use protox::prost::Message as _;

/// Where the interface is written down; the first of its files has the calls,
/// and imports the others.
const PROTO: &str = "proto";
const CALLS: &str = "proto/runtime.proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={PROTO}");
    let descriptors = protox::compile([CALLS], [PROTO])?;
    let mut described = descriptors.clone();
    for file in &mut described.file {
        // Where each word stands in the files, and the comments: nobody asks.
        file.source_code_info = None;
    }
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.bin"), described.encode_to_vec())?;
    Config::new()
        // What is printed or compared comes in one order.
        .btree_map(["."])
        // `src/cri.rs` prints it without its secrets.
        .skip_debug([".runtime.v1.AuthConfig"])
        .service_generator(Box::new(Paths))
        .compile_fds(descriptors)?;
    Ok(())
}

/// A module for each service, with the path of each call: all that the client
/// here and a simulated server need, besides the messages.
struct Paths;

impl ServiceGenerator for Paths {
    fn generate(&mut self, service: Service, code: &mut String) {
        let name = format!("{}.{}", service.package, service.proto_name);
        let module = module_name(&service.proto_name);
        // Writing to a string cannot fail.
        let _ = writeln!(code, "/// The paths of `{name}`.\npub mod {module} {{");
        for method in service.methods {
            let constant = method.name.to_uppercase();
            let path = format!("/{name}/{}", method.proto_name);
            let _ = writeln!(code, "pub const {constant}: &str = {path:?};");
        }
        code.push_str("}\n");
    }
}

/// `RuntimeService` becomes `runtime_service`.
fn module_name(service: &str) -> String {
    let mut name = String::new();
    for letter in service.chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.extend(letter.to_lowercase());
    }
    name
}
