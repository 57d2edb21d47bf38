# Builds dist/ with every module, then ships only what runs.
FROM node:20-bookworm-slim AS build
WORKDIR /starling
COPY package.json package-lock.json ./
# No module needs its install script: binaries come prebuilt.
RUN npm ci --include=dev --ignore-scripts --no-audit --no-fund
COPY . .
# Then the development modules go.
RUN npm run build \
  && npm prune --omit=dev --ignore-scripts --no-audit --no-fund

FROM node:20-bookworm-slim
# redis-server is for trying the image without any other; in production give DATABASE_URL and REDIS_URL.
RUN apt-get update \
  && apt-get install -y --no-install-recommends redis-server tini \
  && rm -rf /var/lib/apt/lists/* \
  && install -d -o node -g node /data
WORKDIR /starling
COPY --from=build /starling/package.json ./
COPY --from=build /starling/node_modules ./node_modules
COPY --from=build /starling/dist ./dist
# /metrics asks for no authentication. It listens on this machine only; METRICS_HOST=0.0.0.0 lets a scraper of the same network in.
ENV NODE_ENV=production DATA_DIR=/data UV_THREADPOOL_SIZE=16
USER node
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=10s --start-period=60s CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.PORT ?? 8000}/livez`).then(r => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
# tini reaps what the embedded servers leave behind and passes signals on.
ENTRYPOINT ["tini", "--"]
CMD ["node", "dist/src/main.js"]
