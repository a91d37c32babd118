//! A version given by hand. The delivered bytes are of this version, whatever its kind and however
//! often the connection breaks, or the call fails.

use bytes::Bytes;
use tidegate::remote::{OpenRequest, RemoteOptions, Version};
use tidegate::{Budget, ErrorKind, Location, Setting, Target};
use tidegate_core::ByteRange;
use tidegate_testkit::{Blob, Fault, Flavour, Rule, ServerOptions, pseudo_random};

use super::{ALL, LEN, all_sent, bed_of, options};
use crate::bed::Bed;
use crate::call::{client_of, download};
use crate::trial::{Kind, Trial};

/// Every kind of version that names the blob's current content, for each remote.
fn versions(flavour: Flavour, blob: &Blob) -> Vec<Version> {
    let mut versions = vec![
        Version::ETag(format!("\"{}\"", blob.etag())),
        Version::LastModified("Tue, 14 Nov 2023 22:13:21 GMT".to_owned()),
        // The same second in the format of RFC 850.
        Version::LastModified("Tuesday, 14-Nov-23 22:13:21 GMT".to_owned()),
    ];
    match flavour {
        Flavour::Gcs => versions.push(Version::Generation(blob.version().to_string())),
        Flavour::S3 | Flavour::Azure => versions.push(Version::VersionId(blob.version_id())),
        Flavour::Http => {}
    }
    versions
}

async fn versioned(flavour: Flavour) -> Bed {
    let bytes = pseudo_random(LEN, 7);
    let blob = Blob::new(bytes.clone()).with_etag("aBcDeF-0123");
    let options = ServerOptions { versioning: true, ..ServerOptions::of(flavour) };
    Bed::with(options, bytes, blob).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_given_by_hand_is_what_is_delivered() {
    for flavour in ALL {
        let bed = versioned(flavour).await;
        let blob = bed.server.blob(bed.path()).unwrap();
        for version in versions(flavour, &blob) {
            for window in [1, 4] {
                bed.server.clear_log();
                bed.server.script().clear();
                bed.server.script().push(Rule::new(Fault::CutAfter(1000)).method("GET"));
                let location = bed.location().at(version.clone()).unwrap();
                let trial = Trial::of(&bed, &location, Kind::File, &options(window)).await;
                let label = format!("{flavour:?} {version} {window}");
                let report = trial.result.unwrap_or_else(|error| panic!("{label}: {error:?}"));
                assert!(trial.content.unwrap() == bed.bytes, "{label}");
                assert_eq!(report.version(), Some(&version), "{label}");
                assert!(report.totals.restarts > 0, "{label}");
                if let Version::ETag(tag) = &version {
                    all_sent(&bed.server, "if-match", tag);
                }
                let info = location.remote.stat(&location.blob).await.unwrap();
                assert_eq!(info.version, Some(version.clone()), "{label}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_that_was_replaced_is_delivered_if_the_remote_keeps_it_and_an_error_otherwise() {
    for flavour in ALL {
        let bed = versioned(flavour).await;
        let old = bed.server.blob(bed.path()).unwrap();
        let new = Blob::new(pseudo_random(LEN, 9));
        bed.server.replace(bed.path(), new);
        for version in versions(flavour, &old) {
            let location = bed.location().at(version.clone()).unwrap();
            let trial = Trial::of(&bed, &location, Kind::File, &options(4)).await;
            let facts = location.remote.stat(&location.blob).await;
            let label = format!("{flavour:?} {version}");
            if matches!(version, Version::Generation(_) | Version::VersionId(_)) {
                assert!(trial.content.unwrap() == bed.bytes, "{label}");
                assert!(trial.result.unwrap().is_verified(), "{label}");
                assert_eq!(facts.unwrap().version, Some(version), "{label}");
            } else {
                let error = trial.result.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Changed, "{label}: {error:?}");
                assert_eq!(error.setting(), Some(Setting::Version), "{label}: {error:?}");
                assert_eq!(facts.unwrap_err().kind(), ErrorKind::Changed, "{label}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_of_another_kind_of_remote_is_refused_before_the_first_request() {
    let generation = || Version::Generation("17".to_owned());
    let id = || Version::VersionId("v.1".to_owned());
    let stamp = || Version::FileStamp("1-2-3".to_owned());
    let bad_text = [
        Version::ETag("W/\"weak\"".to_owned()),
        Version::ETag("bare".to_owned()),
        Version::ETag("\"a\nb\"".to_owned()),
        Version::LastModified("soon\r\n".to_owned()),
    ];
    for (flavour, refused) in [
        (Flavour::Http, vec![generation(), id(), stamp()]),
        (Flavour::Gcs, vec![id(), stamp(), Version::Generation("1x".to_owned())]),
        (Flavour::S3, vec![generation(), stamp(), Version::VersionId(String::new())]),
        (Flavour::Azure, vec![generation(), stamp(), Version::VersionId("a\u{e9}".to_owned())]),
    ] {
        let bed = bed_of(flavour).await;
        let location = bed.location();
        for version in refused.into_iter().chain(bad_text.clone()) {
            let error = location.at(version.clone()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{flavour:?} {version:?}");
            let facts = location.remote.stat_version(&location.blob, &version).await;
            assert_eq!(facts.unwrap_err().kind(), ErrorKind::Invalid, "{flavour:?} {version:?}");
            let request = OpenRequest { range: ByteRange::All, version: Some(version.clone()) };
            let opened = location.remote.open(&location.blob, &request, &Budget::default()).await;
            assert_eq!(opened.unwrap_err().kind(), ErrorKind::Invalid, "{flavour:?} {version:?}");
        }
        assert_eq!(bed.server.requests(), 0, "{flavour:?}");
    }
    let file = client_of(RemoteOptions::default()).locate("/etc/hostname").unwrap();
    assert_eq!(file.at(generation()).unwrap_err().kind(), ErrorKind::Invalid);
}

/// An interrupted download of one version is not continued with another version.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_given_by_hand_is_not_mixed_with_an_earlier_runs_bytes() {
    let bed = versioned(Flavour::Gcs).await;
    let new = Bytes::from(pseudo_random(LEN, 9).to_vec());
    bed.server.replace(bed.path(), Blob::new(new.clone()));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("target");
    let fetch = |location: Location| {
        let target = Target::File(path.clone());
        async move { download(&location, target, &options(1)).await }
    };
    let cut = Rule::new(Fault::CutAfter(200_000)).method("GET");
    bed.server.script().push(cut);
    bed.server.script().push(Rule::new(Fault::status(403)).method("GET").nth(2));
    fetch(bed.location()).await.unwrap_err();
    bed.server.script().clear();
    let old = bed.location().at(Version::Generation("1".to_owned())).unwrap();
    fetch(old).await.unwrap();
    assert!(std::fs::read(&path).unwrap() == bed.bytes);
}

/// The server accepts the precondition, as the blob has not changed since. But the date names
/// another version.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_of_a_later_date_is_another() {
    for flavour in ALL {
        let bed = bed_of(flavour).await;
        let later = Version::LastModified("Wed, 15 Nov 2023 00:00:00 GMT".to_owned());
        let location = bed.location().at(later).unwrap();
        let trial = Trial::of(&bed, &location, Kind::File, &options(4)).await;
        assert_eq!(trial.result.unwrap_err().kind(), ErrorKind::Changed, "{flavour:?}");
        let facts = location.remote.stat(&location.blob).await;
        assert_eq!(facts.unwrap_err().kind(), ErrorKind::Changed, "{flavour:?}");
    }
}
