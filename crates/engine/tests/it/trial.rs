//! One download into one kind of target, and what must hold however it ends.
//!
//! The target's name holds the whole blob or its old content. Nothing is left behind except a part
//! file that can be resumed. No request is in flight, no byte of the budget is held, and nothing
//! hangs.

use std::time::Duration;

use tempfile::TempDir;
use tidegate::{ErrorKind, Location, Report, Target};

use crate::bed::{Bed, Collect};
use crate::call::{DownloadOptions, download};

/// The content of the target's name before the download.
const OLD: &[u8] = b"what was there before";

/// Far longer than any trial takes. Only a hang reaches it.
const HANG: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Writer,
    Discard,
    Memory,
}

pub(crate) const KINDS: [Kind; 4] = [Kind::File, Kind::Writer, Kind::Discard, Kind::Memory];

/// How a download ended.
#[derive(Debug)]
pub(crate) struct Trial {
    pub(crate) result: tidegate::Result<Report>,
    /// The target's content. `None` for a target that keeps nothing.
    pub(crate) content: Option<Vec<u8>>,
    pub(crate) left_part: bool,
    /// Requests that the server counted.
    pub(crate) requests: usize,
}

impl Trial {
    pub(crate) async fn run(bed: &Bed, kind: Kind, options: &DownloadOptions) -> Self {
        Self::of(bed, &bed.location(), kind, options).await
    }

    pub(crate) async fn of(
        bed: &Bed,
        location: &Location,
        kind: Kind,
        options: &DownloadOptions,
    ) -> Self {
        let before = bed.server.requests();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("target");
        let collect = Collect::default();
        let target = match kind {
            Kind::File => {
                std::fs::write(&path, OLD).unwrap();
                Target::File(path.clone())
            }
            Kind::Writer => collect.target(),
            Kind::Discard => Target::Discard,
            Kind::Memory => Target::Memory,
        };
        let result = within(download(location, target, options)).await;
        within(bed.server.idle()).await;
        settle(options).await;
        let content = match kind {
            Kind::File => Some(std::fs::read(&path).unwrap()),
            Kind::Writer => Some(collect.bytes()),
            Kind::Memory => {
                result.as_ref().ok().map(|report| report.memory.clone().unwrap().to_vec())
            }
            Kind::Discard => None,
        };
        let left_part = left_part(&folder);
        let requests = bed.server.requests() - before;
        let trial = Self { result, content, left_part, requests };
        trial.assert_tidy(kind);
        trial
    }

    /// What must hold for every kind of target and every end.
    fn assert_tidy(&self, kind: Kind) {
        match &self.result {
            Ok(_) => assert!(!self.left_part, "a finished download left its part file"),
            Err(error) => {
                if kind == Kind::File {
                    assert_eq!(self.content.as_deref(), Some(OLD), "after {error:?}");
                }
                let worthless = matches!(error.kind(), ErrorKind::Integrity | ErrorKind::Changed);
                assert!(!worthless || !self.left_part, "a worthless part file after {error:?}");
            }
        }
    }

    /// The blob arrived whole, after this many requests.
    #[track_caller]
    pub(crate) fn assert_whole(&self, bed: &Bed, requests: usize, label: &str) {
        let report = self.result.as_ref().unwrap_or_else(|error| panic!("{label}: {error:?}"));
        assert_eq!(report.bytes, bed.bytes.len() as u64, "{label}");
        if let Some(content) = &self.content {
            assert!(*content == bed.bytes, "{label}: other content");
        }
        assert_eq!(self.requests, requests, "{label}: requests");
    }

    /// The download failed with this error. An ordered target may hold a prefix of the blob and
    /// nothing else.
    #[track_caller]
    pub(crate) fn assert_fails(&self, bed: &Bed, kind: Kind, error: ErrorKind, label: &str) {
        match &self.result {
            Ok(report) => panic!("{label}: succeeded: {report:?}"),
            Err(failure) => assert_eq!(failure.kind(), error, "{label}: {failure:?}"),
        }
        if let (Kind::Writer, Some(content)) = (kind, &self.content)
            && !matches!(error, ErrorKind::Integrity | ErrorKind::Changed)
        {
            assert!(bed.bytes.starts_with(content), "{label}: no prefix");
        }
    }
}

/// Runs `work`, and panics if it hangs.
pub(crate) async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(HANG, work).await.expect("it hangs")
}

/// Waits until every byte of the budget has been released. The thread of an ordered target may end
/// shortly after the download.
pub(crate) async fn settle(options: &DownloadOptions) {
    let budget = &options.budget;
    within(async {
        while budget.held_bytes() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(budget.held_bytes_peak() <= budget.limits().bytes, "{budget:?}");
}

/// Whether a part file lies next to the target. Asserts that nothing else does.
fn left_part(folder: &TempDir) -> bool {
    let mut left = false;
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        match entry.unwrap().file_name().to_str().unwrap() {
            "target" => {}
            ".target.tidegate-part" => left = true,
            other => panic!("left behind: {other}"),
        }
    }
    left
}
