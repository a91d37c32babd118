//! `tidegate cp SOURCE... REMOTE`: files, standard input, or blobs of other remotes into a bucket or
//! to a web server.

use std::time::Instant;

use tidegate::{Client, Location, Report, Result};
use tidegate_core::printable::escaped;

use super::cp::invalid;
use crate::args::CpArgs;
use crate::exit::Exit;
use crate::local::check_inputs;
use crate::outcomes::{self, Named};
use crate::progress::{Display, Followed};
use crate::redact;
use crate::report::{self, Done};
use crate::session::Session;
use crate::size;
use crate::source::Source;

/// The schemes of remotes that are written by name.
const SCHEMES: [&str; 5] = ["s3", "gs", "az", "http", "https"];

/// Whether the target of a copy is such a remote.
pub(crate) fn is_target(text: &str) -> bool {
    text.split_once("://")
        .is_some_and(|(scheme, _)| SCHEMES.iter().any(|known| scheme.eq_ignore_ascii_case(known)))
}

/// One blob to store.
#[derive(Clone, Debug)]
struct Put {
    from: Source,
    to: Location,
}

pub(crate) async fn run(session: Session, args: &CpArgs, target: &str) -> Exit {
    let (client, puts) = match plan(args, target) {
        Ok(planned) => planned,
        Err(error) => return session.fail(&error),
    };
    let followed = |put: &Put| {
        let source = put.from.name();
        Followed::new(put.from.short_name()).between(&session.console, &source, put.to.display())
    };
    let blobs: Vec<_> = puts.iter().map(followed).collect();
    let display = (!session.is_silent()).then(|| Display::start(&session.console, blobs.clone()));
    let begun = Instant::now();
    let (mut outcomes, mut left) = (Vec::new(), Vec::new());
    // One after another: the parts of one blob fill the link.
    for (put, blob) in puts.iter().zip(blobs) {
        blob.begin();
        let outcome = store(&session, &client, args, put, &blob).await;
        let outcome = outcome.map_err(|error| report::without_resume(error, PARTS_STAY));
        blob.end(outcome.as_ref().err());
        let outcome = outcome.map(|report| Done::new(&put.from.name(), put.to.display(), &report));
        if puts.len() > 1 {
            outcomes::tell(&session, &outcome);
        }
        if outcome.as_ref().is_err_and(tidegate::Error::leaves_upload) {
            left.push(put.to.display().to_owned());
        }
        outcomes.push(outcome);
    }
    if let Some(display) = display {
        display.end().await;
    }
    let name = |put: &Put| Named::new(&put.from.name(), put.to.display());
    let names: Vec<Named> = puts.iter().map(name).collect();
    let end = outcomes::finish(&session, &names, &outcomes, begun.elapsed().as_secs_f64());
    for target in left.iter().filter(|_| !session.output.json) {
        session.console.line(&format!(
            "note: the parts that are stored stay for the next run; to remove them: tidegate \
             uploads abort --older-than 0 {}",
            escaped(target)
        ));
    }
    end
}

/// The hint of an interrupted upload.
const PARTS_STAY: &str = "run the same command again; parts of a file that are stored are not sent \
                          again";

async fn store(
    session: &Session,
    client: &Client,
    args: &CpArgs,
    put: &Put,
    blob: &Followed,
) -> Result<Report> {
    let upload = client.upload(put.from.to_upload(), &put.to);
    let upload = args.transfer.upload_to(put.to.display(), upload)?;
    let upload = args.upload.upload(&put.to, upload)?;
    if put.from.is_stream()
        && !session.output.quiet
        && let Some(max) = upload.stream_bytes_max()?
    {
        let line = format!(
            "standard input: at most {} fit; --expected-size chooses longer parts",
            size::human(max)
        );
        session.console.line(&line);
    }
    upload.progress(blob.progress()).cancel(session.cancel.clone()).await
}

fn plan(args: &CpArgs, target: &str) -> Result<(Client, Vec<Put>)> {
    let names = args.sources().unwrap_or_default();
    let all: Vec<&str> = names.iter().copied().chain([target]).collect();
    let client = args.remote.client(&all, args.transfer.budget())?;
    for_downloads(args)?;
    check_inputs(&names)?;
    let is_folder = target.ends_with('/');
    if names.len() > 1 && !is_folder {
        return Err(invalid(&redact::url(target), "several sources would get one name")
            .with_hint("end the target with a slash, so that each source keeps its name"));
    }
    let put = |name: &&str| {
        let from = Source::parse(&client, name)?;
        let text = match (is_folder, from.file_name()) {
            (false, _) => target.to_owned(),
            (true, Some(file_name)) => format!("{target}{file_name}"),
            (true, None) => {
                return Err(invalid(&escaped(name), "it has no name to keep")
                    .with_hint("name the target blob"));
            }
        };
        Ok(Put { from, to: client.locate_target(&text)? })
    };
    let puts = names.iter().map(put).collect::<Result<Vec<_>>>()?;
    Ok((client, puts))
}

/// Refuses options that have no effect here.
fn for_downloads(args: &CpArgs) -> Result<()> {
    let seed = (!args.cache.seed.is_empty()).then_some("--seed");
    let index = args.cache.keep_index.then_some("--keep-index");
    let list = args.checksums.is_some().then_some("--checksums");
    let mirror = (!args.mirror.is_empty()).then_some("--mirror");
    let confirm = args.cache.confirm.then_some("--confirm");
    match args.version.name().or(seed).or(index).or(list).or(mirror).or(confirm) {
        Some(option) => Err(invalid(option, "it has no effect on a blob that is stored by name")),
        None => Ok(()),
    }
}
