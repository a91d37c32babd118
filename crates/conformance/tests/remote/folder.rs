//! A folder as a place for blobs.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use bytes::Bytes;
use tempfile::TempDir;
use tidegate::{Client, Location};
use tidegate_conformance::remote::{Place, ReadPlace, Stored, content};

pub(crate) struct Folder {
    folder: TempDir,
    client: Client,
}

impl Folder {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), client: Client::default() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Every file, link and hidden folder in it. Other folders hold only blobs.
    pub(crate) fn all(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut folders = vec![self.folder.path().to_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let is_hidden = path.file_name().unwrap().to_string_lossy().starts_with('.');
                if path.is_dir() && !path.is_symlink() && !is_hidden {
                    folders.push(path);
                } else {
                    found.push(path);
                }
            }
        }
        found
    }
}

#[async_trait]
impl Place for Folder {
    fn at(&self, name: &str) -> Location {
        // `Path::join` would drop the slash at the end of a prefix.
        let path = format!("{}/{name}", self.folder.path().display());
        self.client.locate(&path).unwrap()
    }

    async fn put(&self, name: &str, bytes: Bytes) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    async fn get(&self, name: &str) -> Option<Bytes> {
        std::fs::read(self.path(name)).ok().map(Bytes::from)
    }

    async fn leftovers(&self) -> Vec<String> {
        let is_hidden = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'))
        };
        let left = self.all().into_iter().filter(is_hidden);
        left.map(|path| path.display().to_string()).collect()
    }
}

#[async_trait]
impl ReadPlace for Folder {
    fn blobs(&self) -> Vec<Stored> {
        let blob = |(index, len): (usize, usize)| {
            let (name, bytes) = (format!("read-{len}"), content(len, index as u64));
            let path = self.path(&name);
            if !Path::exists(&path) {
                std::fs::write(path, &bytes).unwrap();
            }
            Stored { location: self.at(&name), bytes }
        };
        [0, 1, 1000, 3_000_001].into_iter().enumerate().map(blob).collect()
    }

    fn absent(&self) -> Location {
        self.at("absent")
    }

    async fn replace(&self, blob: &Stored, bytes: Bytes) -> bool {
        std::fs::write(&blob.location.blob, bytes).unwrap();
        true
    }
}
