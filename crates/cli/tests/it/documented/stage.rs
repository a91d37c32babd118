//! The world that the pages speak of: stores, a web server, a build cache and files, all on this
//! machine.
//!
//! Stores are found by the variables that name their endpoints. Hosts of the pages, digests that
//! they shorten and folders outside of the test are rewritten; see [`Stage::run`].

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use tempfile::TempDir;
use tidegate_core::digest::{Digest, DigestFunction};
use tidegate_testkit::reapi::{ReapiOptions, ReapiServer};
use tidegate_testkit::{Blob, Flavour, Server, ServerOptions, pseudo_random};

use crate::bed::{Ran, finish, names, shell};

/// The length of every blob but the toolchain: less than a shard, so one request fetches it.
pub(super) const LEN: usize = 100_000;
/// The length of the toolchain: several chunks.
const TOOLCHAIN_LEN: usize = 3_000_000;

/// See the module docs.
pub(super) struct Stage {
    folder: TempDir,
    pub(super) gcs: Server,
    s3: Server,
    azure: Server,
    http: Server,
    mirror: Server,
    pub(super) cache: ReapiServer,
    /// The bytes of every blob but the toolchain.
    pub(super) blob: Vec<u8>,
    pub(super) toolchain: Vec<u8>,
}

impl Stage {
    pub(super) async fn new() -> Self {
        let start = async |flavour| Server::start(ServerOptions::of(flavour)).await.unwrap();
        let options = ReapiOptions { instance: "main".to_owned(), ..ReapiOptions::default() };
        let stage = Self {
            folder: tempfile::tempdir().unwrap(),
            gcs: start(Flavour::Gcs).await,
            s3: start(Flavour::S3).await,
            azure: start(Flavour::Azure).await,
            http: start(Flavour::Http).await,
            mirror: start(Flavour::Http).await,
            cache: ReapiServer::start(options).await.unwrap(),
            blob: pseudo_random(LEN, 1).to_vec(),
            toolchain: pseudo_random(TOOLCHAIN_LEN, 2).to_vec(),
        };
        stage.fill();
        stage
    }

    /// Whether the toolchain is stored in S3 under this path.
    pub(super) fn is_stored_in_s3(&self, path: &str) -> bool {
        let stored = self.s3.object(path).and_then(|stored| stored.bytes);
        stored.is_some_and(|bytes| *bytes == *self.toolchain)
    }

    fn fill(&self) {
        let blob = || Blob::new(self.blob.clone());
        for key in ["models/llama.safetensors", "shard-0001", "shard-0002", "log", "key"] {
            self.gcs.put(&format!("/bucket/{key}"), blob());
        }
        for key in ["image.tar.zst", "key"] {
            self.s3.put(&format!("/bucket/{key}"), blob());
        }
        self.azure.put("/container/data.parquet", blob());
        self.http.put("/toolchain.tar.xz", Blob::new(self.toolchain.clone()));
        for server in [&self.http, &self.mirror] {
            server.put("/disk.img", Blob::new(self.toolchain.clone()));
        }
        self.s3.put("/bucket/disk.img", Blob::new(self.toolchain.clone()));
        // The old version differs near its end.
        let mut old = self.toolchain.clone();
        old[TOOLCHAIN_LEN - 10] ^= 1;
        std::fs::write(self.path("toolchain.tar"), &self.toolchain).unwrap();
        std::fs::write(self.path("toolchain-old.tar"), old).unwrap();
        for folder in ["bin", "data", "var/images", "pages"] {
            std::fs::create_dir_all(self.path(folder)).unwrap();
        }
        symlink(env!("CARGO_BIN_EXE_tidegate"), self.path("bin/tidegate")).unwrap();
        // What it reads is checked, not what it unpacks.
        std::fs::write(self.path("bin/tar"), "#!/bin/sh\ncat >tar.input\n").unwrap();
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(self.path("bin/tar"), executable).unwrap();
    }

    /// Runs a command of a page in a shell, in the folder.
    pub(super) async fn run(&self, script: &str) -> Ran {
        let (hash, cache) = (self.toolchain_hash(), self.cache.url());
        let (http, mirror) = (self.http.endpoint(), self.mirror.endpoint());
        let digest = format!("{hash}/{TOOLCHAIN_LEN}");
        let script = [
            ("https://example.org", &*http),
            ("https://a.example.org", &*http),
            ("https://b.example.net", &*mirror),
            ("9f86d08...0f00a08", &*hash),
            ("grpcs://cache.example.org/main", &*cache),
            ("9f86…/73400320", &*digest),
            ("9f86d081…", &*hash),
            ("/var/images", "var/images"),
        ]
        .into_iter()
        .fold(script.to_owned(), |script, (page, here)| script.replace(page, here));
        let mut command = shell(self.folder.path(), &script, &[]);
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", self.path("bin").display()));
        command.env("STORAGE_EMULATOR_HOST", self.gcs.endpoint());
        command.env("AWS_ENDPOINT_URL_S3", self.s3.endpoint()).env("AWS_REGION", "us-east-1");
        command.env("AWS_ACCESS_KEY_ID", "key").env("AWS_SECRET_ACCESS_KEY", "secret");
        command.env("AZURE_STORAGE_ENDPOINT", self.azure.endpoint());
        command.env("AZURE_STORAGE_ACCOUNT_NAME", "account");
        command.env("AZURE_STORAGE_ACCOUNT_KEY", "a2V5");
        finish(command).await
    }

    pub(super) fn toolchain_hash(&self) -> String {
        Digest::of(DigestFunction::Sha256, &self.toolchain).checksum().hex()
    }

    /// Whether the cache has the toolchain.
    pub(super) fn is_cached(&self) -> bool {
        let hash = self.toolchain_hash();
        self.cache.blobs().iter().any(|name| name.hash == hash)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Whether the file has these bytes.
    pub(super) fn holds(&self, name: &str, bytes: &[u8]) -> bool {
        std::fs::read(self.path(name)).is_ok_and(|held| held == bytes)
    }

    /// Everything in the folder.
    pub(super) fn names(&self) -> Vec<String> {
        names(self.folder.path())
    }

    /// The pages of the manual that were written.
    pub(super) fn manual(&self) -> Vec<String> {
        names(&self.path("pages"))
    }

    /// The bytes that the Google Cloud Storage sent for each request.
    pub(super) fn sent(&self) -> Vec<u64> {
        self.gcs.log().iter().map(|logged| logged.bytes_sent).collect()
    }
}
