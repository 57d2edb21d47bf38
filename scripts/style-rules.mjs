/**
 * Lint rules of style that oxlint does not have:
 *   style/one-doc-comment  no doc comment stands directly on another one
 *   style/unit-in-name     a number that is a duration or a size says its unit in its name: `leaseMs`, `maxFrameBytes`
 *   style/few-options      an object of options has at most `max` members (12)
 */

const oneDocComment = {
  meta: { type: "problem", schema: false },
  create(context) {
    return {
      Program() {
        const text = context.sourceCode.text
        const comments = context.sourceCode.getAllComments()
        for (const [i, comment] of comments.entries()) {
          const next = comments[i + 1]
          if (!isDoc(comment) || next === undefined || !isDoc(next)) continue
          const between = text.slice(comment.range[1], next.range[0])
          if (/^\s*$/.test(between) && between.split("\n").length < 3)
            context.report({ node: next, message: "a doc comment stands on another one: make it one" })
        }
      },
    }
  },
}

const isDoc = comment => comment.type === "Block" && comment.value.startsWith("*")

const duration =
  /(?:^|[a-z])(?:[eE]very|[aA]fter|[tT]imeout|[wW]indow|[iI]nterval|[dD]elay|[wW]ithin|[pP]ause|[gG]race|[lL]asts|[dD]eadline|[lL]ifetime|[lL]ease|[tT]tl|[pP]eriod|[bB]ackoff)$/

const unitInName = {
  meta: { type: "problem", schema: false },
  create(context) {
    const check = (key, isNumber) => {
      const name = key?.name ?? key?.value
      if (isNumber && typeof name === "string" && duration.test(name))
        context.report({
          node: key,
          message: `${name} is a number without a unit: name it ${name}Ms, ${name}Seconds, …`,
        })
    }
    return {
      TSPropertySignature: node => check(node.key, isNumberType(node.typeAnnotation?.typeAnnotation)),
      Property: node => check(node.key, isNumeric(node.value) && !ofLibraries.has(node.key.name)),
      VariableDeclarator: node => check(node.id, isNumeric(node.init)),
      Identifier(node) {
        if (node.typeAnnotation) check(node, isNumberType(node.typeAnnotation.typeAnnotation))
      },
    }
  },
}

/** Options of Node and of packages, as they are called there. */
const ofLibraries = new Set([
  "timeout",
  "idleTimeout",
  "connectTimeout",
  "closeTimeout",
  "testTimeout",
  "commandTimeout",
  "sentinelCommandTimeout",
  "retryDelay",
  "delay",
  "ttl",
  "interval",
  "slotsRefreshInterval",
  "slotsRefreshTimeout",
])

const isNumberType = type => type?.type === "TSNumberKeyword"
const isNumeric = node =>
  (node?.type === "Literal" && typeof node.value === "number") ||
  (node?.type === "BinaryExpression" && isNumeric(node.left) && isNumeric(node.right))

const fewOptions = {
  meta: { type: "problem", schema: false },
  create(context) {
    const [{ max }] = context.options
    return {
      TSInterfaceDeclaration(node) {
        const count = node.body.body.length
        if (/(?:Options|Tools|Deps|Topology|Policy|Reach|Bounds)$/.test(node.id.name) && count > max)
          context.report({
            node: node.id,
            message: `${node.id.name} has ${count} members, more than ${max}: group them`,
          })
      },
    }
  },
}

export default {
  meta: { name: "style" },
  rules: { "one-doc-comment": oneDocComment, "unit-in-name": unitInName, "few-options": fewOptions },
}
