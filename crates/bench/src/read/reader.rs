//! The readers: the usual clients that read an object as one stream, and ours with several buffers.

use clap::ValueEnum;
use serde::Serialize;

/// One row of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Reader {
    /// Our channel, frame by frame, verified: the stream without a copy.
    Frames,
    /// The same, without computing a checksum.
    FramesUnverified,
    /// The same, on a runtime with a thread for each processor.
    FramesThreads,
    /// Our channel into a buffer of 64 KiB, verified.
    Buffer64k,
    /// Our channel into a buffer of 1 MiB, verified.
    Buffer1m,
    /// Our channel into a buffer of 4 MiB, verified.
    Buffer4m,
    /// Our blocking channel into a buffer of 1 MiB, verified.
    Blocking1m,
    /// curl to `/dev/null`.
    Curl,
    /// google-cloud-java 2.15, one request a buffer.
    JavaV1,
    /// google-cloud-java 2.75.
    JavaCurrent,
    /// The Go client, `NewReader`.
    Go,
    /// The crate `object_store`, `get(…).into_stream()`.
    ObjectStore,
}

/// The origin of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Origin {
    Ours,
    Curl,
    Java,
    Go,
    ObjectStore,
}

impl Reader {
    pub(crate) fn origin(self) -> Origin {
        match self {
            Self::Frames
            | Self::FramesUnverified
            | Self::FramesThreads
            | Self::Buffer64k
            | Self::Buffer1m
            | Self::Buffer4m
            | Self::Blocking1m => Origin::Ours,
            Self::Curl => Origin::Curl,
            Self::JavaV1 | Self::JavaCurrent => Origin::Java,
            Self::Go => Origin::Go,
            Self::ObjectStore => Origin::ObjectStore,
        }
    }

    /// Its name in tables.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Frames => "tidegate, stream",
            Self::FramesUnverified => "tidegate, stream, not verified",
            Self::FramesThreads => "tidegate, stream, threads",
            Self::Buffer64k => "tidegate, 64 KiB buffer",
            Self::Buffer1m => "tidegate, 1 MiB buffer",
            Self::Buffer4m => "tidegate, 4 MiB buffer",
            Self::Blocking1m => "tidegate, blocking, 1 MiB buffer",
            Self::Curl => "curl",
            Self::JavaV1 => "google-cloud-java 2.15",
            Self::JavaCurrent => "google-cloud-java 2.75",
            Self::Go => "Go client",
            Self::ObjectStore => "object_store 0.14",
        }
    }

    /// The arguments for our own process to read this way.
    pub(crate) fn own_arguments(self) -> &'static [&'static str] {
        match self {
            Self::FramesUnverified => &["--unverified"],
            Self::FramesThreads => &["--threads"],
            Self::Buffer64k => &["--face", "buffer", "--buffer-bytes", "65536"],
            Self::Buffer1m => &["--face", "buffer", "--buffer-bytes", "1048576"],
            Self::Buffer4m => &["--face", "buffer", "--buffer-bytes", "4194304"],
            Self::Blocking1m => &["--face", "blocking", "--buffer-bytes", "1048576"],
            _ => &[],
        }
    }
}
