# shellcheck shell=bash
# Runs named cases, counts them and reports differences.
#
# A case is a shell function. It runs in a subshell with `set -e`. It does not clean up: its
# servers, its variables and its working folder are removed when the subshell ends. Its output is
# shown only if it fails. A case passes if it exits with 0. A case cannot be skipped.

passed=0
failed=0

# check NAME FUNCTION [ARGUMENT...]: run a case in a new empty folder.
check() {
  local name=$1 code started=$SECONDS
  shift
  local output=$work/case.out folder
  folder=$(mktemp -d "$work/case.XXXXXX")
  # Not `if ( ... )`: bash ignores `set -e` inside a condition.
  set +e
  (
    set -e
    spawned=()
    trap stop_spawned EXIT
    cd "$folder"
    # `fail` writes to descriptor 3, so its message is shown even if standard error goes to a file.
    exec 3>&2
    "$@"
  ) >"$output" 2>&1
  code=$?
  set -e
  if ((code == 0)); then
    passed=$((passed + 1))
    printf 'ok    %s (%ss)\n' "$name" $((SECONDS - started))
  else
    failed=$((failed + 1))
    printf 'FAIL  %s (exit %s)\n' "$name" "$code"
    show_outputs "$folder" "$output" | sed 's/^/      | /'
  fi
  rm -rf "$folder"
}

# show_outputs FOLDER FILE: the last lines of FILE and of the command's output files in FOLDER.
show_outputs() {
  local file
  for file in "$2" "$1"/{messages,error,report.json,stat.json}; do
    if [[ -s $file ]]; then
      printf '%s:\n' "${file##*/}"
      tail -n 20 "$file"
    fi
  done
}

# fail MESSAGE: end the case.
fail() {
  printf 'expectation failed: %s\n' "$*" >&3
  exit 1
}

# expect_exit CODE COMMAND...: the command must end with exactly this code.
expect_exit() {
  local expected=$1 actual=0
  shift
  "$@" || actual=$?
  [[ $actual == "$expected" ]] || fail "exit code $actual, expected $expected: $*"
}

# expect_equal WHAT ACTUAL EXPECTED
expect_equal() {
  [[ $2 == "$3" ]] || fail "$1 is '$2', expected '$3'"
}

# expect_same_file ACTUAL EXPECTED: compares the content, and the SHA-256 so that a failure shows
# both hashes.
expect_same_file() {
  cmp "$1" "$2" || fail "$1 differs from $2"
  expect_equal "sha256 of $1" "$(sha256_of "$1")" "$(sha256_of "$2")"
}

# expect_mentions FILE PATTERN: the text must match the extended regular expression.
expect_mentions() {
  grep -qiE -- "$2" "$1" || {
    cat "$1" >&3
    fail "$1 does not mention '$2'"
  }
}

# expect_clean FOLDER [NAME...]: the folder must hold these entries and no others.
expect_clean() {
  local folder=$1
  shift
  expect_equal "content of $folder" "$(ls -A "$folder" | sort | tr '\n' ' ')" \
    "$(printf '%s\n' "$@" | sed '/^$/d' | sort | tr '\n' ' ')"
}

# field FILE PATH: one value of a JSON file as compact JSON, strings bare; PATH is `a.b.0`.
field() {
  python3 - "$1" "$2" <<'PYTHON'
import json, sys
with open(sys.argv[1]) as file:
    value = json.load(file)
for key in sys.argv[2].split("."):
    value = value[int(key)] if isinstance(value, list) else value[key]
print(value if isinstance(value, str) else json.dumps(value))
PYTHON
}

# expect_verified REPORT ALGORITHM: the report says that the remote's checksum matched.
expect_verified() {
  [[ $(field "$1" verified) == *"\"$2\""* ]] || fail "verified is $(field "$1" verified), without $2"
}

sha256_of() {
  sha256sum "$1" | cut -d' ' -f1
}

# tg ARGUMENT...: the command under test; exits with 124 after 180 seconds.
tg() {
  timeout --kill-after=5 180 "$tidegate" "$@"
}
