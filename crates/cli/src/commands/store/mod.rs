//! `tidegate store`: work on the store of a cache server.

mod check;
mod import;
mod purge;
mod replay;

pub(crate) use import::run as import;
pub(crate) use purge::run as purge;

use crate::args::{StoreArgs, StoreCommand};
use crate::exit::Exit;
use crate::session::Session;

pub(crate) fn run(session: &Session, args: &StoreArgs) -> Exit {
    match &args.command {
        StoreCommand::Check(args) => check::run(session, args),
        StoreCommand::Replay(args) => replay::run(session, args),
        // They need a runtime, and run there.
        StoreCommand::Purge(_) | StoreCommand::Import(_) => Exit::Success,
    }
}
