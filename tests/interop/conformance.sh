# shellcheck shell=bash
# Requirements for every remote. They run against each real server, which holds the blobs of
# `$blobs` (`empty`, `byte`, `small`, `large`) under one base URL.

blob_names=(empty byte small large)

# make_blobs: deterministic bytes that do not compress.
make_blobs() {
  mkdir -p "$blobs"
  : >"$blobs/empty"
  make_blob "$blobs/byte" 1 1
  make_blob "$blobs/small" $((5 * 1024 * 1024)) 2
  make_blob "$blobs/large" $((300 * 1024 * 1024)) 3
}

# make_blob FILE BYTES SEED: an AES-CTR key stream, cut to length.
make_blob() {
  head -c "$2" /dev/zero |
    openssl enc -aes-128-ctr -nosalt -K "$(printf '%032d' "$3")" -iv "$(printf '%032d' 0)" >"$1"
}

# conformance NAME BASE_URL [FLAG...]
conformance() {
  local name=$1 base=$2 blob
  shift 2
  for blob in "${blob_names[@]}"; do
    check "$name: cp of $blob ($(stat -c %s "$blobs/$blob") bytes)" copies "$base/$blob" "$blob" "$@"
  done
  check "$name: cp replaces an old file" replaces "$base/small" "$@"
  check "$name: cat of a whole blob through a pipe" cats_whole "$base/large" large "$@"
  check "$name: cat of the empty blob" cats_whole "$base/empty" empty "$@"
  check "$name: cat of ranges" cats_ranges "$base/small" "$@"
  check "$name: a range beyond the end is an error" refuses_range_beyond_end "$base/small" "$@"
  check "$name: stat as JSON" shows_stat "$base/small" "$@"
  check "$name: a blob that is not there" reports_not_found "$base/absent" "$@"
  check "$name: the library's suite for every remote that is read" keeps_promises "$base" "$@"
}

# keeps_promises BASE_URL [--endpoint URL]
keeps_promises() {
  expect_exit 0 timeout --kill-after=5 180 "$suites_binary" "$1" "$blobs" "${@:2}"
}

# keeps_promises_of_writers BASE_URL [--endpoint URL] -- CLIENT...: the bucket is empty, and CLIENT
# takes requests as follow.py does.
keeps_promises_of_writers() {
  expect_exit 0 timeout --kill-after=5 300 "$suites_binary" write "$@"
}

copies() {
  local url=$1 blob=$2
  shift 2
  mkdir out
  expect_exit 0 tg cp --json "$@" "$url" out/target >report.json
  expect_same_file out/target "$blobs/$blob"
  expect_clean out target
  expect_equal bytes "$(field report.json bytes)" "$(stat -c %s "$blobs/$blob")"
}

replaces() {
  local url=$1
  shift
  mkdir out
  echo old >out/target
  expect_exit 0 tg cp --quiet "$@" "$url" out/target
  expect_same_file out/target "$blobs/small"
  expect_clean out target
}

cats_whole() {
  local url=$1 blob=$2
  shift 2
  # Through `cat`, so that standard output is a pipe and not a file.
  tg cat --quiet "$@" "$url" | cat >received || fail "exit code ${PIPESTATUS[0]}, expected 0"
  expect_same_file received "$blobs/$blob"
}

cats_ranges() {
  local url=$1 size
  shift
  size=$(stat -c %s "$blobs/small")
  cats_range "$url" 0-0 0 1 "$@"
  cats_range "$url" 100-299 100 200 "$@"
  cats_range "$url" 1000000-4999999 1000000 4000000 "$@"
  cats_range "$url" "$((size - 7))-" "$((size - 7))" 7 "$@"
  cats_range "$url" -5 "$((size - 5))" 5 "$@"
}

# cats_range URL RANGE OFFSET LENGTH FLAG...
cats_range() {
  local url=$1 range=$2 offset=$3 length=$4
  shift 4
  dd if="$blobs/small" of=expected iflag=skip_bytes,count_bytes skip="$offset" count="$length" \
    status=none
  expect_exit 0 tg cat --quiet "--range=$range" "$@" "$url" >received
  expect_same_file received expected
}

refuses_range_beyond_end() {
  local url=$1
  shift
  local code=0
  tg cat --quiet --range=999999999-1000000000 "$@" "$url" >received 2>error || code=$?
  [[ $code == 1 || $code == 2 ]] || fail "exit code $code"
  expect_equal 'bytes delivered' "$(stat -c %s received)" 0
  [[ -s error ]] || fail 'no message'
}

shows_stat() {
  local url=$1
  shift
  expect_exit 0 tg stat --json "$@" "$url" >stat.json
  expect_equal bytes "$(field stat.json bytes)" "$(stat -c %s "$blobs/small")"
  [[ $(field stat.json version) != null ]] || fail 'no version'
}

reports_not_found() {
  local url=$1
  shift
  mkdir out
  expect_exit 3 tg cp --json "$@" "$url" out/target >report.json 2>error
  expect_equal kind "$(field report.json error.kind)" not_found
  expect_clean out
  expect_exit 3 tg cat --quiet "$@" "$url" >received 2>error
  expect_equal 'bytes delivered' "$(stat -c %s received)" 0
  expect_exit 3 tg stat "$@" "$url" 2>error
  [[ -s error ]] || fail 'no message'
}
