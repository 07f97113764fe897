#!/usr/bin/env bash
# keep.sh SETTINGS COMMAND...: one generator of a job, kept by itself: a task of srun.
. deploy/slurm/common.sh "$1"
shift
keep "$@"
