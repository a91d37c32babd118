//! Files that give chunks to a download, and the index that makes its target one of them.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use super::Job;
use crate::chunked::seed::{self, SeedFile, SeedOptions, Seeds};
use crate::chunked::{Manifest, StoreProfile};
use crate::error::{Operation, Result};
use crate::sink::file::target::storage_error;
use crate::transfer::blocking::blocking;

impl Job<'_> {
    /// Searches the seeds for chunks of the blob.
    pub(super) async fn gather(
        &mut self,
        seeds: &mut Seeds,
        profile: &StoreProfile,
        manifest: &Manifest,
        target_path: Option<&PathBuf>,
    ) -> Result<()> {
        let seed = |path: &PathBuf| SeedFile {
            path: path.clone(),
            keeps_index: self.options.seed_indexes,
        };
        let mut files: Vec<SeedFile> = self.options.seeds.iter().map(seed).collect();
        if let Some(path) = target_path.filter(|_| self.options.seed_target).cloned() {
            let is_there = blocking(move || Ok(path.is_file().then_some(path))).await?;
            // The file is about to be replaced, so a new index of it would be stale at once.
            files.extend(is_there.map(|path| SeedFile { path, keeps_index: false }));
        }
        // A single chunk is the whole blob, so no older version contains it.
        if files.is_empty() || manifest.chunks().len() < 2 {
            return Ok(());
        }
        let Some(chunking) = manifest.chunking().or(profile.chunkings.first()) else {
            let note = "seeds were not used: the store does not say how the blob was cut";
            self.outcome.notes.push(note.to_owned());
            return Ok(());
        };
        let calls = &self.fetcher.calls;
        let options = SeedOptions {
            chunking: *chunking,
            indexed: self.options.seed_indexes,
            budget: calls.budget.clone(),
            cancel: calls.cancel.clone(),
        };
        let notes = seeds.gather(&files, manifest, &options).await?;
        self.outcome.notes.extend(notes);
        Ok(())
    }

    /// Keeps an index of the target's chunks next to it, if requested.
    pub(super) async fn index(
        &mut self,
        target: Option<(PathBuf, Arc<File>)>,
        profile: &StoreProfile,
        manifest: Arc<Manifest>,
    ) {
        let chunking = manifest.chunking().or(profile.chunkings.first()).copied();
        let (Some((path, file)), Some(chunking)) = (target, chunking) else { return };
        if !self.options.index_target || manifest.chunks().len() < 2 {
            return;
        }
        let kept = blocking(move || {
            let failed =
                |error| storage_error(Operation::Write, &path.display().to_string(), error);
            seed::keep_index(&path, &file, &chunking, &manifest).map_err(failed)
        });
        // The target is complete, so a missing index is only a note.
        if let Err(error) = kept.await {
            self.outcome.notes.push(format!("no index was kept beside it: {}", error.chain()));
        }
    }
}
