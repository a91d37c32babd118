# shellcheck shell=bash
# Requirements for every store: runs the suite of `crates/conformance` against a real server.

# stores_conform URL: the test is built with the features of all tests, so that it is built once.
stores_conform() {
  local code=0
  (cd "$repository" && TIDEGATE_CONFORMANCE_STORES=$1 cargo test --quiet --locked --workspace \
    --all-features --test store_suite -- servers:: --nocapture) >messages 2>&1 || code=$?
  expect_equal 'exit code' "$code" 0
  # Nothing was skipped.
  grep -q "$1, seed" messages || fail 'the test did not run'
}
