# shellcheck shell=bash
# Tinyproxy between the command and nginx, with and without TLS, and a cache. It logs each request,
# so that the cases see what went through it.

# proxy_start NAME PORT DIRECTIVES: tinyproxy; `$proxy_log`.
proxy_start() {
  local name=$1 port=$2 directives=$3 folder=$work/proxy-$1
  mkdir -p "$folder"
  proxy_log=$folder/log
  cat >"$folder/conf" <<CONF
Port $port
Listen 127.0.0.1
Timeout 60
LogFile "$proxy_log"
LogLevel Connect
MaxClients 200
Allow 127.0.0.1
$directives
CONF
  serve "proxy-$name" "http://127.0.0.1:$port/" tinyproxy -d -c "$folder/conf"
}

proxy_suite() {
  local plain tls open locked cache_port
  read -r plain tls open locked cache_port <<<"$(free_ports 5)"
  nginx_start proxied-http "
  server { listen 127.0.0.1:$plain; root $blobs; }
"
  nginx_start proxied-https "
  server {
    listen 127.0.0.1:$tls ssl;
    root $blobs;
    ssl_certificate $authority/server.pem;
    ssl_certificate_key $authority/server.key;
  }
"
  spawn "$work/proxied-casd.log" "$cache/casd/buildbox-casd" --bind "127.0.0.1:$cache_port" \
    --quota-high 15G --reserved 1G "$work/proxied-casd"
  until_true 30 listens "$spawned_pid" "$cache_port"
  proxy_start locked "$locked" 'BasicAuth reader open-sesame'
  proxy_start open "$open" ''
  local http=http://127.0.0.1:$plain https=https://127.0.0.1:$tls
  check 'proxy: http by http_proxy' proxied http_proxy "$open" "$http/large" large GET
  check 'proxy: https through a tunnel, by https_proxy' proxied https_proxy "$open" "$https/large" \
    large CONNECT --ca-cert "$authority/authority.pem"
  check 'proxy: a cache through a tunnel, by ALL_PROXY' proxied_cache "$open" \
    "grpc://127.0.0.1:$cache_port"
  check 'proxy: no_proxy and --no-proxy' not_proxied "$open" "$http/small"
  check 'proxy: with credentials' proxy_with_credentials "$locked" "$http/small" "$https/small"
  check 'proxy: without credentials' proxy_without_credentials "$locked" "$http/small" \
    "$https/small"
}

# proxied VARIABLE PORT URL BLOB METHOD FLAG...: a copy whose requests the proxy has logged.
proxied() {
  local variable=$1 port=$2 url=$3 blob=$4 method=$5
  shift 5
  : >"$proxy_log"
  export "$variable=http://127.0.0.1:$port"
  copies "$url" "$blob" "$@"
  grep -q "$method .*HTTP/1.1" "$proxy_log" || fail "the proxy saw no $method"
}

proxied_cache() {
  local url
  : >"$proxy_log"
  export ALL_PROXY=http://127.0.0.1:$1
  expect_exit 0 tg cp --quiet "$blobs/small" "$2" >url
  url=$(cat url)
  copies "$url" small
  grep -q 'CONNECT .*HTTP/1.1' "$proxy_log" || fail 'the proxy saw no CONNECT'
}

not_proxied() {
  : >"$proxy_log"
  export http_proxy=http://127.0.0.1:$1
  no_proxy=127.0.0.0/8 expect_exit 0 tg cp --quiet "$2" by-variable
  expect_exit 0 tg cp --quiet --no-proxy "$2" by-flag
  [[ ! -s $proxy_log ]] || fail 'the proxy saw requests'
}

proxy_with_credentials() {
  local proxy=http://reader:open%2Dsesame@127.0.0.1:$1
  expect_exit 0 tg cp --quiet --proxy "$proxy" "$2" http
  expect_exit 0 tg cp --quiet --proxy "$proxy" --ca-cert "$authority/authority.pem" "$3" https
  expect_same_file http "$blobs/small"
  expect_same_file https "$blobs/small"
}

proxy_without_credentials() {
  local url
  for url in "$2" "$3"; do
    expect_exit 6 tg cp --quiet --proxy "127.0.0.1:$1" --ca-cert "$authority/authority.pem" \
      "$url" target 2>error
    expect_mentions error 'proxy requires credentials'
  done
  [[ ! -e target ]] || fail 'a target was left'
}
