//! The examples in `--help`, one text for each command.

pub(super) const ABOUT: &str = "\
Move large blobs between object storage and disk: fast, resumable, every byte verified.

A SOURCE is gs://BUCKET/KEY, s3://BUCKET/KEY, az://CONTAINER/KEY, an http:// or https:// URL, \
grpc://HOST/INSTANCE/sha256/HASH/SIZE in a build cache, a file:// URL, a path, or - for standard input. Credentials and endpoints are found where the tools of each cloud find them.";

pub(super) const TOP: &str = "\
Examples:
  tidegate cp gs://models/llama.safetensors .        into this folder
  tidegate cp https://example.org/disk.img disk.img  under this name
  tidegate cat s3://logs/today.json | jq .           to a pipe, in order
  tidegate stat az://backups/db.dump                 size, version, checksums
  tidegate check s3://logs/today.json today.json     the same bytes? no transfer
  tidegate demo                                      see what it is good for, offline

Exit codes:
  0 success            3 not found     6 no access
  1 another failure    4 changed       7 retries exhausted
  2 wrong usage        5 integrity     8 cancelled
  141 the reader of standard output went away";

pub(super) const CP: &str = "\
Examples:
  tidegate cp gs://models/llama.safetensors .
          fetch into this folder, under the blob's own name
  tidegate cp https://example.org/disk.img /data/disk.img
          fetch under another name; run it again to resume
  tidegate cp s3://bucket/a.bin s3://bucket/b.bin /data/
          several blobs side by side, into a folder
  tidegate cp --sha256 9f86d08...0f00a08 https://example.org/tool.tar.gz tool.tar.gz
          the file appears only if its SHA-256 is this one
  tidegate cp --mirror https://b.example.net/disk.img https://a.example.org/disk.img .
          from both at once; one that fails is dropped
  tidegate cp gs://bucket/key /dev/null
          fetch and verify, keep nothing
  tidegate cp --endpoint http://127.0.0.1:9000 s3://bucket/key .
          from MinIO or another server that speaks S3
  tidegate cp --json https://example.org/disk.img disk.img | jq .verified
          for scripts: one JSON object at the end
  tidegate cp --window 1 https://example.org/disk.img disk.img
          one request, for servers that count connections
  tidegate cp disk.img s3://bucket/images/
          into a bucket, in parts; run it again to resume
  tidegate cp --no-clobber model.bin gs://bucket/model.bin
          only if nothing has the name; of many writers one wins
  tidegate cp --gzip --cache-control max-age=3600 app.js s3://bucket/app.js
          compressed on the way; browsers unpack it
  tar -c folder | tidegate cp - az://container/folder.tar
          what a pipe brings, of any length
  tidegate cp s3://bucket/a.bin gs://other/a.bin
          from one remote to another, not through the disk
  tidegate cp disk.img grpc://127.0.0.1:8980/main
          into a cache of the Remote Execution API; prints the blob's URL
  tar -c folder | tidegate cp - grpc://127.0.0.1:8980/main
          the same with what a pipe brings
  tidegate cp disk.img store:/var/cache/images
          into a store on this machine, which keeps what blobs share once; prints the blob's URL
  tidegate cp --seed old.img grpc://127.0.0.1:8980/main/sha256/9f86d08...0f00a08/1048576 disk.img
          from such a cache, fetching only chunks that old.img lacks

A target file is replaced as a whole, once every byte is there and every known checksum agrees.
Until then the bytes are in a hidden part file beside it, which the same command goes on with.";

pub(super) const MV: &str = "\
Examples:
  tidegate mv disk.img s3://bucket/images/
          upload, then delete the file
  tidegate mv s3://bucket/a.bin s3://bucket/b.bin
          another name; the provider copies
  tidegate mv gs://bucket/a.bin s3://bucket/a.bin
          to another provider
  tidegate mv s3://bucket/log.txt .
          fetch, then delete the blob
  tidegate mv --no-clobber a.bin s3://bucket/a.bin
          only if nothing has the name

A source is deleted only after its copy is complete, and only if it is still what was copied.";

pub(super) const RM: &str = "\
Examples:
  tidegate rm s3://bucket/key
          delete one blob
  tidegate rm s3://bucket/a s3://bucket/b
          several
  tidegate rm --version-id 3HL4kqtJ s3://bucket/key
          one version of S3
  tidegate rm --generation 1700000000000001 gs://bucket/key
          only if the blob has this generation
  tidegate rm --json az://container/key
          for scripts

A blob that is missing counts as deleted.";

pub(super) const PRESIGN: &str = "\
Examples:
  tidegate presign s3://bucket/key
          anyone who has this URL can read the blob for an hour
  tidegate presign --expires 7d gs://bucket/key
          for a week; the account must be a service account
  tidegate presign --method put az://container/key
          store a blob: tidegate cp FILE 'https://...'
  url=$(tidegate presign --expires 5m s3://bucket/key) && curl -o file \"$url\"
          for a program without credentials
  tidegate presign --json s3://bucket/key | jq -r .expires_at
          for scripts

The URL is a secret until it expires. It also ends with temporary credentials that signed it.
Whether the blob is there is not asked.";

pub(super) const MB: &str = "\
Examples:
  tidegate mb s3://models
          in the region of the settings
  tidegate mb --region eu-west-1 s3://models
          in this region
  tidegate mb --project my-project --region europe-west1 gs://models
          for this project, in this location
  tidegate mb az://models
          a container of the account
  tidegate mb --json s3://models | jq .is_new
          for scripts: false if the bucket was there and is yours";

pub(super) const RB: &str = "\
Examples:
  tidegate rb s3://models
          only if nothing is in it, not even an old version
  tidegate rb gs://models
          the same
  tidegate rb az://models
          a container
  tidegate rb --endpoint http://127.0.0.1:9000 s3://models
          on MinIO or another server that speaks S3
  tidegate rb --json s3://models
          for scripts

There is no option that deletes what is in a bucket: `tidegate rm` deletes blobs by their names.";

pub(super) const UPLOADS: &str = "\
Examples:
  tidegate uploads list s3://bucket
          all unfinished uploads of a bucket
  tidegate uploads list s3://bucket/images/
          those of blobs whose names begin so
  tidegate uploads list --json s3://bucket
          for scripts
  tidegate uploads abort s3://bucket/images/disk.img
          end those that began a day ago or earlier
  tidegate uploads abort --older-than 0 s3://bucket/images/disk.img
          end all; another process may be writing one of them

The parts of an unfinished upload are stored, and cost money, until it is completed or aborted.";

pub(super) const CAT: &str = "\
Examples:
  tidegate cat gs://bucket/data.tar.zst | tar --zstd -x
          unpack while it is fetched, in parallel and in order
  tidegate cat --range 0-1023 https://example.org/disk.img | xxd
          the first 1024 bytes
  tidegate cat --range -500 s3://bucket/log.txt
          the last 500 bytes
  tidegate cat --range 1000- s3://bucket/log.txt
          all but the first 1000 bytes
  tidegate cat --memory 64MiB gs://bucket/huge.bin | slow-consumer
          hold no more than 64 MiB, however slow the reader is
  tidegate cat --json gs://bucket/key 2>report.json >key
          the report goes to standard error, as the blob has standard output

A reader that stops early, as `head` does, ends the command without a message and with exit
code 141. Verification comes after the last byte: do not use the output if the command fails.
On a terminal the blob is shown alone, and binary data is refused without --force.";

pub(super) const STAT: &str = "\
Examples:
  tidegate stat gs://bucket/key
          size, version, checksums and what they cover
  tidegate stat --json s3://bucket/key | jq .bytes
          the length, for a script
  tidegate stat --anonymous gs://gcp-public-data-landsat/index.csv.gz
          a public blob, without credentials
  tidegate stat https://example.org/disk.img
          what an HTTP server says of a file
  tidegate stat --ca-cert ca.pem https://intranet.example/disk.img
          with a certificate authority of one's own";

pub(super) const CHECK: &str = "\
Examples:
  tidegate check gs://models/llama.safetensors llama.safetensors
          is this file still what the bucket has? reads the file, and not the blob
  tidegate check s3://bucket/a.bin s3://bucket/b.bin /data/
          several blobs and the files of the same names in a folder
  tidegate check gs://bucket/key s3://bucket/key
          two blobs, by checksums that both remotes know
  tidegate check tool.tar.gz https://example.org/v1/SHA256SUMS
          a file and its line in a list of checksums
  tidegate check --checksums sums.txt a.tar b.tar
          the same with a list of any name
  tidegate check --json s3://bucket/key key | jq -r '.blobs[].result'
          for scripts: same, different, unknown or failed

Exit code 0 if all are the same, 5 if one is different, 1 if it is not known for one because no
checksum is known of both. Composite checksums of S3 count, and entity tags that are MD5s.";

pub(super) const CONFIG: &str = "\
Examples:
  tidegate config show s3://models/llama.safetensors
          endpoint, credentials, timeouts and the like, each with its origin
  tidegate config show https://files.example/private
          also for the beginning of a URL
  tidegate config show --stall 5m s3://models
          with a flag, which has priority over all else
  tidegate config show --no-config s3://models
          without the file: the environment and what is built in
  tidegate config show --json s3://models | jq -r '.settings[] | .name + \"=\" + .value'
          for a script

The file is $XDG_CONFIG_HOME/tidegate/config.toml, or ~/.config/tidegate/config.toml:

  [defaults]
  stall = \"1m\"
  limit-rate = \"50M\"

  [url.\"s3://models\"]
  endpoint = \"https://minio.example:9000\"
  profile = \"models\"

  [url.\"https://files.example/private\".headers]
  Authorization = { env = \"FILES_TOKEN\", prefix = \"Bearer \" }

A flag has priority, then a variable, the longest prefix, shorter prefixes, the defaults of the
file, and what is built in. A prefix ends where a host, a bucket or a segment of a path ends.";

pub(super) const CHUNK: &str = "\
Examples:
  tidegate chunk disk.img
          each chunk's offset, length and SHA-256
  tidegate chunk v1.img v2.img
          and what the two share: how little of v2 an upload would have to send
  tidegate chunk --avg 64KiB v1.img v2.img
          with smaller chunks, which share more and cost more
  tidegate chunk --function repmaxcdc --min 256KiB --horizon 2MiB disk.img
          by the other function of the Remote Execution API
  tidegate chunk --digest blake3 --json disk.img | jq '.chunks[0].digest'
          for scripts: one JSON object

Files are cut and hashed on all cores. Without options chunks are those that the Remote Execution
API recommends, and that Bazel makes: FastCDC 2020 with an average of 512 KiB.";

pub(super) const CACHEPROG: &str = "\
Examples:
  GOCACHEPROG='tidegate cacheprog /var/cache/go' go build ./...
          the go command starts it, and keeps its build cache in this folder
  GOCACHEPROG='tidegate cacheprog -v /var/cache/go' go build ./...
          the same, with the number of hits at the end
  GOCACHEPROG='tidegate cacheprog http://cache.example.org:8980/go' go test ./...
          on a server; the path keeps the entries of projects apart
  GOCACHEPROG='tidegate cacheprog https://ci:PASSWORD@cache.example.org/go' go build ./...
          on a server that asks for a password
  GOCACHEPROG='tidegate cacheprog --max-size 10GiB /var/cache/go' go vet ./...
          in a store of at most 10 GiB";

pub(super) const SERVE: &str = "\
Examples:
  tidegate serve --dir /var/cache/tidegate
          on 127.0.0.1:8980, for the builds of this machine
  tidegate serve --dir /var/cache/tidegate --max-size 100GiB
          never above this limit
  tidegate serve --dir cache --listen 127.0.0.1:0 --json | jq -r .address
          on a free port, for a script
  tidegate serve --dir /var/cache/tidegate --origin models=gs://bucket/models
          GET /origin/models/PATH, fetched from the bucket once
  tidegate serve --dir /var/cache/tidegate --upstream grpcs://cache.example.org
          what is missing here is fetched from that cache
  tidegate serve --dir /var/cache/tidegate --level power
          what is acknowledged is synced first
  tidegate serve --dir /var/cache/tidegate --listen 10.0.0.5:8980 --credentials tokens.toml
          for those who have one of these tokens
  tidegate serve --dir /var/cache/tidegate --listen 10.0.0.5:8980 --no-auth
          for all who reach this address: only in a network that you trust

It speaks the cache part of the Remote Execution API. SIGTERM and Ctrl-C let requests end, for 20
seconds at most; the exit code is then 0. What was acknowledged survives kill -9.";

pub(super) const STORE: &str = "\
Examples:
  tidegate store check /var/cache/tidegate
          read every value and compare its checksums
  tidegate store replay trace.txt
          the hit rates of stores of several sizes on a trace of requests
  tidegate store replay --size 50GiB --size 200GiB trace.txt
          of these sizes
  zcat trace.txt.gz | tidegate store replay --size 50GiB -
          from a pipe
  tidegate store replay --min-age 0 trace.txt
          young blobs may be evicted, too
  tidegate store replay --json trace.txt | jq '.stores[] | [.policy, .size, .hit_rate]'
          for scripts: one JSON object";

pub(super) const STORE_IMPORT: &str = "\
Examples:
  tidegate store import /var/cache/bazel-remote /var/cache/tidegate
          stop both servers first; start tidegate serve afterwards
  tidegate store import /var/cache/bazel-remote /var/cache/tidegate --instance main
          for builds with --remote_instance_name=main
  tidegate store import /mnt/old/bazel-remote cache --max-size 200GiB
          into a new folder with this limit
  tidegate store import --json /var/cache/bazel-remote cache | jq .skipped
          for scripts: one JSON object
  tidegate store import /var/cache/bazel-remote cache && tidegate serve --dir cache
          and serve it

Every blob is hashed on the way. What is damaged is left out, and an action result is imported only if
everything that it needs is there. Running it again continues where it stopped.";

pub(super) const STORE_PURGE: &str = "\
Examples:
  tidegate store purge http://127.0.0.1:8980 --invocation 5c1d4a9e-0000-4000-8000-000000000001
          show what a build stored
  tidegate store purge http://127.0.0.1:8980 --invocation 5c1d4a9e-0000-4000-8000-000000000001 --remove
          remove it, so that the next build runs those actions again
  tidegate store purge https://any:TOKEN@cache.example --instance main --remove
          with the token of an admin
  tidegate store purge /var/cache/tidegate --key 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae
          of a server that does not run
  tidegate store purge --json http://127.0.0.1:8980 --instance main | jq .matched
          for scripts: one JSON object

It reads the record of every value: about a million in five seconds. Blobs belong to no instance and no
invocation, and their bytes are always those of their hash; wrong results are action results.";

pub(super) const STORE_CHECK: &str = "\
Examples:
  tidegate store check /var/cache/tidegate
          read every value and compare its checksums
  tidegate store check --json /var/cache/tidegate | jq .damaged
          for scripts: one JSON object
  tidegate store check --quiet /var/cache/tidegate || mail -s rot admin
          say nothing unless something is damaged
  nice ionice -c3 tidegate store check /var/cache/tidegate
          without delaying other programs
  tidegate store check cache && tidegate cp big.img store:cache
          of a store that commands made

The check changes nothing and needs the store alone: stop its server first. If any value is damaged,
the exit code is 5. A store drops a damaged value when it is read, so that it can be put again.";

pub(super) const STORE_REPLAY: &str = "\
Examples:
  tidegate store replay trace.txt
          stores of several sizes, up to one that holds all blobs
  tidegate store replay --size 50GiB --size 200GiB trace.txt
          stores of these sizes
  zcat trace.txt.gz | tidegate store replay --size 50GiB -
          from a pipe
  tidegate store replay --min-age 0 trace.txt
          young blobs may be evicted, too
  tidegate store replay --json trace.txt | jq '.stores[] | [.policy, .size, .hit_rate]'
          for scripts: one JSON object

Each size is simulated with the policy of the store (age-lru), which keeps 8% free for writing, and,
for comparison, with exact LRU and with FIFO over all of it. The store without a limit shows the
highest possible hit rate. A trace is text, one request
a line: milliseconds, get, find or put, the blob as hexadecimal digits, its size in bytes.";

pub(super) const DEMO: &str = "\
Examples:
  tidegate demo
          512 MiB with one stream, then in shards, from a server inside this process
  tidegate demo --size 64MiB
          smaller and sooner done
  tidegate demo --seed 7
          other bytes, and other connections that are cut
  tidegate demo --json | jq .speed_up
          the figures, for a script
  tidegate demo --verbose
          with each restart and its cause

The server listens on a free port of 127.0.0.1, waits 20 ms before each answer, gives each
connection 100 MiB/s, and now and then cuts one. Nothing leaves the machine; all files are removed.";

pub(super) const DEMO_SERVE: &str = "\
Examples:
  tidegate demo serve
          64 MiB, the same again, an edited copy, and that copy fetched back
  tidegate demo serve --size 512MiB
          a larger file: the edit costs the same
  tidegate demo serve --seed 7
          other bytes
  tidegate demo serve --json | jq '.steps[2].moved_bytes'
          what the edited copy cost, for a script
  tidegate demo serve --quiet >table
          the table only

The server listens on a free port of 127.0.0.1 and keeps its folder with the files. Nothing leaves the
machine; all files are removed.";

pub(super) const COMPLETIONS: &str = "\
Examples:
  tidegate completions bash > ~/.local/share/bash-completion/completions/tidegate
  tidegate completions zsh > \"${fpath[1]}/_tidegate\"
  tidegate completions fish > ~/.config/fish/completions/tidegate.fish
  tidegate completions powershell >> $PROFILE
  source <(tidegate completions bash)
          for this shell only";

pub(super) const MAN: &str = "\
Examples:
  tidegate man | man -l -
          read all pages
  tidegate man --dir ~/.local/share/man/man1
          install them for this user
  sudo tidegate man --dir /usr/local/share/man/man1
          install them for everyone
  tidegate man --dir . && man ./tidegate-cp.1
          one page
  tidegate man --dir pages --json
          say in JSON what was written";
