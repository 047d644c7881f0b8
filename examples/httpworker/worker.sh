#!/bin/sh
# A worker for Streamwright that needs nothing but curl.
#
#   worker.sh URL TYPE COMMAND [ARG...]
#   worker.sh http://127.0.0.1:8484 resize ./resize.sh
#
# For each item it runs COMMAND with the params on standard input. What COMMAND
# prints must be a JSON document: the result. Any exit status but 0 fails the
# item, 65 for good. With STREAMWRIGHT_TOKEN set, requests carry that token.
# It ends when the engine asks it to drain, and on SIGTERM behind the item that
# it runs.
set -u
url=$1 type=$2
shift 2
tmp=$(mktemp -d) || exit 1
worker='' session='' child='' ending='' polls=1

# request PATH [OPTION...]: a request, again as long as the engine is not there
# (up to a minute or so). A repeated request changes nothing.
request() {
	path=$1
	shift
	curl -sS --retry 8 --retry-connrefused --max-time 90 -H 'Content-Type: application/json' \
		${STREAMWRIGHT_TOKEN:+-H "Authorization: Bearer $STREAMWRIGHT_TOKEN"} "$@" "$url/api/v1$path"
}
post() { request "/workers$1" --data-binary @-; }

# member NAME < JSON: the text behind the first member of that name.
member() {
	sed -e "s/\"$1\":/\\
/" | sed -n 2p
}
text() { member "$1" | sed 's/^"\([^"]*\)".*/\1/'; }
number() { member "$1" | sed 's/^\([0-9]*\).*/\1/'; }

# report EVENT [,MEMBERS] ...: reports on the item, in one request.
report() {
	list=''
	while [ $# -gt 0 ]; do
		list="$list${list:+,}{\"id\":\"$id\",\"token\":\"$token\",\"event\":\"$1\"$2}"
		shift 2
	done
	printf '%s' "{\"session\":\"$session\",\"reports\":[$list]}" >"$tmp/report"
	post "/$worker/report" <"$tmp/report"
}

# fetch replaces params that are too large for a request by themselves.
fetch() {
	case $(head -c 9 "$tmp/params") in
	'{"$blob":') request "/work/$id/params" -f -o "$tmp/params" ;;
	esac
}

# result prints the result, or, if it is too large for a request, what stands for
# it once it is stored.
result() {
	if [ "$(wc -c <"$tmp/result")" -lt 4000000 ]; then
		cat "$tmp/result"
	else
		request "/blobs?kind=result&item=$id" -f -X POST -T "$tmp/result" | sed 's/.*"document"://; s/}$//'
	fi
}

heartbeats() { # renews the lease while the run's file is there, and stops what it names once the run is not ours any more
	while sleep "$every" && [ -e "$tmp/run-$token" ]; do
		case $(printf '{"session":"%s","in_flight":[{"id":"%s","token":"%s"}]}' "$session" "$id" "$token" | post "/$worker/heartbeat") in
		*'"cancel":['* | *'"lost":['* | *'"worker_id_in_use"'*) [ ! -s "$tmp/run-$token" ] || kill "$(cat "$tmp/run-$token")" ;;
		esac
	done
}

leave() {
	[ -z "$session" ] || curl -sS -X DELETE ${STREAMWRIGHT_TOKEN:+-H "Authorization: Bearer $STREAMWRIGHT_TOKEN"} -H "Work-Session: $session" "$url/api/v1/workers/$worker" >/dev/null
	rm -rf "$tmp"
}
trap leave EXIT
trap 'ending=1' TERM INT

reply=$(printf '{"types":["%s"],"slots":1,"host":"%s"}' "$type" "$(uname -n)" | post '') || exit 1
worker=$(printf '%s\n' "$reply" | text worker)
session=$(printf '%s\n' "$reply" | text session)
ms=$(printf '%s\n' "$reply" | number heartbeat_ms)
if [ -z "$session" ]; then
	printf '%s\n' "$reply" >&2
	exit 1
fi
every=$((ms / 1000)).$(printf %03d $((ms % 1000)))
echo "registered as $worker" >&2

while [ -z "$ending" ]; do
	reply=$(printf '{"session":"%s","poll_id":"%s","max":1,"wait_ms":30000}' "$session" "$polls" | post "/$worker/poll") || { sleep 1; continue; }
	case $reply in
	'{"items":[],"should_drain":true'*) exit 0 ;;
	'{"items":[],'*) continue ;;
	'{"items":['*) ;;
	*'"unknown_worker"'*) printf '%s\n' "$reply" >&2; session=''; exit 1 ;; # the engine does not know the session: start again
	*) printf '%s\n' "$reply" >&2; sleep 1; continue ;;
	esac
	polls=$((polls + 1)) # until here it is the same poll: had its reply been lost, it would be returned again
	id=$(printf '%s\n' "$reply" | text id)
	token=$(printf '%s\n' "$reply" | text token)
	printf '%s\n' "$reply" | member params | sed 's/}\],"should_drain":.*$//' >"$tmp/params"
	start=$(report start '' progress ',"message":"started"' checkpoint ",\"checkpoint\":{\"begun_by\":\"$worker\"}")
	case $start in
	'{"reports":[{"ok":true'*) ;;
	*) # it is somebody else's by now
		echo "$id: $start" >&2
		continue
		;;
	esac

	: >"$tmp/run-$token"
	heartbeats &
	if ! fetch; then
		report fail ',"error":"the params can not be had","code":"blob_unavailable"' >&2
		rm -f "$tmp/run-$token"
		continue
	fi
	"$@" <"$tmp/params" >"$tmp/result" 2>"$tmp/errors" &
	child=$!
	echo "$child" >"$tmp/run-$token"
	wait "$child"
	status=$?
	while kill -0 "$child" 2>/dev/null; do # a signal has ended the wait, not the command
		wait "$child"
		status=$?
	done
	: >"$tmp/run-$token" # the lease is renewed until the outcome is reported

	retryable=true
	case $status in
	0) outcome=$(report complete ",\"result\":$(result)") ;;
	*)
		[ "$status" -ne 65 ] || retryable=false
		outcome=$(report fail ",\"error\":\"exit status $status\",\"code\":\"exit_$status\",\"retryable\":$retryable")
		;;
	esac
	rm -f "$tmp/run-$token"
	echo "$id: status $status: $outcome" >&2
done
