//! `tidegate cat`: writes a blob, or a range of it, to standard output. It fetches in parallel and
//! delivers in order.

use tidegate::Result;
use tidegate_core::ByteRange;

use super::cp::invalid;
use crate::args::CatArgs;
use crate::exit::Exit;
use crate::fetch::{self, Chunks, Fetch, Place, Plan};
use crate::local::check_targets;
use crate::session::Session;
use crate::store_url::Stores;

pub(crate) async fn run(mut session: Session, args: &CatArgs) -> Exit {
    session.data_on_stdout = true;
    match plan(args) {
        Ok(plan) => fetch::run(&session, plan).await,
        Err(error) => session.fail(&error),
    }
}

fn plan(args: &CatArgs) -> Result<Plan> {
    let range = args.range.clone().filter(|range| *range != ByteRange::All);
    if range.is_some() && !args.transfer.expected().is_empty() {
        return Err(invalid("a checksum", "it is that of a whole blob, not of a range")
            .with_hint("leave out --range or the checksum"));
    }
    let client = args.remote.client(&[&args.source], args.transfer.budget())?;
    let source = args.version.of(Stores::default().source(&client, &args.source)?)?;
    let fetches = vec![Fetch { source, place: Place::Stdout, chunks: Chunks::none() }];
    check_targets(&client, &[&args.source], &fetches)?;
    Ok(Plan {
        client,
        fetches,
        transfer: args.transfer.clone(),
        file: None,
        range,
        checksums: None,
    })
}
