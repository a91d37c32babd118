//! [`Sharing`]: the chunks that several files have in common, as a store of chunks would count
//! them.

use std::collections::HashMap;
use std::fmt::Write as _;

use serde::Serialize;
use tidegate_core::Digest;
use tidegate_core::printable::escaped;

use super::Cut;
use crate::report;
use crate::size;

/// The cost of storing a set of files, and how much of each file also occurs in others.
#[derive(Debug, Serialize)]
pub(super) struct Sharing {
    /// All chunks, including repeated ones.
    chunks: u64,
    bytes: u64,
    /// Each chunk once.
    distinct_chunks: u64,
    distinct_bytes: u64,
    /// Total bytes for each distinct byte; 1 if there are none.
    ratio: f64,
    /// In the files' order.
    files: Vec<Member>,
}

/// One file compared with the others.
#[derive(Debug, Serialize)]
struct Member {
    file: String,
    chunks: u64,
    bytes: u64,
    /// Its chunks that another file has as well.
    shared_chunks: u64,
    shared_bytes: u64,
}

/// The files that contain a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Home {
    One(usize),
    Several,
}

impl Sharing {
    pub(super) fn of(files: &[Cut]) -> Self {
        let mut homes: HashMap<Digest, Home> = HashMap::new();
        for (index, file) in files.iter().enumerate() {
            for chunk in &file.chunks {
                let home = homes.entry(chunk.digest).or_insert(Home::One(index));
                if *home != Home::One(index) {
                    *home = Home::Several;
                }
            }
        }
        let shared: Vec<Member> = files.iter().map(|file| Member::of(file, &homes)).collect();
        let bytes = shared.iter().map(|file| file.bytes).sum();
        let distinct_bytes = homes.keys().map(|digest| digest.len).sum();
        Self {
            chunks: shared.iter().map(|file| file.chunks).sum(),
            bytes,
            distinct_chunks: homes.len() as u64,
            distinct_bytes,
            ratio: ratio(bytes, distinct_bytes),
            files: shared,
        }
    }

    /// A table: a line a file, and one for all together.
    pub(super) fn text(&self, files: &[Cut]) -> String {
        let width = files.iter().map(|file| escaped(&file.file).chars().count());
        let width = width.max().unwrap_or(0);
        let width = width.max("together".len());
        let mut text = String::new();
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(text, "{:<width$}  {:>10}  {:>8}  in others, too", "", "size", "chunks");
        for file in &self.files {
            let _ = writeln!(
                text,
                "{:<width$}  {:>10}  {:>8}  {:>10}  {:>8}  {:>5.1} %",
                escaped(&file.file),
                size::human(file.bytes),
                file.chunks,
                size::human(file.shared_bytes),
                file.shared_chunks,
                100.0 * share(file.shared_bytes, file.bytes),
            );
        }
        let _ = writeln!(
            text,
            "{:<width$}  {:>10}  {:>8}  {} in {}, {:.2} to 1",
            "together",
            size::human(self.bytes),
            self.chunks,
            size::human(self.distinct_bytes),
            report::count(self.distinct_chunks, "distinct chunk"),
            self.ratio,
        );
        text
    }
}

impl Member {
    fn of(file: &Cut, homes: &HashMap<Digest, Home>) -> Self {
        let is_shared = |digest: &Digest| homes.get(digest) == Some(&Home::Several);
        let shared = || file.chunks.iter().filter(|chunk| is_shared(&chunk.digest));
        Self {
            file: file.file.clone(),
            chunks: file.chunks.len() as u64,
            bytes: file.bytes,
            shared_chunks: shared().count() as u64,
            shared_bytes: shared().map(|chunk| chunk.digest.len).sum(),
        }
    }
}

fn ratio(bytes: u64, distinct_bytes: u64) -> f64 {
    if distinct_bytes == 0 { 1.0 } else { 1.0 / share(distinct_bytes, bytes) }
}

fn share(part: u64, whole: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a few digits are shown")]
    let share = part as f64 / whole.max(1) as f64;
    share
}
