//! A modification date is a version only if the response is at least one second younger (RFC 9110
//! section 8.8.2.2): within the same second the blob can change again.

use tidegate::remote::Version;

use super::*;

/// The flavours for which a date can be the version. S3 always has an entity tag.
const DATED: [Flavour; 3] = [Flavour::Http, Flavour::Gcs, Flavour::Azure];

const SECOND_LATER: &str = "Tue, 14 Nov 2023 22:13:21 GMT";

fn dated(asked: &Asked, date: Option<&str>) -> Reply {
    let reply = Reply::of(asked, &blob()).without("date");
    let reply = reply.with("last-modified", origin::MODIFIED);
    match date {
        Some(date) => reply.with("date", date),
        None => reply,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_date_allows_a_resume_if_it_is_a_second_older_than_the_response() {
    let earlier = "Tue, 14 Nov 2023 22:13:19 GMT";
    for (date, pins) in [
        (Some(SECOND_LATER), true),
        (Some(origin::DATE), true),
        (Some(origin::MODIFIED), false),
        (Some(earlier), false),
        (Some("yesterday"), false),
        (None, false),
    ] {
        for flavour in DATED {
            let origin = Origin::new(move |asked| dated(asked, date)).await;
            let location = locate(&origin, flavour);
            let label = format!("{flavour:?} {date:?}");
            let version = pins.then(|| Version::LastModified(origin::MODIFIED.to_owned()));
            let info = location.remote.stat(&location.blob).await.unwrap();
            assert_eq!(info.version, version, "{label}");
            assert_eq!(info.last_modified.as_deref(), Some(origin::MODIFIED), "{label}");
            for reader in READERS {
                let before = origin.log().len();
                let outcome = reader.read(&location).await.unwrap();
                assert!(outcome.bytes == blob(), "{label} {reader:?}");
                let several = matches!(reader, Reader::Memory(4) | Reader::File(4));
                let later = origin.log()[before..].iter().any(Asked::is_later);
                assert!(!later || pins, "{label} {reader:?}: a second part");
                assert!(later || !pins || !several, "{label} {reader:?}: one stream");
                let Some(report) = outcome.report else { continue };
                assert_eq!(report.version(), version.as_ref(), "{label} {reader:?}");
            }
        }
    }
}

/// A blob that changes within the second of its date is not mixed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_weak_date_does_not_allow_a_resume() {
    for flavour in DATED {
        let origin = Origin::new(|asked| {
            if asked.is_later() {
                let reply = Reply::of(asked, &other_blob()).without("date");
                return reply
                    .with("last-modified", origin::MODIFIED)
                    .with("date", origin::MODIFIED);
            }
            dated(asked, Some(origin::MODIFIED)).cut_after(100_000)
        });
        let origin = origin.await;
        let location = locate(&origin, flavour);
        all_fail(&location, &[ErrorKind::Transport], &format!("{flavour:?}")).await;
        let by_hand = Version::LastModified(origin::MODIFIED.to_owned());
        let location = location.at(by_hand).unwrap();
        all_fail(&location, &[ErrorKind::Changed], &format!("{flavour:?} by hand")).await;
    }
}
