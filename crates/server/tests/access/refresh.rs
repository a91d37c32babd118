//! Credentials and certificates are read again when their files change.

use http::StatusCode;

use crate::bed::{Bed, READER, ROLES, WRITER, within};

const HASH: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// Asks until the status is this one.
async fn until(bed: &Bed, token: &str, status: StatusCode) {
    let path = format!("/ac/{HASH}");
    within(async {
        while bed.http(token, "GET", &path, b"").await.status != status {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_token_that_is_taken_away_is_refused() {
    let bed = Bed::new(ROLES).await;
    until(&bed, READER, StatusCode::NOT_FOUND).await;
    let without = ROLES.replace(READER, "another-0123456789");
    std::fs::write(bed.credentials(), without).unwrap();
    until(&bed, READER, StatusCode::UNAUTHORIZED).await;
    until(&bed, "another-0123456789", StatusCode::NOT_FOUND).await;
    // A file with an error changes nothing.
    std::fs::write(bed.credentials(), "[[token]]\nname = 1").unwrap();
    until(&bed, WRITER, StatusCode::NOT_FOUND).await;
    std::fs::write(bed.credentials(), ROLES).unwrap();
    until(&bed, READER, StatusCode::NOT_FOUND).await;
    until(&bed, "another-0123456789", StatusCode::UNAUTHORIZED).await;
    until(&bed, WRITER, StatusCode::NOT_FOUND).await;
    bed.end().await;
}
