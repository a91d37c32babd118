//! `tidegate serve`: the cache server, until a signal stops it.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tidegate::{ClientOptions, Error, ErrorKind, Operation, Result};
use tidegate_core::printable::escaped;
use tidegate_server::serve::{Origin, OriginOptions, ServeOptions, Server, TlsFiles};
use tidegate_server::store::{Level, LocalStore, StoreOptions};
use tidegate_server::trace::{TraceLimits, TraceRecorder};

use crate::args::{ConfigArgs, LevelArg, ServeArgs};
use crate::config::{ByUrl, Config, Given, Settings};
use crate::exit::Exit;
use crate::session::Session;
use crate::size;

/// The JSON.
#[derive(Debug, Serialize)]
struct Serving {
    address: String,
    url: String,
    store: String,
    max_size: u64,
}

pub(crate) async fn run(session: Session, args: &ServeArgs) -> Exit {
    let outcome = serve(&session, args).await;
    session.end(outcome)
}

async fn serve(session: &Session, args: &ServeArgs) -> Result<Exit> {
    let options = options(args)?;
    let server = Server::bind(options).await?;
    if let Some(file) = &args.record_trace {
        record(server.store(), file)?;
    }
    let max_size = server.store().bytes_max();
    let printed = announce(session, args, server.address(), max_size);
    if printed != Exit::Success {
        return Ok(printed);
    }
    server.run(session.cancel.clone()).await?;
    Ok(Exit::Success)
}

fn options(args: &ServeArgs) -> Result<ServeOptions> {
    let Some(dir) = &args.dir else {
        let target = args.config.as_deref().unwrap_or(Path::new("")).display().to_string();
        return Err(Error::new(ErrorKind::Invalid, Operation::Locate, target, "dir is missing")
            .with_hint("say in the file or by --dir which folder holds everything"));
    };
    if !args.listen.ip().is_loopback() && !args.no_auth && args.credentials.is_none() {
        let message = "other machines reach this address, and the server asks for no credentials";
        let target = args.listen.to_string();
        return Err(Error::new(ErrorKind::Invalid, Operation::Locate, target, message)
            .with_hint("name the tokens with --credentials FILE, or add --no-auth if all who reach it may read and write"));
    }
    let by_disk = || LocalStore::options_of_command(dir).bytes_max;
    let mut store = StoreOptions::new(args.max_size.unwrap_or_else(by_disk));
    store.keeps_limit = args.max_size.is_none();
    store.level = match args.level {
        LevelArg::Process => Level::Process,
        LevelArg::Power => Level::Power,
    };
    store.min_age = Duration::from_millis(args.min_age);
    let mut options = ServeOptions::new(dir, store, args.listen);
    options.memory_bytes_max = args.max_memory;
    options.limits.connections_per_client_max = limit(args.connections_per_client);
    options.limits.requests_per_client_max = limit(args.requests_per_client);
    options.is_open = args.no_auth;
    options.credentials.clone_from(&args.credentials);
    options.isolates_tenants = args.isolate_tenants;
    options.quotas.clone_from(&args.quota);
    if let (Some(certificate), Some(key)) = (args.tls_cert.clone(), args.tls_key.clone()) {
        let client_authorities = args.tls_client_ca.clone();
        options.tls = Some(TlsFiles { certificate, key, client_authorities });
    }
    options.origins = OriginOptions {
        origins: args.origin.clone(),
        fresh_for: Duration::from_millis(args.fresh_for),
        serves_unverified: args.serve_unverified,
        fetches_any: args.fetch_any,
        client: remotes(args)?,
    };
    options.upstream.clone_from(&args.upstream);
    Ok(options)
}

/// The limit of a flag, where 0 is none.
const fn limit(count: usize) -> usize {
    if count == 0 { usize::MAX } else { count }
}

/// How origins and the upstream are reached: as the configuration file says for their URLs.
fn remotes(args: &ServeArgs) -> Result<ClientOptions> {
    let mut urls: Vec<&str> = args.origin.iter().map(Origin::url).collect();
    urls.extend(args.upstream.as_deref());
    if urls.is_empty() && !args.fetch_any {
        return Ok(ClientOptions::default());
    }
    let config = Config::load(&ConfigArgs::default())?;
    let settings = Arc::new(Settings::new(Given::default(), config));
    let remote = settings.process_args()?.remote.options(&urls, None)?;
    let options = ClientOptions::default().remote(remote);
    if settings.config.is_empty() {
        return Ok(options);
    }
    Ok(options.remote_by_url(ByUrl { settings, rate: None }))
}

/// Records the requests in a new file.
fn record(store: &LocalStore, file: &Path) -> Result<()> {
    let recorder = TraceRecorder::create(file, TraceLimits::default()).map_err(|error| {
        let message = "the trace cannot be created";
        let target = file.display().to_string();
        Error::new(ErrorKind::Storage, Operation::Write, target, message)
            .with_hint("give a file that does not exist, in a folder that does")
            .caused_by(error)
    })?;
    // The store is new, so it has no other recorder.
    store.record_trace(recorder);
    Ok(())
}

/// Prints the address, and what clients need to use it.
fn announce(session: &Session, args: &ServeArgs, address: SocketAddr, max_size: u64) -> Exit {
    let tls = if args.tls_cert.is_some() { "s" } else { "" };
    let url = format!("grpc{tls}://{address}");
    let store = args.dir.as_deref().unwrap_or(Path::new("")).display().to_string();
    if session.output.json {
        let address = address.to_string();
        return session.json(&Serving { address, url, store, max_size });
    }
    let http = format!("http{tls}://{address}");
    let is_guarded = args.credentials.is_some();
    let guarded = |text: &'static str| if is_guarded { text } else { "" };
    session.print(&format!(
        "Serving {} (at most {}) on {address}. Press Ctrl-C to stop.\n\n  \
         bazel build --remote_cache={url}{} //...\n  \
         CCACHE_REMOTE_STORAGE='{http}{}' ccache gcc -c FILE.c\n  \
         GOCACHEPROG='tidegate cacheprog {}' go build ./...\n  \
         tidegate cp{} FILE {url}\n",
        escaped(&store),
        size::human(max_size),
        guarded(" --remote_header='Authorization=Bearer TOKEN'"),
        guarded("|bearer-token=TOKEN"),
        if is_guarded { format!("http{tls}://:TOKEN@{address}") } else { http.clone() },
        guarded(" --header 'Authorization: Bearer TOKEN'"),
    ))
}
