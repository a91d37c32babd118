//! Credentials that expire: [`CredentialCache`].
//!
//! Credentials are kept until [`EARLY`] before they expire. If the next lookup fails, the old ones
//! are used as long as they are valid. Expiry is a time of the wall clock: other clocks stop while a
//! laptop sleeps.
//!
//! Invariant: one lookup at a time serves all requests.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::Mutex;

use super::credentials::NoCredentials;

/// The lookup is repeated this long before the credentials expire, as in the AWS SDKs. A request
/// that starts with the old ones then has 5 minutes to reach the service.
const EARLY: Duration = Duration::from_mins(5);

/// The lookup is not repeated within this time: requests that fail together share one failure, and
/// credentials that live less than [`EARLY`] do not need a lookup for each request.
const PAUSE: Duration = Duration::from_secs(10);

/// Credentials, and the time from which they are invalid, if they expire.
pub(super) struct Expiring<C> {
    pub(super) credential: Arc<C>,
    pub(super) expires: Option<SystemTime>,
}

impl<C> Clone for Expiring<C> {
    fn clone(&self) -> Self {
        Self { credential: Arc::clone(&self.credential), expires: self.expires }
    }
}

/// See the module docs.
pub(super) struct CredentialCache<C>(Mutex<Option<Lookup<C>>>);

impl<C> Default for CredentialCache<C> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

/// What is known since the last lookup.
struct Lookup<C> {
    at: SystemTime,
    /// The newest credentials, which may be older than the last lookup.
    given: Option<Expiring<C>>,
    failure: Option<NoCredentials>,
}

impl<C> Lookup<C> {
    /// The answer without another lookup; `None` if one is needed now.
    fn answer(&self, now: SystemTime) -> Option<Result<Arc<C>, NoCredentials>> {
        let valid = |now: SystemTime| {
            let given = self.given.as_ref()?;
            let is_valid = given.expires.is_none_or(|expires| now < expires);
            is_valid.then(|| Ok(Arc::clone(&given.credential)))
        };
        // A clock that was set back ends the pause.
        let pauses = now.duration_since(self.at).is_ok_and(|since| since < PAUSE);
        let failed = || self.failure.clone().map(Err);
        valid(now + EARLY).or_else(|| if pauses { valid(now).or_else(failed) } else { None })
    }
}

impl<C> CredentialCache<C> {
    /// The credentials, from `find` if there are none that stay valid for a while.
    // CANCEL: the lookup is dropped; the next caller in line repeats it.
    pub(super) async fn get<F>(&self, find: impl FnOnce() -> F) -> Result<Arc<C>, NoCredentials>
    where
        F: Future<Output = Result<Expiring<C>, NoCredentials>>,
    {
        let mut last = self.0.lock().await;
        if let Some(answer) = last.as_ref().and_then(|last| last.answer(SystemTime::now())) {
            return answer;
        }
        let found = find().await;
        let now = SystemTime::now();
        let lookup = match found {
            Ok(given) => Lookup { at: now, given: Some(given), failure: None },
            Err(failure) => {
                let given = last.as_ref().and_then(|last| last.given.clone());
                Lookup { at: now, given, failure: Some(failure) }
            }
        };
        let expired = || Err(NoCredentials::new("the credentials have already expired", LOG_IN));
        let answer = lookup.answer(now).unwrap_or_else(expired);
        *last = Some(lookup);
        answer
    }
}

/// Reads a date of RFC 3339.
pub(super) fn moment(date: &str) -> Option<SystemTime> {
    let date = chrono::DateTime::parse_from_rfc3339(date).ok()?;
    // A date before 1970 has also expired.
    let seconds = u64::try_from(date.timestamp()).unwrap_or_default();
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

const LOG_IN: &str = "check the clock of this machine, or get new credentials";

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Times are seconds after an arbitrary start.
    #[test]
    fn credentials_are_renewed_before_they_expire() {
        let at = |seconds: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + seconds);
        let given = Expiring { credential: Arc::new(7), expires: Some(at(3600)) };
        let mut lookup = Lookup { at: at(0), given: Some(given), failure: None };
        let outcome =
            |lookup: &Lookup<i32>, seconds| lookup.answer(at(seconds)).map(|answer| answer.is_ok());
        assert_eq!(outcome(&lookup, 3299), Some(true));
        assert_eq!(outcome(&lookup, 3300), None, "5 minutes before expiry");
        // That lookup fails: the old ones stay in use, and the lookup is repeated after a pause.
        lookup.failure = Some(NoCredentials::new("failed", "hint"));
        lookup.at = at(3300);
        assert_eq!(outcome(&lookup, 3309), Some(true));
        assert_eq!(outcome(&lookup, 3310), None);
        // The last lookup before expiry fails, too.
        lookup.at = at(3595);
        assert_eq!(outcome(&lookup, 3599), Some(true));
        assert_eq!(outcome(&lookup, 3600), Some(false));
        assert_eq!(outcome(&lookup, 3605), None);
        // The clock is set back.
        assert_eq!(outcome(&Lookup { given: None, ..lookup }, 0), None);
    }

    #[tokio::test]
    async fn credentials_that_expire_soon_are_looked_up_again() {
        let (cache, lookups) = (CredentialCache::default(), AtomicUsize::new(0));
        let look_up = |lives: Option<Duration>| {
            let number = lookups.fetch_add(1, Ordering::Relaxed);
            let expires = lives.map(|lives| SystemTime::now() + lives);
            async move { Ok(Expiring { credential: Arc::new(number), expires }) }
        };
        for _ in 0..3 {
            let soon = cache.get(|| look_up(Some(Duration::from_mins(1)))).await;
            assert_eq!(*soon.unwrap(), 0, "within the pause");
        }
        let cache = CredentialCache::default();
        let past = cache.get(|| look_up(Some(Duration::ZERO))).await;
        assert!(past.unwrap_err().to_string().contains("expired"));
        assert_eq!(*cache.get(|| look_up(None)).await.unwrap(), 2);
        assert_eq!(*cache.get(|| look_up(None)).await.unwrap(), 2);
    }
}
