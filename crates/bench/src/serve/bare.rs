//! The bare program, and its load: it receives, hashes, writes and sends over plain sockets, and does
//! nothing else. There is no name, no index, no checksum and no framing but 16 bytes.
//!
//! At level `power`, one sync serves all writes that came before it.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use rustix::fs::{FallocateFlags, fallocate};
use tidegate_core::checksum::{ChecksumAlgorithm, Checksummer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::blobs::{BATCH, SMALL_BYTES, noise};
use super::column::Column;
use super::workers::Done;

/// The bare program's settings.
#[derive(Debug, Args)]
pub(crate) struct BareOptions {
    #[arg(long)]
    listen: SocketAddr,
    #[arg(long)]
    level: BareLevel,
    /// The file that is written over and over
    #[arg(long)]
    file: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum BareLevel {
    Process,
    Power,
}

/// The file is written again from its start at this length.
const FILE_BYTES: u64 = 4 << 30;
const PIECE_BYTES: usize = 256 << 10;
const HEAD_BYTES: usize = 16;

/// What a request asks for.
#[derive(Clone, Copy, Debug)]
struct Ask {
    /// Bytes that follow.
    received: u32,
    /// Bytes of one hash; 0 for none.
    hashed: u32,
    /// 1 if they are written.
    written: u32,
    /// Bytes of the response.
    sent: u32,
}

impl Ask {
    fn to_bytes(self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        let numbers = [self.received, self.hashed, self.written, self.sent];
        for (place, number) in bytes.chunks_exact_mut(4).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: [u8; HEAD_BYTES]) -> Self {
        let number = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        Self { received: number(0), hashed: number(4), written: number(8), sent: number(12) }
    }

    /// What a column's call costs, with the lengths of the messages of gRPC.
    fn of(column: Column, large_bytes: u64) -> Self {
        let large = u32::try_from(large_bytes).unwrap_or(u32::MAX);
        let small = u32::try_from(SMALL_BYTES).unwrap_or(u32::MAX);
        let batch = u32::try_from(BATCH).unwrap_or(u32::MAX);
        // A digest takes 75 bytes, a name 120.
        let (received, hashed, written, sent) = match column {
            Column::Write1 | Column::Write8 => (large, large, 1, 8),
            Column::Read1 | Column::Read8 => (120, 0, 0, large),
            Column::SmallWrite8 | Column::SmallWrite64 => (small, small, 1, 8),
            Column::SmallRead8 | Column::SmallRead64 => (120, 0, 0, small),
            Column::BatchUpdate => (batch * small, small, 1, batch * 75),
            Column::BatchRead => (batch * 75, 0, 0, batch * (small + 75)),
            Column::FindMissing => (71_000, 0, 0, 35_500),
            Column::UpdateResult => (250, 0, 1, 120),
            Column::GetResult => (75, 0, 0, 120),
        };
        Self { received, hashed, written, sent }
    }
}

struct BareServer {
    file: File,
    level: BareLevel,
    end: AtomicU64,
    /// Writes that have ended.
    written: AtomicU64,
    /// Writes that are synced.
    synced: Mutex<u64>,
}

/// Serves until it is killed.
pub(crate) fn run_bare(options: &BareOptions) -> Result<()> {
    let mut open = File::options();
    let file = open.read(true).write(true).create(true).truncate(true).open(&options.file);
    let server = Arc::new(BareServer {
        file: file.with_context(|| format!("creating {}", options.file.display()))?,
        level: options.level,
        end: AtomicU64::new(0),
        written: AtomicU64::new(0),
        synced: Mutex::new(0),
    });
    // Blocks are allocated before they are written, as a store with a limit does.
    fallocate(&server.file, FallocateFlags::empty(), 0, FILE_BYTES).context("allocating")?;
    let listener = TcpListener::bind(options.listen).context("listening")?;
    for socket in listener.incoming() {
        let (server, socket) = (Arc::clone(&server), socket.context("accepting")?);
        // A client that goes away ends its thread with an error.
        std::thread::spawn(move || server.serve(socket));
    }
    Ok(())
}

impl BareServer {
    fn serve(&self, mut socket: TcpStream) -> Result<()> {
        socket.set_nodelay(true)?;
        let mut buffer = vec![0; PIECE_BYTES];
        let mut head = [0; HEAD_BYTES];
        loop {
            socket.read_exact(&mut head)?;
            let ask = Ask::from_bytes(head);
            self.receive(&mut socket, ask, &mut buffer)?;
            self.send(&mut socket, ask, &mut buffer)?;
        }
    }

    fn receive(&self, socket: &mut impl Read, ask: Ask, buffer: &mut [u8]) -> Result<()> {
        let len = u64::from(ask.received);
        let start = self.end.fetch_add(len, Ordering::Relaxed) % FILE_BYTES;
        let (mut received, mut in_hash) = (0, 0);
        let mut hash = Checksummer::new(ChecksumAlgorithm::Sha256)?;
        while received < len {
            let piece = usize::try_from((len - received).min(PIECE_BYTES as u64))?;
            // What has arrived is hashed at once, unless it is part of a short blob.
            let got = if piece <= SMALL_BYTES || ask.hashed < ask.received {
                socket.read_exact(&mut buffer[..piece])?;
                piece
            } else {
                socket.read(&mut buffer[..piece])?
            };
            anyhow::ensure!(got > 0, "the client is gone");
            let mut rest = &buffer[..got];
            while ask.hashed > 0 && !rest.is_empty() {
                let part = rest.len().min(ask.hashed as usize - in_hash);
                hash.update(&rest[..part]);
                in_hash += part;
                rest = &rest[part..];
                if in_hash == ask.hashed as usize {
                    hash = Checksummer::new(ChecksumAlgorithm::Sha256)?;
                    in_hash = 0;
                }
            }
            if ask.written == 1 {
                self.file.write_all_at(&buffer[..got], start + received)?;
            }
            received += got as u64;
        }
        if ask.written == 1 && self.level == BareLevel::Power {
            self.sync()?;
        }
        Ok(())
    }

    /// Returns when a sync has begun after the caller's write, and has ended.
    fn sync(&self) -> Result<()> {
        let ticket = self.written.fetch_add(1, Ordering::AcqRel) + 1;
        let mut synced = self.synced.lock().unwrap_or_else(PoisonError::into_inner);
        if *synced < ticket {
            let upto = self.written.load(Ordering::Acquire);
            self.file.sync_data()?;
            *synced = upto;
        }
        Ok(())
    }

    fn send(&self, socket: &mut impl Write, ask: Ask, buffer: &mut [u8]) -> Result<()> {
        let mut sent = 0;
        while sent < u64::from(ask.sent) {
            let piece = usize::try_from((u64::from(ask.sent) - sent).min(PIECE_BYTES as u64))?;
            if ask.sent > 1024 {
                self.file.read_at(&mut buffer[..piece], sent)?;
            }
            socket.write_all(&buffer[..piece])?;
            sent += piece as u64;
        }
        Ok(())
    }
}

/// Connections to the bare program; a call takes one.
#[derive(Clone)]
pub(crate) struct BareLoad {
    address: Arc<str>,
    idle: Arc<Mutex<Vec<tokio::net::TcpStream>>>,
    noise: bytes::Bytes,
}

impl BareLoad {
    pub(crate) async fn connect(address: &str) -> Result<Self> {
        tokio::net::TcpStream::connect(address).await.context("connecting")?;
        let noise = noise(1 << 20);
        Ok(Self { address: address.into(), idle: Arc::default(), noise })
    }

    pub(crate) async fn call(self, column: Column, large_bytes: u64) -> Result<Done> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut socket = if let Some(socket) = idle {
            socket
        } else {
            let socket = tokio::net::TcpStream::connect(&*self.address).await?;
            socket.set_nodelay(true)?;
            socket
        };
        let ask = Ask::of(column, large_bytes);
        socket.write_all(&ask.to_bytes()).await?;
        let mut left = ask.received as usize;
        while left > 0 {
            let piece = left.min(self.noise.len());
            socket.write_all(&self.noise[..piece]).await?;
            left -= piece;
        }
        let mut buffer = vec![0; PIECE_BYTES.min(ask.sent as usize)];
        let mut left = ask.sent as usize;
        while left > 0 {
            let room = left.min(buffer.len());
            let got = socket.read(&mut buffer[..room]).await?;
            anyhow::ensure!(got > 0, "the bare program is gone");
            left -= got;
        }
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(socket);
        let operations = match column {
            Column::BatchUpdate | Column::BatchRead => BATCH as u64,
            _ => 1,
        };
        Ok(Done { operations, bytes: u64::from(ask.received.max(ask.sent)) })
    }
}
