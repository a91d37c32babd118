//! A file as a sink: a hidden part file in the target's folder that gets the target's name only
//! when it is whole and verified.
//!
//! | file | idea |
//! |---|---|
//! | [`target`] | where the target is, and why it cannot be written |
//! | [`sticky`] | whether it may be replaced where others may make files, too |
//! | [`part_file`] | the part file: locked, preallocated, resumed, committed |
//! | [`descriptors`] | how many files are open at once |
//! | [`access`], [`acl`] | who may use it: its owner alone, until it becomes the target |
//! | [`run`] | who writes a part file, and whether anybody still wants that |
//! | [`who`] | names of users and processes, for messages |
//! | [`state_folder`], [`user_key`] | the key that tells our journals from bytes of a server |
//! | [`journal`] | what a part file remembers of itself, behind its data |
//! | [`writer`] | the thread that writes |
//! | [`writeback`] | beginning early with what a sync would wait for |
//! | [`follow`] | hashing what has been written, in order, beside the transfer |

pub(crate) mod access;
mod acl;
pub(crate) mod descriptors;
pub(crate) mod follow;
pub(crate) mod journal;
pub(crate) mod part_file;
mod run;
mod state_folder;
mod sticky;
pub(crate) mod target;
pub(crate) mod user_key;
mod who;
mod writeback;
pub(crate) mod writer;

pub use part_file::Durability;
pub(crate) use part_file::PartFile;
pub(crate) use run::RunOwner;
pub use state_folder::StateFolder;
pub(crate) use target::FileTarget;
pub(crate) use writer::FileSink;
