# shellcheck shell=bash
# `tidegate serve` with the clients that are installed in seconds: `tidegate` itself with chunks, curl,
# ccache in its three layouts, and Go with `tidegate cacheprog`. `serve_all.sh` has the others.
#
# Each client runs twice, the second time with an empty state of its own. Its own counters must then
# report hits.

serve_suite() {
  start_cache "$work/serve"
  check 'serve: a file as chunks, and out again' serve_chunks
  check 'serve: of an edited file only what changed is sent' serve_edited
  check 'serve: a range, HEAD and 304 of a blob, with curl' serve_reads
  check 'serve: a body with another hash is refused' serve_wrong_hash
  check 'serve: ccache, layout bazel' serve_ccache bazel
  check 'serve: ccache, layout flat' serve_ccache flat
  check 'serve: ccache, layout subdirs' serve_ccache subdirs
  check 'serve: Go, with a cache on the server' serve_go_url
  check 'serve: Go, with a cache in a folder' serve_go_folder
  check 'serve: SIGTERM ends the server with 0, and its blobs stay' serve_stops
  stop "$cache_pid"
}

# start_cache FOLDER [FLAG...]: a cache server on a free port; `$cache_address` and `$cache_pid`.
start_cache() {
  spawn "$1.log" "$tidegate" serve --dir "$1" --max-size 4GiB --listen 127.0.0.1:0 --json "${@:2}"
  cache_pid=$spawned_pid
  if ! until_true 30 announced "$cache_pid" "$1.log" || gone "$cache_pid"; then
    printf 'tidegate serve did not come up with %s\n' "$1" >&2
    tail -n 20 "$1.log" >&2
    return 1
  fi
  cache_address=$(field "$1.log" address)
}

# announced PID LOG: the server has printed its address, or has ended.
announced() {
  gone "$1" || field "$2" address >/dev/null
}

# serve_url BLOB_FILE: the URL of the blob for curl.
serve_url() {
  printf 'http://%s/cas/%s' "$cache_address" "$(sha256_of "$1")"
}

# serve_put FILE: writes the report to report.json.
serve_put() {
  expect_exit 0 tg cp --json --chunking always "$1" "grpc://$cache_address" >report.json
}

serve_chunks() {
  noise file
  serve_put file
  expect_equal outcome "$(field report.json outcome)" chunked
  expect_equal 'bytes sent' "$(field report.json sent_bytes)" 20971520
  expect_exit 0 tg cp --chunking always "$(field report.json target)" copy
  expect_same_file copy file
  serve_put file
  expect_equal outcome "$(field report.json outcome)" present
  expect_equal 'bytes sent' "$(field report.json sent_bytes)" 0
}

serve_edited() {
  local sent fetched
  noise file
  serve_put file
  { head -c 9000000 file && printf 'an insertion' && tail -c +9000001 file; } >edited
  serve_put edited
  sent=$(field report.json sent_bytes)
  ((sent > 0 && sent < 6000000)) || fail "$sent bytes sent"
  expect_exit 0 tg cp --json --chunking always --seed file "$(field report.json target)" copy >stat.json
  fetched=$(field stat.json chunks.fetched_bytes)
  ((fetched > 0 && fetched < 6000000)) || fail "$fetched bytes fetched"
  expect_same_file copy edited
}

# http_status CURL_ARGUMENT...: the status; the body goes to the file `body`.
http_status() {
  curl --silent --show-error --max-time 60 --output body --write-out '%{http_code}' "$@"
}

serve_reads() {
  local url
  head -c 3000000 /dev/urandom >file
  url=$(serve_url file)
  expect_equal 'status before' "$(http_status "$url")" 404
  expect_equal 'status of PUT' "$(http_status --upload-file file "$url")" 200
  expect_equal 'status of GET' "$(http_status "$url")" 200
  expect_same_file body file
  expect_equal 'status of a range' "$(http_status --range 1000000-1999999 "$url")" 206
  head -c 2000000 file | tail -c 1000000 >part
  expect_same_file body part
  expect_equal 'status of a range beyond the end' "$(http_status --range 3000000- "$url")" 416
  curl --silent --show-error --max-time 60 --head "$url" >messages
  expect_mentions messages '^content-length: 3000000'
  expect_mentions messages "^etag: \"$(sha256_of file)\""
  expect_equal 'conditional status' \
    "$(http_status --header "If-None-Match: \"$(sha256_of file)\"" "$url")" 304
  expect_exit 0 tg cp "grpc://$cache_address/sha256/$(sha256_of file)/3000000" copy
  expect_same_file copy file
}

serve_wrong_hash() {
  local url
  printf 'one content' >file
  printf 'another content' >other
  url=$(serve_url file)
  expect_equal 'status of PUT' "$(http_status --upload-file other "$url")" 400
  expect_equal 'status after' "$(http_status "$url")" 404
}

# serve_ccache LAYOUT
serve_ccache() {
  local stats
  printf 'int %s_answer(void) { return 42; }\n' "$1" >code.c
  # Debian's ccache gives up after 100 ms, which a busy machine may need.
  export CCACHE_REMOTE_STORAGE="http://$cache_address|layout=$1|connect-timeout=10000"
  export CCACHE_CONFIGPATH=/dev/null
  stats=$(serve_ccache_run cold)
  expect_mentions <(printf '%s\n' "$stats") 'remote_storage_hit.0$'
  stats=$(serve_ccache_run warm)
  expect_mentions <(printf '%s\n' "$stats") 'remote_storage_hit.[1-9]'
  expect_mentions <(printf '%s\n' "$stats") 'cache_miss.0$'
  expect_same_file warm.o cold.o
}

# serve_ccache_run NAME: compiles to NAME.o with an empty local cache; prints the counters.
serve_ccache_run() {
  CCACHE_DIR=$PWD/$1 ccache cc -c code.c -o "$1.o"
  CCACHE_DIR=$PWD/$1 ccache --print-stats >"$1.stats"
  expect_mentions "$1.stats" 'remote_storage_error.0$'
  expect_mentions "$1.stats" 'remote_storage_timeout.0$'
  cat "$1.stats"
}

# go_program IMPORT EXPRESSION: a module whose build compiles IMPORT and what that imports.
go_program() {
  mkdir -p program
  printf 'module example.org/program\n\ngo 1.21\n' >program/go.mod
  printf '// Package program says one word.\npackage program\n\nimport "%s"\n\n' "$1" >program/program.go
  printf '// Word is what it says.\nfunc Word() string { return %s }\n' "$2" >>program/program.go
  # The go command caches the list of a folder's files only if they are older than two seconds.
  touch -d '1 hour ago' program/* program
}

serve_go_url() {
  go_program strconv 'strconv.Itoa(42)'
  serve_go "http://$cache_address/go"
}

serve_go_folder() {
  go_program unicode/utf8 'string(utf8.RuneError)'
  serve_go "$PWD/cache"
}

# serve_go CACHE: builds twice. The second go command has no cache of its own.
serve_go() {
  serve_go_build cold "$1"
  expect_mentions cold.log '^tidegate cacheprog: 0 hits, [1-9][0-9]* miss.* 0 failures$'
  serve_go_build warm "$1"
  expect_mentions warm.log '^tidegate cacheprog: [1-9][0-9]* hits?, 0 misses, 0 outputs .* 0 failures$'
  expect_same_file warm.a cold.a
}

# serve_go_build NAME CACHE: writes NAME.a and the messages to NAME.log.
serve_go_build() {
  (cd program && GOCACHE=$PWD/../go-$1 GOFLAGS='' GOTOOLCHAIN=local GOCACHEPROG="$tidegate cacheprog -v $2" \
    go build -trimpath -o "../$1.a" .) >"$1.log" 2>&1 || {
    cat "$1.log" >&2
    fail "go build, $1"
  }
}

serve_stops() {
  local code=0
  start_cache "$PWD/store"
  noise file
  serve_put file
  kill -TERM "$cache_pid"
  wait "$cache_pid" || code=$?
  expect_equal 'exit code' "$code" 0
  start_cache "$PWD/store"
  serve_put file
  expect_equal outcome "$(field report.json outcome)" present
  expect_exit 0 tg cp "$(field report.json target)" copy
  expect_same_file copy file
}
