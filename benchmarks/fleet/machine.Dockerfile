# A machine of the proof: the learner's image with Debian's redis-server, which has TLS, and a folder that can be written.
ARG LEARNER=millrace-learner
FROM ${LEARNER}
USER 0:0
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends openssl redis-server >/dev/null \
    && apt-get clean && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin && chown millrace /srv/millrace
USER 1000:1000
CMD ["sleep", "infinity"]
