//! The commands, one a file. Each takes its arguments and the session, writes all its output, and
//! returns an exit code.

pub(crate) mod bucket;
pub(crate) mod cacheprog;
pub(crate) mod cat;
pub(crate) mod check;
pub(crate) mod chunk;
pub(crate) mod config;
pub(crate) mod cp;
pub(crate) mod demo;
pub(crate) mod generate;
mod manual;
mod mirrors;
pub(crate) mod mv;
pub(crate) mod presign;
pub(crate) mod put;
pub(crate) mod rm;
pub(crate) mod serve;
pub(crate) mod stat;
pub(crate) mod store;
mod upload;
pub(crate) mod uploads;
