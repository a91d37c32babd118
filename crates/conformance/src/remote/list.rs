//! Promises of remotes that list.

use futures_util::TryStreamExt;
use tidegate::remote::{ListPage, ListRequest, WriteOptions};
use tidegate::{Budget, ErrorKind, Location};

use super::suite::{Outcome, Report, ensure, failed, worked};
use super::{Place, content};

/// Names that are easy to sort wrongly: in the order of bytes, `a-b` and `a.b` come before `a/b`,
/// and `a0` after it.
const NAMES: [&str; 12] =
    ["a", "a-b", "a.b", "a/b", "a/b.c", "a/b0", "a/ü", "a0", "b/c/d/e", "b/c/d/f", "b/c0", "ä"];

/// Checks every promise of [`tidegate::remote::List`]. If the remote does not list, checks that the
/// error says so.
pub async fn list_suite(place: &dyn Place) -> Report {
    let mut report = Report::default();
    if let Err(error) = place.at("none").list() {
        let outcome = failed("list", Err::<(), _>(error), &[ErrorKind::Unsupported]);
        report.add("listing is Unsupported where the remote does not list", outcome);
        return report;
    }
    report.add("what begins with no name gives one empty page", empty(place).await);
    for (len, name) in NAMES.iter().enumerate() {
        // In a folder of their own: a file system cannot have a blob `a` next to `a/b`.
        place.put(&nested(name), content(len, 1)).await;
    }
    report.add("every blob is listed once, in the order that the profile says", all(place).await);
    report.add("a prefix is plain text", prefixes(place).await);
    report.add("pages are of the length asked for, and go on where they ended", pages(place).await);
    report.add("an entry's length and version are those of stat", facts(place).await);
    report.add("an unfinished upload is not listed", uploads(place).await);
    report
}

fn nested(name: &str) -> String {
    // `a` must not be both a blob and a folder.
    format!("list/{}", if name == "a" { "a!" } else { name })
}

/// A location in the place, and `prefix` in the form that the remote uses. A prefix may be no name.
fn under(place: &dyn Place, prefix: &str) -> (Location, String) {
    let at = place.at(&format!("{prefix}x"));
    let prefix = at.blob.strip_suffix('x').unwrap_or(&at.blob).to_owned();
    (at, prefix)
}

/// The existing names that begin with `prefix`, sorted.
fn expected(prefix: &str) -> Vec<String> {
    let mut names: Vec<String> = NAMES.iter().map(|name| nested(name)).collect();
    names.retain(|name| name.starts_with(prefix));
    names.sort_unstable();
    names
}

async fn listed(at: &Location, request: ListRequest) -> Result<Vec<ListPage>, String> {
    let pages = worked("list", at.list())?.list(&request, &Budget::default());
    worked("a page", pages.try_collect().await)
}

/// The names of all entries; sorted here if the remote does not sort.
async fn names(place: &dyn Place, prefix: &str, count: u32) -> Result<Vec<String>, String> {
    let (at, prefix) = under(place, prefix);
    let is_sorted = worked("list", at.list())?.list_profile().is_sorted;
    let request = ListRequest::new(prefix).page_entries_max(count);
    let pages = listed(&at, request).await?;
    ensure!(pages.iter().all(|page| page.unlisted.is_empty()), "something is not listed");
    let entries = pages.into_iter().flat_map(|page| page.entries);
    let mut names: Vec<String> = entries.map(|entry| entry.blob).collect();
    if !is_sorted {
        names.sort_unstable();
    }
    Ok(names)
}

/// These names in the form that the remote uses.
fn called(place: &dyn Place, names: Vec<String>) -> Vec<String> {
    names.into_iter().map(|name| place.at(&name).blob).collect()
}

async fn empty(place: &dyn Place) -> Outcome {
    place.put("other", content(1, 1)).await;
    let (at, prefix) = under(place, "nothing-begins-so");
    let pages = listed(&at, ListRequest::new(prefix)).await?;
    ensure!(pages == [ListPage::default()], "listed: {pages:?}");
    Ok(())
}

async fn all(place: &dyn Place) -> Outcome {
    let (found, expected) = (names(place, "list/", 1000).await?, called(place, expected("list/")));
    ensure!(found == expected, "expected {expected:?}, listed are {found:?}");
    Ok(())
}

async fn prefixes(place: &dyn Place) -> Outcome {
    for prefix in ["list/a", "list/a/", "list/a/b", "list/b/c", "list/b/c/", "list/ä", "list/a/b."]
    {
        let found = names(place, prefix, 1000).await?;
        let expected = called(place, expected(prefix));
        ensure!(found == expected, "{prefix}: expected {expected:?}, listed are {found:?}");
    }
    Ok(())
}

async fn pages(place: &dyn Place) -> Outcome {
    let (at, prefix) = under(place, "list/");
    for count in [1, 2, 5, 12, 13] {
        let request = || ListRequest::new(&*prefix).page_entries_max(count);
        let pages = listed(&at, request()).await?;
        let all: Vec<_> = pages.iter().flat_map(|page| page.entries.clone()).collect();
        ensure!(all.len() == NAMES.len(), "pages of {count} list {} of {}", all.len(), NAMES.len());
        let mut seen = 0;
        for (index, page) in pages.iter().enumerate() {
            let len = page.entries.len();
            ensure!(len <= count as usize, "a page of {count} has {len} entries");
            let is_last = index + 1 == pages.len();
            ensure!(is_last == page.next.is_none(), "page {index} of {} has no next", pages.len());
            seen += len;
            let Some(token) = page.next.clone() else { continue };
            let rest = listed(&under(place, "list/").0, request().from(token)).await?;
            let rest: Vec<_> = rest.into_iter().flat_map(|page| page.entries).collect();
            ensure!(rest == all[seen..], "from page {} on others are listed", index + 1);
        }
    }
    Ok(())
}

async fn facts(place: &dyn Place) -> Outcome {
    let (at, prefix) = under(place, "list/");
    for page in listed(&at, ListRequest::new(prefix)).await? {
        for entry in page.entries {
            let stat = worked("stat", at.remote.stat(&entry.blob).await)?;
            let (len, version) = (entry.info.len_bytes, entry.info.version);
            ensure!(len.is_none() || len == stat.len_bytes, "{}: {len:?} bytes", entry.blob);
            ensure!(
                version.is_none() || version == stat.version,
                "{}: listed with {version:?}, stat names {:?}",
                entry.blob,
                stat.version
            );
        }
    }
    Ok(())
}

async fn uploads(place: &dyn Place) -> Outcome {
    let at = place.at("list/upload");
    let Ok(writing) = at.write() else { return Ok(()) };
    let options = WriteOptions::default();
    if writing.write_profile(&options.precondition).parts.is_none() {
        return Ok(());
    }
    let upload = worked("begin", writing.begin(&at.blob, &options).await)?;
    let outcome = all(place).await;
    worked("abort", writing.abort(&upload).await)?;
    outcome
}
