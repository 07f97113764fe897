#!/usr/bin/env bash
# Hand a run to Slurm: a job of Redis, one of the learner, arrays of generators and scorers, the judge where there is one.
#   deploy/slurm/submit.sh SETTINGS                  all of them; a job that is there already is left alone
#   deploy/slurm/submit.sh SETTINGS generators       more of one role: generators, agents or scorers, at any time
# Prints a role and the number of its job a line. The order does not matter: each role waits for Redis, and says so.
set -euo pipefail
[ $# -ge 1 ] && [ -r "$1" ] || { sed -n 2,5p "$0" >&2; exit 2; }
settings=$(realpath "$1")
shift
cd "$(dirname "$(realpath "$0")")/../.."
. "$settings"
[ -x "$ENVIRONMENT/bin/python" ] || { echo "submit: no $ENVIRONMENT/bin/python: make setup, or set ENVIRONMENT" >&2; exit 2; }
umask 077
mkdir -p "$STATE/logs"

all=(redis learner generators scorers)
[ ${#AGENTS[@]} -eq 0 ] || all+=(agents)
[ -z "$JUDGE_MODEL" ] || all+=(judge)
[ $# -gt 0 ] || set -- "${all[@]}"
for role in "$@"; do
    case $role in
        redis) asks=("${REDIS[@]}") ;;
        learner) asks=("${LEARNER[@]}"); rm -f "$STATE/finished" ;;
        generators) asks=("${GENERATORS[@]}") ;;
        agents) asks=("${AGENTS[@]}") ;;
        scorers) asks=("${SCORERS[@]}") ;;
        judge) asks=(--nodelist="${JUDGE_NODE:?scorers ask the judge at its node}" "${JUDGE[@]}") ;;
        *) echo "submit: no role $role; there are ${all[*]}" >&2; exit 2 ;;
    esac
    if [[ $role =~ ^(redis|learner|judge)$ && -n $(squeue --noheader --me --name="$RUN-$role") ]]; then
        echo "$role is there already" >&2
        continue
    fi
    job=$(sbatch --parsable --job-name="$RUN-$role" --chdir="$PWD" --output="$STATE/logs/%x-%j.log" \
        "${asks[@]}" "deploy/slurm/$role.sbatch" "$settings")
    echo "$role ${job%%;*}"
done
