# shellcheck shell=bash
# The Remote Execution API with SpliceBlob and without SplitBlob, served by bazel-remote. No registry
# offers an installable bazel-remote, so BAZEL_REMOTE names a binary that you have built.

splice_suite() {
  local port http_port
  [[ -x ${BAZEL_REMOTE:-} ]] || {
    printf 'BAZEL_REMOTE names no binary of bazel-remote\n' >&2
    return 1
  }
  read -r port http_port < <(free_ports 2)
  splice=grpc://127.0.0.1:$port/main
  spawn "$work/bazel-remote.log" "$BAZEL_REMOTE" --dir "$work/bazel-remote" --max_size 5 \
    --grpc_address "127.0.0.1:$port" --http_address "127.0.0.1:$http_port"
  if ! until_true 30 listens "$spawned_pid" "$port" || gone "$spawned_pid"; then
    printf 'bazel-remote did not come up at %s\n' "$splice" >&2
    tail -n 20 "$work/bazel-remote.log" >&2
    return 1
  fi
  check 'splice: a blob as chunks, and out again' splice_round_trip
  check 'splice: of an edited blob only what changed is sent' splice_edited
  check 'splice: without --chunking, whole' splice_not_asked_for
  check 'splice: chunks cannot be had of it' splice_gives_no_chunks
  check 'splice: what every store must do alike' stores_conform "$splice"
}

# splice_put FILE [OPTION...]: writes the report to report.json.
splice_put() {
  local file=$1
  shift
  expect_exit 0 tg cp --json "$@" "$file" "$splice" >report.json
}

# 20 MiB that no other case stores.
noise() {
  head -c 20971520 /dev/urandom >"$1"
}

splice_round_trip() {
  noise file
  splice_put file --chunking always
  expect_equal outcome "$(field report.json outcome)" chunked
  expect_equal 'bytes sent' "$(field report.json sent_bytes)" 20971520
  expect_exit 0 tg cp --compress auto "$(field report.json target)" copy
  expect_same_file copy file
  splice_put file --chunking always
  expect_equal outcome "$(field report.json outcome)" present
}

splice_edited() {
  local sent
  noise file
  splice_put file --chunking always
  { head -c 9000000 file && printf 'an insertion' && tail -c +9000001 file; } >edited
  splice_put edited --chunking always
  sent=$(field report.json sent_bytes)
  ((sent > 0 && sent < 6000000)) || fail "$sent bytes sent"
  expect_exit 0 tg cp "$(field report.json target)" copy
  expect_same_file copy edited
}

splice_not_asked_for() {
  noise file
  splice_put file
  expect_equal outcome "$(field report.json outcome)" whole
}

splice_gives_no_chunks() {
  local url
  noise file
  splice_put file
  url=$(field report.json target)
  expect_exit 0 tg cp --json --seed file "$url" copy >stat.json
  [[ $(field stat.json notes) == *'seeds were not used'* ]] || fail 'no word of the seeds'
  expect_exit 1 tg cp --json --chunking always "$url" other >stat.json
  expect_equal kind "$(field stat.json error.kind)" unsupported
}
