#!/usr/bin/env bash
# From data to a number, on a laptop without a GPU: made rows of six domains are prepared, checked and measured, the tiny
# model trains on those that are left, and both it and what became of it are evaluated and compared.
#
#     ./pipeline.sh [FOLDER]        a new or empty folder (pipeline)
#
# `millrace` is the one in PATH, or that of this checkout. Killed and started again by hand, each command goes on.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
PATH=$PATH:$here/../../.venv/bin
command -v millrace > /dev/null || { echo "pipeline.sh: no millrace in PATH: run 'make setup' in the checkout" >&2; exit 1; }

folder=${1:-pipeline}
mkdir -p "$folder"
cd "$folder"
[ -z "$(ls -A)" ] || { echo "pipeline.sh: $folder is not empty" >&2; exit 1; }
cp "$here/run.yaml" .
cp -r "$here/../../config/recipes/demo_model" model

stage() { printf '\n== %s (after %d s)\n' "$1" "$SECONDS"; }

stage "prepare: rows of six domains, to train on and held out"
millrace prepare sampler -o train.parquet
millrace prepare sampler --split test -o test.parquet

stage "check: every row has a scorer, and its own reference scores 1"
millrace data check run.yaml

stage "difficulty: what the model solves already is left out"
millrace difficulty run.yaml --data train.parquet -n 4 --keep 'model<0.9' -o difficulty

stage "train: on the rows that are left, and on digits"
millrace up run.yaml data.train.0.path=difficulty/kept.parquet

stage "evaluate: the model before and after, on the same rows"
millrace evaluate run.yaml -o before.json
millrace evaluate run.yaml --model pipeline -o after.json
millrace evaluate --compare before.json after.json

stage "export: the weights as transformers and vLLM load them"
millrace export pipeline -o trained
ls trained

stage "done"
