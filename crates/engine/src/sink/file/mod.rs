//! A file as a sink. The sink writes a hidden part file in the target's folder. The part file gets
//! the target's name only when it is complete and verified.
//!
//! | file | idea |
//! |---|---|
//! | [`target`] | where the target is, and why it cannot be written |
//! | [`sticky`] | whether the target may be replaced in a folder with the sticky bit |
//! | [`part_file`] | the part file: locked, preallocated, resumed, committed |
//! | [`clone`] | a file that shares the blocks of another |
//! | [`descriptors`] | how many files are open at once |
//! | [`access`], [`acl`] | access rights: private to the owner until the file becomes the target |
//! | [`run`] | which run writes a part file, and whether a caller still wants its outcome |
//! | [`who`] | names of users and processes, for messages |
//! | [`state_folder`], [`user_key`] | the key that distinguishes our journals from a server's bytes |
//! | [`journal`] | the record of written extents, behind the data of a part file |
//! | [`writer`] | the thread that writes |
//! | [`writeback`] | starts early the disk writes that a sync would wait for |
//! | [`provenance`] | the blob and version that a finished file is a copy of |
//! | [`follow`] | hashes written bytes in order, in parallel with the transfer |

pub(crate) mod access;
mod acl;
mod clone;
pub(crate) mod descriptors;
pub(crate) mod follow;
pub(crate) mod journal;
pub(crate) mod part_file;
pub(crate) mod provenance;
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
