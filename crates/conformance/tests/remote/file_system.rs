//! Properties of file systems only: links, odd names, permissions, nested folders.

use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use futures_util::TryStreamExt;
use tidegate::remote::{
    CompleteRequest, DeleteRequest, ListPage, ListRequest, PartNumber, Payload, Precondition,
    Upload, UploadId, UploadPart, WriteOptions,
};
use tidegate::{Budget, ErrorKind};
use tidegate_conformance::remote::{Place, content};

use crate::folder::Folder;

async fn listed(place: &Folder, prefix: &str) -> tidegate::Result<ListPage> {
    let at = place.at(prefix);
    let pages = at.list()?.list(&ListRequest::new(&*at.blob), &Budget::default());
    let pages: Vec<ListPage> = pages.try_collect().await?;
    assert_eq!(pages.len(), 1);
    Ok(pages.into_iter().next().unwrap())
}

/// A link may lead out of the tree, or form a cycle. The page names it as unlisted,
/// because the caller may delete names that the page does not have.
#[tokio::test]
async fn links_are_named_and_not_followed() {
    let (place, outside) = (Folder::new(), Folder::new());
    outside.put("secret", content(1, 1)).await;
    place.put("tree/file", content(1, 1)).await;
    symlink(outside.path(""), place.path("tree/out")).unwrap();
    symlink(".", place.path("tree/round")).unwrap();
    symlink("file", place.path("tree/zlink")).unwrap();
    let page = listed(&place, "tree/").await.unwrap();
    let names: Vec<_> = page.entries.iter().map(|entry| entry.blob.clone()).collect();
    assert_eq!(names, [place.at("tree/file").blob]);
    let unlisted: Vec<_> = page.unlisted.iter().map(|unlisted| &*unlisted.name).collect();
    let expected = ["tree/out", "tree/round", "tree/zlink"].map(|name| place.at(name).blob);
    assert_eq!(unlisted, expected);
}

#[tokio::test]
async fn names_that_are_no_text_are_named() {
    let place = Folder::new();
    place.put("odd/a", content(1, 1)).await;
    let name = std::ffi::OsString::from_vec(b"b\xff".to_vec());
    std::fs::write(place.path("odd").join(name), b"x").unwrap();
    let page = listed(&place, "odd/").await.unwrap();
    assert_eq!((page.entries.len(), page.unlisted.len()), (1, 1));
    assert!(page.unlisted[0].reason.contains("UTF-8"));
}

/// An empty list would let a caller delete everything at the other end of a synchronisation.
#[tokio::test]
async fn a_missing_folder_is_no_empty_one() {
    let place = Folder::new();
    assert_eq!(listed(&place, "no/such/").await.unwrap_err().kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn folders_too_deep_are_an_error() {
    let place = Folder::new();
    let mut path = PathBuf::from("deep");
    for _ in 0..130 {
        path.push("d");
    }
    std::fs::create_dir_all(place.path(path.to_str().unwrap())).unwrap();
    assert_eq!(listed(&place, "deep/").await.unwrap_err().kind(), ErrorKind::Unsupported);
}

/// Replacing a file keeps its permissions, and a put through a link keeps the link.
#[tokio::test]
async fn a_put_keeps_rights_and_links() {
    let place = Folder::new();
    place.put("file", content(1, 1)).await;
    symlink("file", place.path("link")).unwrap();
    std::fs::set_permissions(place.path("file"), PermissionsExt::from_mode(0o640)).unwrap();
    let (at, bytes) = (place.at("link"), content(2000, 2));
    let payload = Payload::from_bytes(bytes.clone());
    at.write().unwrap().put(&at.blob, &payload, &WriteOptions::default()).await.unwrap();
    let mode = std::fs::metadata(place.path("file")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    assert!(place.path("link").is_symlink());
    assert_eq!(place.get("file").await, Some(bytes));
}

#[tokio::test]
async fn what_is_no_name_of_a_file_is_refused() {
    let place = Folder::new();
    place.put("folder/file", content(1, 1)).await;
    for name in ["folder", "folder/", "folder/file/under", ".x.tidegate-part"] {
        let at = place.at(name);
        let (writing, options) = (at.write().unwrap(), WriteOptions::default());
        let kinds = [ErrorKind::Storage, ErrorKind::Invalid];
        let payload = Payload::from_bytes("x");
        let error = writing.put(&at.blob, &payload, &options).await.unwrap_err();
        assert!(kinds.contains(&error.kind()), "{name}: {error:?}");
        let error = writing.begin(&at.blob, &options).await.unwrap_err();
        assert!(kinds.contains(&error.kind()), "{name}: {error:?}");
    }
    for name in ["folder", ".x.tidegate-part"] {
        let at = place.at(name);
        let request = DeleteRequest { blob: at.blob.clone(), version: None };
        let error = at.delete().unwrap().delete(&request).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{name}");
    }
    assert_eq!(place.get("folder/file").await, Some(content(1, 1)));
}

/// A journal may be forged: only ids of uploads are accepted.
#[tokio::test]
async fn an_id_that_is_no_upload_is_refused() {
    let place = Folder::new();
    place.put("folder/file", content(1, 1)).await;
    let at = place.at("target");
    let writing = at.write().unwrap();
    let file = place.path("folder/file").display().to_string();
    let folder = place.path("folder").display().to_string();
    for id in [file.as_str(), &folder, "", "/", "..", ".a.tidegate-upload-", ".a.tidegate-part"] {
        let upload = Upload::new(&*at.blob, UploadId::new(id), &WriteOptions::default());
        for error in [
            writing.abort(&upload).await.unwrap_err(),
            writing.parts(&upload).await.unwrap_err(),
            writing.complete(&upload, &CompleteRequest::new(Vec::new())).await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Invalid, "{id}");
        }
    }
    assert_eq!(place.get("folder/file").await, Some(content(1, 1)));
}

/// Damage to a stored part is detected when the upload completes.
#[tokio::test]
async fn a_part_that_is_damaged_on_the_disk_is_found() {
    let place = Folder::new();
    let at = place.at("target");
    let writing = at.write().unwrap();
    let upload = writing.begin(&at.blob, &WriteOptions::default()).await.unwrap();
    let part = UploadPart {
        number: PartNumber::new(1).unwrap(),
        offset: 0,
        payload: Payload::from_bytes(content(1000, 1)),
    };
    let stored = writing.part(&upload, &part).await.unwrap();
    let data = PathBuf::from(upload.id.as_str()).join("data");
    let mut bytes = std::fs::read(&data).unwrap();
    bytes[500] ^= 1;
    std::fs::write(&data, bytes).unwrap();
    let request = CompleteRequest::new(vec![stored]);
    let error = writing.complete(&upload, &request).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Integrity);
    assert!(error.to_string().contains("part 1"), "{error}");
    assert_eq!(place.get("target").await, None);
}

/// Names so long that the suffix of hidden names does not fit.
#[tokio::test]
async fn long_names_are_written_and_their_uploads_found() {
    let place = Folder::new();
    let at = place.at(&"x".repeat(255));
    let writing = at.write().unwrap();
    let options = WriteOptions::when(Precondition::Absent);
    let upload = writing.begin(&at.blob, &options).await.unwrap();
    let page = writing.uploads(&at.blob, None, &Budget::default()).await.unwrap();
    assert_eq!(page.uploads[0].upload.blob, at.blob);
    assert!(page.uploads[0].began.is_some());
    writing.abort(&upload).await.unwrap();
    let payload = Payload::from_bytes("x");
    writing.put(&at.blob, &payload, &options).await.unwrap();
    assert_eq!(place.all().len(), 1);
}
