//! Options for shards, limits, checksums and the target file.

use std::sync::Arc;

use clap::{Args, ValueEnum};
use tidegate::{Budget, BudgetOptions, DownloadBuilder, Durability, Result, UploadBuilder};
use tidegate_core::{Checksum, ChecksumAlgorithm};

use super::UrlArgs;
use crate::config::Settings;
use crate::size;

/// A shard smaller than a page is mostly overhead.
const SHARD_BYTES_MIN: u64 = 4 << 10;
/// A larger shard would be too much to restart.
const SHARD_BYTES_MAX: u64 = 64 << 30;
/// One large read for each of a few connections.
const MEMORY_BYTES_MIN: u64 = 1 << 20;
const MEMORY_BYTES_MAX: u64 = 1 << 40;

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Transfer")]
pub(crate) struct TransferArgs {
    /// Shards of one blob in flight; 1 fetches it with one request [default: 32; of chunks as many
    /// as are measured to be worth it]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) window: Option<u32>,
    /// Size of each shard [default: planned from the blob's size, 8MiB to 64MiB]
    #[arg(long, value_name = "SIZE", value_parser = shard_size)]
    pub(crate) shard_size: Option<u64>,
    /// Requests in flight over all blobs
    #[arg(long, value_name = "N", default_value_t = 64,
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) requests: u32,
    /// Bytes held in memory over all blobs
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = memory_size)]
    pub(crate) memory: u64,
    /// The SHA-256 that the blob must have: HEX, or sha256:HEX
    #[arg(long, value_name = "HEX", value_parser = sha256)]
    pub(crate) sha256: Option<Checksum>,
    /// The MD5 that the blob must have: HEX, or md5:HEX
    #[arg(long, value_name = "HEX", value_parser = md5)]
    pub(crate) md5: Option<Checksum>,
    /// The BLAKE3 hash that the blob must have: HEX, or blake3:HEX
    #[arg(long, value_name = "HEX", value_parser = blake3)]
    pub(crate) blake3: Option<Checksum>,
    /// Write binary data to a terminal, which is refused otherwise
    #[arg(long)]
    pub(crate) force: bool,
    /// What to compare if no checksum is given: what the server stores, or also an entity tag that
    /// is an MD5, as S3 makes it without encryption keys
    #[arg(long, value_name = "WHAT", default_value = "stored")]
    pub(crate) verify: VerifyArg,
    /// The settings by URL, if there is a configuration file.
    #[arg(skip)]
    pub(crate) settings: Option<Arc<Settings>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum VerifyArg {
    Stored,
    Etag,
}

/// What matters only where there is a file at the end.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "File")]
pub(crate) struct FileArgs {
    /// What must be on the disk at the end: nothing, the file's bytes, or in full its name too
    #[arg(long, value_name = "LEVEL", default_value = "file")]
    pub(crate) durability: DurabilityArg,
    /// Begin anew where an earlier run of the same command was interrupted
    #[arg(long)]
    pub(crate) no_resume: bool,
    /// Do not fetch a blob whose target exists, whatever it holds; sends no request
    #[arg(long, conflicts_with = "if_changed")]
    pub(crate) skip_existing: bool,
    /// Do not fetch a blob whose target already is that blob: it was copied from the same version
    /// and not changed since then, or it has the checksum that the remote provides or that is given
    #[arg(long)]
    pub(crate) if_changed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DurabilityArg {
    // Doc comments here would make `--help` of the whole command twice as long.
    None,
    File,
    Full,
}

impl TransferArgs {
    /// The download of this URL with these options, and with those of the configuration file.
    pub(crate) fn download_of(
        &self,
        url: &str,
        download: DownloadBuilder,
    ) -> Result<DownloadBuilder> {
        Ok(match self.by_url(url)? {
            Some(args) => args.transfer.download(download).retry(args.remote.retry()),
            None => self.download(download),
        })
    }

    /// The upload to this URL with these options, and with those of the configuration file.
    pub(crate) fn upload_to(&self, url: &str, upload: UploadBuilder) -> Result<UploadBuilder> {
        Ok(match self.by_url(url)? {
            Some(args) => args.transfer.upload(upload).retry(args.remote.retry()),
            None => self.upload(upload),
        })
    }

    fn by_url(&self, url: &str) -> Result<Option<Arc<UrlArgs>>> {
        self.settings.as_ref().map_or(Ok(None), |settings| settings.args(url))
    }

    /// The download with these options.
    fn download(&self, mut download: DownloadBuilder) -> DownloadBuilder {
        if let Some(window) = self.window {
            download = download.window(window);
        }
        if let Some(bytes) = self.shard_size {
            download = download.shard_bytes_min(bytes).shard_bytes_max(bytes);
        }
        download = download.entity_tag(self.verify == VerifyArg::Etag);
        self.expected().into_iter().fold(download, DownloadBuilder::expect)
    }

    /// The upload with these options.
    fn upload(&self, upload: UploadBuilder) -> UploadBuilder {
        match self.window {
            Some(window) => upload.window(window),
            None => upload,
        }
    }

    /// The budget that all blobs of one command share.
    pub(crate) fn budget(&self) -> Budget {
        Budget::new(BudgetOptions { requests: self.requests, bytes: self.memory })
    }

    /// Checksums from the command line.
    pub(crate) fn expected(&self) -> Vec<Checksum> {
        [&self.sha256, &self.md5, &self.blake3].into_iter().flatten().cloned().collect()
    }
}

impl FileArgs {
    /// The download with these options.
    pub(crate) fn download(&self, download: DownloadBuilder) -> DownloadBuilder {
        let durability = match self.durability {
            DurabilityArg::None => Durability::None,
            DurabilityArg::File => Durability::File,
            DurabilityArg::Full => Durability::Full,
        };
        download.resume(!self.no_resume).durability(durability)
    }
}

fn shard_size(text: &str) -> std::result::Result<u64, String> {
    size::parse_within(text, SHARD_BYTES_MIN, SHARD_BYTES_MAX)
}

fn memory_size(text: &str) -> std::result::Result<u64, String> {
    size::parse_within(text, MEMORY_BYTES_MIN, MEMORY_BYTES_MAX)
}

fn sha256(text: &str) -> std::result::Result<Checksum, String> {
    hex(ChecksumAlgorithm::Sha256, text)
}

fn md5(text: &str) -> std::result::Result<Checksum, String> {
    hex(ChecksumAlgorithm::Md5, text)
}

fn blake3(text: &str) -> std::result::Result<Checksum, String> {
    hex(ChecksumAlgorithm::Blake3, text)
}

/// Reads `HEX`, or `sha256:HEX` as container tools write it.
fn hex(algorithm: ChecksumAlgorithm, text: &str) -> std::result::Result<Checksum, String> {
    let (digits, name) = (algorithm.len_bytes() * 2, algorithm.name());
    let value = match text.split_once(':') {
        Some((prefix, value)) if prefix.eq_ignore_ascii_case(name) => value,
        _ => text,
    };
    Checksum::from_hex(algorithm, value)
        .ok()
        .ok_or_else(|| format!("expected {digits} hexadecimal digits, or {name}: and the digits"))
}
