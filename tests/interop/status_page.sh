# shellcheck shell=bash
# The status page of `tidegate serve` in a real browser: Debian's chromium without a window. Runs only by
# name and with `--all`. With PICTURES=FOLDER it leaves pictures there: light, dark, and a phone.

status_page_suite() {
  install_parts chromium
  start_cache "$work/status_page"
  check 'status page: hit rate, stores and errors after real traffic' status_page_shows
  check 'status page: no error in the console, light, dark and on a phone' status_page_console
  check 'status page: what a client says of itself stays text' status_page_escapes
  stop "$cache_pid"
}

install_chromium() {
  have chromium && return
  printf '      installing chromium\n'
  apt_install chromium && have chromium
}

# status_page_open NAME WIDTH ARGUMENT...: opens the page, and writes its document to NAME.html, its messages
# to NAME.log. Two polls fit into the virtual time.
status_page_open() {
  local name=$1 width=$2
  shift 2
  timeout --kill-after=5 90 chromium --headless=new --no-sandbox --disable-gpu --hide-scrollbars \
    --disable-dev-shm-usage --user-data-dir="$PWD/profile" --enable-logging=stderr --window-size="$width,2600" \
    --virtual-time-budget=9000 "$@" "http://$cache_address/" >"$name.html" 2>"$name.log" ||
    fail "chromium: $(tail -n 5 "$name.log")"
}

# status_page_traffic: nine hits and one miss, an upload of chunks, a refused body.
status_page_traffic() {
  noise file
  expect_exit 0 tg cp --chunking always file "grpc://$cache_address" >/dev/null
  curl --silent --fail --output /dev/null --upload-file file "http://$cache_address/v1/cache/$1"
  local read
  for read in 1 2 3 4 5 6 7 8 9; do
    curl --silent --fail --output "out$read" "http://$cache_address/v1/cache/$1"
  done
  expect_equal miss "$(curl --silent --output /dev/null --write-out '%{http_code}' "http://$cache_address/v1/cache/9$1")" 404
  expect_equal refused "$(curl --silent --output /dev/null --write-out '%{http_code}' --upload-file out1 \
    "http://$cache_address/cas/$(sha256_of file)0")" 400
}

status_page_shows() {
  status_page_traffic 1
  status_page_open page 1280 --dump-dom
  expect_mentions page.html 'class="live">live<'
  expect_mentions page.html 'id="hit-rate">90.0%<'
  expect_mentions page.html '9 of 10 look-ups'
  expect_mentions page.html '<rect[^>]*class="hit"'
  expect_mentions page.html '<rect[^>]*class="sent"'
  expect_mentions page.html 'Values of tools'
  expect_mentions page.html 'cas.write'
}

status_page_console() {
  status_page_traffic 2
  local pictures=${PICTURES:-$PWD}
  status_page_open light 1280 --screenshot="$pictures/light.png"
  status_page_open dark 1280 --blink-settings=preferredColorScheme=0 --screenshot="$pictures/dark.png"
  status_page_open phone 390 --screenshot="$pictures/phone.png"
  local name
  for name in light dark phone; do
    ! grep CONSOLE "$name.log" || fail "messages in the console, $name"
    [[ -s $pictures/$name.png ]] || fail "no picture, $name"
  done
}

# The names come from `RequestMetadata`: `<script>document.title="x"</script>` as the tool and as the invocation.
status_page_escapes() {
  local script='<script>document.title="x"</script>' metadata
  # Field 1 has the name of the tool as its field 1; field 3 is the invocation. The text is 35 bytes long.
  metadata=$(printf '\x0a\x25\x0a\x23%s\x1a\x23%s' "$script" "$script" | base64 --wrap=0)
  printf '\0\0\0\0\0' >message
  curl --silent --http2-prior-knowledge --output /dev/null --data-binary @message \
    --header 'content-type: application/grpc' \
    --header "build.bazel.remote.execution.v2.requestmetadata-bin: $metadata" \
    "http://$cache_address/build.bazel.remote.execution.v2.Capabilities/GetCapabilities"
  status_page_open page 1280 --dump-dom
  expect_mentions page.html '<title>Tidegate</title>'
  expect_mentions page.html '<code>&lt;script&gt;document.title="x"&lt;/script&gt;</code>'
}
