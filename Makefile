# The verbs of this project; `make` lists them. Each sets up what it needs. No target needs root.
# Makefile variables:  GPU=1 the GPU environment   FLASH_ATTN=1 flash-attn in it   PYTHON=python3.12 the interpreter of the environment
#                      ENGINE=vllm|hf   SEED=n   ARGS="key=value ..." for `make demo`

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: another-python help setup demo demo-agents test test-fast check fix bench prove-suite prove-lag prove-staleness prove-hacking prove-bottleneck prove-slow-scorer prove-first-row prove-demo prove-demo-agents prove-attacks prove-metamorphic prove-mbpp prove-rewards prove-imports prove-resume prove-chaos prove-chaos-demo prove-protocol prove-compose prove-fleet prove-slurm prove-pipeline prove-rubric prove-pages prove-agents prove-trl prove-gpu lock resolve clean

# What is installed stays what it is: the GPU environment is not replaced by a plain `make test`.
FLAVOUR := $(if $(GPU)$(wildcard .venv/installed-gpu),gpu,cpu)
INSTALLED := .venv/installed-$(FLAVOUR)
PYTHON_IN_VENV := .venv/bin/python
# Where PYTHON is of another version than the environment's, scripts/setup.sh makes the environment anew.
version_of = $(shell $(1) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
ANOTHER_PYTHON := $(if $(PYTHON),$(if $(filter $(call version_of,$(PYTHON)),$(call version_of,[ -L .venv ] || $(PYTHON_IN_VENV))),,another-python))
$(if $(FLASH_ATTN),$(if $(filter gpu,$(FLAVOUR)),,$(error FLASH_ATTN=1 goes with GPU=1)))
PACKAGES := config tasks broker web sandbox verdicts agents generators scorers learner tools benchmarks

# Test files at once. On two cores four: a whole run waits for its processes more often than it computes.
JOBS ?= 4
ENGINE ?= hf
$(if $(filter hf vllm,$(ENGINE)),,$(error ENGINE=$(ENGINE): it is hf or vllm))
# What vLLM needs on a CPU: a small cache in fixed size, no compilation, and time for two processes to import it.
ENGINE_hf :=
ENGINE_vllm := generators.engine.type=vllm generators.engine.kv_cache_mb=256 generators.engine.enforce_eager=true
OVERRIDES = $(ENGINE_$(ENGINE)) $(if $(SEED),seed=$(SEED)) $(ARGS)

help:            ## this list
	@sed -n 's/^\([a-z-]*\): .*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

setup: $(INSTALLED) $(if $(FLASH_ATTN),.venv/installed-flash-attn)    ## make .venv and install the locked versions into it (GPU=1: vLLM on CUDA; and FLASH_ATTN=1: flash-attn, built with nvcc)

$(INSTALLED): requirements/$(FLAVOUR).txt pyproject.toml scripts/setup.sh scripts/pip_settings.sh scripts/libnuma.sh $(ANOTHER_PYTHON)
	@PYTHON="$(PYTHON)" scripts/setup.sh $(FLAVOUR)

another-python:

.venv/installed-flash-attn: $(INSTALLED) scripts/flash_attn.sh
	@scripts/flash_attn.sh

demo: $(INSTALLED)     ## a whole run on this machine: watch a small model learn (ENGINE=vllm, SEED=n, ARGS="key=value")
	@.venv/bin/millrace up config/recipes/demo_cpu.yaml $(OVERRIDES)

demo-agents: $(INSTALLED)     ## a whole run of episodes: watch it learn to use a tool (SEED=n, ARGS="key=value")
	@.venv/bin/millrace up config/recipes/demo_agents.yaml $(OVERRIDES)

# Bytecode is kept, whatever the user's own setting: the tests start hundreds of processes that import the same modules.
test prove-suite: export PYTHONDONTWRITEBYTECODE :=

test: $(INSTALLED)     ## the tests, JOBS at once; prove-suite has the longest (ARGS="tests/broker -k lease": a part of it)
	@$(PYTHON_IN_VENV) -m pytest --numprocesses $(JOBS) --dist loadfile --no-loadscope-reorder $(ARGS)

test-fast: $(INSTALLED)    ## the tests that need no other process than Redis, within half a minute: a hook runs them before each push
	@$(PYTHON_IN_VENV) -m pytest --numprocesses 2 --dist worksteal -m "unit or redis" $(ARGS)

check: $(INSTALLED)    ## ruff, its format, and mypy
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check --quiet .
	@.venv/bin/mypy $(PACKAGES) tests

fix: $(INSTALLED)      ## mend what ruff can mend by itself, and format
	@.venv/bin/ruff check --fix .
	@.venv/bin/ruff format .

bench: $(INSTALLED)    ## the numbers of benchmarks/RESULTS.md, measured here
	@$(PYTHON_IN_VENV) -m benchmarks $(ARGS)

prove-suite: $(INSTALLED)    ## the long tests and cases that `make test` leaves out; goes on where it was interrupted
	@$(PYTHON_IN_VENV) -m pytest --prove --resume runs/prove-suite --numprocesses $(JOBS) --dist loadfile --no-loadscope-reorder $(ARGS)

prove-demo: $(INSTALLED)    ## does the demo learn? ten seeds, one with ENGINE=vllm; the table goes to benchmarks/RESULTS.md
	@$(PYTHON_IN_VENV) -m benchmarks.proofs.demo_seeds --engine $(ENGINE) --seeds $(if $(filter vllm,$(ENGINE)),0,0-9) --write $(ARGS)

prove-demo-agents: $(INSTALLED)    ## does the demo of the agents learn? ten seeds; the table goes to benchmarks/RESULTS.md
	@$(PYTHON_IN_VENV) -m benchmarks.proofs.demo_seeds --agents --write $(ARGS)

prove-attacks: $(INSTALLED)    ## does the code scorer hold? every attack in every shape of rows and a thousand by a grammar, and on what is kept ready, behind both walls, ten minutes
	@CORPUS=all $(PYTHON_IN_VENV) -m pytest tests/scorers/code/test_corpus.py tests/sandbox/local/test_kept.py $(ARGS)

prove-mbpp: $(INSTALLED)    ## does it tell right from wrong? MBPP's solutions and mutants; the table goes to benchmarks/RESULTS.md
	@$(PYTHON_IN_VENV) -m benchmarks.proofs.mbpp --write $(ARGS)

prove-metamorphic: $(INSTALLED)    ## are references paid by what equals them and by nothing else? templates and MATH-500, rewritten (ARGS="--references FILE": others); the table goes to benchmarks/RESULTS.md
	@$(PYTHON_IN_VENV) -m benchmarks.proofs.metamorphic --write $(ARGS)

prove-rewards: $(INSTALLED)    ## right rewards while answers hang and scorers are killed; the table goes to benchmarks/RESULTS.md
	@$(PYTHON_IN_VENV) -m benchmarks.proofs.rewards_under_fire --write $(ARGS)

prove-imports: $(INSTALLED)    ## do real launch scripts import, with bash's words and Hydra's values? ARGS="FOLDER ...": checkouts that you fetch; the table goes to benchmarks/RESULTS.md
	@$(PYTHON_IN_VENV) -m benchmarks.proofs.real_imports --write $(ARGS)

prove-resume: $(INSTALLED)    ## is a killed and resumed learner the one that was not? bit for bit; the table goes to benchmarks/RESULTS.md
	@$(PYTHON_IN_VENV) -m benchmarks.proofs.exact_resume --write $(ARGS)

prove-chaos: $(INSTALLED)    ## 50 kills of each role, nothing lost, nothing twice; goes on where it was interrupted; the table goes to benchmarks/RESULTS.md
	@$(PYTHON_IN_VENV) -m benchmarks.proofs.chaos --write $(ARGS)

prove-chaos-demo: $(INSTALLED)    ## the demo with a kill every 40 s beside the demo without; the table goes to benchmarks/RESULTS.md
	@$(PYTHON_IN_VENV) -m benchmarks.proofs.chaos_demo --write $(ARGS)

prove-staleness: $(INSTALLED)  ## what lag costs, by loss: the demo at max_lag 0 to 16, three seeds each; an hour or two; the table goes to benchmarks/RESULTS.md
	@$(PYTHON_IN_VENV) -m benchmarks.proofs.staleness --write --picture docs/staleness.png $(ARGS)

prove-hacking: $(INSTALLED)    ## does the watch name three made reward hacks, and leave six honest seeds of the demo alone? the table goes to benchmarks/RESULTS.md
	@$(PYTHON_IN_VENV) -m benchmarks.proofs.hacking --write $(ARGS)

prove-rubric: $(INSTALLED)    ## a rubric model trained, exported, served by vLLM, and a policy trained with it in each mode; the table goes to benchmarks/RESULTS.md
	@$(PYTHON_IN_VENV) -m benchmarks.proofs.rubric --write $(ARGS)

prove-lag: $(INSTALLED)    ## is every token's lag bounded? a generator twenty times slower, one that stands still for a minute; the table goes to benchmarks/RESULTS.md
	@$(PYTHON_IN_VENV) -m benchmarks.proofs.lag --write $(ARGS)

prove-slow-scorer: $(INSTALLED)    ## what does a scorer of a second a group cost, with lag and without? three pairs of the demo; the table goes to benchmarks/RESULTS.md
	@$(PYTHON_IN_VENV) -m benchmarks.proofs.slow_scorer --write $(ARGS)

prove-first-row: $(INSTALLED)    ## how soon has a program the score of its first row? beside an older commit; the table goes to benchmarks/RESULTS.md
	@$(PYTHON_IN_VENV) -m benchmarks.proofs.first_row --write $(ARGS)

prove-bottleneck: $(INSTALLED)    ## does `millrace top` name what holds a run up, and what one more of it gives? four made situations; the table goes to benchmarks/RESULTS.md
	@$(PYTHON_IN_VENV) -m benchmarks.proofs.bottleneck --write $(ARGS)

prove-protocol: $(INSTALLED)    ## 200,000 random actions of the protocol and 100,000 of episodes on Redis 6.2 and 7, and each rule taken out; goes on where it was interrupted
	@scripts/redis7.sh
	@$(PYTHON_IN_VENV) -m benchmarks.proofs.protocol --write $(ARGS)

COMPOSE ?= docker compose
CONTAINERS ?= docker
prove-compose: $(INSTALLED)    ## the demo in containers: scaled, killed, taken down and up, and that of the agents (COMPOSE="docker compose", CONTAINERS=docker); as root
	@$(PYTHON_IN_VENV) -m benchmarks.compose.proof --compose "$(COMPOSE)" --engine $(CONTAINERS) --write $(ARGS)

prove-fleet: $(INSTALLED)      ## the demo over two machines that share nothing but a Redis behind TLS: one generator killed, one joins (CONTAINERS=docker)
	@$(PYTHON_IN_VENV) -m benchmarks.fleet.proof --engine $(CONTAINERS) --build "$(BUILD)" --write $(ARGS)

REDIS_SERVER ?= /usr/bin/redis-server
prove-slurm: $(INSTALLED)      ## both demos under a Slurm of this machine: a job of each role is requeued once, and goes on; skipped where there is no sbatch (REDIS_SERVER=one with TLS)
	@$(PYTHON_IN_VENV) -m benchmarks.slurm.proof --redis-server "$(REDIS_SERVER)" --write $(ARGS)

prove-agents: $(INSTALLED)     ## every kind of environment, played with the real package, and unmodified clients, trained (ARGS="gem verl": those); each is installed in a Python of its own; the table goes to benchmarks/RESULTS.md
	@$(PYTHON_IN_VENV) -m benchmarks.proofs.agents --write $(ARGS)

prove-trl: $(INSTALLED)        ## the demo beside TRL's GRPOTrainer, which is installed in an environment of its own: command to the answer, in alternating pairs; the table goes to benchmarks/RESULTS.md
	@$(PYTHON_IN_VENV) -m benchmarks.proofs.trl --write $(ARGS)

prove-gpu: $(if $(PYTHON),,$(INSTALLED))    ## what only a GPU can show, in at most nine minutes (ARGS="--budget SECONDS"); without one the CPU form; PYTHON=python3 takes that one with what it has installed
	@$(or $(PYTHON),$(PYTHON_IN_VENV)) -m benchmarks.proofs.gpu --write $(ARGS)

prove-pipeline: $(INSTALLED)    ## prepare, check, measure, train, evaluate, export: examples/pipeline, stage after stage; the table goes to benchmarks/RESULTS.md
	@$(PYTHON_IN_VENV) -m benchmarks.proofs.pipeline --write $(ARGS)

prove-pages: $(INSTALLED)      ## every command of README and docs/, typed in a fresh clone; the table goes to benchmarks/RESULTS.md
	@$(PYTHON_IN_VENV) -m benchmarks.pages.proof --write $(ARGS)

lock: $(INSTALLED)     ## write requirements/*.txt anew from pyproject.toml
	@scripts/lock.sh write

resolve: $(INSTALLED)  ## do both extras resolve, for Python 3.11 and 3.12?
	@scripts/lock.sh check

clean:           ## remove the environment and caches; runs stay
	@if [ -L .venv ]; then echo "clean: .venv is a link to $$(readlink .venv), and stays"; else rm -rf .venv; fi
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info
	find . -name __pycache__ -prune -exec rm -rf {} +
