//! `tidegate-bench`: measures Tidegate beside what people use today.
//!
//! What a figure is worth depends on the machine and the minute it was taken, so every
//! subcommand runs all tools in one go, from one server that it starts itself, in turns, and
//! reports ratios. Nothing here is part of what users install.

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
mod progress;
mod publish;
mod read;
mod scratch;
mod size;

use clap::{Parser, Subcommand};

/// Measures Tidegate beside its peers.
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
    /// Fills an in-memory buffer from many threads, beside Kraken's and beside a plain copy.
    Buffer(buffer::BufferOptions),
    /// Reads objects as one stream with each reader, plainly, with latency and through cuts.
    Read(read::ReadBenchOptions),
    /// Brings whole objects into memory, beside what is done by hand and by `object_store`.
    Memory(memory::MemoryBenchOptions),
    /// Moves blobs as chunks to and from a cache, beside what Bazel does and what latency allows.
    Chunked(chunked::ChunkedOptions),
    /// Moves one and prints what it took, in a process of its own.
    #[command(hide = true)]
    ChunkedOnce(chunked::ChunkedOnceOptions),
    /// Brings one and prints what it took: ours, in a process of its own.
    #[command(hide = true)]
    MemoryOnce(memory::MemoryOnceOptions),
    /// Reads once and prints what it took: our reader, in a process of its own.
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
        Command::ChunkedOnce(options) => chunked::run_once(&options),
        Command::MemoryOnce(options) => memory::run_once(&options),
        Command::ReadOnce(options) => read::run_once(&options),
    }
}
