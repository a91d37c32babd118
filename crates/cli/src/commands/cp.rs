//! `tidegate cp`: copies blobs to files; [`put`] copies files into a cache. All errors in the names
//! are found before the first request.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use tidegate::{Client, Error, ErrorKind, Location, Operation, Result};

use super::{mirrors, put, upload};
use crate::args::{ChunkingArg, CpArgs};
use crate::checksums::ChecksumList;
use crate::exit::Exit;
use crate::fetch::{self, Chunks, Fetch, Place, Plan};
use crate::local::{check_inputs, check_spelling, check_targets, is_input};
use crate::put_url::PutUrl;
use crate::redact;
use crate::session::Session;
use crate::store_url::Stores;

pub(crate) async fn run(mut session: Session, args: &CpArgs) -> Exit {
    if let Some(cache) = args.target().to_str().filter(|target| PutUrl::is_one(target)) {
        return put::run(session, args, cache).await;
    }
    if let Some(target) = args.target().to_str().filter(|target| upload::is_target(target)) {
        return upload::run(session, args, target).await;
    }
    session.data_on_stdout = args.target() == Path::new("-");
    match planned(args).await {
        Ok(plan) => fetch::run(&session, plan).await,
        Err(error) => session.fail(&error),
    }
}

async fn planned(args: &CpArgs) -> Result<Plan> {
    let mut plan = plan(args)?;
    if let Some(list) = &args.checksums {
        plan.checksums = Some(ChecksumList::load(&plan.client, list).await?);
        for fetch in &plan.fetches {
            // Before the first request for a blob.
            plan.expected(fetch)?;
        }
    }
    Ok(plan)
}

fn plan(args: &CpArgs) -> Result<Plan> {
    // Checked when the command line was read.
    let names = args.sources().unwrap_or_default();
    if names.len() > 1 && !args.transfer.expected().is_empty() {
        return Err(invalid(
            "a checksum",
            "it is given for one blob, but there are several sources",
        )
        .with_hint("copy that blob with a command of its own"));
    }
    if names.len() > 1 && args.version.is_given() {
        return Err(invalid("a version", "it is of one blob, but there are several sources")
            .with_hint("copy that blob with a command of its own"));
    }
    for_caches(args, &names)?;
    check_inputs(&names)?;
    let all: Vec<&str> = names.iter().copied().chain(mirrors::names(args)?).collect();
    let client = args.remote.client(&all, args.transfer.budget())?;
    let target = local(&client, args.target())?;
    let mut stores = Stores::default();
    let sources = names
        .iter()
        .map(|text| Ok((args.version.of(stores.source(&client, text)?)?, chunks(text, args))))
        .collect::<Result<Vec<_>>>()?;
    let mut fetches = match sources.as_slice() {
        [(source, chunks)] if !is_folder(&target) => {
            let place = if target == Path::new("-") { Place::Stdout } else { Place::File(target) };
            let (source, chunks) = (source.clone(), chunks.clone());
            vec![Fetch { source, mirrors: Vec::new(), place, chunks }]
        }
        _ => {
            let has_input = target != Path::new("/dev/null") && names.iter().any(|n| is_input(n));
            if has_input {
                return Err(invalid("standard input", "it has no name for a file in the folder")
                    .with_hint("name the target file"));
            }
            into_folder(sources, &target)?
        }
    };
    check_targets(&client, &names, &fetches)?;
    if let [fetch] = fetches.as_mut_slice() {
        mirrors::add(&client, args, fetch)?;
    }
    let (transfer, file) = (args.transfer.clone(), Some(args.file.clone()));
    Ok(Plan { client, fetches, transfer, file, range: None, checksums: None })
}

/// Refuses cache options that have no effect here.
fn for_caches(args: &CpArgs, names: &[&str]) -> Result<()> {
    if let Some(option) = args.upload.given() {
        return Err(invalid(option, "it is for what is stored in a bucket or at a web server"));
    }
    let cache = &args.cache;
    if cache.digest.is_some() {
        return Err(invalid("--digest", "it is for what is put into a grpc:// cache")
            .with_hint("--sha256, --md5 and --blake3 are for what is fetched"));
    }
    if cache.confirm {
        return Err(invalid("--confirm", "it is for what is put into a grpc:// cache"));
    }
    let seed = (!cache.seed.is_empty()).then_some("--seed");
    let index = cache.keep_index.then_some("--keep-index");
    let chunking = (cache.chunking != ChunkingArg::Auto).then_some("--chunking");
    if let Some(option) = seed.or(index).or(chunking)
        && !names.iter().any(|name| PutUrl::is_one(name))
    {
        return Err(invalid(
            option,
            "it is for grpc:// and grpcs://, and no source is in such a cache",
        ));
    }
    let has_checksum = !args.transfer.expected().is_empty() || args.checksums.is_some();
    if has_checksum && cache.chunking == ChunkingArg::Always {
        let message = "a checksum of your own is compared only where the blob comes whole";
        return Err(invalid("--chunking always", message)
            .with_hint("leave out the checksum: a blob of a cache is compared with its digest"));
    }
    let is_whole = cache.chunking == ChunkingArg::Never || has_checksum || !args.mirror.is_empty();
    if let Some(option) = seed.or(index)
        && is_whole
    {
        let message = "it is for what comes as chunks, and this has the blob come whole";
        let hint = format!(
            "leave out {option}, or else --chunking never, --mirror and checksums of your own"
        );
        return Err(invalid(option, message).with_hint(hint));
    }
    Ok(())
}

/// How the blob is fetched as chunks, if it is in a cache.
fn chunks(text: &str, args: &CpArgs) -> Chunks {
    if !PutUrl::is_one(text) {
        return Chunks::none();
    }
    Chunks {
        policy: args.cache.chunking.policy(),
        seeds: args.cache.seed.clone(),
        keeps_index: args.cache.keep_index,
    }
}

/// The target as a path. `file://` URLs name paths; other URLs name blobs.
fn local(client: &Client, target: &Path) -> Result<PathBuf> {
    if let Some(text) = target.to_str() {
        check_spelling(text)?;
    }
    let Some(text) = target.to_str().filter(|text| text.contains("://")) else {
        return Ok(target.to_path_buf());
    };
    if text.to_ascii_lowercase().starts_with("file://") {
        return Ok(PathBuf::from(client.locate(text)?.blob));
    }
    Err(unknown_scheme(&redact::url(text)))
}

fn unknown_scheme(shown: &str) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        Operation::Locate,
        format!("{shown} as the target"),
        "nothing can be stored there: the scheme is unknown",
    )
    .with_hint("name a file, a folder, or a URL of s3://, gs://, az://, https:// or grpc://")
}

fn into_folder(sources: Vec<(Location, Chunks)>, folder: &Path) -> Result<Vec<Fetch>> {
    let discard = folder == Path::new("/dev/null");
    if !discard && !folder.is_dir() {
        let found = if folder.exists() { "it is not a folder" } else { "there is no such folder" };
        let shown = folder.display().to_string();
        let error = Error::new(ErrorKind::Storage, Operation::Write, shown, found);
        return Err(match sources.len() {
            1 => error.with_hint("create it first, or leave out the slash at the end"),
            _ => error.with_hint("several sources need an existing folder as the target"),
        });
    }
    let mut taken: HashMap<String, String> = HashMap::new();
    let mut fetches = Vec::new();
    for (source, chunks) in sources {
        if discard {
            let place = Place::File(folder.to_path_buf());
            fetches.push(Fetch { source, mirrors: Vec::new(), place, chunks });
            continue;
        }
        let Some(name) = source.file_name().map(str::to_owned) else {
            let message = "it ends in no name for a file in the folder: that is not empty, . or .., \
                           is not reserved for part files, and has no control character";
            return Err(invalid(source.display(), message).with_hint("name the target file"));
        };
        if let Some(other) = taken.insert(name.clone(), source.display().to_owned()) {
            let message = format!("{other} would get the same name, {name}");
            return Err(invalid(source.display(), &message)
                .with_hint("copy one of them with a command of its own"));
        }
        let place = Place::File(folder.join(name));
        fetches.push(Fetch { source, mirrors: Vec::new(), place, chunks });
    }
    Ok(fetches)
}

/// Whether `target` names a folder: it is one, or its name is written like one.
fn is_folder(target: &Path) -> bool {
    let slash = target.as_os_str().as_encoded_bytes().ends_with(b"/");
    slash || target.is_dir()
}

pub(crate) fn invalid(what: &str, message: &str) -> Error {
    Error::new(ErrorKind::Invalid, Operation::Locate, what, message)
}
