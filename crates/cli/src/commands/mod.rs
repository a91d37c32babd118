//! The commands, one a file. Each takes its arguments and the session, and gives an exit code;
//! what it has to say it has said by then.

pub(crate) mod cat;
pub(crate) mod chunk;
pub(crate) mod cp;
pub(crate) mod demo;
pub(crate) mod generate;
pub(crate) mod put;
pub(crate) mod stat;
