#!/bin/sh
# Start Redis as a run needs it: an append-only file, nothing evicted, and the file's tail checked before the server reads
# it. A kill may end a write between two commands of a script; the server would go on after the first half, and do the
# second with the next script at its next start. redis-check-aof cuts the script off as a whole (broker/private_redis/append_only.py
# says more). A file that it can't mend is left to the server, which says what it thinks of it.
set -eu
data=${REDIS_DATA:-/data}
manifest=$data/appendonlydir/appendonly.aof.manifest
if [ -s "$manifest" ]; then
    echo "checking $manifest"
    printf 'y\n' | redis-check-aof --fix "$manifest" || echo "redis-check-aof could not mend $manifest"
fi

umask 077
cat >/tmp/redis.conf <<SETTINGS
port 6379
bind * -::*
requirepass ${REDIS_PASSWORD:?no password: set REDIS_PASSWORD}
dir $data
appendonly yes
appendfsync everysec
save ""
maxmemory ${REDIS_MAXMEMORY:-0}
maxmemory-policy noeviction
SETTINGS
if [ -n "${REDIS_TLS:-}" ]; then # a folder with ca.pem, redis.pem and redis.key (compose.redis-tls.yaml)
    [ -r "$REDIS_TLS/redis.key" ] || { echo "$REDIS_TLS/redis.key can't be read by user $(id -u): scripts/redis_tls.sh makes it, chmod 644 lets the container read it" >&2; exit 1; }
    cat >>/tmp/redis.conf <<SETTINGS
tls-port 6380
tls-cert-file $REDIS_TLS/redis.pem
tls-key-file $REDIS_TLS/redis.key
tls-ca-cert-file $REDIS_TLS/ca.pem
tls-auth-clients no
SETTINGS
fi
exec redis-server /tmp/redis.conf
