//! Lies about the entries of a batch's response.

use tidegate_reapi::{
    rpc,
    v2::{Digest, batch_read_blobs_response, batch_update_blobs_response},
};

use super::digests::{Named, alter, place};
use super::lie::{EntriesLie, Lie, StatusForm};

/// The common members of an entry in both kinds of batches.
pub(crate) trait Entry: Clone + Default {
    fn digest(&mut self) -> &mut Option<Digest>;
    fn status(&mut self) -> &mut Option<rpc::Status>;
    /// Sets the compressor, if the entry has that member.
    fn compress(&mut self, _compressor: i32) {}
}

impl Entry for batch_read_blobs_response::Response {
    fn digest(&mut self) -> &mut Option<Digest> {
        &mut self.digest
    }

    fn status(&mut self) -> &mut Option<rpc::Status> {
        &mut self.status
    }

    fn compress(&mut self, compressor: i32) {
        self.compressor = compressor;
    }
}

impl Entry for batch_update_blobs_response::Response {
    fn digest(&mut self) -> &mut Option<Digest> {
        &mut self.digest
    }

    fn status(&mut self) -> &mut Option<rpc::Status> {
        &mut self.status
    }
}

/// Applies the lies about these entries.
pub(crate) fn tell<E: Entry>(lies: &[Lie], entries: &mut Vec<E>, named: &Named<'_>) {
    for lie in lies {
        if let Lie::Entries(lie) = lie {
            one(*lie, entries, named);
        }
    }
}

fn one<E: Entry>(lie: EntriesLie, entries: &mut Vec<E>, named: &Named<'_>) {
    let count = entries.len();
    match lie {
        EntriesLie::Clear => entries.clear(),
        EntriesLie::Blank(more) => {
            entries.resize_with(count + usize::from(more), E::default);
        }
        EntriesLie::Omit(at) => {
            if let Some(at) = place(at, count) {
                entries.remove(at);
            }
        }
        EntriesLie::Repeat(at, status, is_before) => {
            let Some(at) = place(at, count) else { return };
            let mut again = entries[at].clone();
            set(again.status(), status);
            entries.insert(if is_before { at } else { at + 1 }, again);
        }
        EntriesLie::Swap(one, other) => {
            if let (Some(one), Some(other)) = (place(one, count), place(other, count)) {
                entries.swap(one, other);
            }
        }
        EntriesLie::Exchange(one, other) => {
            let (Some(one), Some(other)) = (place(one, count), place(other, count)) else {
                return;
            };
            let first = entries[one].digest().take();
            let second = std::mem::replace(entries[other].digest(), first);
            if one != other {
                *entries[one].digest() = second;
            }
        }
        EntriesLie::Rename(at, form) => {
            let digest = place(at, count).and_then(|at| entries[at].digest().as_mut());
            if let Some(digest) = digest {
                alter(digest, form, named);
            }
        }
        EntriesLie::Unname(at) => {
            if let Some(at) = place(at, count) {
                *entries[at].digest() = None;
            }
        }
        EntriesLie::Status(at, status) => {
            if let Some(at) = place(at, count) {
                set(entries[at].status(), status);
            }
        }
        EntriesLie::Statuses(status) => {
            for entry in entries {
                set(entry.status(), status);
            }
        }
        EntriesLie::Compressor(at, compressor) => {
            if let Some(at) = place(at, count) {
                entries[at].compress(compressor);
            }
        }
    }
}

fn set(status: &mut Option<rpc::Status>, form: StatusForm) {
    *status = match form {
        StatusForm::Absent => None,
        StatusForm::Code(code) => {
            Some(rpc::Status { code, message: "a lie".to_owned(), details: Vec::new() })
        }
    };
}
