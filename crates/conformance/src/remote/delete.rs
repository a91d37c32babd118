//! Promises of remotes that delete.

use tidegate::remote::{DeleteRequest, Guarantee};
use tidegate::{ErrorKind, Location};

use super::suite::{Outcome, Report, ensure, failed, worked};
use super::write::expect;
use super::{Place, content};

/// Checks every promise of [`tidegate::remote::Delete`].
pub async fn delete_suite(place: &dyn Place) -> Report {
    let mut report = Report::default();
    report.add("a deleted blob is gone, and no other", deletes(place).await);
    report.add("a blob that is not there counts as deleted", absent(place).await);
    report.add("a blob of another version is Changed, and stays", compares(place).await);
    report.add("many are deleted with one result each, in order", many(place).await);
    report
}

fn request(at: &Location) -> DeleteRequest {
    DeleteRequest { blob: at.blob.clone(), version: None }
}

async fn deletes(place: &dyn Place) -> Outcome {
    let (one, other) = (content(10, 1), content(10, 2));
    place.put("delete/one", one).await;
    place.put("delete/one-more", other.clone()).await;
    let at = place.at("delete/one");
    worked("delete", worked("delete", at.delete())?.delete(&request(&at)).await)?;
    expect(place, "delete/one", None).await?;
    expect(place, "delete/one-more", Some(&other)).await?;
    failed("stat", at.remote.stat(&at.blob).await, &[ErrorKind::NotFound])
}

async fn absent(place: &dyn Place) -> Outcome {
    place.put("delete/blob", content(1, 1)).await;
    // The last name would be under a blob, which is impossible in a file system.
    for name in ["delete/absent", "no/such/folder", "delete/blob/under"] {
        let at = place.at(name);
        worked(name, worked("delete", at.delete())?.delete(&request(&at)).await)?;
    }
    Ok(())
}

async fn compares(place: &dyn Place) -> Outcome {
    let at = place.at("delete/version");
    let deleting = worked("delete", at.delete())?;
    place.put("delete/version", content(10, 1)).await;
    let old = worked("stat", at.remote.stat(&at.blob).await)?.version;
    let new_bytes = content(11, 2);
    place.put("delete/version", new_bytes.clone()).await;
    let new = worked("stat", at.remote.stat(&at.blob).await)?.version;
    let of = |version| DeleteRequest { version, ..request(&at) };
    if old.is_none() {
        return Ok(());
    }
    let is_kept = deleting.delete_profile().version != Guarantee::None;
    let kind = if is_kept { ErrorKind::Changed } else { ErrorKind::Unsupported };
    failed("delete of an old version", deleting.delete(&of(old)).await, &[kind])?;
    expect(place, "delete/version", Some(&new_bytes)).await?;
    if is_kept {
        worked("delete of its version", deleting.delete(&of(new.clone())).await)?;
        expect(place, "delete/version", None).await?;
        worked("delete of a version that is gone", deleting.delete(&of(new)).await)?;
    }
    Ok(())
}

async fn many(place: &dyn Place) -> Outcome {
    let mut requests = Vec::new();
    for index in 0..5 {
        let name = format!("delete/many/{index}");
        place.put(&name, content(1, index)).await;
        requests.push(request(&place.at(&name)));
    }
    requests.insert(2, request(&place.at("delete/many/absent")));
    let at = place.at("delete/many/0");
    let results = worked("delete", at.delete())?.delete_all(&requests).await;
    ensure!(results.len() == requests.len(), "{} results", results.len());
    for (result, request) in results.into_iter().zip(&requests) {
        worked(&request.blob, result)?;
    }
    for index in 0..5 {
        expect(place, &format!("delete/many/{index}"), None).await?;
    }
    Ok(())
}
