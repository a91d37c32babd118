//! `tidegate-bench`: measures Tidegate next to the tools that people use today.
//!
//! A figure depends on the machine and on the time of measurement. So every subcommand starts its
//! own server, runs all tools in turns within one run, and reports ratios. Users do not install
//! this program.

mod buffer;
mod chunked;
mod fetch;
mod figures;
mod machine;
mod measure;
mod memory;
mod nginx;
mod object;
mod peers;
mod program;
mod progress;
mod publish;
mod read;
mod scratch;
mod serve;
mod size;
mod upload;

use clap::{Parser, Subcommand};

/// Measures Tidegate next to its peers.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Fetches one object with each tool, under several conditions.
    Fetch(fetch::FetchOptions),
    /// Fills an in-memory buffer from many threads, next to Kraken's and next to a plain copy.
    Buffer(buffer::BufferOptions),
    /// Reads objects as one stream with each reader, plainly, with latency and through cuts.
    Read(read::ReadBenchOptions),
    /// Fetches whole objects into memory, next to hand-written code and `object_store`.
    Memory(memory::MemoryBenchOptions),
    /// Moves blobs as chunks to and from a cache, next to Bazel and to the limit set by latency.
    Chunked(chunked::ChunkedOptions),
    /// Loads the cache server by its protocols, next to other caches and to a bare program.
    Serve(serve::ServeBenchOptions),
    /// Uploads one file to S3 with each tool, plainly and with latency, and a very long file.
    Upload(upload::UploadBenchOptions),
    /// The server of `upload`, in a process of its own.
    #[command(hide = true)]
    UploadServer(upload::UploadServerOptions),
    /// Receives, hashes, writes and sends: the bare program of `serve`.
    #[command(hide = true)]
    ServeBare(serve::BareOptions),
    /// Moves one and prints its cost, in a process of its own.
    #[command(hide = true)]
    ChunkedOnce(chunked::ChunkedOnceOptions),
    /// Fetches one and prints its cost: ours, in a process of its own.
    #[command(hide = true)]
    MemoryOnce(memory::MemoryOnceOptions),
    /// Reads once and prints the cost: our reader, in a process of its own.
    #[command(hide = true)]
    ReadOnce(read::ReadOnceOptions),
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().command {
        Command::Fetch(options) => fetch::run(&options),
        Command::Buffer(options) => buffer::run(&options),
        Command::Read(options) => read::run(&options),
        Command::Memory(options) => memory::run(&options),
        Command::Chunked(options) => chunked::run(&options),
        Command::Serve(options) => serve::run(&options),
        Command::Upload(options) => upload::run(&options),
        Command::UploadServer(options) => upload::run_server(&options),
        Command::ServeBare(options) => serve::run_bare(&options),
        Command::ChunkedOnce(options) => chunked::run_once(&options),
        Command::MemoryOnce(options) => memory::run_once(&options),
        Command::ReadOnce(options) => read::run_once(&options),
    }
}
