//! Options that apply only if the source or the target is a cache of chunks.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use tidegate::ChunkPolicy;
use tidegate_core::digest::DigestFunction;

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Cache")]
pub(crate) struct CacheArgs {
    /// Move blobs to and from a grpc:// cache as chunks, without the chunks that the other side has:
    /// auto if the cache supports it, always, or never
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) chunking: ChunkingArg,
    /// Take chunks from this file where it has them, such as an older version of the blob; may be
    /// repeated. The target itself is one already. An index is kept beside it (.NAME.tidegate-chunks)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) seed: Vec<PathBuf>,
    /// Keep such an index beside each fetched file, too: as a seed, that file is not cut again
    #[arg(long)]
    pub(crate) keep_index: bool,
    /// Ask the cache once more at the end whether it has what was put: some caches lose what they
    /// acknowledged
    #[arg(long)]
    pub(crate) confirm: bool,
    /// The hash function that names what is put [default: as the cache prefers]
    #[arg(long, value_name = "FUNCTION")]
    pub(crate) digest: Option<DigestArg>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ChunkingArg {
    // Doc comments here would make `--help` of the whole command twice as long.
    Auto,
    Always,
    Never,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DigestArg {
    Sha256,
    Blake3,
}

impl ChunkingArg {
    /// The engine's equivalent.
    pub(crate) fn policy(self) -> ChunkPolicy {
        match self {
            Self::Auto => ChunkPolicy::Auto,
            Self::Always => ChunkPolicy::Required,
            Self::Never => ChunkPolicy::Never,
        }
    }
}

impl CacheArgs {
    /// The hash function, if one is given.
    pub(crate) fn function(&self) -> Option<DigestFunction> {
        self.digest.map(|digest| match digest {
            DigestArg::Sha256 => DigestFunction::Sha256,
            DigestArg::Blake3 => DigestFunction::Blake3,
        })
    }
}
