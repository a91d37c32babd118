//! A write under [`Precondition::Absent`](crate::remote::Precondition::Absent), by `WebDAV`.
//!
//! The bytes go to a temporary name in the same folder. A `MOVE` with `Overwrite: F` then gives them
//! their name, unless something has it. `OPTIONS` says whether the server has `MOVE`.
//!
//! Only the `MOVE` removes the temporary name. So if its response is lost, the temporary name tells
//! what happened.
//!
//! Source: RFC 4918, sections 9.9 and 10.6.

use http::{HeaderMap, HeaderValue, Method};
use url::Url;
use uuid::Uuid;

use super::client::{Change, Stop};
use super::write::{has_query, refused};
use super::{HttpRemote, shown};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::remote::write::{Payload, Written};
use crate::transport::ResponseHead;

impl HttpRemote {
    pub(super) async fn put_absent(
        &self,
        blob: &str,
        payload: &Payload,
        headers: HeaderMap,
    ) -> Result<Written> {
        self.require_move(blob).await?;
        if self.exists(blob).await? {
            return Err(there(blob));
        }
        let (temporary, names) = temporary(blob)?;
        let stored = self.send_put(blob, &temporary, payload, headers).await;
        let moved = match stored {
            Ok(stored) => self.rename(blob, stored.stop, &names).await,
            // Without a response, the server may have stored it.
            Err(error) => Err(error),
        };
        if moved.is_err()
            && let Err(error) = self.remove(&temporary).await
        {
            let left = shown(&temporary);
            tracing::warn!(%error, left, "a temporary file stays behind");
        }
        moved
    }

    /// Fails with `Unsupported` if the server has no `MOVE`.
    async fn require_move(&self, blob: &str) -> Result<()> {
        let unsupported = |message: &str| {
            Error::new(ErrorKind::Unsupported, Operation::Write, shown(blob), message)
        };
        if has_query(blob) {
            // A signature is for one request.
            let message = "an address with a query cannot be written only if it is absent";
            return Err(unsupported(message));
        }
        let change = Change::new(Method::OPTIONS, Operation::Write);
        let reached = self.client.change(self.client.first(blob)?, &change).await?;
        // Apache names the methods of what is there, so no MOVE for what is not. A server of class
        // 1 has it.
        if lists(&reached.head, "allow", "MOVE") || lists(&reached.head, "dav", "1") {
            return Ok(());
        }
        if matches!(reached.head.status.as_u16(), 300..=399 | 401 | 403 | 407 | 429 | 503) {
            return Err(refused(&reached.head, &shown(blob)));
        }
        Err(unsupported("the server cannot write a file only if it is absent: it has no MOVE")
            .with_hint("WebDAV has MOVE"))
    }

    /// Gives the temporary blob its name.
    async fn rename(&self, blob: &str, at: Stop, names: &Names) -> Result<Written> {
        let target = shown(blob);
        let Some(destination) = at.sibling(&names.temporary, &names.own) else {
            let message = "the server redirects to an address of another name";
            return Err(Error::new(ErrorKind::Unsupported, Operation::Commit, target, message));
        };
        let value = HeaderValue::try_from(destination.as_str()).map_err(|error| {
            let message = "the address makes no header";
            Error::new(ErrorKind::Invalid, Operation::Commit, &*target, message).caused_by(error)
        })?;
        let mut change =
            Change::new(Method::from_bytes(b"MOVE").unwrap_or_default(), Operation::Commit);
        change.headers.insert("destination", value);
        change.headers.insert("overwrite", HeaderValue::from_static("F"));
        let reached = match self.client.change(at.clone(), &change).await {
            Ok(reached) => reached,
            Err(error) => {
                // Was the response lost, or the request?
                let asked = Change::new(Method::HEAD, Operation::Stat);
                return match self.client.change(at, &asked).await {
                    Ok(reached) if reached.head.status.as_u16() == 404 => Ok(Written::default()),
                    _ => Err(error),
                };
            }
        };
        match reached.head.status.as_u16() {
            201 | 204 => Ok(Written::default()),
            412 => Err(there(blob)),
            _ => Err(refused(&reached.head, &target)),
        }
    }

    async fn remove(&self, temporary: &str) -> Result<()> {
        let change = Change::new(Method::DELETE, Operation::Delete);
        let reached = self.client.change(self.client.first(temporary)?, &change).await?;
        match reached.head.status.as_u16() {
            200..=299 | 404 | 410 => Ok(()),
            _ => Err(refused(&reached.head, &shown(temporary))),
        }
    }
}

/// Whether a header that is a list has this member.
fn lists(head: &ResponseHead, name: &str, member: &str) -> bool {
    let values = head.headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|found| found.trim().eq_ignore_ascii_case(member))
}

fn there(blob: &str) -> Error {
    let message = "a blob of that name is already there";
    Error::new(ErrorKind::AlreadyExists, Operation::Write, shown(blob), message)
}

/// The last segments of two addresses, as they are in a URL.
struct Names {
    own: String,
    temporary: String,
}

/// A new address in the folder of a blob: `.NAME.tidegate-ID`.
fn temporary(blob: &str) -> Result<(String, Names)> {
    let invalid = || {
        let message = "the address has no name of a file";
        Error::new(ErrorKind::Invalid, Operation::Write, shown(blob), message)
    };
    let mut url = Url::parse(blob).map_err(|error| invalid().caused_by(error))?;
    let own = url.path().rsplit('/').next().filter(|name| !name.is_empty());
    let own = own.ok_or_else(invalid)?.to_owned();
    let temporary = format!(".{own}.tidegate-{}", Uuid::new_v4().simple());
    url.set_fragment(None);
    replace_name(&mut url, &own, &temporary).ok_or_else(invalid)?;
    Ok((url.to_string(), Names { own, temporary }))
}

/// Replaces the last segment of a URL; `None` if it has another one.
pub(super) fn replace_name(url: &mut Url, from: &str, to: &str) -> Option<()> {
    let path = url.path().strip_suffix(from)?.strip_suffix('/')?;
    let path = format!("{path}/{to}");
    url.set_path(&path);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_temporary_name_is_in_the_same_folder() {
        let (url, names) = temporary("http://user@h:1/a%2Fb/x%20y.bin#z").unwrap();
        assert_eq!(url, format!("http://user@h:1/a%2Fb/{}", names.temporary));
        assert!(names.temporary.starts_with(".x%20y.bin.tidegate-"));
        let mut back = Url::parse(&url).unwrap();
        replace_name(&mut back, &names.temporary, &names.own).unwrap();
        assert_eq!(back.as_str(), "http://user@h:1/a%2Fb/x%20y.bin");
        assert!(replace_name(&mut back, &names.temporary, &names.own).is_none());
        assert!(temporary("http://h/a/").is_err());
    }
}
