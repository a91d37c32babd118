# shellcheck shell=bash
# nginx with WebDAV: `tidegate cp` to a web server. nginx ignores `If-None-Match` of a PUT, and its MOVE
# looks before it renames, so the command refuses `--no-clobber`. The suites of the library use MOVE,
# which OPTIONS shows. One server has no answer to OPTIONS.

dav_suite() {
  local port plain
  read -r port plain <<<"$(free_ports 2)"
  mkdir -p "$work/dav/suites" "$work/dav/uploads"
  local methods="
    root $work/dav;
    client_max_body_size 0;
    dav_methods PUT DELETE MOVE;
    create_full_put_path on;"
  # nginx answers OPTIONS only with the module dav-ext.
  nginx_start dav "
  server {
    listen 127.0.0.1:$port;
    $methods
    if (\$request_method = OPTIONS) { return 418; }
    error_page 418 = @options;
    location @options {
      add_header Allow 'GET, HEAD, OPTIONS, PUT, DELETE, MOVE';
      add_header DAV 1;
      return 200;
    }
  }
  server { listen 127.0.0.1:$plain; $methods }
"
  local dav=http://127.0.0.1:$port blob
  check "nginx dav: the library's suites for every remote that is written" \
    keeps_promises_of_writers "$dav/suites" -- python3 "$interop/folder_client.py" "$work/dav/suites"
  for blob in "${blob_names[@]}"; do
    check "nginx dav: cp of $blob" dav_stores "$dav" "$blob"
  done
  check 'nginx dav: standard input' dav_standard_input "$dav"
  check 'nginx dav: --no-clobber is refused' dav_no_clobber "$dav"
  check 'nginx dav: --no-clobber without OPTIONS is refused' dav_no_clobber "http://127.0.0.1:$plain"
  check 'nginx dav: a killed upload leaves the old blob' dav_killed "$dav"
  stop "$nginx_pid"
}

# dav_stored NAME FILE: the server has exactly this.
dav_stored() {
  expect_same_file "$work/dav/uploads/$1" "$2"
}

dav_stores() {
  expect_exit 0 tg cp --json "$blobs/$2" "$1/uploads/$2" >report.json
  expect_equal bytes "$(field report.json bytes)" "$(stat -c %s "$blobs/$2")"
  dav_stored "$2" "$blobs/$2"
  # Once more, over what is there.
  expect_exit 0 tg cp --quiet "$blobs/$2" "$1/uploads/$2"
  dav_stored "$2" "$blobs/$2"
}

dav_standard_input() {
  cat "$blobs/small" | tg cp --quiet - "$1/uploads/input" || fail "exit codes ${PIPESTATUS[*]}"
  dav_stored input "$blobs/small"
}

# The old blob stays, and where nothing is, nothing is stored.
dav_no_clobber() {
  expect_exit 0 tg cp --quiet "$blobs/small" "$1/uploads/kept"
  local name
  for name in kept refused; do
    expect_exit 2 tg cp --json --no-clobber "$blobs/byte" "$1/uploads/$name" >report.json 2>error
    expect_equal kind "$(field report.json error.kind)" unsupported
  done
  dav_stored kept "$blobs/small"
  expect_equal 'the refused blob' "$(find "$work/dav/uploads" -name '*refused*')" ''
}

dav_killed() {
  cp "$blobs/small" "$work/dav/uploads/killed"
  spawn messages "$tidegate" cp --quiet --limit-rate 20MiB "$blobs/large" "$1/uploads/killed"
  local pid=$spawned_pid
  until_true 30 dav_receives || fail 'nothing was sent'
  kill -KILL "$pid"
  wait "$pid" 2>/dev/null || true
  dav_stored killed "$blobs/small"
}

# dav_receives: nginx has a part of a body.
dav_receives() {
  [[ -n $(find "$work/nginx-dav/body" -type f -size +1M 2>/dev/null) ]]
}
