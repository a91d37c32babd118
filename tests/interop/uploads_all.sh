# shellcheck shell=bash
# `tidegate cp` to imitations of S3 that ignore conditions, accept wrong checksums or keep none, and of
# a file of 20 GiB to a server that keeps nothing. `--all` runs this suite; without it, the suite runs
# only by name.
#
# What tidegate reports as stored must be there. What an imitation cannot do is refused: of writers that race
# with --no-clobber one wins, or all are refused.

moto_version=5.2.5
gofakes3_version=v1.2.0
s3rver_version=3.7.1
# 0.17 needs a newer Rust.
s3s_version=0.14.1

uploads_all_suite() {
  install_uploads_all
  # moto takes a minute for the largest blob of the other suites. This one has 8 parts.
  mkdir -p "$work/imitations"
  cp "$blobs"/{empty,byte,small} "$work/imitations"
  head -c $((40 * 1024 * 1024)) "$blobs/large" >"$work/imitations/large"
  local blobs=$work/imitations
  local port gofakes3_port s3rver_port s3s_port
  export AWS_ACCESS_KEY_ID=S3RVER AWS_SECRET_ACCESS_KEY=S3RVER AWS_REGION=us-east-1
  read -r port gofakes3_port s3rver_port s3s_port <<<"$(free_ports 4)"
  serve moto "http://127.0.0.1:$port/" "$cache/venv-moto/bin/moto_server" -H 127.0.0.1 -p "$port"
  # It does not lock the object when it completes an upload, and is wrong in few races.
  imitation moto "http://127.0.0.1:$port" kept raced
  serve gofakes3 "http://127.0.0.1:$gofakes3_port/" "$cache/bin/gofakes3" \
    -host "127.0.0.1:$gofakes3_port" -backend memory -quiet
  imitation gofakes3 "http://127.0.0.1:$gofakes3_port" kept refused
  mkdir -p "$work/s3rver"
  serve s3rver "http://127.0.0.1:$s3rver_port/" "$cache/npm-s3rver/node_modules/.bin/s3rver" \
    --directory "$work/s3rver" --address 127.0.0.1 --port "$s3rver_port" --silent
  imitation s3rver "http://127.0.0.1:$s3rver_port" refused refused
  mkdir -p "$work/s3s"
  serve s3s-fs "http://127.0.0.1:$s3s_port/" "$cache/bin/s3s-fs" --access-key "$AWS_ACCESS_KEY_ID" \
    --secret-key "$AWS_SECRET_ACCESS_KEY" --host 127.0.0.1 --port "$s3s_port" "$work/s3s"
  imitation s3s-fs "http://127.0.0.1:$s3s_port" refused refused
  check 'uploads: 20 GiB within 128 MiB of memory' huge_within_memory
  unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_REGION AWS_ENDPOINT_URL
}

install_uploads_all() {
  install_parts gofakes3 moto s3rver s3s
}

install_gofakes3() {
  go_install gofakes3 "github.com/johannesboyne/gofakes3/cmd/gofakes3@$gofakes3_version"
}

install_moto() {
  pip_install venv-moto "moto[server,s3]==$moto_version"
}

install_s3rver() {
  npm_install npm-s3rver "s3rver@$s3rver_version"
}

install_s3s() {
  [[ -x $cache/bin/s3s-fs ]] && return
  printf '      building s3s-fs %s\n' "$s3s_version"
  CARGO_TARGET_DIR=$cache/s3s-target cargo install --quiet --locked --root "$cache" --features binary \
    "s3s-fs@$s3s_version" >"$work/s3s.log" 2>&1
}

# imitation NAME URL SINGLE PARTS: the cases, in a new bucket. SINGLE and PARTS say what becomes of conditions on
# single requests and on uploads in parts: `kept`, `refused`, or `raced` where the imitation is wrong in some races.
imitation() {
  local name=$1 blob
  s3=$2
  local -A conditions=([small]=$3 [large]=$4)
  export AWS_ENDPOINT_URL=$s3
  s3_client make uploads
  for blob in "${blob_names[@]}"; do
    check "uploads to $name: $blob is stored" imitation_stores "$blob"
  done
  check "uploads to $name: standard input" imitation_standard_input
  for blob in small large; do
    check "uploads to $name: $blob with --no-clobber where nothing is" imitation_fresh "$blob"
    check "uploads to $name: $blob with --no-clobber where something is" imitation_kept "$blob"
    # No proof finds what is wrong in few races only.
    [[ ${conditions[$blob]} == raced ]] ||
      check "uploads to $name: of 8 writers of $blob with --no-clobber one wins, or none" \
        imitation_raced "$blob"
  done
  check "uploads to $name: a killed upload is right at the end" imitation_killed
}

imitation_stores() {
  expect_exit 0 tg cp --json "$blobs/$1" "s3://uploads/$1" >report.json
  expect_stored "$1" "$blobs/$1"
}

imitation_standard_input() {
  head -c 20000000 "$blobs/large" >expected
  cat expected | tg cp --quiet - s3://uploads/input || fail "exit codes ${PIPESTATUS[*]}"
  expect_stored input expected
}

# expect_condition BLOB CODE: a write with a condition that holds ended as is right for the imitation.
expect_condition() {
  case ${conditions[$1]} in
    kept) expect_equal 'exit code' "$2" 0 ;;
    refused) expect_equal 'exit code' "$2" 2 ;;
    raced) (($2 == 0 || $2 == 2)) || fail "exit code $2" ;;
  esac
}

# expect_no_probes: nothing of a proof is left.
expect_no_probes() {
  ! s3_client names uploads | grep -F .tidegate-probe- || fail 'a blob of a proof is left'
}

# Refused as unsupported, or stored.
imitation_fresh() {
  local code=0
  tg cp --json --no-clobber "$blobs/$1" "s3://uploads/fresh-$1" >report.json 2>error || code=$?
  expect_condition "$1" "$code"
  if ((code == 0)); then
    expect_stored "fresh-$1" "$blobs/$1"
  else
    expect_equal kind "$(field report.json error.kind)" unsupported
    grep -q 'succeeded, and exactly one should' error report.json || fail "$(cat report.json)"
    ! s3_client get uploads "fresh-$1" stored || fail 'a refused write has stored the blob'
  fi
  expect_no_probes
}

# The old object stays. It is seen before any race.
imitation_kept() {
  s3_client upload uploads "kept-$1" "$blobs/byte"
  expect_exit 1 tg cp --json --no-clobber "$blobs/$1" "s3://uploads/kept-$1" >report.json 2>error
  expect_equal kind "$(field report.json error.kind)" already_exists
  expect_stored "kept-$1" "$blobs/byte"
}

# No two writers succeed.
imitation_raced() {
  local writer code won=() pids=()
  for writer in {1..8}; do
    make_blob "blob-$writer" "$(stat -c %s "$blobs/$1")" "$writer"
    tg cp --json --no-clobber "blob-$writer" "s3://uploads/raced-$1" >"report-$writer.json" 2>"error-$writer" &
    pids+=($!)
  done
  for writer in {1..8}; do
    code=0
    wait "${pids[writer - 1]}" || code=$?
    if ((code == 0)); then
      won+=("$writer")
    else
      [[ $(field "report-$writer.json" error.kind) == @(already_exists|unsupported) ]] ||
        fail "$(cat "report-$writer.json")"
    fi
  done
  ((${#won[@]} <= 1)) || fail "writers that won: ${won[*]}"
  case ${conditions[$1]} in
    kept) ((${#won[@]} == 1)) || fail 'no writer won' ;;
    refused) ((${#won[@]} == 0)) || fail "writer ${won[*]} was not refused" ;;
  esac
  ((${#won[@]} == 0)) || expect_stored "raced-$1" "blob-${won[0]}"
}

imitation_killed() {
  spawn messages "$tidegate" cp --quiet --window 2 --limit-rate 5MiB --part-size 5MiB "$blobs/large" \
    s3://uploads/killed
  local pid=$spawned_pid
  until_true 60 has_read "$pid" || fail 'the file was not read'
  kill -KILL "$pid"
  wait "$pid" 2>/dev/null || true
  ! s3_client get uploads killed stored || fail 'the upload ended before it was killed'
  expect_exit 0 tg cp --json --part-size 5MiB "$blobs/large" s3://uploads/killed >report.json
  expect_stored killed "$blobs/large"
}

# has_read PID: the process has read four parts, so it has sent two of them. Not every imitation lists
# unfinished uploads.
has_read() {
  local count
  count=$(sed -n 's/^rchar: //p' "/proc/$1/io")
  ((count >= 20 * 1024 * 1024))
}

# A sparse file, from which 2,560 parts are read. The server has their lengths and checksums. Takes some
# 40 s of CPU.
huge_within_memory() {
  local bytes=$((20 * 1024 * 1024 * 1024)) limit_kib=$((128 * 1024)) port peak_kib
  (cd "$repository" && cargo build --release --quiet --locked -p tidegate-testkit --example discard)
  port=$(free_ports 1)
  mkfifo until
  "${CARGO_TARGET_DIR:-$repository/target}/release/examples/discard" "$port" <until >received &
  local server=$!
  exec {until}>until
  until_true 30 answers "$server" "http://127.0.0.1:$port/" || fail 'the server does not answer'
  truncate -s "$bytes" huge
  export AWS_ENDPOINT_URL=http://127.0.0.1:$port
  peak_kib=$(
    python3 - "$tidegate" cp --json --memory 64MiB huge s3://bucket/huge <<'PYTHON'
import resource, subprocess, sys
with open("report.json", "wb") as report:
    subprocess.run(sys.argv[1:], stdout=report, check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
PYTHON
  )
  exec {until}>&-
  wait "$server"
  # The CRC-64/NVME of 20 GiB of zeros.
  local length crc unfinished
  read -r length crc unfinished <received
  expect_equal length "$length" "$bytes"
  expect_equal 'unfinished uploads' "$unfinished" 0
  expect_equal crc "$crc" "$(field report.json checksums.crc64nvme)"
  printf '      peak: %d MiB\n' "$((peak_kib / 1024))"
  ((peak_kib <= limit_kib)) || fail "peak of $peak_kib KiB"
}
