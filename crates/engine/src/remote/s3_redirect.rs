//! The target of an S3 redirect, and whether it is followed.
//!
//! For some hours after a bucket was created, S3's global address responds with 307 and the address
//! of the bucket's region (Amazon S3 User Guide, "Making requests", "Request redirection"). The
//! request is then signed again for that address, because a signature covers the host. Such a
//! response applies to one request only: the next one begins at the endpoint again.
//!
//! A request carries a session token, and may carry headers of the caller and a customer's key. So
//! a redirect is followed only if the target has the endpoint's owner. The host must be in the
//! endpoint's parent domain. For Amazon's own endpoints it must be a host of S3. A redirect from
//! https to http is refused.

use percent_encoding::percent_decode_str;
use url::{Host, Url};

use crate::transport::ResponseHead;

/// The address of a bucket, as the settings of `object_store` name it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Address {
    /// Without a slash at its end.
    pub(super) endpoint: String,
    /// Whether the endpoint's host contains the bucket; then its paths do not.
    pub(super) bucket_in_host: bool,
    /// The region for signatures; `None` keeps the configured one.
    pub(super) region: Option<String>,
}

/// The address that the response `head` redirects to, after a request for `key` in `bucket` at the
/// address `home`; or why the redirect is refused.
pub(super) fn address(
    head: &ResponseHead,
    home: &Url,
    bucket: &str,
    key: &str,
) -> Result<Address, String> {
    let location = head.text("location").ok_or("it redirects without saying where")?;
    let to = Url::parse(location).ok().filter(|to| matches!(to.scheme(), "http" | "https"));
    let to = to.ok_or("it redirects to something that is no address")?;
    let host = to.host_str().unwrap_or_default();
    if home.scheme() == "https" && to.scheme() == "http" {
        return Err(format!("it redirects from https to http, to {host}"));
    }
    if !is_of_the_same_owner(home, &to) {
        return Err(format!("it redirects to {host}, which is not under the endpoint's domain"));
    }
    let path = percent_decode_str(to.path()).decode_utf8_lossy();
    let base = path.strip_suffix(key).and_then(|rest| rest.strip_suffix('/'));
    let base = base.ok_or_else(|| format!("it redirects to another key, at {host}"))?;
    let (base, bucket_in_host) = match base.strip_suffix(bucket) {
        Some(base) if base.ends_with('/') => (base.trim_end_matches('/'), false),
        // The host of another bucket may have another owner.
        _ if base.is_empty() && names(host, bucket) => ("", true),
        _ => return Err(format!("it redirects to another bucket, at {host}")),
    };
    let region = head.text("x-amz-bucket-region").map(str::to_owned);
    Ok(Address {
        endpoint: format!("{}{base}", to.origin().ascii_serialization()),
        bucket_in_host,
        region: region.or_else(|| amazon_region(host).map(str::to_owned)),
    })
}

fn is_of_the_same_owner(home: &Url, to: &Url) -> bool {
    let (Some(Host::Domain(from)), Some(Host::Domain(host))) = (home.host(), to.host()) else {
        // IP addresses have no domain.
        return home.host() == to.host();
    };
    if let Some(domain) = AMAZON.iter().find(|domain| from.ends_with(*domain)) {
        return host == from || (host.ends_with(domain) && amazon_region(host).is_some());
    }
    let parent = parent(from);
    host == from
        || host == parent
        || host.strip_suffix(parent).is_some_and(|below| below.ends_with('.'))
}

fn names(host: &str, bucket: &str) -> bool {
    host.strip_prefix(bucket).is_some_and(|rest| rest.starts_with('.'))
}

/// The parent domain of a host. A domain that may have many owners is not a parent: one label
/// (`com`), or two short ones (`co.uk`).
fn parent(host: &str) -> &str {
    let Some((_, parent)) = host.split_once('.') else { return host };
    match parent.split_once('.') {
        None => host,
        Some((second, top)) if !top.contains('.') && second.len() <= 3 && top.len() <= 2 => host,
        Some(_) => parent,
    }
}

/// Amazon's domain has hosts of many owners, and services other than S3.
const AMAZON: [&str; 2] = [".amazonaws.com", ".amazonaws.com.cn"];

/// The region in `s3.REGION.amazonaws.com`, `s3-REGION.amazonaws.com`, and in both after a bucket;
/// `us-east-1` for the global address.
fn amazon_region(host: &str) -> Option<&str> {
    let rest = AMAZON.iter().find_map(|suffix| host.strip_suffix(suffix))?;
    // A bucket's name may have dots, and labels that look like these.
    let (before, last) = rest.rsplit_once('.').unwrap_or(("", rest));
    let service = before.rsplit('.').next().unwrap_or_default();
    let service_of_two = before.strip_suffix(".dualstack").map(|b| b.rsplit('.').next());
    if last == "s3" {
        return Some("us-east-1");
    }
    if let Some(region) = last.strip_prefix("s3-") {
        return Some(region);
    }
    let is_s3 = service == "s3" || service_of_two.flatten() == Some("s3");
    is_s3.then_some(last)
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue};

    use super::*;

    fn go(home: &str, location: &str) -> Result<Address, String> {
        let value = HeaderValue::from_str(location).unwrap();
        let headers = HeaderMap::from_iter([(http::header::LOCATION, value)]);
        let head = ResponseHead { headers, ..ResponseHead::default() };
        address(&head, &Url::parse(home).unwrap(), "bucket", "a/ke y")
    }

    fn is_followed(home: &str, location: &str) -> bool {
        go(home, location).is_ok()
    }

    #[test]
    fn a_new_bucket_of_amazon_is_found_in_its_region() {
        for home in ["https://s3.us-east-1.amazonaws.com", "https://bucket.s3.amazonaws.com"] {
            for (host, bucket_in_host) in [
                ("bucket.s3-us-west-2.amazonaws.com", true),
                ("bucket.s3.us-west-2.amazonaws.com", true),
                ("bucket.s3.dualstack.us-west-2.amazonaws.com", true),
                ("s3.us-west-2.amazonaws.com/bucket", false),
            ] {
                let address = go(home, &format!("https://{host}/a/ke%20y?x-id=GetObject")).unwrap();
                let endpoint = host.strip_suffix("/bucket").unwrap_or(host);
                assert_eq!(address.endpoint, format!("https://{endpoint}"));
                assert_eq!(address.bucket_in_host, bucket_in_host, "{host}");
                assert_eq!(address.region.as_deref(), Some("us-west-2"), "{host}");
            }
        }
    }

    #[test]
    fn other_owners_are_not_given_anything() {
        for (home, host) in [
            ("https://s3.us-east-1.amazonaws.com", "bucket.s3.example.com"),
            ("https://s3.us-east-1.amazonaws.com", "evil.execute-api.us-east-1.amazonaws.com"),
            ("https://s3.us-east-1.amazonaws.com", "s3.us-east-1.amazonaws.com.example.com"),
            ("https://s3.us-east-1.amazonaws.com", "s3.evilamazonaws.com"),
            ("https://s3.us-east-1.amazonaws.com", "s3.cn-north-1.amazonaws.com.cn"),
            ("https://minio.example.com", "evil.com"),
            ("https://minio.example.com", "evilexample.com"),
            ("https://minio.co.uk", "evil.co.uk"),
            ("https://example.com", "evil.com"),
            ("https://minio", "evil"),
            ("https://10.0.0.1", "10.0.0.2"),
            ("https://10.0.0.1", "minio.example.com"),
        ] {
            assert!(!is_followed(home, &format!("https://{host}/bucket/a/ke y")), "{home} {host}");
        }
        for (home, host) in [
            ("https://minio.example.com", "minio.example.com"),
            ("https://minio.example.com", "node-2.minio.example.com:9000"),
            ("https://minio.example.com", "node-2.example.com"),
            ("https://minio.co.uk", "node-2.minio.co.uk"),
            ("https://example.com", "node-2.example.com"),
            ("https://10.0.0.1:9000", "10.0.0.1:9001"),
        ] {
            assert!(is_followed(home, &format!("https://{host}/bucket/a/ke y")), "{home} {host}");
        }
    }

    #[test]
    fn what_was_protected_stays_so_and_the_object_stays_the_same() {
        let (plain, safe) = ("http://s3.example.com/base", "https://s3.example.com/base");
        assert!(is_followed(plain, "http://n.example.com/bucket/a/ke%20y"));
        assert!(is_followed(plain, "https://n.example.com/bucket/a/ke%20y"));
        assert!(go(safe, "http://n.example.com/bucket/a/ke%20y").unwrap_err().contains("to http"));
        let based = go(safe, "https://n.example.com/base/bucket/a/ke%20y").unwrap();
        assert_eq!(based.endpoint, "https://n.example.com/base");
        for (location, word) in [
            ("https://n.example.com/bucket/other", "another key"),
            ("https://n.example.com/bucket/xa/ke%20y", "another"),
            ("https://n.example.com/other/a/ke%20y", "another bucket"),
            ("https://n.example.com/xbucket/a/ke%20y", "another bucket"),
            ("https://other.s3.example.com/a/ke%20y", "another bucket"),
            ("https://bucketx.s3.example.com/a/ke%20y", "another bucket"),
            ("ftp://n.example.com/bucket/a/ke%20y", "no address"),
            ("/bucket/a/ke%20y", "no address"),
        ] {
            let refused = go(safe, location).unwrap_err();
            assert!(refused.contains(word), "{location}: {refused}");
        }
    }
}
