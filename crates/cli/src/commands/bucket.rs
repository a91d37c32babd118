//! `tidegate mb URL` and `tidegate rb URL`: make a bucket, and remove an empty one.

use serde::Serialize;
use tidegate::remote::{BucketOptions, MadeBucket};
use tidegate::{Budget, Client, Location, Result};

use super::cp::invalid;
use crate::args::{MbArgs, RbArgs, RemoteArgs};
use crate::exit::Exit;
use crate::report;
use crate::session::Session;

/// The variable that names the project of Google Cloud.
const PROJECT: &str = "GOOGLE_CLOUD_PROJECT";

pub(crate) async fn make(session: Session, args: &MbArgs) -> Exit {
    let made = try_make(&session, args).await;
    session.end(made.map_err(|error| report::without_resume(error, report::ASK_AGAIN)))
}

pub(crate) async fn remove(session: Session, args: &RbArgs) -> Exit {
    let removed = try_remove(&session, args).await;
    session.end(removed.map_err(|error| report::without_resume(error, report::ASK_AGAIN)))
}

/// The JSON of `mb`.
#[derive(Debug, Serialize)]
struct Made<'a> {
    bucket: &'a str,
    /// False if it was there, and is the caller's own.
    is_new: bool,
}

/// The JSON of `rb`.
#[derive(Debug, Serialize)]
struct Removed<'a> {
    removed: &'a str,
}

async fn try_make(session: &Session, args: &MbArgs) -> Result<Exit> {
    let (client, bucket) = locate(&args.remote, &args.bucket)?;
    let is_google = bucket.remote.scheme() == "gs";
    let mut options = BucketOptions::default();
    if let Some(region) = &args.region {
        options = options.region(region.as_str());
    }
    match &args.project {
        Some(_) if !is_google => {
            return Err(invalid("--project", "it is for gs:// and the URL is none"));
        }
        Some(project) => options = options.project(project.as_str()),
        None if is_google && std::env::var_os(PROJECT).is_none_or(|name| name.is_empty()) => {
            return Err(invalid(shown(&bucket), "a bucket of Google needs a project")
                .with_hint(format!("pass --project PROJECT, or set {PROJECT}")));
        }
        None => {}
    }
    let made = client.make_bucket(&bucket, &options, session.cancel.clone()).await?;
    let (shown, is_new) = (shown(&bucket), made == MadeBucket::New);
    if session.output.json {
        return Ok(session.json(&Made { bucket: shown, is_new }));
    }
    session.say(&match made {
        MadeBucket::New => format!("made {shown}"),
        MadeBucket::AlreadyYours => format!("{shown} is there already, and is yours"),
    });
    Ok(Exit::Success)
}

async fn try_remove(session: &Session, args: &RbArgs) -> Result<Exit> {
    let (client, bucket) = locate(&args.remote, &args.bucket)?;
    client.remove_bucket(&bucket, session.cancel.clone()).await?;
    let removed = shown(&bucket);
    if session.output.json {
        return Ok(session.json(&Removed { removed }));
    }
    session.say(&format!("removed {removed}"));
    Ok(Exit::Success)
}

fn locate(remote: &RemoteArgs, name: &str) -> Result<(Client, Location)> {
    if !name.contains("://") {
        return Err(invalid(name, "it is a local folder").with_hint(
            "use mkdir and rmdir, or write s3://BUCKET, gs://BUCKET or az://CONTAINER",
        ));
    }
    let client = remote.client(&[name], Budget::default())?;
    let bucket = client.locate_prefix(name)?;
    bucket.buckets()?;
    Ok((client, bucket))
}

/// `s3://bucket`.
fn shown(bucket: &Location) -> &str {
    bucket.display().trim_end_matches('/')
}
