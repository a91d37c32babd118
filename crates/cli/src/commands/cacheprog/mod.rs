//! `tidegate cacheprog`: the build cache of the `go` command, by its protocol `GOCACHEPROG`.
//!
//! The `go` command starts the program and sends requests as lines of JSON. The program answers in
//! any order. Go reads the bodies itself, from files that the program names, so every body is a file
//! for as long as the build runs.
//!
//! | file | idea |
//! |---|---|
//! | `message` | requests and responses as JSON |
//! | `input` | the requests of standard input, the bodies decoded into files |
//! | `output` | the responses on standard output |
//! | `files` | the files that Go reads |
//! | `entry` | what the cache knows of an action |
//! | `cache` | where entries and bodies are: a store, or a cache over HTTP |
//! | `serve` | requests in parallel, and the end |
//!
//! A cache that fails is a miss: the build goes on, only slower.

mod cache;
mod entry;
mod files;
mod input;
mod message;
mod output;
mod serve;

use std::path::Path;

use tidegate::{Error, ErrorKind, Operation, Result};

use self::cache::Cache;
use self::files::Files;
use crate::args::CacheprogArgs;
use crate::exit::Exit;
use crate::session::Session;

/// The subfolders of a folder.
const STORE: &str = "store";
const FILES: &str = "files";

pub(crate) async fn run(mut session: Session, args: CacheprogArgs) -> Exit {
    // Standard output belongs to the protocol.
    session.data_on_stdout = true;
    match open(&session, args).await {
        Ok((cache, files, _folder)) => serve::run(&session, cache, files).await,
        Err(error) => session.fail(&error),
    }
}

/// The cache, the files that Go reads, and the folder that ends with the process, if it is one.
async fn open(
    session: &Session,
    args: CacheprogArgs,
) -> Result<(Cache, Files, Option<tempfile::TempDir>)> {
    if args.place.contains("://") {
        let (cache, folder) = blocking(move || {
            let cache = Cache::over_http(&args.place)?;
            let folder = tempfile::Builder::new().prefix("tidegate-cacheprog-").tempdir();
            Ok((cache, folder.map_err(|error| unusable(&std::env::temp_dir(), error))?))
        })
        .await?;
        let files = Files::new(folder.path());
        return Ok((cache, files, Some(folder)));
    }
    let opened = blocking(move || {
        let root = Path::new(&args.place);
        let files = Files::new(&root.join(FILES));
        files.create().map_err(|error| unusable(root, error))?;
        files.trim();
        Ok((Cache::in_store(&root.join(STORE), args.max_size), files))
    });
    let (cache, files) = opened.await?;
    let cache = cache.unwrap_or_else(|error| {
        // Another go command may use the folder, also one that this build started.
        session.say(&format!("tidegate cacheprog: goes on with the files of the cache: {error}"));
        Cache::FilesOnly
    });
    Ok((cache, files, None))
}

fn unusable(folder: &Path, error: std::io::Error) -> Error {
    let message = "files cannot be created in it";
    let target = folder.display().to_string();
    Error::new(ErrorKind::Storage, Operation::Locate, target, message).caused_by(error)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
        let message = "the runtime is shutting down";
        let error = Error::new(ErrorKind::Cancelled, Operation::Locate, "the cache", message)
            .caused_by(error);
        Err(error)
    })
}
