# What a run under Slurm is told. Copy this file, change the copy, hand it to deploy/slurm/submit.sh (docs/clusters.md).
# Every path is on a disk that all nodes see; relative ones begin at the checkout. Bash reads the file on every node.
RUN=first
RECIPE=config/recipes/demo_cpu.yaml
LEARNER_ARGS=()                         # key=value over the recipe: learner.steps=100
ENVIRONMENT=.venv                       # what `make setup` (with GPUs: GPU=1) has made
STATE=$HOME/millrace/$RUN               # the run's folder, weights, Redis' data, logs, addresses: nobody else may read it

# What each role asks of Slurm, in sbatch's own words: --partition, --account, --qos, --time and --mem go here too.
# A learner has one task a rank and sees all GPUs of its node; more than one node is --nodes=2.
LEARNER=(--nodes=1 --ntasks-per-node=1 --cpus-per-task=2)         # with GPUs: --ntasks-per-node=4 --gpus-per-node=4
# A job of generators has one node, a task a generator; each task sees its own GPUs.
GENERATORS=(--array=1-1 --ntasks=1 --cpus-per-task=2)             # with GPUs: --array=1-2 --ntasks=8 --gpus-per-task=1
# Where a task of the recipe has an environment: (--array=1-1 --cpus-per-task=2), a worker a processor. (): no agents.
AGENTS=()
SCORERS=(--array=1-1 --cpus-per-task=2)                           # one pool a job, a worker a processor
SCORER_ARGS=()                          # --queues code
REDIS=(--cpus-per-task=1)               # never on a partition whose jobs are preempted, if you can choose
REDIS_SERVER=/usr/bin/redis-server      # built with TLS, as Debian's is
REDIS_PORT=6380
REDIS_WAIT_S=3600                       # that a role waits for Redis' job to start
REDIS_STAYS_S=600                       # after the run's end, for `millrace audit`; scancel ends it sooner

# A judge or rubric model that this run serves itself; "": none. Scorers whose endpoint names no urls ask it at
# http://JUDGE_NODE:JUDGE_PORT/v1, and the address is the run's for good: so the job has its node by name.
JUDGE_MODEL=
JUDGE_NODE=
JUDGE_PORT=8000
JUDGE=(--gpus-per-node=1 --cpus-per-task=8)
JUDGE_ARGS=()                           # of `vllm serve`
