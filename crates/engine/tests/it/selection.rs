//! Two objects with the same displayed name and the same version. Bytes fetched of the first are
//! never used for the second, unless a checksum of the whole blob verifies them.

use tidegate::remote::{ExtraHeaders, RemoteOptions};
use tidegate::{Location, Report};
use tidegate_testkit::{Blob, Checksums, Flavour, HttpDigests, ServerOptions, pseudo_random};

use crate::bed::{Bed, SHARD_BYTES};
use crate::call::{client_of, download};
use crate::resume::{LEN, Place, assert_done, cancel, options, sent};
use crate::trial::{settle, within};

/// Where the first download is held: the start of the held shard, and its delivered bytes.
const HELD: (u64, u64) = (5 * SHARD_BYTES, 1000);

/// How two names of objects differ although both are displayed as the same.
#[derive(Clone, Copy, Debug)]
enum Differs {
    Query,
    User,
    Header,
    Endpoint,
}

const ALL: [Differs; 4] = [Differs::Query, Differs::User, Differs::Header, Differs::Endpoint];

/// Content with the same version and length as all other blobs here.
fn blob(seed: u64, checksums: Checksums) -> Blob {
    Blob::new(pseudo_random(LEN, seed)).with_etag("same").with_checksums(checksums)
}

/// A server with its own object, with or without a checksum.
async fn bed(flavour: Flavour, seed: u64, has_checksum: bool) -> Bed {
    let digests = HttpDigests { repr_digest: has_checksum, ..HttpDigests::default() };
    let checksums = if has_checksum { Checksums::Correct } else { Checksums::None };
    let options = ServerOptions { digests, ..ServerOptions::of(flavour) };
    Bed::with(options, pseudo_random(LEN, seed), blob(seed, checksums)).await
}

fn locate(options: RemoteOptions, url: &str) -> Location {
    client_of(RemoteOptions { anonymous: true, ..options }).locate(url).unwrap()
}

fn with_header(url: &str, value: &str) -> Location {
    let mut headers = ExtraHeaders::new();
    headers.add("x-tenant", value).unwrap();
    locate(RemoteOptions { headers, ..RemoteOptions::default() }, url)
}

/// The names of the first and of the second object.
fn names(differs: Differs, first: &Bed, second: &Bed) -> (Location, Location) {
    let url = first.server.url(first.path());
    let of = |url: String| locate(RemoteOptions::default(), &url);
    match differs {
        Differs::Query => (of(format!("{url}?id=1")), of(format!("{url}?id=2"))),
        Differs::User => (
            of(url.replace("http://", "http://anna:secret@")),
            of(url.replace("http://", "http://bert:secret@")),
        ),
        Differs::Header => (with_header(&url, "anna"), with_header(&url, "bert")),
        Differs::Endpoint => (first.location(), second.location()),
    }
}

/// Interrupts a download of the first object, then downloads the second one into the same target.
async fn first_then_second(differs: Differs, content: [u64; 2], has_checksum: bool) -> Report {
    let label = format!("{differs:?} {content:?} {has_checksum}");
    let flavour = match differs {
        Differs::Endpoint => Flavour::S3,
        _ => Flavour::Http,
    };
    let first = bed(flavour, content[0], has_checksum).await;
    let second = bed(flavour, content[1], has_checksum).await;
    let (one, other) = names(differs, &first, &second);
    assert_eq!(one.display(), other.display(), "{label}: what is shown does not tell them apart");
    let place = Place::new();
    cancel(&first, &one, &place, options(), HELD).await;
    assert!(place.part.exists(), "{label}");
    // One server distinguishes its objects by something that is not in the path.
    let served = if matches!(differs, Differs::Endpoint) {
        &second
    } else {
        first.server.put(first.path(), second.server.blob(second.path()).unwrap());
        &first
    };
    let report = fetch(served, &other, &place).await;
    assert_done(&place, &second.bytes);
    if report.resumed_bytes == 0 {
        assert!(sent(&served.server.log()) >= LEN as u64, "{label}: all of it is the second's");
    }
    report
}

async fn fetch(bed: &Bed, location: &Location, place: &Place) -> Report {
    let options = options();
    let report = within(download(location, place.target(), &options)).await.unwrap();
    within(bed.server.idle()).await;
    settle(&options).await;
    report
}

fn notes(report: &Report, text: &str) -> bool {
    report.notes.iter().any(|note| note.contains(text))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_of_another_object_are_not_used() {
    for differs in ALL {
        let report = first_then_second(differs, [7, 99], false).await;
        let label = format!("{differs:?}: {:?}", report.notes);
        assert_eq!(report.resumed_bytes, 0, "{label}");
        assert!(notes(&report, "was not resumed"), "{label}");
    }
}

/// With a checksum the run resumes equal content, and detects other content. Without a checksum it
/// fetches even equal content again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_checksum_of_the_whole_blob_decides_about_resuming() {
    for differs in ALL {
        let report = first_then_second(differs, [7, 99], true).await;
        let label = format!("{differs:?}: {:?}", report.notes);
        assert!(notes(&report, "was not of this blob"), "{label}");
        assert!(report.is_verified(), "{label}");
        let report = first_then_second(differs, [7, 7], true).await;
        let label = format!("{differs:?}: {:?}", report.notes);
        assert!(report.resumed_bytes > 0 && report.is_verified(), "{label}");
        let report = first_then_second(differs, [7, 7], false).await;
        assert_eq!(report.resumed_bytes, 0, "{differs:?}: {:?}", report.notes);
    }
}

/// A signed URL that was signed again, on a server of this flavour.
async fn signed_again(flavour: Flavour, versioning: bool, has_checksum: bool) -> Report {
    let digests = HttpDigests { repr_digest: has_checksum, ..HttpDigests::default() };
    let checksums = if has_checksum { Checksums::Correct } else { Checksums::None };
    let options = ServerOptions { digests, versioning, ..ServerOptions::of(flavour) };
    let bed = Bed::with(options, pseudo_random(LEN, 7), blob(7, checksums)).await;
    let signed = |signature: &str| {
        let url = bed.server.url(bed.path());
        let url = format!("{url}?X-Amz-Expires=60&X-Amz-Signature={signature}");
        locate(RemoteOptions::default(), &url)
    };
    let place = Place::new();
    cancel(&bed, &signed("aa"), &place, crate::resume::options(), HELD).await;
    assert!(place.part.exists());
    let report = fetch(&bed, &signed("bb"), &place).await;
    assert_done(&place, &bed.bytes);
    report
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newly_signed_url_resumes_if_a_version_or_checksum_proves_it() {
    for (flavour, versioning, has_checksum, goes_on) in [
        (Flavour::Http, false, false, false),
        (Flavour::Http, false, true, true),
        (Flavour::S3, false, false, false),
        (Flavour::Gcs, false, true, true),
        // A version id, or a generation.
        (Flavour::S3, true, false, true),
        (Flavour::Gcs, false, false, true),
    ] {
        let report = signed_again(flavour, versioning, has_checksum).await;
        let label = format!("{flavour:?} {versioning} {has_checksum}: {:?}", report.notes);
        assert_eq!(report.resumed_bytes > 0, goes_on, "{label}");
        let note = if goes_on { "resumed: " } else { "was not resumed" };
        assert!(notes(&report, note), "{label}");
    }
}

/// A generation of one object does not identify another object with the same number.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_generation_does_not_identify_another_object() {
    let first = bed(Flavour::Gcs, 7, false).await;
    let url = |id| format!("{}?id={id}", first.server.url(first.path()));
    let place = Place::new();
    let one = locate(RemoteOptions::default(), &url(1));
    cancel(&first, &one, &place, options(), HELD).await;
    first.server.put(first.path(), blob(99, Checksums::None));
    let report = fetch(&first, &locate(RemoteOptions::default(), &url(2)), &place).await;
    assert_done(&place, &pseudo_random(LEN, 99));
    assert_eq!(report.resumed_bytes, 0);
    assert!(notes(&report, "was not resumed"), "{:?}", report.notes);
}
