# shellcheck shell=bash
# `tidegate cp` to MinIO, to `rclone serve webdav` and to Apache, and what rclone and the aws cli read and write.
# `--all` runs this suite; without it, the suite runs only by name: the servers take minutes to build.

rclone_version=v1.76.0
minio_version=v0.0.0-20260212201848-7aac2a2c5b7c
awscli_version=1.46.3

uploads_peers_suite() {
  install_parts rclone minio awscli apache
  local port dav_port apache_port blob
  read -r port dav_port apache_port <<<"$(free_ports 3)"
  export AWS_ACCESS_KEY_ID=interop AWS_SECRET_ACCESS_KEY=interop-secret AWS_REGION=us-east-1
  s3=http://127.0.0.1:$port
  MINIO_ROOT_USER=$AWS_ACCESS_KEY_ID MINIO_ROOT_PASSWORD=$AWS_SECRET_ACCESS_KEY \
    serve minio "$s3/minio/health/live" "$cache/bin/minio" server --quiet --address "127.0.0.1:$port" \
    "$work/minio"
  export AWS_ENDPOINT_URL=$s3
  s3_client make uploads && s3_client make suites && s3_client make bench || return 1
  for blob in "${blob_names[@]}"; do
    s3_client upload bench "$blob" "$blobs/$blob" || return 1
  done
  check "MinIO: the library's suites for every remote that is written" keeps_promises_of_writers \
    s3://suites -- "$cache/venv/bin/python" "$interop/s3_client.py" "$s3" follow suites
  # MinIO answers a second completion with 404, and lists unfinished uploads of a whole key only.
  uploads_cases
  service_copies_cases s3
  # It keeps no checksum of such a copy, so the report says that nothing was verified.
  check 'MinIO: the service copies a blob in parts' service_copies_in_parts
  for blob in "${blob_names[@]}"; do
    check "rclone reads $blob of tidegate, with its time" peers_to_rclone "$blob"
    check "tidegate reads $blob of rclone" peers_from_rclone "$blob"
    check "aws reads $blob of tidegate" peers_to_aws "$blob"
    check "tidegate reads $blob of aws" peers_from_aws "$blob"
  done
  unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_REGION AWS_ENDPOINT_URL
  peers_webdav "$dav_port"
  peers_apache "$apache_port"
}

install_rclone() {
  go_install rclone "github.com/rclone/rclone@$rclone_version"
}

install_minio() {
  go_install minio "github.com/minio/minio@$minio_version"
}

install_apache() {
  have apache2 || apt_install apache2-bin
}

install_awscli() {
  pip_install venv-aws "awscli==$awscli_version"
}

rclone() {
  RCLONE_CONFIG=/dev/null RCLONE_CONFIG_M_TYPE=s3 RCLONE_CONFIG_M_PROVIDER=Minio RCLONE_CONFIG_M_ENDPOINT=$s3 \
    RCLONE_CONFIG_M_ENV_AUTH=true RCLONE_CONFIG_M_REGION=us-east-1 \
    timeout --kill-after=5 180 "$cache/bin/rclone" --quiet "$@"
}

aws() {
  timeout --kill-after=5 180 "$cache/venv-aws/bin/aws" --endpoint-url "$s3" "$@" >aws.log
}

# rclone takes the time of a file from the metadata `mtime`.
peers_to_rclone() {
  cp "$blobs/$1" source
  touch --date '2001-02-03 04:05:06.789 UTC' source
  expect_exit 0 tg cp --quiet source "s3://uploads/to-rclone/$1"
  rclone copyto "M:uploads/to-rclone/$1" received
  expect_same_file received "$blobs/$1"
  expect_equal 'modification time' "$(stat -c %.3Y received)" "$(stat -c %.3Y source)"
}

peers_from_rclone() {
  rclone copyto "$blobs/$1" "M:uploads/of-rclone/$1"
  expect_exit 0 tg cp --quiet "s3://uploads/of-rclone/$1" received
  expect_same_file received "$blobs/$1"
}

peers_to_aws() {
  expect_exit 0 tg cp --quiet "$blobs/$1" "s3://uploads/to-aws/$1"
  aws s3 cp "s3://uploads/to-aws/$1" received
  expect_same_file received "$blobs/$1"
}

peers_from_aws() {
  aws s3 cp "$blobs/$1" "s3://uploads/of-aws/$1"
  expect_exit 0 tg cp --quiet "s3://uploads/of-aws/$1" received
  expect_same_file received "$blobs/$1"
}

# peers_webdav PORT: rclone ignores conditions, so the command refuses them. The old blob stays until the new one
# is whole.
peers_webdav() {
  mkdir -p "$work/dav/uploads"
  serve rclone-webdav "http://127.0.0.1:$1/" "$cache/bin/rclone" --config /dev/null serve webdav "$work/dav" \
    --addr "127.0.0.1:$1"
  local dav=http://127.0.0.1:$1 blob
  for blob in "${blob_names[@]}"; do
    check "rclone webdav: cp of $blob" dav_stores "$dav" "$blob"
  done
  check 'rclone webdav: standard input' dav_standard_input "$dav"
  check 'rclone webdav: --no-clobber is refused' dav_no_clobber "$dav"
}

# peers_apache PORT: mod_dav. Its files belong to the user that Apache takes if root starts it.
peers_apache() {
  local modules=/usr/lib/apache2/modules folder=$work/apache module blob
  mkdir -p "$folder/dav/uploads"
  chmod a+x "$work"
  chmod -R a+rwX "$folder"
  {
    for module in mpm_event authz_core dav dav_fs; do
      printf 'LoadModule %s_module %s/mod_%s.so\n' "$module" "$modules" "$module"
    done
    cat <<CONF
ServerName localhost
ServerRoot $folder
PidFile $folder/pid
ErrorLog $folder/error.log
Listen 127.0.0.1:$1
User www-data
Group www-data
DavLockDB $folder/lock
DocumentRoot $folder/dav
<Directory $folder/dav>
  Dav On
  Require all granted
</Directory>
CONF
  } >"$folder/apache.conf"
  serve apache "http://127.0.0.1:$1/" /usr/sbin/apache2 -f "$folder/apache.conf" -DFOREGROUND
  # The cases look for the files in the folder of the suite `dav`.
  local apache=http://127.0.0.1:$1 work=$folder
  for blob in "${blob_names[@]}"; do
    check "Apache: cp of $blob" dav_stores "$apache" "$blob"
  done
  check 'Apache: standard input' dav_standard_input "$apache"
  check 'Apache: --no-clobber is refused' dav_no_clobber "$apache"
  check 'Apache: a folder that is not there is named' peers_no_folder "$apache"
}

# Unlike nginx, Apache makes no folders.
peers_no_folder() {
  expect_exit 3 tg cp --json "$blobs/small" "$1/uploads/absent/small" >report.json 2>error
  [[ $(field report.json error.message) == *'there is no such folder'* ]] || fail "$(cat report.json)"
}
