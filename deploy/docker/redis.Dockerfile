# Redis with the run's settings and a check of its file before each start.
FROM redis:7-bookworm
COPY deploy/docker/redis.sh /usr/local/bin/millrace-redis
# Its volume is made from this folder, and so belongs to the user that the server runs as.
RUN mkdir -p /data && chown 999:999 /data
USER 999:999
ENV REDIS_DATA=/data
ENTRYPOINT ["millrace-redis"]
