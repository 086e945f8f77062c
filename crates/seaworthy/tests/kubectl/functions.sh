# What the pages use beside kubectl itself. Each waits for something that happens, never for time to pass.

# watched LINES FIRST CHANGE COMMAND…: shows the first LINES lines of a command that does not end by itself. CHANGE is
# run when FIRST of them are there.
watched() {
  local lines=$1 first=$2 change=$3 line nth
  shift 3
  exec 3< <(exec "$@" 2>&1)
  local watcher=$!
  for ((nth = 1; nth <= lines; nth++)); do
    IFS= read -r -t 20 line <&3 || { echo "the watch ended or sent nothing for 20 s"; break; }
    printf '%s\n' "$line"
    if ((nth == first)); then bash -c "$change" >/dev/null; fi
  done
  kill "$watcher"
  exec 3<&-
}

# kubelet POD…: ends pods as the kubelet of their node does, once a client has requested it.
kubelet() {
  local pod
  for pod; do
    kubectl wait --for=jsonpath='{.metadata.deletionTimestamp}' --timeout=20s "pod/$pod" >/dev/null
    kubectl delete pod "$pod" --grace-period=0 --force >/dev/null 2>&1
  done
}

# ready: asks whether the server is ready until it is. On a busy machine the real one doubts its disk now and then.
ready() {
  until kubectl get --raw /readyz 2>/dev/null; do sleep 0.2; done
}
