#!/bin/sh
# One of the two hosts of a PostgreSQL database whose primary leader run starts.
#
#   host.sh init       makes the database, once, on the host that leads first
#   host.sh            runs the host: a primary where it leads, elsewhere a standby
#   host.sh primary    is what leader run starts
#
# Environment: PGDATA, where the host's copy is; ADDRESS, the HOST:PORT at which
# its PostgreSQL listens; PROXY, the HOST:PORT of leader proxy; LEADER_ID, the
# host's name; NATS_URL or LEADER_STORE; PATH with leader and PostgreSQL's programs.
set -eu
export PGDATA
group=postgres
through="host=${PROXY%:*} port=${PROXY##*:} user=postgres"

# A commit waits for the other host's copy (synchronous replication). So each
# copy has all that was ever acknowledged, and either host may lead. While one
# is away, commits wait.
serve() {
	exec postgres -c "listen_addresses=${ADDRESS%:*}" -c "port=${ADDRESS##*:}" -c unix_socket_directories= -c "cluster_name=$LEADER_ID" \
		-c synchronous_standby_names=copy -c synchronous_commit=on -c wal_retrieve_retry_interval=500ms "$@"
}

runs() { pg_ctl status >/dev/null 2>&1; }

follows() { [ -e "$PGDATA/standby.signal" ]; }

# A former primary may have written what no other host has, and what nobody was
# told of. So its data give way to a copy, from the leader, through the proxy.
copy() {
	rm -rf "$PGDATA.new" "$PGDATA.old"
	pg_basebackup -D "$PGDATA.new" -d "$through" -X stream -c fast -R || return 1
	[ ! -e "$PGDATA" ] || mv "$PGDATA" "$PGDATA.old"
	mv "$PGDATA.new" "$PGDATA"
	rm -rf "$PGDATA.old"
}

# stand takes part in the election until a term of this host has ended, by the
# hook: what was a primary cannot just go on as a standby.
stand() {
	leader run "$group" --ttl 3s --address "$ADDRESS" --on-demote 'kill -TERM $PPID' "$@" -- "$0" primary
}

# A standby may lead at once. A former primary, or a new database, may if nobody
# else does: with --try, leader run ends with 75 if somebody does.
host() {
	trap 'pg_ctl stop -s -m fast || :; exit 143' TERM INT
	while :; do
		if follows; then
			serve -c "primary_conninfo=$through application_name=copy" &
			stand || :
		elif [ -e "$PGDATA" ]; then
			status=0
			stand --try || status=$?
			[ "$status" -ne 75 ] || copy || :
		else
			copy || :
		fi
		# Nothing of the last term serves when the next begins.
		while runs; do pg_ctl stop -s -m immediate || :; done
		sleep 0.2
	done
}

# primary ends the standby of this host, and serves what that has copied.
primary() {
	while runs; do pg_ctl stop -s -m fast || :; done
	serve -c primary_conninfo= &
	server=$!
	trap 'kill -INT $server' TERM INT # at SIGTERM it would wait for its clients to leave
	if follows; then
		until pg_isready -q -h "${ADDRESS%:*}" -p "${ADDRESS##*:}"; do
			kill -0 "$server"
			sleep 0.1
		done
		pg_ctl promote -s -w
	fi
	status=0
	wait "$server" || status=$?
	while kill -0 "$server" 2>/dev/null; do # a signal ends a wait
		wait "$server" || status=$?
	done
	exit "$status"
}

case "${1:-host}" in
init) initdb -U postgres -A trust --no-locale -E UTF8 ;;
primary) primary ;;
*) host ;;
esac
