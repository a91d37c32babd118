//! `tidegate mv SOURCE... TARGET`: copies, and then deletes the sources.
//!
//! A source is deleted only after its copy is complete, and only if it is still what was copied.

use std::path::{Path, PathBuf};

use tidegate::remote::Version;
use tidegate::{Budget, Client, Error, ErrorKind, Location, Operation, Result};

use super::cp::{self, invalid};
use crate::args::CpArgs;
use crate::exit::Exit;
use crate::local::is_input;
use crate::put_url::PutUrl;
use crate::session::Session;

/// A source, as it is before the copy.
enum Original {
    File(PathBuf, std::fs::Metadata),
    Blob(Box<Location>, Option<Version>),
}

pub(crate) async fn run(session: Session, args: &CpArgs) -> Exit {
    let (client, originals) = match originals(&session, args).await {
        Ok(found) => found,
        Err(error) => return session.fail(&error),
    };
    let copied = cp::run(session.clone(), args).await;
    if copied != Exit::Success {
        return copied;
    }
    for original in originals {
        if let Err(error) = remove(&session, &client, original).await {
            return session.fail(&error);
        }
    }
    Exit::Success
}

async fn originals(session: &Session, args: &CpArgs) -> Result<(Client, Vec<Original>)> {
    let names = args.sources().unwrap_or_default();
    let client = args.remote.client(&names, Budget::default())?;
    let target = args.target();
    if target == Path::new("-") || target == Path::new("/dev/null") {
        return Err(invalid("the target", "it keeps nothing")
            .with_hint("use cp, or name a file, a folder or a URL"));
    }
    let mut originals = Vec::new();
    for name in names {
        if is_input(name) || PutUrl::is_one(name) {
            return Err(invalid(name, "it cannot be moved").with_hint("use cp"));
        }
        originals.push(if name.contains("://") {
            let blob = client.locate(name)?;
            blob.delete()?;
            let info = client.stat(&blob).cancel(session.cancel.clone()).await?;
            Original::Blob(Box::new(blob), info.version)
        } else {
            let path = PathBuf::from(name);
            let metadata = std::fs::symlink_metadata(&path).map_err(|error| {
                let message = "there is no such file";
                Error::new(ErrorKind::NotFound, Operation::Read, name, message).caused_by(error)
            })?;
            if !metadata.is_file() {
                return Err(invalid(name, "it is no regular file").with_hint("use cp"));
            }
            Original::File(path, metadata)
        });
    }
    Ok((client, originals))
}

async fn remove(session: &Session, client: &Client, original: Original) -> Result<()> {
    match original {
        Original::File(path, before) => {
            let shown = path.display().to_string();
            let failed = |error: std::io::Error| {
                let message = "it was copied, and cannot be deleted";
                Error::new(ErrorKind::Storage, Operation::Delete, &*shown, message).caused_by(error)
            };
            let now = std::fs::symlink_metadata(&path).map_err(failed)?;
            let is_same = now.len() == before.len()
                && now.modified().ok() == before.modified().ok()
                && now.file_type() == before.file_type();
            if !is_same {
                return Err(changed(&shown));
            }
            std::fs::remove_file(&path).map_err(failed)
        }
        Original::Blob(blob, version) => {
            let now = client.stat(&blob).cancel(session.cancel.clone()).await?;
            if now.version != version {
                return Err(changed(blob.display()));
            }
            let delete = client.delete(&blob).cancel(session.cancel.clone());
            match version {
                Some(version @ Version::Generation(_)) => delete.version(version).await,
                _ => delete.await,
            }
        }
    }
}

fn changed(shown: &str) -> Error {
    let message = "it changed after it was copied, and was not deleted";
    Error::new(ErrorKind::Changed, Operation::Delete, shown, message)
}
