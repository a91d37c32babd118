//! Generates the crate's code from `proto`, without a `protoc`, and compares it with what is checked
//! in. With `REAPI_REGENERATE` set it is written instead.
//!
//! | promise | test |
//! |---|---|
//! | the generated code is what the definitions in `proto` give | `the_generated_code_is_up_to_date` |

use std::fs;
use std::path::{Path, PathBuf};

use protox::prost_reflect::prost_types::FileDescriptorSet;

const ROOTS: [&str; 4] = [
    "build/bazel/remote/asset/v1/remote_asset.proto",
    "build/bazel/remote/execution/v2/remote_execution.proto",
    "google/bytestream/bytestream.proto",
    "google/rpc/error_details.proto",
];

/// What the crate offers; the rest of `proto` is there only because these import it.
const PACKAGES: [&str; 5] = [
    "build.bazel.remote.asset.v1",
    "build.bazel.remote.execution.v2",
    "build.bazel.semver",
    "google.bytestream",
    "google.rpc",
];

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The definitions of [`PACKAGES`] without comments, which are no Rust documentation, and without
/// the services that this crate does not use. The calls of `Execution` would need
/// `google.longrunning`.
fn definitions() -> FileDescriptorSet {
    let mut set = protox::compile(ROOTS, [folder("proto")]).expect("the definitions compile");
    // The well-known types are looked at, but not generated: `prost-types` has them.
    set.file.retain(|f| PACKAGES.contains(&f.package()) || f.package() == "google.protobuf");
    for file in &mut set.file {
        file.service.retain(|service| !matches!(service.name(), "Execution" | "Push"));
        file.source_code_info = None;
    }
    set
}

fn generate(target: &Path) {
    tonic_prost_build::configure()
        .bytes(".")
        .build_transport(false)
        .out_dir(target)
        .compile_fds(definitions())
        .expect("the folder takes files");
}

#[test]
fn the_generated_code_is_up_to_date() {
    let made = tempfile::tempdir().unwrap();
    generate(made.path());
    for package in PACKAGES {
        let name = format!("{package}.rs");
        let text = fs::read_to_string(made.path().join(&name)).unwrap();
        let checked_in = folder("src/generated").join(&name);
        if std::env::var_os("REAPI_REGENERATE").is_some() {
            fs::write(&checked_in, text).unwrap();
            continue;
        }
        let same = fs::read_to_string(&checked_in).is_ok_and(|current| current == text);
        assert!(same, "{name} is out of date; run the tests with REAPI_REGENERATE=1");
    }
}
