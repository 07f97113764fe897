# Learner, generator and judge on NVIDIA GPUs: PyTorch's and vLLM's CUDA builds, flash-attn. Used by compose.gpu.yaml alone.
# Not yet built: no machine with a GPU and an image registry was there. CUDA's compiler is in it because flash-attn is
# built against the installed torch.
ARG CUDA=13.0.1
FROM nvidia/cuda:${CUDA}-devel-ubuntu22.04
RUN apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    python3.11 python3.11-venv python3.11-dev g++ git tini >/dev/null \
    && apt-get clean && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin
RUN useradd --uid 1000 --user-group --no-create-home millrace \
    && install -d -o millrace -g millrace /srv/millrace /runs /weights /hub
WORKDIR /srv/millrace
COPY pyproject.toml README.md LICENSE ./
COPY scripts scripts
COPY requirements requirements
RUN PYTHON=python3.11 scripts/setup.sh gpu
COPY . .
ENV HOME=/tmp HF_HOME=/hub PATH=/srv/millrace/.venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 1000:1000
ENTRYPOINT ["tini", "--"]
