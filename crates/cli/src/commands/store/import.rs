//! `tidegate store import`: the folder of a bazel-remote becomes part of a store.

use serde::Serialize;
use tidegate::{Error, ErrorKind, Operation, Result};
use tidegate_server::import::{ImportCounts, import_bazel_remote};
use tidegate_server::store::LocalStore;

use crate::args::StoreImportArgs;
use crate::exit::Exit;
use crate::report;
use crate::session::Session;
use crate::size;

/// The JSON.
#[derive(Debug, Serialize)]
struct Imported {
    blobs: u64,
    bytes: u64,
    results: u64,
    incomplete: u64,
    skipped: u64,
}

pub(crate) async fn run(session: Session, args: &StoreImportArgs) -> Exit {
    match import(&session, args).await {
        Ok(counts) => show(&session, &counts),
        Err(error) => session.fail(&error),
    }
}

async fn import(session: &Session, args: &StoreImportArgs) -> Result<ImportCounts> {
    let mut options = LocalStore::options_of_command(&args.folder);
    if let Some(bytes_max) = args.max_size {
        options.bytes_max = bytes_max;
        options.keeps_limit = false;
    }
    let store = LocalStore::open(&args.folder, options).await?;
    let importing = import_bazel_remote(&args.source, &store, &args.instance, |_| {});
    let imported = tokio::select! {
        imported = importing => imported,
        () = session.cancel.cancelled() => {
            let target = args.source.display().to_string();
            let message = "the import was interrupted";
            Err(Error::new(ErrorKind::Cancelled, Operation::Read, target, message)
                .with_hint("run the same command again; it continues where it stopped"))
        }
    };
    store.close().await;
    imported
}

fn show(session: &Session, counts: &ImportCounts) -> Exit {
    let ImportCounts { blobs, bytes, results, incomplete, skipped } = *counts;
    if session.output.json {
        return session.json(&Imported { blobs, bytes, results, incomplete, skipped });
    }
    session.say(&format!(
        "Imported {} ({}) and {}. Left out: {} that {} a blob, {} that {} damaged or unknown.",
        report::count(blobs, "blob"),
        size::human(bytes),
        report::count(results, "result"),
        report::count(incomplete, "result"),
        if incomplete == 1 { "lacks" } else { "lack" },
        report::count(skipped, "file"),
        if skipped == 1 { "is" } else { "are" },
    ));
    Exit::Success
}
