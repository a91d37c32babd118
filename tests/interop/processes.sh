# shellcheck shell=bash
# Starts servers on free loopback ports and ends them by process id.
#
# Each shell has its own list `spawned`. A case's subshell starts with an empty list and ends its own
# processes. The script's trap ends the others.

spawned=()

# spawn LOG COMMAND...: start in the background; `$spawned_pid` is its process id.
spawn() {
  local log=$1
  shift
  "$@" >"$log" 2>&1 </dev/null &
  spawned_pid=$!
  spawned+=("$spawned_pid")
}

# stop PID: end a process that this shell started, and wait for it.
stop() {
  kill -TERM "$1" 2>/dev/null || true
  until_true 10 gone "$1" || kill -KILL "$1" 2>/dev/null || true
  wait "$1" 2>/dev/null || true
  local pid rest=()
  for pid in "${spawned[@]}"; do
    [[ $pid == "$1" ]] || rest+=("$pid")
  done
  spawned=(${rest[@]+"${rest[@]}"})
}

stop_spawned() {
  local pid
  for pid in ${spawned[@]+"${spawned[@]}"}; do
    stop "$pid"
  done
}

# gone PID: true if the process has ended; a zombie counts as ended.
gone() {
  local state
  state=$(sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' "/proc/$1/status" 2>/dev/null) || return 0
  [[ -z $state || $state == Z ]]
}

# until_true SECONDS COMMAND...: poll until the command succeeds; false after SECONDS.
until_true() {
  local deadline=$((SECONDS + $1))
  shift
  until "$@" 2>/dev/null; do
    ((SECONDS < deadline)) || return 1
    sleep 0.05
  done
}

# serve NAME URL COMMAND...: spawn a server and wait until it answers HTTP, with any status.
serve() {
  local name=$1 url=$2
  shift 2
  spawn "$work/$name.log" "$@"
  if ! until_true 30 answers "$spawned_pid" "$url" || gone "$spawned_pid"; then
    printf 'server %s did not come up at %s\n' "$name" "$url" >&2
    tail -n 20 "$work/$name.log" >&2
    return 1
  fi
}

answers() {
  gone "$1" || curl --silent --insecure --max-time 2 --output /dev/null "$2"
}

# free_ports COUNT: this many free ports. All are held until the last is chosen, so they differ.
free_ports() {
  python3 - "$1" <<'PYTHON'
import socket, sys
held = []
for _ in range(int(sys.argv[1])):
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    held.append(listener)
print(*(listener.getsockname()[1] for listener in held))
PYTHON
}
