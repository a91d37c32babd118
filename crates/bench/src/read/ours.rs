//! Our reader, in a process of its own: `tidegate-bench read-once`. Its processor time and memory
//! are then those of the read alone.

use std::io::{self, Read as _, Write as _};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use tidegate::read::{ReadChannel, ReadTotals, Verify};
use tidegate::remote::RemoteOptions;
use tidegate::{Client, ClientOptions, Location, ReadBuilder};
use tidegate_core::range::ByteRange;
use tokio::io::AsyncReadExt as _;

/// How the channel is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Face {
    /// Frame by frame, in the transport's own memory.
    Frames,
    /// Into a buffer of the caller's.
    Buffer,
    /// Into a buffer of the caller's, on a thread without a runtime.
    Blocking,
}

/// What to read, and how.
#[derive(Debug, Args)]
pub(crate) struct ReadOnceOptions {
    /// The object
    url: String,
    /// Base address of the server
    #[arg(long)]
    endpoint: String,
    /// How to read it
    #[arg(long, value_enum, default_value = "frames")]
    face: Face,
    /// Length of the caller's buffer
    #[arg(long, default_value_t = 1 << 20)]
    buffer_bytes: usize,
    /// Compute and compare no checksum
    #[arg(long)]
    unverified: bool,
    /// As many threads as there are processors run the tasks, not one
    #[arg(long)]
    threads: bool,
    /// Number of reads, in sequence, on one connection if it stays open
    #[arg(long, default_value_t = 1)]
    times: u32,
    /// In ranges of this length, one after the other
    #[arg(long)]
    range_bytes: Option<u64>,
}

/// The cost of one read; a line of JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ReadOnce {
    /// From opening the channel to its end.
    pub(crate) wall_s: f64,
    /// From opening the channel to the head of the response.
    pub(crate) head_s: f64,
    /// From opening the channel to the first bytes of the body.
    pub(crate) first_byte_s: f64,
    pub(crate) bytes: u64,
    pub(crate) requests: u64,
    /// Whether a checksum was compared.
    pub(crate) verified: bool,
}

/// Reads, and prints a line for each time.
pub(crate) fn run_once(options: &ReadOnceOptions) -> Result<()> {
    let mut runtime = if options.threads {
        tokio::runtime::Builder::new_multi_thread()
    } else {
        tokio::runtime::Builder::new_current_thread()
    };
    let runtime = runtime.enable_all().build().context("starting a runtime")?;
    let client = options.client();
    let location = client.locate(&options.url)?;
    // Made once: touching it for the first time is not part of a read.
    let mut buffer = vec![1; options.buffer_bytes];
    for _ in 0..options.times {
        let took = match options.face {
            Face::Blocking => options.read_blocking(&client, &location, &mut buffer)?,
            _ => runtime.block_on(options.read(&client, &location, &mut buffer))?,
        };
        let line = serde_json::to_string(&took)? + "\n";
        io::stdout().write_all(line.as_bytes()).context("printing what it took")?;
    }
    Ok(())
}

impl ReadOnceOptions {
    fn client(&self) -> Client {
        let remote = RemoteOptions {
            endpoint: Some(self.endpoint.clone()),
            anonymous: true,
            ..RemoteOptions::default()
        };
        Client::new(ClientOptions::default().remote(remote))
    }

    fn reading(&self, client: &Client, location: &Location, range: ByteRange) -> ReadBuilder {
        let verify = if self.unverified { Verify::Off } else { Verify::Stored };
        client.read(location).range(range).verify(verify)
    }

    /// The whole object, or range by range until one is not full.
    async fn read(
        &self,
        client: &Client,
        location: &Location,
        buffer: &mut [u8],
    ) -> Result<ReadOnce> {
        let started = Instant::now();
        let mut took = ReadOnce::default();
        let mut offset = 0;
        loop {
            let range = match self.range_bytes {
                Some(len) => ByteRange::Bounded(offset..offset + len),
                None => ByteRange::All,
            };
            let mut channel = self.reading(client, location, range).open()?;
            match self.face {
                Face::Frames => take_frames(&mut channel, &mut took, started).await?,
                _ => take_buffers(&mut channel, buffer, &mut took, started).await?,
            }
            took.requests += channel.totals().requests;
            if took.head_s == 0.0 {
                took.head_s = took.first_byte_s - between_head_and_body_s(&channel.totals());
            }
            took.verified = channel.verified().is_verified();
            let Some(len) = self.range_bytes else { break };
            offset += len;
            if channel.len_bytes().is_none_or(|end| offset >= end) {
                break;
            }
        }
        took.wall_s = started.elapsed().as_secs_f64();
        Ok(took)
    }

    fn read_blocking(
        &self,
        client: &Client,
        location: &Location,
        buffer: &mut [u8],
    ) -> Result<ReadOnce> {
        ensure!(self.range_bytes.is_none(), "ranges are read by the other faces");
        let started = Instant::now();
        let mut took = ReadOnce::default();
        let mut channel = self.reading(client, location, ByteRange::All).open_blocking()?;
        loop {
            let count = channel.read(buffer)?;
            if count == 0 {
                break;
            }
            took.count(count, started);
        }
        took.requests = channel.totals().requests;
        took.head_s = took.first_byte_s - between_head_and_body_s(&channel.totals());
        took.verified = channel.verified().is_verified();
        took.wall_s = started.elapsed().as_secs_f64();
        Ok(took)
    }
}

/// Time between head and body, from the channel's counters, which start at its first request.
fn between_head_and_body_s(totals: &ReadTotals) -> f64 {
    let both = totals.first_byte.zip(totals.first_answer);
    both.map_or(0.0, |(body, head)| body.saturating_sub(head).as_secs_f64())
}

async fn take_frames(
    channel: &mut ReadChannel,
    took: &mut ReadOnce,
    started: Instant,
) -> Result<()> {
    while let Some(frame) = channel.next().await? {
        took.count(frame.len(), started);
    }
    Ok(())
}

async fn take_buffers(
    channel: &mut ReadChannel,
    buffer: &mut [u8],
    took: &mut ReadOnce,
    started: Instant,
) -> Result<()> {
    loop {
        let count = channel.read(buffer).await?;
        if count == 0 {
            return Ok(());
        }
        took.count(count, started);
    }
}

impl ReadOnce {
    fn count(&mut self, bytes: usize, started: Instant) {
        if self.bytes == 0 {
            self.first_byte_s = started.elapsed().as_secs_f64();
        }
        self.bytes += bytes as u64;
    }
}

#[cfg(test)]
mod tests {
    use tidegate_testkit::{Blob, Fault, Flavour, Rule, Server, ServerOptions, pseudo_random};

    use super::*;

    const MIB: u64 = 1 << 20;

    fn options(server: &Server) -> ReadOnceOptions {
        ReadOnceOptions {
            url: "gs://bench/cut".into(),
            endpoint: server.endpoint(),
            face: Face::Frames,
            buffer_bytes: 1000,
            unverified: false,
            threads: false,
            times: 1,
            range_bytes: None,
        }
    }

    async fn read(options: ReadOnceOptions) -> ReadOnce {
        let client = options.client();
        let location = client.locate(&options.url).unwrap();
        options.read(&client, &location, &mut vec![0; options.buffer_bytes]).await.unwrap()
    }

    #[test]
    fn cuts_and_ranges_take_the_same_requests_and_give_the_same_bytes() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let server = Server::start(ServerOptions::of(Flavour::Gcs)).await.unwrap();
            server.put("/bench/cut", Blob::new(pseudo_random(3 << 20, 1)));
            let ranges = ReadOnceOptions { range_bytes: Some(MIB), ..options(&server) };
            let alone = read(ranges).await;
            server.script().push(Rule::new(Fault::CutAfter(MIB)).always());
            let frames = read(options(&server)).await;
            let buffer = read(ReadOnceOptions { face: Face::Buffer, ..options(&server) }).await;
            for took in [alone, frames, buffer] {
                assert_eq!((took.requests, took.bytes), (3, 3 * MIB), "{took:?}");
                assert!(took.head_s > 0.0 && took.head_s <= took.first_byte_s, "{took:?}");
                assert!(took.first_byte_s > 0.0 && took.first_byte_s < took.wall_s, "{took:?}");
            }
            assert!(frames.verified && buffer.verified && !alone.verified);
        });
    }
}
