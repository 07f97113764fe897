# Learner, generator and judge on NVIDIA GPUs: one image, with PyTorch's and vLLM's CUDA builds. Used by compose.gpu.yaml
# alone. Not yet built: no machine with a GPU and an image registry was there.
# No CUDA compiler is in it, and so no flash-attn: the learner takes torch's own kernels. CUDA's libraries come with the
# wheels, and its driver from the host. g++ is for Triton and DeepSpeed, which compile small modules while they run;
# Python.h comes with the base.
FROM python:3.11-slim-bookworm AS gpu
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends g++ tini >/dev/null \
    && apt-get clean && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin
RUN useradd --uid 1000 --user-group --no-create-home millrace \
    && install -d -o millrace -g millrace /srv/millrace /runs /weights /hub
WORKDIR /srv/millrace
ENV HOME=/tmp HF_HOME=/hub PYTHONPATH=/srv/millrace PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
RUN printf '#!/bin/sh\nexec python -m tools.main "$@"\n' >/usr/local/bin/millrace && chmod +x /usr/local/bin/millrace
ENTRYPOINT ["tini", "--"]
COPY requirements/gpu.txt /tmp/lock.txt
RUN grep -v '^flash-attn==' /tmp/lock.txt >/tmp/rest.txt \
    && python -m pip --disable-pip-version-check install --quiet --no-cache-dir --no-deps \
    --root-user-action ignore -r /tmp/rest.txt && rm /tmp/lock.txt /tmp/rest.txt
COPY . .
RUN python -m compileall -q .
USER 1000:1000
