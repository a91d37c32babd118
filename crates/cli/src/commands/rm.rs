//! `tidegate rm URL...`: deletes blobs.

use serde::Serialize;
use tidegate::{Budget, Client, Error, Location, Result};

use super::cp::invalid;
use crate::args::RmArgs;
use crate::exit::Exit;
use crate::redact;
use crate::report::{self, Failure, count};
use crate::session::Session;

pub(crate) async fn run(session: Session, args: &RmArgs) -> Exit {
    let (client, blobs) = match plan(args) {
        Ok(planned) => planned,
        Err(error) => return session.fail(&error),
    };
    let mut removed = Vec::new();
    let mut first = None;
    for blob in &blobs {
        let mut delete = client.delete(blob).cancel(session.cancel.clone());
        if let Some(version) = args.version.version() {
            delete = delete.version(version);
        }
        match delete.await.map_err(|error| report::without_resume(error, report::ASK_AGAIN)) {
            Ok(()) => removed.push(blob.display().to_owned()),
            Err(error) => {
                session.console.line(&Failure::new(&error).text());
                first.get_or_insert(error);
            }
        }
    }
    end(&session, &removed, first.as_ref())
}

/// The JSON.
#[derive(Debug, Serialize)]
struct Removed<'a> {
    removed: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Failure>,
}

fn end(session: &Session, removed: &[String], first: Option<&Error>) -> Exit {
    let end = first.map_or(Exit::Success, Exit::from);
    if session.output.json {
        let printed = session.json(&Removed { removed, error: first.map(Failure::new) });
        return if end == Exit::Success { printed } else { end };
    }
    session.say(&format!("deleted {}", count(removed.len() as u64, "blob")));
    end
}

fn plan(args: &RmArgs) -> Result<(Client, Vec<Location>)> {
    let names: Vec<&str> = args.blobs.iter().map(String::as_str).collect();
    if names.len() > 1 && args.version.is_given() {
        return Err(invalid("a version", "it is of one blob, but there are several"));
    }
    let client = args.remote.client(&names, Budget::default())?;
    let locate = |name: &&str| {
        if !name.contains("://") {
            return Err(invalid(name, "it is a local file").with_hint("delete it with rm"));
        }
        if name.ends_with('/') {
            return Err(invalid(&redact::url(name), "it is no blob")
                .with_hint("name each blob; whole folders are not deleted yet"));
        }
        let blob = client.locate(name)?;
        blob.delete()?;
        if let Some(version) = args.version.version() {
            blob.remote.check_version(&version)?;
        }
        Ok(blob)
    };
    let blobs = names.iter().map(locate).collect::<Result<Vec<_>>>()?;
    Ok((client, blobs))
}
