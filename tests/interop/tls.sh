# shellcheck shell=bash
# TLS with a certificate authority of the tests: it is trusted only if `--ca-cert` names it.

# make_authority FOLDER: a CA, a certificate for localhost and 127.0.0.1 signed by it, another
# certificate for a different host, and a second CA that signed nothing.
make_authority() {
  local folder=$1 host
  mkdir -p "$folder"
  for host in authority stranger; do
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
      -subj "/CN=Tidegate interop $host" -keyout "$folder/$host.key" -out "$folder/$host.pem"
  done
  make_certificate "$folder" server 'DNS:localhost,IP:127.0.0.1'
  make_certificate "$folder" elsewhere 'DNS:elsewhere.example'
}

# make_certificate FOLDER NAME SUBJECT_ALTERNATIVE_NAMES
make_certificate() {
  local folder=$1 name=$2
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=$name" \
    -keyout "$folder/$name.key" -out "$folder/$name.csr"
  openssl x509 -req -in "$folder/$name.csr" -days 2 -out "$folder/$name.pem" \
    -CA "$folder/authority.pem" -CAkey "$folder/authority.key" -CAcreateserial \
    -extfile <(printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth\n' "$3")
}

tls_suite() {
  local right wrong_host
  read -r right wrong_host <<<"$(free_ports 2)"
  nginx_start tls "
  ssl_session_cache off;
  server {
    listen 127.0.0.1:$right ssl;
    root $blobs;
    ssl_certificate $authority/server.pem;
    ssl_certificate_key $authority/server.key;
  }
  server {
    listen 127.0.0.1:$wrong_host ssl;
    root $blobs;
    ssl_certificate $authority/elsewhere.pem;
    ssl_certificate_key $authority/elsewhere.key;
  }
"
  local url=https://127.0.0.1:$right
  check 'tls: cp with --ca-cert' copies "$url/large" large --ca-cert "$authority/authority.pem"
  check 'tls: cp by host name' \
    copies "https://localhost:$right/small" small --ca-cert "$authority/authority.pem"
  check 'tls: cat and stat with SSL_CERT_FILE' tls_by_environment "$url"
  check 'tls: an unknown authority is refused' tls_refused "$url/small"
  check 'tls: another authority is refused' \
    tls_refused "$url/small" --ca-cert "$authority/stranger.pem"
  check 'tls: a certificate for another host is refused' \
    tls_refused "https://127.0.0.1:$wrong_host/small" --ca-cert "$authority/authority.pem"
  check 'tls: a CA file that is none is refused' tls_bad_ca_file "$url/small"
}

tls_by_environment() {
  export SSL_CERT_FILE=$authority/authority.pem
  cats_whole "$1/large" large
  shows_stat "$1/small"
}

tls_refused() {
  local url=$1 started=$SECONDS
  shift
  mkdir out
  expect_exit 1 tg cp --json "$@" "$url" out/target >report.json 2>error
  expect_mentions report.json 'certificate'
  expect_clean out
  # A certificate error must not be retried.
  ((SECONDS - started < 20)) || fail 'it was tried again and again'
}

tls_bad_ca_file() {
  mkdir out
  local file
  for file in /dev/null "$authority/server.key" "$authority/absent.pem"; do
    local code=0
    tg cp --json --ca-cert "$file" "$1" out/target >report.json 2>error || code=$?
    [[ $code == 1 || $code == 2 || $code == 3 ]] || fail "exit code $code for $file"
    expect_clean out
  done
}
