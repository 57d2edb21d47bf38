/**
 * The lint rules behind the layer table in `oxlint.config.mjs`:
 *   layers/arrows       an import goes where the table allows, and nothing imports a test
 *   layers/environment  `process.env` is read only where the table allows
 *   layers/no-barrel    no `index.ts`, no `export *`: import the file that owns the name
 * Paths are read relative to the directory in which oxlint runs.
 */
import { isBuiltin } from "node:module"
import { dirname, join, relative, sep } from "node:path"

const isTest = path => path.startsWith("tests/") || /\.test\.m?[jt]s$/.test(path)
const fromRoot = context => relative(context.cwd, context.filename).split(sep).join("/")

/** The longest row of the table that is the path or a directory above it. */
function rowOf(path, layers) {
  const rows = Object.keys(layers).filter(row => path === row || path.startsWith(`${row}/`))
  return rows.sort((a, b) => b.length - a.length)[0]
}

const packageOf = specifier => specifier.split("/", specifier.startsWith("@") ? 2 : 1).join("/")

/** Why `path` may not import `specifier`, or undefined when it may. */
function objection(path, specifier, isTypeOnly, { layers, owners }) {
  if (/^[#/]|^(file|data):/.test(specifier))
    return `import ${specifier} by its relative path, so that its layer can be seen`
  const from = rowOf(path, layers)
  if (isTest(path) || from === undefined) return undefined
  const layer = layers[from]

  if (specifier.startsWith(".")) {
    if (layer.uses === "anything") return undefined
    const target = join(dirname(path), specifier).split(sep).join("/")
    if (isTest(target)) return `${from} may not import a test: ${target}`
    const to = rowOf(target, layers)
    if (to === from || layer.uses.includes(to)) return undefined
    if (isTypeOnly && layer.types?.includes(to)) return undefined
    return `${from} may not import ${to ?? target}; it may import ${layer.uses.join(", ") || "only itself"}`
  }
  if (isBuiltin(specifier)) return layer.node === false ? `${from} may not import Node's ${specifier}` : undefined

  const name = packageOf(specifier)
  if (layer.npm !== undefined && !layer.npm.includes(name)) {
    return `${from} may not import the package ${name}; it may import ${layer.npm.join(", ") || "none"}`
  }
  const owned = Object.hasOwn(owners, name) && layer.uses !== "anything"
  return owned && !owners[name].includes(from)
    ? `only ${owners[name].join(", ")} may import ${name}, not ${from}`
    : undefined
}

const arrows = {
  meta: { type: "problem", schema: false },
  create(context) {
    const path = fromRoot(context)
    const [table] = context.options
    const check = (source, isTypeOnly = false) => {
      const specifier = source?.value ?? (source?.quasis?.length === 1 ? source.quasis[0].value.cooked : undefined)
      if (typeof specifier !== "string") return
      const message = objection(path, specifier, isTypeOnly, table)
      if (message !== undefined) context.report({ node: source, message })
    }
    return {
      Program() {
        if (isTest(path) || rowOf(path, table.layers) !== undefined) return
        const message = `${path} stands in no layer: give it a row in the layer table of oxlint.config.mjs`
        context.report({ loc: { line: 1, column: 0 }, message })
      },
      ImportDeclaration: node => check(node.source, node.importKind === "type"),
      ExportAllDeclaration: node => check(node.source),
      ExportNamedDeclaration: node => check(node.source),
      ImportExpression: node => check(node.source),
      TSImportType: node => check(node.source ?? node.argument, true),
      CallExpression(node) {
        if (node.callee.type === "Identifier" && node.callee.name === "require") check(node.arguments[0])
      },
    }
  },
}

const named = (node, name) => node?.name === name || node?.value === name
const isProcess = node =>
  (node?.type === "Identifier" && node.name === "process") ||
  (node?.type === "MemberExpression" && named(node.object, "globalThis") && named(node.property, "process"))

const environment = {
  meta: { type: "problem", schema: false },
  create(context) {
    const path = fromRoot(context)
    const [{ layers }] = context.options
    const row = rowOf(path, layers)
    if (row === undefined || layers[row].env === true || isTest(path)) return {}
    const report = node =>
      context.report({ node, message: `${row} may not read process.env; what it needs arrives as an argument` })
    const takesEnv = pattern =>
      pattern.type === "ObjectPattern" &&
      pattern.properties.some(one => one.type === "RestElement" || named(one.key, "env"))
    return {
      MemberExpression(node) {
        if (isProcess(node.object) && named(node.property, "env")) report(node)
      },
      VariableDeclarator(node) {
        if (isProcess(node.init) && takesEnv(node.id)) report(node)
      },
      ImportDeclaration(node) {
        if (!["process", "node:process"].includes(node.source.value)) return
        const renamed = one => (one.imported ? named(one.imported, "env") : one.local.name !== "process")
        if (node.specifiers.some(renamed)) report(node)
      },
    }
  },
}

const noBarrel = {
  meta: { type: "problem", schema: false },
  create(context) {
    return {
      Program() {
        if (/(^|\/)index\.m?[jt]s$/.test(fromRoot(context))) {
          context.report({ loc: { line: 1, column: 0 }, message: "no index files: name the file for what it holds" })
        }
      },
      ExportAllDeclaration: node =>
        context.report({ node, message: "no `export *`: import from the file that owns the name" }),
    }
  },
}

export default { meta: { name: "layers" }, rules: { arrows, environment, "no-barrel": noBarrel } }
