//! `tidegate presign URL`: prints a URL that allows one kind of request to everyone who has it.
//!
//! The URL is a secret, so it goes to standard output and nowhere else.

use std::time::Duration;

use serde::Serialize;
use tidegate::remote::{PresignMethod, PresignedUrl};
use tidegate::{Budget, Result};

use crate::args::PresignArgs;
use crate::exit::Exit;
use crate::report;
use crate::session::Session;

pub(crate) async fn run(session: Session, args: &PresignArgs) -> Exit {
    let method = PresignMethod::from(args.method);
    match sign(&session, args, method).await {
        Err(error) => session.fail(&report::without_resume(error, report::ASK_AGAIN)),
        Ok(signed) if session.output.json => session.json(&Signed::new(&signed, method)),
        Ok(signed) => session.print(&format!("{}\n", signed.url())),
    }
}

async fn sign(
    session: &Session,
    args: &PresignArgs,
    method: PresignMethod,
) -> Result<PresignedUrl> {
    let client = args.remote.client(&[&args.blob], Budget::default())?;
    let blob = client.locate(&args.blob)?;
    let lifetime = Duration::from_millis(args.expires_ms);
    client.presign(&blob, method, lifetime).cancel(session.cancel.clone()).await
}

/// The JSON.
#[derive(Serialize)]
struct Signed<'a> {
    url: &'a str,
    method: &'static str,
    expires_at: String,
}

impl<'a> Signed<'a> {
    fn new(signed: &'a PresignedUrl, method: PresignMethod) -> Self {
        let expires_at = humantime::format_rfc3339_seconds(signed.expires()).to_string();
        Self { url: signed.url(), method: method.name(), expires_at }
    }
}
