# shellcheck shell=bash
# The Remote Execution API, served by buildbox-casd: SHA-256, whole blobs only, without zstd.

reapi_suite() {
  local port blob
  port=$(free_ports 1)
  reapi=grpc://127.0.0.1:$port
  spawn "$work/casd.log" "$cache/casd/buildbox-casd" --bind "127.0.0.1:$port" \
    --quota-high 15G --reserved 1G "$work/casd"
  if ! until_true 30 listens "$spawned_pid" "$port" || gone "$spawned_pid"; then
    printf 'buildbox-casd did not come up at %s\n' "$reapi" >&2
    tail -n 20 "$work/casd.log" >&2
    return 1
  fi
  for blob in "${blob_names[@]}"; do
    check "reapi: put of $blob ($(stat -c %s "$blobs/$blob") bytes), get and stat" \
      reapi_round_trip "$blob"
  done
  check 'reapi: put of what is there' reapi_puts_again
  check 'reapi: put under the wrong digest is an error' reapi_wrong_digest
  check 'reapi: cat of a whole blob through a pipe' cats_whole "$(reapi_url large)" large
  check 'reapi: cat of ranges' cats_ranges "$(reapi_url small)"
  check 'reapi: a range beyond the end is an error' refuses_range_beyond_end "$(reapi_url small)"
  check 'reapi: a blob that is not there' reports_not_found "$reapi/sha256/$(printf '%064d' 0)/7"
  check 'reapi: BLAKE3, which it does not know' reapi_no_blake3
  check 'reapi: what every store must do alike' stores_conform "$reapi"
}

# reapi_url BLOB: the URL of the blob after it was put.
reapi_url() {
  printf '%s/sha256/%s/%s' "$reapi" "$(sha256_of "$blobs/$1")" "$(stat -c %s "$blobs/$1")"
}

# listens PID PORT
listens() {
  gone "$1" || (exec 4<>"/dev/tcp/127.0.0.1/$2")
}

reapi_round_trip() {
  local blob=$1 url
  url=$(reapi_url "$blob")
  expect_equal 'the printed URL' "$(tg cp "$blobs/$blob" "$reapi" 2>messages)" "$url"
  copies "$url" "$blob"
  expect_verified report.json sha256
  expect_exit 0 tg stat --json "$url" >stat.json
  expect_equal bytes "$(field stat.json bytes)" "$(stat -c %s "$blobs/$blob")"
}

reapi_puts_again() {
  expect_exit 0 tg cp --json "$blobs/small" "$reapi" >report.json
  expect_equal outcome "$(field report.json outcome)" present
  expect_equal 'bytes sent' "$(field report.json sent_bytes)" 0
}

reapi_wrong_digest() {
  expect_exit 5 tg cp --json "$blobs/byte" "$reapi/sha256/$(printf '%064d' 0)/1" >report.json
}

reapi_no_blake3() {
  local code=0
  tg cp --json --digest blake3 "$blobs/small" "$reapi" >report.json || code=$?
  expect_equal 'exit code' "$code" 1
  expect_equal kind "$(field report.json error.kind)" unsupported
}
