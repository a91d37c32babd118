//! The commands of the pages: how each one is run, and what it must do.

use super::stage::{LEN, Stage};
use crate::bed::{Ran, object};

/// Whether a command did what its page says.
pub(super) type Check = fn(&Stage, &Ran) -> bool;

/// How a command is run.
#[derive(Clone, Copy)]
pub(super) enum Way {
    /// As it is written.
    Runs(Check),
    /// As this command, which stands for it: the page has placeholders, or it would take too long.
    As(&'static str, Check),
    /// Not at all, with the reason.
    NotRun(&'static str),
}

/// A command of a page.
pub(super) struct Known {
    /// In the words of the page, without a comment.
    pub(super) command: &'static str,
    pub(super) way: Way,
    /// The exit code that the page gives: `Known { code: 3, ..runs(...) }` for another than 0.
    pub(super) code: i32,
}

const fn runs(command: &'static str, check: Check) -> Known {
    Known { command, way: Way::Runs(check), code: 0 }
}

const fn as_(command: &'static str, script: &'static str, check: Check) -> Known {
    Known { command, way: Way::As(script, check), code: 0 }
}

const fn not_run(command: &'static str, reason: &'static str) -> Known {
    Known { command, way: Way::NotRun(reason), code: 0 }
}

pub(super) const COMMANDS: &[Known] = &[
    // docs/uploads.md
    as_(
        "tidegate cp disk.img s3://bucket/images/",
        "tidegate cp toolchain.tar s3://bucket/images/",
        |stage, ran| {
            stage.is_stored_in_s3("/bucket/images/toolchain.tar")
                && ran.stderr.contains("  verified crc64nvme")
        },
    ),
    as_(
        "tar -c folder | tidegate cp - gs://bucket/folder.tar",
        "cat toolchain.tar | tidegate cp - gs://bucket/folder.tar",
        |_, ran| ran.stderr.contains("  verified crc32c"),
    ),
    as_(
        "tidegate cp --no-clobber model.bin az://container/model.bin",
        "tidegate cp --no-clobber toolchain.tar az://container/model.bin",
        |_, ran| ran.stderr.contains("  verified "),
    ),
    as_(
        "tidegate cp --gzip app.js s3://bucket/app.js",
        "tidegate cp --gzip toolchain.tar s3://bucket/app.js",
        |_, ran| ran.stderr.contains("compressed from"),
    ),
    as_(
        "tidegate cp s3://bucket/a.bin gs://other/a.bin",
        "tidegate cp s3://bucket/key gs://other/a.bin",
        |_, ran| ran.stderr.contains("  verified crc32c"),
    ),
    as_(
        "tidegate mv log.txt s3://bucket/logs/",
        "cp toolchain.tar log.txt && tidegate mv log.txt s3://bucket/logs/ && test ! -e log.txt",
        |stage, _| stage.is_stored_in_s3("/bucket/logs/log.txt"),
    ),
    as_(
        "tidegate rm s3://bucket/logs/log.txt",
        "tidegate cp toolchain.tar s3://bucket/logs/gone && tidegate rm s3://bucket/logs/gone",
        |stage, ran| {
            !stage.is_stored_in_s3("/bucket/logs/gone") && ran.stderr.contains("deleted 1 blob")
        },
    ),
    as_(
        "tidegate presign --method put --expires 5m s3://bucket/images/new.img",
        "url=$(tidegate presign --method put --expires 5m s3://bucket/images/new.img) \
         && tidegate cp toolchain.tar \"$url\"",
        |stage, _| stage.is_stored_in_s3("/bucket/images/new.img"),
    ),
    runs("tidegate mb --region eu-west-1 s3://models", |_, ran| {
        ran.stderr.contains("made s3://models")
    }),
    as_("tidegate rb s3://models", "tidegate mb s3://old && tidegate rb s3://old", |_, ran| {
        ran.stderr.contains("removed s3://old")
    }),
    runs("tidegate uploads list s3://bucket", |_, ran| ran.stderr.contains("0 unfinished uploads")),
    runs("tidegate uploads abort s3://bucket/images/", |_, ran| {
        ran.stderr.contains("aborted 0 unfinished uploads")
    }),
    // README.md
    as_("cargo run --release -- demo", "tidegate demo --size 8MiB", |_, ran| {
        ran.out().contains("already on disk, verified crc32c") && ran.out().contains("caught")
    }),
    not_run("cargo test --workspace", "it runs this test"),
    not_run("cargo install --path crates/cli", "it builds a release and changes ~/.cargo/bin"),
    runs("tidegate cp gs://bucket/models/llama.safetensors .", |stage, ran| {
        stage.holds("llama.safetensors", &stage.blob) && ran.stderr.contains("  verified crc32c")
    }),
    runs("tidegate cp s3://bucket/image.tar.zst /var/images/image.tar.zst", |stage, ran| {
        stage.holds("var/images/image.tar.zst", &stage.blob) && ran.stderr.contains("  verified ")
    }),
    runs("tidegate cp az://container/data.parquet data.parquet", |stage, ran| {
        stage.holds("data.parquet", &stage.blob) && ran.stderr.contains("  verified md5")
    }),
    runs(
        "tidegate cp https://example.org/toolchain.tar.xz toolchain.tar.xz --sha256 sha256:9f86d081…",
        |stage, ran| {
            stage.holds("toolchain.tar.xz", &stage.toolchain)
                && ran.stderr.contains("  verified sha256")
        },
    ),
    runs("tidegate cp gs://bucket/shard-0001 gs://bucket/shard-0002 data/", |stage, ran| {
        stage.holds("data/shard-0001", &stage.blob)
            && stage.holds("data/shard-0002", &stage.blob)
            && ran.stderr.contains("2 of 2 blobs")
    }),
    runs("tidegate cat s3://bucket/image.tar.zst | tar --zstd -x", |stage, _| {
        stage.holds("tar.input", &stage.blob)
    }),
    runs("tidegate cat gs://bucket/log --range -1000", |stage, ran| {
        ran.stdout == stage.blob[LEN - 1000..]
    }),
    runs("tidegate cp toolchain.tar grpcs://cache.example.org/main", |stage, ran| {
        let name = format!("/sha256/{}/{}\n", stage.toolchain_hash(), stage.toolchain.len());
        stage.is_cached() && ran.out() == format!("{}{name}", stage.cache.url())
    }),
    as_(
        "tidegate cp --seed toolchain-old.tar grpcs://cache.example.org/main/sha256/9f86…/73400320 toolchain.tar",
        "tidegate cp --quiet toolchain.tar grpcs://cache.example.org/main && rm toolchain.tar \
         && tidegate cp --json --seed toolchain-old.tar \
         grpcs://cache.example.org/main/sha256/9f86…/73400320 toolchain.tar",
        |stage, ran| {
            let report = ran.out().lines().last().map(object);
            let copied = report.and_then(|report| report["chunks"]["copied"].as_u64());
            stage.holds("toolchain.tar", &stage.toolchain) && copied > Some(0)
        },
    ),
    runs("tidegate chunk toolchain-old.tar toolchain.tar", |_, ran| {
        ran.out().contains("toolchain-old.tar") && ran.out().contains('%')
    }),
    as_(
        "tidegate check gs://bucket/models/llama.safetensors llama.safetensors",
        "tidegate cp --quiet gs://bucket/models/llama.safetensors . \
         && tidegate check gs://bucket/models/llama.safetensors llama.safetensors",
        |_, ran| ran.out().starts_with("llama.safetensors  same: "),
    ),
    runs("tidegate stat s3://bucket/image.tar.zst", |_, ran| ran.out().contains("100000")),
    runs("tidegate cp s3://bucket/key file --json --quiet", |stage, ran| {
        stage.holds("file", &stage.blob) && ran.json()["bytes"] == LEN && ran.stderr.is_empty()
    }),
    runs("tidegate cp --help", |_, ran| ran.out().contains("--header")),
    // docs/command.md
    as_(
        "tidegate COMMAND --help",
        "for command in cp cat stat check config chunk serve cacheprog demo completions man; do tidegate $command --help; done",
        |_, ran| ran.out().matches("Examples:").count() == 11,
    ),
    as_("tidegate man --dir DIR", "tidegate man --dir pages", |stage, _| {
        stage.manual().iter().any(|name| name == "tidegate-cp.1")
    }),
    as_("tidegate completions SHELL", "tidegate completions bash", |_, ran| {
        ran.out().contains("_tidegate")
    }),
    as_(
        "tidegate cp SOURCE... TARGET",
        "tidegate cp gs://bucket/key key && tidegate cp gs://bucket/key gs://bucket/log data \
         && tidegate cp gs://bucket/key - >copy && tidegate cp gs://bucket/key /dev/null \
         && tidegate cp toolchain.tar grpcs://cache.example.org/main",
        |stage, _| {
            let files = ["key", "data/key", "data/log", "copy"];
            files.into_iter().all(|name| stage.holds(name, &stage.blob)) && stage.is_cached()
        },
    ),
    runs(
        "tidegate cp --sha256 9f86d08...0f00a08 --mirror https://b.example.net/disk.img --mirror s3://bucket/disk.img https://a.example.org/disk.img disk.img",
        |stage, ran| {
            stage.holds("disk.img", &stage.toolchain) && ran.stderr.contains("  verified sha256")
        },
    ),
    as_("tidegate cat SOURCE", "tidegate cat gs://bucket/key", |stage, ran| {
        ran.stdout == stage.blob
    }),
    as_("tidegate stat SOURCE", "tidegate stat gs://bucket/key", |_, ran| {
        ran.out().contains("100000") && ran.out().contains("crc32c")
    }),
    as_(
        "tidegate check SOURCE... TARGET",
        "tidegate cp --quiet gs://bucket/key key && tidegate check gs://bucket/key key \
         && sha256sum key >SHA256SUMS && tidegate check key SHA256SUMS",
        |_, ran| ran.out() == "key  same: crc32c, md5\nkey  same: sha256\n",
    ),
    as_("tidegate config show URL", "tidegate config show gs://bucket/key", |_, ran| {
        ran.out().contains("retries          8                       built in")
    }),
    as_("tidegate chunk FILE...", "tidegate chunk toolchain.tar", |_, ran| {
        ran.out().lines().count() > 2
    }),
    as_(
        "tidegate serve --dir DIR",
        "mkfifo said; tidegate serve --dir kept --max-size 1GiB --listen 127.0.0.1:0 --json >said & \
         read -r line <said; url=$(echo $line | sed 's/.*\"url\":\"//; s/\".*//'); \
         tidegate cp --quiet toolchain.tar $url; kill -TERM $! && wait $!",
        |_, ran| ran.out().starts_with("grpc://127.0.0.1:"),
    ),
    as_(
        "tidegate store check DIR",
        "tidegate cp --quiet toolchain.tar store:kept && tidegate store check --json kept",
        |_, ran| {
            let report = ran.out().lines().last().map(object);
            report.is_some_and(|report| report["damaged"] == 0 && report["values"] != 0)
        },
    ),
    as_(
        "tidegate store replay TRACE",
        "printf '# tidegate trace 1\\n0 put 1f 4096\\n5 get 1f 4096\\n' >trace \
         && tidegate store replay --json trace",
        |_, ran| ran.json()["requests"] == 1,
    ),
    as_(
        "tidegate cacheprog PLACE",
        "printf '{\"ID\":1,\"Command\":\"close\"}\\n' | tidegate cacheprog kept",
        |_, ran| ran.out().contains("KnownCommands") && ran.out().contains("{\"ID\":1}"),
    ),
    as_("tidegate demo", "tidegate demo --size 8MiB --json --quiet", |_, ran| {
        ran.json()["caught"].is_object() && ran.json()["resumed"].is_object()
    }),
    as_("tidegate demo serve", "tidegate demo serve --size 8MiB --json --quiet", |_, ran| {
        ran.json()["steps"].as_array().is_some_and(|steps| steps.len() == 4)
    }),
    as_("tidegate man", "tidegate man", |_, ran| ran.out().contains(".SH \"EXIT STATUS\"")),
    as_(
        "tidegate cp SOURCE TARGET",
        "tidegate cp gs://bucket/key key && tidegate cp gs://bucket/key key",
        |stage, _| stage.holds("key", &stage.blob) && stage.sent() == [LEN as u64; 2],
    ),
    as_(
        "tidegate cp --if-changed SOURCE TARGET",
        "tidegate cp gs://bucket/key key && tidegate cp --if-changed gs://bucket/key key",
        |stage, ran| stage.sent() == [LEN as u64, 0] && ran.stderr.contains("unchanged"),
    ),
    as_(
        "tidegate cp --if-changed --sha256 HEX SOURCE TARGET",
        "cp toolchain.tar key \
         && tidegate cp --if-changed --sha256 9f86d081… gs://bucket/key key",
        |stage, _| stage.sent().is_empty() && stage.holds("key", &stage.toolchain),
    ),
    as_(
        "tidegate cp --skip-existing SOURCE TARGET",
        "cp toolchain.tar key && tidegate cp --skip-existing gs://bucket/key key",
        |stage, _| stage.sent().is_empty() && stage.holds("key", &stage.toolchain),
    ),
    // docs/serve.md
    as_(
        "tidegate serve --dir /var/cache/tidegate --max-size 100GiB",
        "mkfifo said; tidegate serve --dir kept --max-size 1GiB --listen 127.0.0.1:0 --json >said & \
         read -r line <said; kill -TERM $! && wait $! && echo $line",
        |_, ran| ran.json()["max_size"] == 1 << 30,
    ),
    as_(
        "tidegate store purge http://127.0.0.1:8980 --invocation 5c1d4a9e-0000-4000-8000-000000000001",
        "mkfifo said; tidegate serve --dir kept --max-size 1GiB --listen 127.0.0.1:0 --json >said & \
         read -r line <said; address=$(echo $line | sed 's/.*\"address\":\"//; s/\".*//'); \
         tidegate store purge --json http://$address --invocation 5c1d4a9e-0000-4000-8000-000000000001; \
         kill -TERM $! && wait $!",
        |_, ran| ran.json()["matched"] == 0 && ran.json()["is_removed"] == false,
    ),
    as_(
        "tidegate store import /var/cache/bazel-remote /var/cache/tidegate",
        "hash=$(sha256sum <toolchain.tar | cut -c1-64); mkdir -p other/cas.v2/ab \
         && cp toolchain.tar other/cas.v2/ab/$hash-1.v1 && tidegate store import --json other kept",
        |_, ran| ran.json()["blobs"] == 1 && ran.json()["skipped"] == 0,
    ),
];
