#!/usr/bin/env bash
# rank.sh COMMAND...: one rank of a learner of several: a task of srun, told who it is in torch's words.
export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS
exec "$@"
