//! Promises of remotes about the preconditions of a put.

use futures_util::future::join_all;
use tidegate::remote::{Guarantee, Precondition, Version, WriteOptions};
use tidegate::{ErrorKind, Location};

use super::suite::{Outcome, Report, ensure, failed, worked};
use super::write::{expect, put};
use super::{Place, content};

/// Writers that race for the same name.
const WRITERS: u64 = 24;

/// Number of races: a single race may end well by chance.
const RACES: u64 = 8;

pub(super) async fn add(report: &mut Report, place: &dyn Place) {
    let absent = "a put under Absent is AlreadyExists where there is a blob, which stays";
    report.add(absent, keeps_existing(place).await);
    let races = "of writers that race under Absent exactly one wins, and its bytes are stored";
    report.add(races, one_wins(place).await);
    let version = "a put under Version is Changed for any other version, and for none";
    report.add(version, compares_version(place).await);
}

fn guarantee(location: &Location, precondition: &Precondition) -> Result<Guarantee, String> {
    let profile = worked("write", location.write())?.write_profile(precondition);
    Ok(match precondition {
        Precondition::Absent => profile.absent,
        _ => profile.version,
    })
}

async fn keeps_existing(place: &dyn Place) -> Outcome {
    let (old, new) = (content(10, 1), content(20, 2));
    let options = WriteOptions::when(Precondition::Absent);
    let at = place.at("absent/one");
    if guarantee(&at, &Precondition::Absent)? == Guarantee::None {
        let refused = put(&at, &new, &options).await;
        return failed("put under Absent", refused, &[ErrorKind::Unsupported]);
    }
    let first = put(&at, &old, &options).await;
    // Without atomic checks, the ability may depend on the server, and the first use shows it.
    if guarantee(&at, &Precondition::Absent)? == Guarantee::Checked
        && first.as_ref().is_err_and(|error| error.kind() == ErrorKind::Unsupported)
    {
        return expect(place, "absent/one", None).await;
    }
    worked("put where nothing is", first)?;
    failed("put", put(&at, &new, &options).await, &[ErrorKind::AlreadyExists])?;
    expect(place, "absent/one", Some(&old)).await
}

async fn one_wins(place: &dyn Place) -> Outcome {
    let at = place.at("race");
    if guarantee(&at, &Precondition::Absent)? != Guarantee::Atomic {
        return Ok(());
    }
    let options = WriteOptions::when(Precondition::Absent);
    for race in 0..RACES {
        let name = format!("races/{race}");
        let all: Vec<_> = (0..WRITERS).map(|writer| content(50_000, writer)).collect();
        let locations: Vec<_> = all.iter().map(|_| place.at(&name)).collect();
        let puts = all.iter().zip(&locations).map(|(bytes, at)| put(at, bytes, &options));
        let mut won = Vec::new();
        for (result, bytes) in join_all(puts).await.into_iter().zip(&all) {
            match result {
                Ok(_) => won.push(bytes),
                lost => failed("put", lost, &[ErrorKind::AlreadyExists])?,
            }
        }
        ensure!(won.len() == 1, "{} of {WRITERS} writers won", won.len());
        expect(place, &name, won.pop()).await?;
    }
    Ok(())
}

async fn compares_version(place: &dyn Place) -> Outcome {
    let at = place.at("version/one");
    let (old, new) = (content(10, 1), content(20, 2));
    let foreign = Version::Digest("sha256/00/0".to_owned());
    if at.remote.check_version(&foreign).is_err() {
        let options = WriteOptions::when(Precondition::Version(foreign));
        let kinds = [ErrorKind::Invalid, ErrorKind::Unsupported];
        failed("put with a foreign version", put(&at, &old, &options).await, &kinds)?;
    }
    worked("put", put(&at, &old, &WriteOptions::default()).await)?;
    let version = worked("stat", at.remote.stat(&at.blob).await)?.version;
    let Some(version) = version else { return Ok(()) };
    let condition = Precondition::Version(version);
    let options = WriteOptions::when(condition.clone());
    if guarantee(&at, &condition)? == Guarantee::None {
        return failed("put", put(&at, &new, &options).await, &[ErrorKind::Unsupported]);
    }
    worked("put over its version", put(&at, &new, &options).await)?;
    expect(place, "version/one", Some(&new)).await?;
    failed("put", put(&at, &old, &options).await, &[ErrorKind::Changed])?;
    expect(place, "version/one", Some(&new)).await?;
    let absent = place.at("version/absent");
    failed("put", put(&absent, &old, &options).await, &[ErrorKind::Changed])?;
    expect(place, "version/absent", None).await
}
