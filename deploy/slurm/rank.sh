#!/usr/bin/env bash
# rank.sh COMMAND...: one rank of a learner of several: a task of srun, told who it is in torch's words.
export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS
[ ! -e "$ENDING" ] || exit 143 # the job was told to end before this task was there: as SIGTERM would have ended it
exec "$@"
