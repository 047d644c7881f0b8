#!/bin/sh
# What a new user does with nothing but curl: submits, watches, waits, cancels.
# $1 is the engine's HTTP address, $2 a folder for what the feed says.
set -eu
api="http://$1/api/v1"
field() { sed -n "s/.*\"$1\":\"\{0,1\}\([^\",}]*\).*/\1/p" | head -n 1; }
ask() { curl -sS --fail-with-body "$@"; }

curl -sSN "$api/events?from_seq=1" >"$2/feed" &
feed=$!
trap 'kill $feed' EXIT

id=$(ask -d '{"type":"greet","params":{"name":"ada"}}' "$api/work" | field id)
[ "$(ask "$api/work/$id/wait?timeout=30" | field state)" = completed ]
echo "done $id"

slow=$(ask -d '{"type":"hold"}' "$api/work" | field id)
until [ "$(ask "$api/work/$slow" | field state)" = running ]; do :; done
cancelled=$(ask -X DELETE "$api/work/$slow?reason=enough")
[ "$(echo "$cancelled" | field was_running)" = true ]
[ "$(echo "$cancelled" | field worker_told)" = true ]
[ "$(ask "$api/work/$slow/wait" | field state)" = cancelled ]
echo "cancelled $slow"

# The feed tells of both.
n=0
until grep -q '^event: cancelled' "$2/feed" && grep -q '^event: completed' "$2/feed"; do
    n=$((n + 1))
    [ $n -lt 5000 ]
done
echo "watched $(grep -c '^event: ' "$2/feed") events"

# A mistake is told in words.
code=$(curl -sS -o "$2/problem" -w '%{http_code}' -d '{"type":"greet","prams":1}' "$api/work")
[ "$code" = 400 ] && grep -q prams "$2/problem"
echo "refused $code"
