//! `cp --mirror URL`: other places that hold the one blob of the command.

use std::slice;

use tidegate::{Client, Error, Result};

use super::cp::invalid;
use crate::args::{ChunkingArg, CpArgs};
use crate::fetch::Fetch;
use crate::local::{check_targets, is_input, source};

const FLAG: &str = "--mirror";

/// The mirrors of the command line, if they are possible with its other arguments.
pub(super) fn names(args: &CpArgs) -> Result<impl Iterator<Item = &str>> {
    if !args.mirror.is_empty() {
        check(args)?;
    }
    Ok(args.mirror.iter().map(String::as_str))
}

fn check(args: &CpArgs) -> Result<()> {
    let sources = args.sources().unwrap_or_default();
    if sources.len() > 1 {
        let message = "it is of one blob, but there are several sources";
        return Err(refused(message).with_hint("copy that blob with a command of its own"));
    }
    let mut names = sources.iter().copied().chain(args.mirror.iter().map(String::as_str));
    if names.any(is_input) {
        return Err(refused("standard input can be read once, and has no mirrors"));
    }
    if args.cache.chunking == ChunkingArg::Always {
        let message = "a blob with mirrors comes whole, and --chunking always wants chunks";
        return Err(refused(message).with_hint("leave out one of them"));
    }
    Ok(())
}

fn refused(message: &str) -> Error {
    invalid(FLAG, message)
}

/// Adds the mirrors to the blob. None of them may be the target.
pub(super) fn add(client: &Client, args: &CpArgs, fetch: &mut Fetch) -> Result<()> {
    for name in &args.mirror {
        let mirror = source(client, name)?;
        let copy = Fetch { source: mirror.clone(), ..fetch.clone() };
        check_targets(client, slice::from_ref(&name.as_str()), slice::from_ref(&copy))?;
        fetch.mirrors.push(mirror);
    }
    Ok(())
}
