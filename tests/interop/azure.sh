# shellcheck shell=bash
# Azure Blob Storage, emulated by Azurite: shared-key signatures, ETags, a stored MD5.

azure_suite() {
  local port
  port=$(free_ports 1)
  # Azurite has a single account. Its name and key are public and the same everywhere.
  export AZURE_STORAGE_ACCOUNT_NAME=devstoreaccount1
  export AZURE_STORAGE_ACCOUNT_KEY=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==
  azure=http://127.0.0.1:$port/$AZURE_STORAGE_ACCOUNT_NAME
  # The SDK uses a newer version of the API than Azurite knows.
  serve azurite "$azure" "$cache/npm/node_modules/.bin/azurite-blob" --blobHost 127.0.0.1 \
    --blobPort "$port" --location "$work/azurite" --silent --disableTelemetry \
    --skipApiVersionCheck
  "$cache/venv/bin/python" "$interop/azure_client.py" "$azure" bench \
    "${blob_names[@]/#/$blobs/}" >"$work/azure.prepare" 2>&1 || {
    tail -n 20 "$work/azure.prepare" >&2
    return 1
  }
  conformance azure az://bench --endpoint "$azure"
  check "azure: the library's suites for every remote that is written" keeps_promises_of_writers \
    az://suites --endpoint "$azure" -- \
    "$cache/venv/bin/python" "$interop/azure_client.py" "$azure" suites --follow
  service_copies_cases az --endpoint "$azure"
  check 'azure: the stored MD5 is verified, and reported' azure_verifies
  check 'azure: a wrong key is no access' azure_wrong_key
  check 'azure: no signature is no access' azure_anonymous_refused
  check 'azure: a signed URL to read fetches' \
    presigned_get az://suites/presigned small --endpoint "$azure"
  check 'azure: a signed URL to store stores' \
    presigned_put az://suites/presigned-put large --endpoint "$azure"
  check 'azure: a signed URL to delete deletes' \
    presigned_delete az://suites/presigned-delete --endpoint "$azure"
  check 'azure: a signed URL of another method is refused' \
    presigned_other az://suites/presigned-other --endpoint "$azure"
  check 'azure: a signed URL that has expired is refused' \
    presigned_expired az://suites/presigned-old --endpoint "$azure"
  check 'azure: a container is made, full, empty and gone' \
    bucket_life az://made --endpoint "$azure"
  unset AZURE_STORAGE_ACCOUNT_NAME AZURE_STORAGE_ACCOUNT_KEY
}

azure_verifies() {
  mkdir out
  expect_exit 0 tg cp --json --endpoint "$azure" az://bench/large out/target >report.json
  expect_verified report.json md5
}

azure_wrong_key() {
  mkdir out
  export AZURE_STORAGE_ACCOUNT_KEY=d3Jvbmcga2V5
  expect_exit 6 tg cp --json --endpoint "$azure" az://bench/small out/target >report.json 2>error
  ! grep -q d3Jvbmcga2V5 report.json error || fail 'the key is shown'
  expect_clean out
}

azure_anonymous_refused() {
  mkdir out
  # Azure responds with 404, not 403, to an anonymous request for a private blob.
  local code=0
  tg cp --json --anonymous --endpoint "$azure" az://bench/small out/target >report.json 2>error ||
    code=$?
  [[ $code == 3 || $code == 6 ]] || fail "exit code $code"
  expect_clean out
}
