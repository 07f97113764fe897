#!/bin/sh
# Install a lock into an image: `install.sh requirements/scorers.txt`. Run by the Dockerfiles while they build.
# vLLM's CPU build and the learner of a machine without GPU take PyTorch's CPU build, which PyPI does not carry: it comes
# from where pip's settings say, else from PyTorch's own index.
set -eu
lock=$1
torch=$(sed -n 's/^\(torch==[0-9.]*\)$/\1+cpu/p' "$lock")
pip() { python -m pip --disable-pip-version-check "$@" --quiet --no-cache-dir --no-deps --root-user-action ignore; }

if [ -n "$torch" ]; then
    pip install "$torch" 2>/dev/null || pip install --index-url https://download.pytorch.org/whl/cpu "$torch"
fi
grep -v '^torch==' "$lock" >/tmp/rest.txt
pip install -r /tmp/rest.txt
rm /tmp/rest.txt
