# shellcheck shell=bash
# `tidegate serve` with the clients that take minutes to install. `--all` runs this suite; without it,
# the suite runs only by name.
#
# The cases have the form of those in `serve.sh`: cold, then warm with an empty state of the client.
# `serve_tasks.sh` has the cases of Turborepo, Nx and moon.

serve_all_suite() {
  install_serve_all
  start_cache "$work/serve-all"
  check 'serve: Bazel by gRPC' serve_bazel "grpc://$cache_address" grpc
  check 'serve: Bazel by HTTP' serve_bazel "http://$cache_address/bazel" http
  check 'serve: Bazel by gRPC, with a token that may only read' serve_bazel_reader grpc
  check 'serve: Bazel by HTTP, with a token that may only read' serve_bazel_reader http
  check 'serve: sccache by WebDAV' serve_sccache
  check 'serve: Turborepo' serve_turborepo
  check 'serve: Nx' serve_nx
  check 'serve: moon by HTTP' serve_moon http
  check 'serve: moon by gRPC' serve_moon grpc
  check "serve: BuildGrid's bgd, files and folders" serve_bgd_files
  check "serve: BuildGrid's bgd, action results" serve_bgd_actions
  check 'serve: buildbox-casd in front of the server' serve_casd
  stop "$cache_pid"
}

# serve_bazel URL WORD: two actions. The second reads the output of the first. WORD keeps runs apart.
serve_bazel() {
  serve_bazel_workspace "$2"
  serve_bazel_build cold "$1"
  expect_mentions cold.log 'INFO: 3 processes: 1 internal, 2 local\.$'
  serve_bazel_build warm "$1"
  expect_mentions warm.log 'INFO: 3 processes: 2 remote cache hit, 1 internal\.$'
  serve_bazel_output cold numbers.txt >cold.txt
  serve_bazel_output warm numbers.txt >warm.txt
  expect_same_file warm.txt cold.txt
  expect_equal lines "$(serve_bazel_output warm lines.txt)" 200001
  # Bazel leaves folders that even their owner cannot write to.
  chmod -R u+w cold warm root
}

# serve_bazel_workspace WORD: the two actions; their digests depend on WORD.
serve_bazel_workspace() {
  mkdir -p workspace
  touch workspace/WORKSPACE
  cat >workspace/BUILD <<BUILD
genrule(name = "numbers", outs = ["numbers.txt"], cmd = "seq 200000 > \$@; echo $1 >> \$@")
genrule(name = "lines", srcs = [":numbers"], outs = ["lines.txt"], cmd = "wc -l < \$< > \$@")
BUILD
}

# serve_bazel_reader PROTOCOL: a reader gets what a writer sent. What the reader built is not stored, and
# its build succeeds.
serve_bazel_reader() {
  local all_cache_address=$cache_address all_cache_pid=$cache_pid
  cat >credentials.toml <<TOML
[[token]]
name = "writer"
token = "writer-0123456789abcdef"
role = "write"

[[token]]
name = "reader"
token = "reader-0123456789abcdef"
role = "read"
TOML
  chmod 600 credentials.toml
  start_cache "$PWD/store" --credentials "$PWD/credentials.toml"
  serve_bazel_workspace one
  serve_bazel_as writer cold "$1"
  expect_mentions cold.log 'INFO: 3 processes: 1 internal, 2 local\.$'
  serve_bazel_as reader warm "$1"
  expect_mentions warm.log 'INFO: 3 processes: 2 remote cache hit, 1 internal\.$'
  serve_bazel_workspace two
  serve_bazel_as reader changed "$1"
  expect_mentions changed.log 'INFO: 3 processes: 1 internal, 2 local\.$'
  serve_bazel_as writer again "$1"
  expect_mentions again.log 'INFO: 3 processes: 1 internal, 2 local\.$'
  chmod -R u+w cold warm changed again root
  stop "$cache_pid"
  cache_address=$all_cache_address cache_pid=$all_cache_pid
}

# serve_bazel_as ROLE NAME PROTOCOL: builds with the token of the role, as docs/serve.md says.
serve_bazel_as() {
  if [[ $3 == grpc ]]; then
    local upload=()
    [[ $1 == writer ]] || upload=(--noremote_upload_local_results)
    serve_bazel_build "$2" "grpc://$cache_address" "${upload[@]}" \
      "--remote_header=Authorization=Bearer $1-0123456789abcdef"
  else
    serve_bazel_build "$2" "http://any:$1-0123456789abcdef@$cache_address"
  fi
}

# serve_bazel_build NAME URL [FLAG...]: builds with an empty output folder NAME; messages in NAME.log. With
# `--batch` no process remains.
serve_bazel_build() {
  (cd workspace && timeout --kill-after=5 300 bazel --batch --nohome_rc \
    --output_user_root="$PWD/../root" --output_base="$PWD/../$1" build --noshow_progress --color=no \
    --symlink_prefix=/ --spawn_strategy=local --remote_cache="$2" "${@:3}" //:lines) >"$1.log" 2>&1 || {
    tail -n 30 "$1.log" >&2
    fail "bazel build, $1"
  }
}

# serve_bazel_output NAME FILE
serve_bazel_output() {
  cat "$1"/execroot/__main__/bazel-out/*/bin/"$2"
}

serve_sccache() {
  printf 'int sccache_answer(void) { return 42; }\n' >code.c
  export SCCACHE_WEBDAV_ENDPOINT=http://$cache_address SCCACHE_WEBDAV_KEY_PREFIX=team
  export SCCACHE_CONF=/dev/null
  serve_sccache_run cold
  expect_equal 'misses, cold' "$(field cold.json stats.cache_misses.counts)" '{"C/C++": 1}'
  expect_equal 'writes, cold' "$(field cold.json stats.cache_writes)" 1
  serve_sccache_run warm
  expect_equal 'hits, warm' "$(field warm.json stats.cache_hits.counts)" '{"C/C++": 1}'
  expect_equal 'misses, warm' "$(field warm.json stats.cache_misses.counts)" '{}'
  expect_same_file warm.o cold.o
}

# serve_sccache_run NAME: compiles to NAME.o with a new sccache server; its counters are in NAME.json.
serve_sccache_run() {
  local sccache=$cache/venv-serve/bin/sccache server_pid
  SCCACHE_SERVER_PORT=$(free_ports 1)
  export SCCACHE_SERVER_PORT
  spawn "$1.log" env SCCACHE_START_SERVER=1 SCCACHE_NO_DAEMON=1 "$sccache"
  server_pid=$spawned_pid
  until_true 30 listens "$server_pid" "$SCCACHE_SERVER_PORT" || fail "sccache: $(cat "$1.log")"
  timeout 60 "$sccache" cc -c code.c -o "$1.o"
  # A write to the cache ends after the compilation.
  until_true 30 serve_sccache_wrote "$1" || fail 'sccache still writes'
  expect_equal 'write errors' "$(field "$1.json" stats.cache_write_errors)" 0
  expect_equal 'errors' "$(field "$1.json" stats.cache_errors.counts)" '{}'
  stop "$server_pid"
}

# serve_sccache_wrote NAME: NAME.json says that each miss was written.
serve_sccache_wrote() {
  timeout 60 "$cache/venv-serve/bin/sccache" --show-stats --stats-format json >"$1.json"
  python3 - "$1.json" <<'PYTHON'
import json, sys
with open(sys.argv[1]) as file:
    stats = json.load(file)["stats"]
misses = sum(stats["cache_misses"]["counts"].values())
sys.exit(stats["cache_writes"] + stats["cache_write_errors"] < misses)
PYTHON
}

# bgd COMMAND [ARGUMENT...]: BuildGrid's client; COMMAND takes the address.
bgd() {
  local command=$1
  shift
  timeout 60 "$cache/venv-serve/bin/bgd" "$command" --remote "http://$cache_address" \
    --instance-name team "$@"
}

# bgd_upload COMMAND PATH: prints the digest, as HASH/SIZE.
bgd_upload() {
  bgd cas "$1" --verify "$2" >messages
  sed -n "s|.*path=\[$2\] with digest=\[\(.*\)\]|\1|p" messages
}

serve_bgd_files() {
  local digest
  head -c 9000000 /dev/urandom >large
  mkdir -p tree/sub
  printf 'a file\n' >tree/sub/small
  head -c 300000 /dev/urandom >tree/medium
  bgd capabilities >capabilities.json
  expect_equal 'updates' \
    "$(field capabilities.json cacheCapabilities.actionCacheUpdateCapabilities.updateEnabled)" true
  digest=$(bgd_upload upload-file large)
  expect_equal digest "$digest" "$(sha256_of large)/9000000"
  bgd cas download-file --verify "$digest" copy
  expect_same_file copy large
  expect_exit 0 tg cp "grpc://$cache_address/sha256/$digest" through_tidegate
  expect_same_file through_tidegate large
  bgd cas download-dir --verify "$(bgd_upload upload-dir tree)" tree_copy
  diff -r tree tree_copy || fail 'the folders differ'
}

# An action result is accepted only if its output is there.
serve_bgd_actions() {
  local action result
  action=$(printf action | sha256sum | cut -d' ' -f1)/6
  head -c 5000 /dev/urandom >output
  serve_action_result "$(sha256_of output)" 5000 >result
  result=$(bgd_upload upload-file result)
  bgd actioncache get "$action" >messages
  expect_mentions messages '^Miss'
  expect_exit 255 bgd actioncache update "$action" "$result" 2>error
  expect_mentions error "the cache does not have sha256/$(sha256_of output)/5000"
  bgd actioncache get "$action" >messages
  expect_mentions messages '^Miss'
  bgd_upload upload-file output
  bgd actioncache update "$action" "$result"
  bgd actioncache get --json "$action" >result.json
  expect_equal output "$(field result.json outputFiles.0.digest.hash)" "$(sha256_of output)"
}

# serve_action_result HASH SIZE: the message of a result whose only output is the blob; SIZE has two
# digits in base 128.
serve_action_result() {
  python3 - "$1" "$2" <<'PYTHON'
import sys
size = int(sys.argv[2])
digest = b"\x0a\x40" + sys.argv[1].encode() + b"\x10" + bytes([size & 127 | 128, size >> 7])
file = b"\x0a\x03out\x12" + bytes([len(digest)]) + digest
sys.stdout.buffer.write(b"\x12" + bytes([len(file)]) + file)
PYTHON
}

# What one casd receives, the server and a second casd with an empty folder have.
serve_casd() {
  local digest
  head -c 6000000 /dev/urandom >file
  digest=$(sha256_of file)/6000000
  serve_casd_start first
  expect_exit 0 tg cp file "grpc://127.0.0.1:$casd_port"
  expect_exit 0 tg cp "grpc://$cache_address/sha256/$digest" at_server
  expect_same_file at_server file
  stop "$spawned_pid"
  serve_casd_start second
  expect_exit 0 tg cp "grpc://127.0.0.1:$casd_port/sha256/$digest" copy
  expect_same_file copy file
  stop "$spawned_pid"
}

# serve_casd_start FOLDER: a casd whose remote is the server; `$casd_port`.
serve_casd_start() {
  casd_port=$(free_ports 1)
  spawn "$1.log" "$cache/casd/buildbox-casd" --cas-remote="http://$cache_address" \
    --bind "127.0.0.1:$casd_port" --quota-high 1G --reserved 1M "$PWD/$1"
  until_true 30 listens "$spawned_pid" "$casd_port" || fail "casd did not start: $(cat "$1.log")"
}
