//! `tidegate store purge`: removes values of a cache server by name, instance or invocation. Without
//! `--remove` it says which ones.

use std::path::Path;

use serde::Serialize;
use tidegate::{Error, ErrorKind, Operation, Result};
use tidegate_core::printable::escaped;
use tidegate_server::cache_client::CacheClientError;
use tidegate_server::serve::PurgeRequest;
use tidegate_server::store::{LocalStore, PurgeFilter, PurgeReport, PurgedValue};

use crate::args::StorePurgeArgs;
use crate::cache_url;
use crate::exit::Exit;
use crate::report;
use crate::session::Session;
use crate::size;

/// The JSON.
#[derive(Debug, Serialize)]
struct Purged<'a> {
    store: &'a str,
    #[serde(flatten)]
    report: &'a PurgeReport,
}

pub(crate) async fn run(session: Session, args: &StorePurgeArgs) -> Exit {
    match purge(args).await {
        Ok(report) => show(&session, args, &report),
        Err(error) => session.fail(&error),
    }
}

async fn purge(args: &StorePurgeArgs) -> Result<PurgeReport> {
    let filter = PurgeFilter {
        key: args.key.clone(),
        instance: args.instance.clone(),
        tenant: args.tenant.clone(),
        invocation: args.invocation.clone(),
    };
    if !args.place.contains("://") {
        let store = open(Path::new(&args.place)).await?;
        let report = store.purge(filter, args.remove).await;
        store.close().await;
        return report;
    }
    let (url, place) = (args.place.clone(), "the cache server");
    let client = tokio::task::spawn_blocking(move || cache_url::client(&url)).await;
    let client = client.unwrap_or_else(|error| {
        let message = "the runtime is shutting down";
        Err(Error::new(ErrorKind::Cancelled, Operation::Locate, place, message).caused_by(error))
    })?;
    let request = PurgeRequest { filter, remove: args.remove };
    client.purge(&request).await.map_err(|error| {
        let (kind, message, hint) = match &error {
            CacheClientError::Status(status) if matches!(status.as_u16(), 401 | 403) => (
                ErrorKind::NoAccess,
                "the server refuses to purge",
                "purging needs the token of an admin: http://any:TOKEN@HOST:PORT",
            ),
            CacheClientError::Status(status) if status.as_u16() == 409 => {
                (ErrorKind::Transport, "another purge is running", "retry when it has ended")
            }
            _ => (
                ErrorKind::Transport,
                "the server cannot be asked",
                "check that `tidegate serve` listens at this URL",
            ),
        };
        Error::new(kind, Operation::Write, place, message).caused_by(error).with_hint(hint)
    })
}

/// Opens the store of a server that does not run.
async fn open(folder: &Path) -> Result<LocalStore> {
    let target = folder.display().to_string();
    if !folder.is_dir() {
        let message = "there is no such folder";
        return Err(Error::new(ErrorKind::NotFound, Operation::Locate, target, message)
            .with_hint("for a server that runs, give its URL: http://HOST:PORT"));
    }
    LocalStore::open(folder, LocalStore::options_of_command(folder)).await
}

fn show(session: &Session, args: &StorePurgeArgs, report: &PurgeReport) -> Exit {
    if session.output.json {
        // A URL may hold a token.
        let store = if args.place.contains("://") { "" } else { &args.place };
        return session.json(&Purged { store, report });
    }
    let mut lines: Vec<String> = report.values.iter().map(line).collect();
    let more = report.matched.saturating_sub(report.values.len() as u64);
    if more > 0 {
        lines.push(format!("... and {more} more\n"));
    }
    let printed = session.print(&lines.concat());
    let found =
        format!("{} ({})", report::count(report.matched, "value"), size::human(report.bytes));
    session.say(&if report.is_removed {
        format!("Removed {found}.")
    } else {
        format!("This would remove {found}; add --remove to do it.")
    });
    printed
}

fn line(value: &PurgedValue) -> String {
    let owner = |name: &str, value: &Option<String>| match value.as_deref() {
        None | Some("") => String::new(),
        Some(text) => format!("  {name} {}", escaped(text)),
    };
    format!(
        "{} {}  {}{}{}\n",
        escaped(&value.kind),
        escaped(&value.key),
        size::human(value.size),
        owner("instance", &value.instance),
        owner("tenant", &value.tenant),
    )
}
