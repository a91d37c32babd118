//! Checksums in the fields of a request: refused, ignored, or compared with what arrived.

use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::{
    algorithm::{ALGORITHMS, Algorithm, Digests},
    call::{Call, Stop, refuse},
    options::WriteChecksums,
};
use crate::{
    flavour::{Coded, Flavour, Problem},
    respond::Refusal,
    uploaded::hex,
};

/// Refuses a request whose fields this server does not know, before its body is read.
pub(crate) fn refuse_fields(call: &Call<'_>) -> Result<(), Stop> {
    let encoded = call.field("content-encoding").is_some_and(|value| value.contains("aws-chunked"));
    if encoded || call.field("x-amz-trailer").is_some() {
        return Err(not_implemented("x-amz-trailer"));
    }
    let WriteChecksums::Refused(fields) = call.options().checksums else { return Ok(()) };
    if let Some(field) = fields.iter().find(|field| call.field(field).is_some()) {
        return Err(not_implemented(field));
    }
    let named = call.field("x-amz-checksum-algorithm").and_then(Algorithm::of_name);
    match named {
        Some(algorithm) if fields.contains(&algorithm.header()) => {
            Err(not_implemented(algorithm.header()))
        }
        _ => Ok(()),
    }
}

fn not_implemented(field: &str) -> Stop {
    let message = "A header you provided implies functionality that is not implemented";
    let coded = Coded { status: 501, code: "NotImplemented", message };
    Refusal::from(Problem::Coded(coded)).about(field).into()
}

/// Compares the checksums that the request names with those of the body.
pub(crate) fn verify(call: &Call<'_>, digests: &Digests) -> Result<(), Stop> {
    if call.options().checksums == WriteChecksums::Ignored {
        return Ok(());
    }
    match call.origin.options.flavour {
        // No HTTP server in use compares the checksum of a PUT.
        Flavour::Http => Ok(()),
        Flavour::S3 => verify_md5(call, digests, "BadDigest").and_then(|()| s3(call, digests)),
        Flavour::Gcs => verify_md5(call, digests, "BadDigest").and_then(|()| gcs(call, digests)),
        Flavour::Azure => {
            verify_md5(call, digests, "Md5Mismatch").and_then(|()| azure(call, digests))
        }
    }
}

fn verify_md5(call: &Call<'_>, digests: &Digests, code: &'static str) -> Result<(), Stop> {
    let Some(text) = call.field("content-md5") else { return Ok(()) };
    let Some(given) = STANDARD.decode(text).ok().filter(|md5| md5.len() == 16) else {
        return Err(refuse(400, "InvalidDigest", "The Content-MD5 you specified is not valid."));
    };
    if digests.md5.as_ref() == Some(&given) {
        return Ok(());
    }
    Err(refuse(400, code, "The Content-MD5 you specified did not match what we received."))
}

fn s3(call: &Call<'_>, digests: &Digests) -> Result<(), Stop> {
    let signed = call.field("x-amz-content-sha256").filter(|value| value.len() == 64);
    if let (Some(signed), Some(sha256)) = (signed, &digests.sha256)
        && !signed.eq_ignore_ascii_case(&hex(sha256))
    {
        let message =
            "The provided 'x-amz-content-sha256' header does not match what was computed.";
        return Err(refuse(400, "XAmzContentSHA256Mismatch", message));
    }
    let Some((algorithm, text)) = given(call) else { return Ok(()) };
    let value = digests.value(algorithm);
    match STANDARD.decode(text) {
        Ok(given) if given == value => Ok(()),
        Ok(given) if given.len() == value.len() => Err(mismatch(call)),
        _ => Err(refuse(400, "InvalidRequest", "A value of x-amz-checksum is not valid.")),
    }
}

/// The checksum that an S3 request names.
pub(crate) fn given<'a>(call: &Call<'a>) -> Option<(Algorithm, &'a str)> {
    let field = |algorithm: Algorithm| Some((algorithm, call.field(algorithm.header())?));
    ALGORITHMS.into_iter().find_map(field)
}

/// S3's error for a wrong checksum.
pub(crate) fn mismatch(call: &Call<'_>) -> Stop {
    let message = "The checksum you specified did not match the calculated checksum.";
    refuse(400, call.options().checksum_code, message)
}

fn gcs(call: &Call<'_>, digests: &Digests) -> Result<(), Stop> {
    goog_hash(call, digests).map_or(Ok(()), |wrong| {
        if wrong == "md5" {
            Err(refuse(400, "BadDigest", "The MD5 you specified did not match what we received."))
        } else {
            Err(refuse(
                400,
                "BadDigest",
                "The CRC32C you specified did not match what we received.",
            ))
        }
    })
}

/// The name of the hash in `x-goog-hash` that is wrong, if any is.
pub(crate) fn goog_hash<'a>(call: &Call<'a>, digests: &Digests) -> Option<&'a str> {
    let fields = call.request.fields.iter();
    let values = fields.filter(|(name, _)| name.eq_ignore_ascii_case("x-goog-hash"));
    let pairs = values
        .flat_map(|(_, value)| value.split(','))
        .filter_map(|pair| pair.trim().split_once('='));
    let wrong = |(name, value): &(&str, &str)| match *name {
        "crc32c" => digests.base64(Algorithm::Crc32c) != *value,
        "md5" => digests.md5.as_ref().is_some_and(|md5| STANDARD.encode(md5) != *value),
        _ => false,
    };
    let mut pairs = pairs;
    pairs.find(wrong).map(|(name, _)| name)
}

fn azure(call: &Call<'_>, digests: &Digests) -> Result<(), Stop> {
    let Some(text) = call.field("x-ms-content-crc64") else { return Ok(()) };
    if !call.options().azure_crc64 {
        return Err(refuse(500, "InternalError", "The server met an internal error."));
    }
    if call.field("content-md5").is_some() {
        return Err(refuse(400, "InvalidHeaderValue", "Only one checksum may be given."));
    }
    // Azure's clients write the bytes of the CRC in little-endian order.
    if text == STANDARD.encode(digests.crc64_nvme.to_le_bytes()) {
        return Ok(());
    }
    let message = "The CRC64 value specified in the request did not match what was calculated.";
    Err(refuse(400, "Crc64Mismatch", message))
}
