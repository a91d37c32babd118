//! `/` and its policy.

use crate::bed::{get, send};
use crate::serving::Bed;

#[tokio::test(flavor = "multi_thread")]
async fn the_page_allows_nothing_external() {
    let bed = Bed::new().await;
    let page = get(&bed, "/").await;
    assert_eq!(page.status, 200);
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    let policy = page.header("content-security-policy").unwrap();
    for part in ["default-src 'none'", "script-src 'sha256-", "connect-src 'self'"] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("unsafe"));
    assert!(page.text().contains("<title>Tidegate</title>"));
    let head = send(&bed, "HEAD /", &[], b"").await;
    assert_eq!((head.status, head.body.len()), (200, 0));
    // Clients of WebDAV ask for the same path.
    assert_eq!(send(&bed, "PROPFIND /", &[], b"").await.status, 207);
    bed.end().await;
}
