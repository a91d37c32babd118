//! `tidegate chunk`: where files are cut, and which chunks several of them share.
//!
//! For people, the chunks of a file are written while it is still being cut. JSON is one object, so
//! it holds all of them.

mod sharing;
mod text;

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use serde::{Serialize, Serializer};
use sharing::Sharing;
use text::Listing;
use tidegate::chunked::{CutChunk, CutOptions, cut_file};
use tidegate::{Budget, Error, ErrorKind, Operation, Result};
use tidegate_core::chunking::Chunking;

use crate::args::ChunkArgs;
use crate::exit::Exit;
use crate::report;
use crate::session::Session;
use crate::size;

/// A file that was cut.
#[derive(Debug, Serialize)]
struct Cut {
    file: String,
    bytes: u64,
    #[serde(serialize_with = "chunks")]
    chunks: Vec<CutChunk>,
}

/// The JSON for one file.
#[derive(Debug, Serialize)]
struct One<'a> {
    #[serde(flatten)]
    how: &'a How,
    #[serde(flatten)]
    cut: &'a Cut,
}

/// The JSON for several.
#[derive(Debug, Serialize)]
struct Several<'a> {
    #[serde(flatten)]
    how: &'a How,
    files: &'a [Cut],
    sharing: &'a Sharing,
}

/// The chunking parameters of the files.
#[derive(Debug, Serialize)]
#[serde(tag = "function", rename_all = "lowercase")]
enum How {
    FastCdc2020 {
        digest: &'static str,
        avg: u64,
        min: u64,
        max: u64,
        normalization: u32,
        seed: u32,
    },
    RepMaxCdc {
        digest: &'static str,
        min: u64,
        horizon: u64,
    },
    Other {
        digest: &'static str,
    },
}

pub(crate) async fn run(session: Session, args: &ChunkArgs) -> Exit {
    // Checked when the command line was read.
    let chunking = args.chunking.chunking().map_err(|message| {
        Error::new(ErrorKind::Invalid, Operation::Locate, "the chunking function", message)
    });
    let outcome = match chunking {
        Ok(chunking) => cut_all(&session, args, chunking).await,
        Err(error) => Err(Stop::Failed(error)),
    };
    match outcome {
        Ok(exit) | Err(Stop::Unwritten(exit)) => exit,
        Err(Stop::Failed(error)) => session.fail(&error),
    }
}

/// Why cutting stops early.
enum Stop {
    Failed(Error),
    /// Standard output cannot be written; this has been reported.
    Unwritten(Exit),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

async fn cut_all(session: &Session, args: &ChunkArgs, chunking: Chunking) -> Result<Exit, Stop> {
    let begun = Instant::now();
    let mut cuts = Vec::new();
    for path in &args.files {
        cuts.push(cut(session, args, chunking, path).await?);
    }
    let seconds = begun.elapsed().as_secs_f64();
    let how = How::new(&chunking, args.digest.function().name());
    let exit = match (&*cuts, session.output.json) {
        ([cut], true) => session.json(&One { how: &how, cut }),
        ([_], false) => Exit::Success,
        (files, true) => {
            let sharing = Sharing::of(files);
            session.json(&Several { how: &how, files, sharing: &sharing })
        }
        (files, false) => session.print(&Sharing::of(files).text(files)),
    };
    let bytes = cuts.iter().map(|cut| cut.bytes).sum();
    session.say(&format!(
        "{} in {}, {}, {}",
        size::human(bytes),
        report::count(cuts.iter().map(|cut| cut.chunks.len() as u64).sum(), "chunk"),
        report::seconds(seconds),
        size::human_rate(report::rate(bytes, seconds)),
    ));
    Ok(exit)
}

async fn cut(
    session: &Session,
    args: &ChunkArgs,
    chunking: Chunking,
    path: &Path,
) -> Result<Cut, Stop> {
    let name = path.display().to_string();
    let (file, before) = open(path).await?;
    let file = Arc::new(file);
    let digest_function = args.digest.function();
    let options = CutOptions {
        chunking,
        digest_function,
        whole: false,
        len: before.len(),
        name: name.clone(),
        budget: Budget::default(),
        cancel: session.cancel.clone(),
    };
    let mut stream = cut_file(Arc::clone(&file), options);
    let mut cut = Cut { file: name, bytes: before.len(), chunks: Vec::new() };
    let mut listing = Listing::new(&cut.file, cut.bytes, digest_function.name(), args.files.len());
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|error| report::without_resume(error, report::ASK_AGAIN))?;
        cut.chunks.push(chunk);
        if !session.output.json && listing.add(&chunk) {
            print(session, &listing.take())?;
        }
    }
    unchanged(&file, &before, &cut.file).await?;
    if !session.output.json {
        listing.end();
        print(session, &listing.take())?;
    }
    Ok(cut)
}

fn print(session: &Session, text: &str) -> Result<(), Stop> {
    match session.print(text) {
        Exit::Success => Ok(()),
        exit => Err(Stop::Unwritten(exit)),
    }
}

/// Opens a file that has a length.
async fn open(path: &Path) -> Result<(File, Metadata)> {
    let path = path.to_owned();
    let name = path.display().to_string();
    let opened = blocking(move || {
        // Opening any other kind of file could wait for ever, for example a pipe.
        let metadata = std::fs::metadata(&path)?;
        if metadata.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        if !metadata.is_file() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let file = File::open(&path)?;
        let metadata = file.metadata()?;
        let is_measured = is_measured(&file, metadata.len());
        Ok((file, metadata, is_measured))
    });
    let shown = &*name;
    let (file, metadata, is_measured) = opened.await.map_err(|error| {
        let (kind, message) = match error.kind() {
            io::ErrorKind::NotFound => (ErrorKind::NotFound, "there is no such file"),
            io::ErrorKind::PermissionDenied => (ErrorKind::NoAccess, "it may not be read"),
            io::ErrorKind::IsADirectory => (ErrorKind::Invalid, "expected a file"),
            io::ErrorKind::InvalidInput => {
                let message = "expected a regular file, whose bytes stay as they are";
                return Error::new(ErrorKind::Invalid, Operation::Read, shown, message)
                    .with_hint("write it to a file first");
            }
            _ => (ErrorKind::Storage, "it cannot be opened"),
        };
        let hint = match kind {
            ErrorKind::NoAccess => "check the file's permissions",
            _ => "check the path",
        };
        Error::new(kind, Operation::Read, shown, message).caused_by(error).with_hint(hint)
    })?;
    if is_measured {
        return Ok((file, metadata));
    }
    let message = "its length is not what the system says, as of files of the kernel, or it grows";
    Err(Error::new(ErrorKind::Invalid, Operation::Read, name, message)
        .with_hint("write it to a file first"))
}

/// Whether the file's last byte is where its length says, with none behind it. If the file cannot
/// be read, the read itself reports the error.
fn is_measured(file: &File, len: u64) -> bool {
    let has_byte = |at| file.read_at(&mut [0], at).ok().map(|count| count > 0);
    len.checked_sub(1).is_none_or(|last| has_byte(last) != Some(false))
        && has_byte(len) != Some(true)
}

/// Checks that the file has not changed since it was opened.
async fn unchanged(file: &Arc<File>, before: &Metadata, name: &str) -> Result<()> {
    let file = Arc::clone(file);
    let after = blocking(move || file.metadata()).await;
    let stamp =
        |of: &Metadata| (of.len(), of.mtime(), of.mtime_nsec(), of.ctime(), of.ctime_nsec());
    let same = |after: &Metadata| stamp(after) == stamp(before);
    if after.is_ok_and(|after| same(&after)) {
        return Ok(());
    }
    let message = "expected it to stay the same while it was cut, but it was written to";
    Err(Error::new(ErrorKind::Changed, Operation::Read, name, message)
        .with_hint("run the same command again when nothing writes to the file"))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

impl How {
    fn new(chunking: &Chunking, digest: &'static str) -> Self {
        match chunking {
            Chunking::FastCdc2020(params) => Self::FastCdc2020 {
                digest,
                avg: params.avg_bytes(),
                min: params.min_bytes(),
                max: params.max_bytes(),
                normalization: params.normalization(),
                seed: params.seed(),
            },
            Chunking::RepMaxCdc(params) => {
                Self::RepMaxCdc { digest, min: params.min_bytes(), horizon: params.horizon_bytes() }
            }
            _ => Self::Other { digest },
        }
    }
}

/// Each chunk as `offset`, `length` and `digest`, the hash in hexadecimal digits.
fn chunks<S: Serializer>(chunks: &[CutChunk], serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Row {
        offset: u64,
        length: u64,
        digest: String,
    }
    serializer.collect_seq(chunks.iter().map(|chunk| Row {
        offset: chunk.offset,
        length: chunk.digest.len,
        digest: chunk.digest.checksum().hex(),
    }))
}
