//! Plain HTTP and `WebDAV`, write side: PUT, DELETE, OPTIONS, MOVE, COPY, MKCOL.
//!
//! Source: RFC 9110 section 9.3.4 and RFC 4918 section 9. As the servers in use, it does not compare
//! the checksum of a PUT. A PUT with `Content-Range` is refused, as nginx does.

use percent_encoding::percent_decode_str;

use super::{
    call::{Call, Outcome, Stop, empty},
    precondition::{Condition, Moment},
    written::{Assembled, Metadata},
};
use crate::{
    flavour::{Flavour, Problem},
    respond::Refusal,
    store::Selector,
};

const METHODS: &str = "GET, HEAD, OPTIONS, PUT, DELETE";
const METHODS_DAV: &str = "GET, HEAD, OPTIONS, PUT, DELETE, MOVE, COPY, MKCOL";

/// Answers a request to a plain HTTP server that is not a read.
pub(crate) async fn answer(call: &mut Call<'_>) -> Outcome {
    let dav = call.options().dav;
    match call.request.method.as_str() {
        "PUT" => put(call).await,
        "DELETE" => delete(call).await,
        "OPTIONS" => options(call).await,
        "MOVE" if dav => relocate(call, false).await,
        "COPY" if dav => relocate(call, true).await,
        "MKCOL" if dav => {
            call.body.drop_rest().await?;
            Ok(empty(201, Vec::new()))
        }
        _ => Err(Refusal::from(Problem::Status(405)).with("Allow", methods(call)).into()),
    }
}

fn methods(call: &Call<'_>) -> &'static str {
    if call.options().dav { METHODS_DAV } else { METHODS }
}

async fn put(call: &mut Call<'_>) -> Outcome {
    if call.field("content-range").is_some() {
        return Err(Problem::Status(501).into());
    }
    let path = call.path();
    let condition = Condition::of(call)?.settle(call, path, Moment::Put).await?;
    let body = call.receive().await?;
    let metadata = Metadata::of(call.request, Flavour::Http);
    let blob = Assembled::from(body).into_blob(call, metadata, None);
    let replaces = call.options().replaces;
    let mut is_new = false;
    let check = |there: Option<&crate::Blob>| {
        is_new = there.is_none();
        if there.is_some() && !replaces {
            return Err(Problem::Status(409));
        }
        condition.check(Flavour::Http, there)
    };
    call.origin.store.put_if(path, blob, check)?;
    Ok(empty(if is_new { 201 } else { 204 }, Vec::new()))
}

async fn delete(call: &mut Call<'_>) -> Outcome {
    call.body.drop_rest().await?;
    let path = call.path();
    let condition = Condition::of(call)?.settle(call, path, Moment::Put).await?;
    let removed =
        call.origin.store.remove_if(path, |there| condition.check(Flavour::Http, there))?;
    if removed { Ok(empty(204, Vec::new())) } else { Err(Problem::Status(404).into()) }
}

async fn options(call: &mut Call<'_>) -> Outcome {
    call.body.drop_rest().await?;
    let mut fields = vec![("Allow", methods(call).to_owned())];
    if call.options().dav {
        fields.push(("DAV", "1, 2".to_owned()));
    }
    Ok(empty(200, fields))
}

/// MOVE and COPY. A MOVE that fails leaves the source as it is.
async fn relocate(call: &mut Call<'_>, keeps_source: bool) -> Outcome {
    call.body.drop_rest().await?;
    let target = destination(call)?;
    let store = &call.origin.store;
    let Some(mut blob) = store.find(call.path(), &Selector::Latest) else {
        return Err(Problem::Status(404).into());
    };
    blob.version = store.next_version();
    let overwrites = call.field("overwrite") != Some("F");
    let mut is_new = false;
    store.put_if(&target, blob, |there| {
        is_new = there.is_none();
        if is_new || overwrites { Ok(()) } else { Err(Problem::Status(412)) }
    })?;
    if !keeps_source {
        store.remove(call.path());
    }
    Ok(empty(if is_new { 201 } else { 204 }, Vec::new()))
}

/// The path of `Destination`, which is a URL or an absolute path.
fn destination(call: &Call<'_>) -> Result<String, Stop> {
    let url = call.field("destination").ok_or(Stop::from(Problem::Status(400)))?;
    let path = match url.split_once("://") {
        Some((_, rest)) => rest.find('/').and_then(|slash| rest.get(slash..)).unwrap_or("/"),
        None => url,
    };
    let path = percent_decode_str(path).decode_utf8_lossy().into_owned();
    if path.starts_with('/') && path != call.path() {
        Ok(path)
    } else {
        Err(Problem::Status(if path.starts_with('/') { 403 } else { 400 }).into())
    }
}
