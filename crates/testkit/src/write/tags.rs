//! Tags of an object, as S3 and Azure have them.
//!
//! Source: the API reference of `GetObjectTagging`, and the REST reference of "Get Blob Tags".

use percent_encoding::percent_decode_str;

use super::{
    call::{Call, Outcome},
    multipart::s3_answer,
    xml::{element, group},
};
use crate::{
    flavour::{Flavour, Problem},
    request::Request,
    store::Selector,
};

/// The tags that a write gives its object.
pub(crate) fn of(request: &Request, flavour: Flavour) -> Vec<(String, String)> {
    let name = match flavour {
        Flavour::S3 => "x-amz-tagging",
        Flavour::Azure => "x-ms-tags",
        Flavour::Gcs | Flavour::Http => return Vec::new(),
    };
    let text = request.field(name).unwrap_or_default();
    let decoded = |text: &str| {
        let text = text.replace('+', " ");
        percent_decode_str(&text).decode_utf8_lossy().into_owned()
    };
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (decoded(name), decoded(value)))
        .collect()
}

/// `GET ?tagging`, `GET ?comp=tags`
pub(crate) fn answer(call: &Call<'_>) -> Outcome {
    let version = call.parameter("versionId").or_else(|| call.parameter("versionid"));
    let selector = version.map_or(Selector::Latest, |id| Selector::VersionId(id.to_owned()));
    let blob = call.origin.store.find(call.path(), &selector).ok_or(Problem::NoSuchKey)?;
    let tag = |(name, value): &(String, String)| {
        group("Tag", element("Key", name) + &element("Value", value))
    };
    let set = group("TagSet", blob.tags.iter().map(tag).collect::<String>());
    let root = if call.origin.options.flavour == Flavour::S3 { "Tagging" } else { "Tags" };
    Ok(s3_answer(root, &set))
}
