//! `tidegate cat`: a blob, or a range of it, to standard output: fetched in parallel, delivered in
//! order.

use tidegate::Result;
use tidegate::core::ByteRange;
use tidegate::download::DownloadOptions;

use super::cp::invalid;
use crate::args::CatArgs;
use crate::exit::Exit;
use crate::fetch::{self, Fetch, Place};
use crate::local::{check_targets, source};
use crate::session::Session;

pub(crate) async fn run(mut session: Session, args: &CatArgs) -> Exit {
    session.data_on_stdout = true;
    match plan(args) {
        Ok((fetch, options)) => fetch::run(&session, vec![fetch], options).await,
        Err(error) => session.fail(&error),
    }
}

fn plan(args: &CatArgs) -> Result<(Fetch, DownloadOptions)> {
    let range = args.range.clone().filter(|range| *range != ByteRange::All);
    if range.is_some() && !args.transfer.expected().is_empty() {
        return Err(invalid("a checksum", "it is that of a whole blob, not of a range")
            .with_hint("leave out --range or the checksum"));
    }
    let remotes = args.remote.remotes(&[&args.source])?;
    let source = args.version.of(source(&remotes, &args.source)?)?;
    let options = DownloadOptions { range, ..args.transfer.options(&args.remote) };
    let fetch = Fetch { source, place: Place::Stdout, chunks: None };
    check_targets(&remotes, &[&args.source], std::slice::from_ref(&fetch))?;
    Ok((fetch, options))
}
