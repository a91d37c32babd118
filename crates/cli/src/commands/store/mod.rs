//! `tidegate store`: work on the store of a cache server.

mod check;
mod replay;

use crate::args::{StoreArgs, StoreCommand};
use crate::exit::Exit;
use crate::session::Session;

pub(crate) fn run(session: &Session, args: &StoreArgs) -> Exit {
    match &args.command {
        StoreCommand::Check(args) => check::run(session, args),
        StoreCommand::Replay(args) => replay::run(session, args),
    }
}
