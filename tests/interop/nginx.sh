# shellcheck shell=bash
# nginx: plain HTTP from a common server. Some cases make it hard for clients, each by one directive
# or action: no ranges, a rate limit, compression, killed workers, changed files.

# nginx_start NAME SERVER_BLOCKS: nginx with these `server { ... }` blocks; `$nginx_pid`.
# It logs one line per finished request, so that requests and body bytes can be counted.
nginx_start() {
  local name=$1 servers=$2
  local folder=$work/nginx-$name user=
  mkdir -p "$folder"
  # Without this, the workers of a root master run as a user that cannot read these folders.
  (($(id -u) != 0)) || user='user root;'
  cat >"$folder/nginx.conf" <<CONF
$user
daemon off;
worker_processes 2;
pid $folder/nginx.pid;
error_log $folder/error.log warn;
events { worker_connections 1024; }
http {
  log_format requests '\$request_method \$uri \$status \$body_bytes_sent \$http_range';
  access_log $folder/access.log requests;
  sendfile on;
  tcp_nopush on;
  default_type application/octet-stream;
  client_body_temp_path $folder/body;
  proxy_temp_path $folder/proxy;
  fastcgi_temp_path $folder/fastcgi;
  uwsgi_temp_path $folder/uwsgi;
  scgi_temp_path $folder/scgi;
$servers
}
CONF
  local port
  port=$(sed -n 's/.*listen 127\.0\.0\.1:\([0-9]*\).*/\1/p' "$folder/nginx.conf" | head -n 1)
  serve "nginx-$name" "$(nginx_scheme "$servers")://127.0.0.1:$port/" nginx -c "$folder/nginx.conf" -e "$folder/error.log"
  nginx_pid=$spawned_pid
  nginx_log=$folder/access.log
}

nginx_scheme() {
  if [[ $1 == *' ssl;'* ]]; then echo https; else echo http; fi
}

# nginx_bytes_sent: body bytes of all requests so far. Stop the server first: a request is logged
# only when it ends.
nginx_bytes_sent() {
  awk '{ total += $4 } END { print total + 0 }' "$nginx_log"
}

nginx_requests_done() {
  (($(wc -l <"$nginx_log") >= $1))
}

nginx_suite() {
  local plain no_ranges packed no_length refused
  read -r plain no_ranges packed no_length refused <<<"$(free_ports 5)"
  printf 'reader:%s\n' "$(openssl passwd -apr1 open-sesame)" >"$work/passwords"
  nginx_start plain "
  server {
    listen 127.0.0.1:$plain;
    root $blobs;
    location /forbidden { deny all; }
    location /private/ {
      alias $blobs/;
      auth_basic private;
      auth_basic_user_file $work/passwords;
    }
    location /elsewhere { return 307 http://127.0.0.1:$plain/moved-once; }
    location /moved-once { return 301 /small; }
    location /circle { return 302 /circle; }
  }
  server { listen 127.0.0.1:$no_ranges; root $blobs; max_ranges 0; }
  server { listen 127.0.0.1:$packed; root $blobs; gzip on; gzip_types *; gzip_min_length 1; }
  server { listen 127.0.0.1:$no_length; root $blobs; ssi on; ssi_types *; ssi_min_file_chunk 1m; }
"
  local base=http://127.0.0.1:$plain
  conformance nginx "$base"
  check 'nginx: stat shows the strong ETag' nginx_shows_etag "$base/small"
  check 'nginx: several sources into a folder' nginx_copies_several "$base"
  check 'nginx: a hash given by hand is checked' nginx_checks_sha256 "$base/small"
  check 'nginx: 403 and 401 are no access' nginx_no_access "$base"
  check 'nginx: basic authentication from the URL' \
    copies "http://reader:open-sesame@127.0.0.1:$plain/private/small" small
  check 'nginx: a password by --netrc' nginx_netrc "$base/private/small"
  check 'nginx: a copy and a list are compared without a transfer' nginx_checks "$base"
  check 'nginx: redirects are followed' copies "$base/elsewhere" small
  check 'nginx: redirects in a circle are an error' nginx_circle "$base/circle"
  check 'nginx: without ranges falls back to one stream' \
    nginx_falls_back "http://127.0.0.1:$no_ranges/large"
  check 'nginx: with compression on delivers the stored bytes' \
    copies "http://127.0.0.1:$packed/large" large
  check 'nginx: a small answer without a length' nginx_no_length "http://127.0.0.1:$no_length" small
  check 'nginx: a large answer without a length' nginx_no_length "http://127.0.0.1:$no_length" large
  check 'nginx: refused connection' nginx_refused "http://127.0.0.1:$refused/small"
  check 'nginx: killed workers are survived' nginx_workers_killed
  check 'nginx: Ctrl-C cancels, the next run resumes' nginx_cancelled
  check 'nginx: resume after kill -9' nginx_resumes
  check 'nginx: resume after kill -9 starts again when the blob has changed' nginx_resumes_changed
  check 'nginx: a blob that changes meanwhile is an error' nginx_changed
}

nginx_shows_etag() {
  local etag
  etag=$(curl -sI "$1" | tr -d '\r' | sed -n 's/^[Ee][Tt]ag: //p')
  tg stat --json "$1" >stat.json
  [[ $(field stat.json version) == *"${etag//\"/}"* ]] || fail "version is not $etag"
}

nginx_copies_several() {
  mkdir out
  expect_exit 0 tg cp --quiet "$1/byte" "$1/small" out
  expect_clean out byte small
  expect_same_file out/byte "$blobs/byte"
  expect_same_file out/small "$blobs/small"
}

nginx_checks_sha256() {
  mkdir out
  expect_exit 0 tg cp --quiet --sha256 "$(sha256_of "$blobs/small")" "$1" out/right
  expect_same_file out/right "$blobs/small"
  echo old >out/wrong
  expect_exit 5 tg cp --json --sha256 "$(sha256_of "$blobs/byte")" "$1" out/wrong >report.json 2>error
  expect_equal kind "$(field report.json error.kind)" integrity
  expect_equal 'the old file' "$(cat out/wrong)" old
}

nginx_no_access() {
  mkdir out
  local path
  for path in forbidden private/small; do
    expect_exit 6 tg cp --json "$1/$path" out/target >report.json 2>error
    expect_clean out
    expect_exit 6 tg cat --quiet "$1/$path" >received 2>error
    expect_exit 6 tg stat "$1/$path" >stat.out 2>error
  done
}

nginx_netrc() {
  export HOME=$PWD
  printf 'machine 127.0.0.1\n  login reader\n  password open-sesame\n' >.netrc
  chmod 600 .netrc
  expect_exit 6 tg cp --quiet "$1" target 2>error
  copies "$1" small --netrc
}

# nginx provides no checksum, so only its length or a list can tell a difference.
nginx_checks() {
  local before body
  before=$(nginx_bytes_sent)
  expect_exit 1 tg check "$1/small" "$blobs/small" >out
  expect_mentions out 'unknown: the server provides no checksum'
  expect_exit 5 tg check "$1/small" "$blobs/byte" >out
  expect_mentions out 'small  different'
  (cd "$blobs" && sha256sum small large) >SHA256SUMS
  expect_exit 0 tg check "$blobs/small" "$blobs/large" SHA256SUMS >out
  expect_mentions out 'large  same: sha256'
  body=$(($(nginx_bytes_sent) - before))
  ((body == 0)) || fail "$body bytes of bodies were sent"
}

nginx_falls_back() {
  mkdir out
  expect_exit 0 tg cp --json "$1" out/target >report.json 2>messages
  expect_same_file out/target "$blobs/large"
  expect_clean out target
  [[ $(field report.json notes) == *range* ]] || fail 'no note says so'

}

nginx_circle() {
  mkdir out
  expect_exit 1 tg cp --json "$1" out/target >report.json 2>error
  expect_mentions report.json 'redirect'
  expect_clean out
}

# nginx_no_length BASE_URL BLOB: the whole blob arrives as one stream, in a file and in a pipe.
nginx_no_length() {
  # With a length, this case would test nothing.
  ! curl -sI "$1/$2" | grep -qi '^content-length' || fail 'nginx gives a length after all'
  mkdir out
  expect_exit 0 tg cp --json "$1/$2" out/target >report.json 2>messages
  expect_same_file out/target "$blobs/$2"
  expect_clean out target
  cats_whole "$1/$2" "$2"
}

nginx_refused() {
  mkdir out
  local code=0
  tg cp --json "$1" out/target >report.json 2>error || code=$?
  [[ $code == 1 || $code == 7 ]] || fail "exit code $code"
  expect_mentions report.json 'refused'
  expect_clean out
}

# A server with one blob that a case can replace. 16 MiB/s per connection is slow enough to
# interrupt a copy.
nginx_slow() {
  local port
  port=$(free_ports 1)
  mkdir www out
  cp "$blobs/large" www/blob
  nginx_start "slow.$$.$RANDOM" "
  server { listen 127.0.0.1:$port; root $PWD/www; limit_rate 16m; }
"
  slow_url=http://127.0.0.1:$port/blob
}

# begin_copy: starts a cp in the background and returns when 6 requests are done.
begin_copy() {
  # A script's background commands ignore Ctrl-C by default. The window is small, so that the first
  # shards are done long before the last ones start.
  env --default-signal=INT "$tidegate" cp --json --window 4 --shard-size 8MiB "$slow_url" \
    out/target >report.json 2>messages &
  copy_pid=$!
  spawned+=("$copy_pid")
  until_true 60 begun_or_gone || fail 'no request was done in time'
  ! gone "$copy_pid" || fail 'the copy ended before it could be disturbed'
}

begun_or_gone() {
  gone "$copy_pid" || nginx_requests_done 6
}

nginx_workers_killed() {
  nginx_slow
  begin_copy
  local worker
  for worker in $(cat "/proc/$nginx_pid/task/$nginx_pid/children"); do
    kill -KILL "$worker"
  done
  expect_exit 0 wait "$copy_pid"
  expect_same_file out/target "$blobs/large"
  expect_clean out target
  (($(field report.json restarts) > 0)) || fail 'no restart was reported'
}

# expect_part: there is one part file and no file under the final name.
expect_part() {
  [[ ! -e out/target ]] || fail 'the target appeared before it was whole'
  ls -lA out
  (($(find out -type f -size +1M | wc -l) == 1)) || fail 'not one part file'
}

# expect_resumed: restarts the server with an empty log and runs the same command again. It must
# fetch only the missing bytes.
expect_resumed() {
  stop "$nginx_pid"
  local first second size
  first=$(nginx_bytes_sent)
  : >"$nginx_log"
  serve nginx-again "${slow_url%/*}/" nginx -c "$(dirname "$nginx_log")/nginx.conf" -e /dev/null
  nginx_pid=$spawned_pid
  expect_exit 0 tg cp --json "$slow_url" out/target >report.json 2>messages
  stop "$nginx_pid"
  second=$(nginx_bytes_sent)
  size=$(stat -c %s "$blobs/large")
  echo "sent before $first, after $second, of $size"
  expect_same_file out/target "$blobs/large"
  expect_clean out target
  (($(field report.json resumed_bytes) > 0)) || fail 'no resumed bytes are reported'
  ((second < size * 95 / 100)) || fail "fetched $second bytes of $size again"
}

nginx_cancelled() {
  nginx_slow
  begin_copy
  kill -INT "$copy_pid"
  expect_exit 8 wait "$copy_pid"
  expect_equal kind "$(field report.json error.kind)" cancelled
  expect_mentions report.json 'resume'
  expect_part
  expect_resumed
}

nginx_resumes() {
  nginx_slow
  begin_copy
  kill_copy
  expect_part
  expect_resumed
}

kill_copy() {
  kill -KILL "$copy_pid"
  wait "$copy_pid" || true
}

nginx_resumes_changed() {
  nginx_slow
  begin_copy
  kill_copy
  make_blob www/new $((40 * 1024 * 1024)) 4
  mv www/new www/blob
  expect_exit 0 tg cp --json "$slow_url" out/target >report.json 2>messages
  expect_same_file out/target www/blob
  expect_clean out target
  [[ $(field report.json notes) == *changed* ]] || fail 'no note says so'
}

nginx_changed() {
  nginx_slow
  echo old >out/target
  begin_copy
  make_blob www/new "$(stat -c %s "$blobs/large")" 5
  mv www/new www/blob
  expect_exit 4 wait "$copy_pid"
  expect_equal kind "$(field report.json error.kind)" changed
  expect_equal 'the old file' "$(cat out/target)" old
}
