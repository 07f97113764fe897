# Read by the jobs' scripts: `. deploy/slurm/common.sh SETTINGS`. In: the settings. Out: `keep`, `requeue`, `is_finished`.
#
# Slurm ends a job (scancel, a preemption, `scontrol requeue`) with SIGTERM to *every* process of it, and SIGKILL after
# KillWait. So SIGTERM is not handed on here: the role has it already, and a second one would end it at once. Before its
# time limit a job's script alone gets SIGUSR1 (`--signal=B:USR1@…`): that one is handed on, as SIGTERM.
set -uo pipefail
. "$1"
[[ $ENVIRONMENT = /* ]] || ENVIRONMENT=$PWD/$ENVIRONMENT
[[ $STATE = /* ]] || STATE=$PWD/$STATE
PYTHON=$ENVIRONMENT/bin/python
ADDRESS=$STATE/redis_url                # written by Redis' job, anew wherever it starts
RESTARTS=10                             # failures in a row, each within HEALTHY_S, that end a role's job
HEALTHY_S=60
told=                                   # set by SIGTERM and SIGUSR1: no other start
at_limit=                               # set by SIGUSR1: the job is to be queued again
export ENDING=$STATE/ending-${SLURM_JOB_ID:-}   # there while a step of srun is to end: its tasks do not begin then
[ -z "$JUDGE_MODEL" ] || export SERVED_JUDGE_URL="http://$JUDGE_NODE:$JUDGE_PORT/v1"     # whom endpoints without urls ask
trap 'told=1' TERM

say() { echo "$(date -u +%FT%TZ) job=${SLURM_JOB_ID:-} start=${SLURM_RESTART_COUNT:-0} $*" >&2; }

# tell PROCESS COMMAND...: ask the role to end. A step of Slurm is told by Slurm: srun itself would be cut off from it.
# What Slurm tells a step that it has yet to start is lost: its tasks look for ENDING first (rank.sh).
tell() {
    if [ "$2" = srun ]; then
        : >"$ENDING"
        scancel --signal=TERM "$SLURM_JOB_ID"
    else
        kill -TERM "$1" 2>/dev/null || true
    fi
}

requeue() { say "the time limit is near: queued again"; scontrol requeue "$SLURM_JOB_ID"; }

# Whether the run has trained all its steps.
is_finished() {
    "$PYTHON" -c 'import json, sys; sys.exit(json.load(open(sys.argv[1]))["status"] != "finished")' \
        "$STATE/runs/$RUN/status.json" 2>/dev/null
}

# Whether a role has a learner to wait for: a job of it runs or is queued. Where Slurm does not answer, it may have.
has_learner() {
    local jobs
    jobs=$(squeue --noheader --me --name="$RUN-learner" 2>/dev/null) || return 0
    [ -n "$jobs" ]
}

# keep COMMAND...: run a role with REDIS_URL until it ends for good; returns its exit code. 2 is final; after another one
# it is started again, later each time. 0 is final too, but for a generator or a scorer whose learner has been put back
# into the queue: the run is stopped, they end with 0, and are to be there when it goes on. Where Redis' job has moved,
# the role is asked to end, and begins anew. A start of it is told once, and by the loop alone: a trap could come between
# any two commands, and tell it again.
keep() {
    local failures=0 waited_s=0 code=0 url began_s moved child is_asked
    trap '[ -n "$told" ] || { told=1; at_limit=1; }' USR1
    while [ -z "$told" ]; do
        until [ -s "$ADDRESS" ]; do
            [ -z "$told" ] || return "$code"
            [ "$waited_s" -lt "$REDIS_WAIT_S" ] || { say "no redis in ${waited_s} s: $ADDRESS is not there"; return 1; }
            [ $((waited_s % 60)) -ne 0 ] || say "waits for redis, since ${waited_s} s: $ADDRESS is not there yet"
            sleep 2
            waited_s=$((waited_s + 2))
        done
        url=$(<"$ADDRESS") began_s=$SECONDS moved='' is_asked=''
        [ "$1" != srun ] || rm -f "$ENDING"
        REDIS_URL=$url "$@" &
        child=$!
        while kill -0 "$child" 2>/dev/null; do
            sleep 1 # a signal's trap runs after it
            [ -n "$moved$told" ] || [ "$(<"$ADDRESS")" = "$url" ] || { say "redis has moved"; moved=1; }
            [ -z "$at_limit$moved" ] || [ -n "$is_asked" ] || { is_asked=1; tell "$child" "$@"; }
        done
        wait "$child"
        code=$?
        [ "$1" != srun ] || rm -f "$ENDING"
        [ -z "$told" ] || return "$code"
        if [ -n "$moved" ]; then continue; fi
        if [ "$code" -eq 2 ] || is_finished || ! has_learner; then return "$code"; fi
        if [ "$code" -eq 0 ]; then
            [ "$SLURM_JOB_NAME" != "$RUN-learner" ] || return 0
            say "the run is stopped, and its learner is queued: starts again"
            sleep 2
            continue
        fi
        [ $((SECONDS - began_s)) -lt "$HEALTHY_S" ] || failures=0
        failures=$((failures + 1))
        [ "$failures" -le "$RESTARTS" ] || { say "failed $failures times in a row, last with $code"; return "$code"; }
        say "ended with $code: starts again"
        sleep $((failures < 6 ? 1 << failures : 60))
    done
    return "$code"
}
