/**
 * Refuses words that have a better one. The program says what it means in the field's standard terms and in plain
 * English: a word below was once the name of something here, or needs a second reading. The table says what to write instead.
 */
import { execFileSync } from "node:child_process"
import { readFileSync } from "node:fs"

/** Each is a regular expression on one line of text, case ignored, and the words to use. */
const refused = [
  ["\\b(?:he|him|his|himself)\\b", "they, them, their"],
  ["\\bwhoever\\b", "who, anybody who, a user who"],
  ["\\bdoors?\\b", "server, entry point, HTTP, the gateway"],
  ["\\brooms?\\b", "layer, folder, byte budget, capacity"],
  ["\\b(?:the house|of the house|houses)\\b", "program, project"],
  ["\\bgraves?\\b|\\bmourn\\w*|\\bburied\\b|\\bbury\\b|\\bfarewells?\\b", "dead workers, declare dead, begin drain"],
  ["\\bdeeds?\\b", "audit entry, AuditContext, action"],
  ["\\bmint(?:s|ed|ing)?\\b|\\bmintedUpTo\\b", "id watermark, make an id"],
  ["\\bcommissions?\\b", "command envelope"],
  ["\\bshard ?keepers?\\b", "shard balancer"],
  ["\\blane queues?\\b|\\blaneQueue\\b", "commit queue"],
  ["\\bentrances?\\b", "identify"],
  ["\\bresumptions?\\b", "resume"],
  ["\\bjourneys?\\b", "log spans"],
  ["\\bforeign ?logs?\\b", "peer log"],
  ["\\bodd ones\\b|\\boddOnes\\b", "individual sessions"],
  ["\\bserved ?homes\\b", "home subscriptions"],
  ["\\bannouncers?\\b", "service notices"],
  ["\\bpatience\\b", "retry transient, timeout"],
  ["\\blaboratory\\b|\\bcrowds?\\b|\\btowns?\\b", "harness, load clients, fixture"],
  ["\\b(?:OutOfReach|isPassing)\\b", "LogTruncated, isTransient"],
]

const patterns = refused.map(([source, instead]) => ({ pattern: new RegExp(source, "i"), instead }))
const isText = name => /\.(?:ts|mts|mjs|js|lua|sql|md|json|ya?ml|sh)$|^Dockerfile$|^\.ci\/run$/.test(name)
/** What is not our words: what packages are called, what was measured, what tests make up. */
const leftOut = /^(?:package-lock\.json|bench\/results\/|tests\/fixtures\/|scripts\/words\.mjs)/

const listed = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard"], { encoding: "utf8" })
const files = listed.split("\n").filter(name => isText(name) && !leftOut.test(name))
let found = 0
for (const name of files) {
  for (const [i, line] of readFileSync(name, "utf8").split("\n").entries()) {
    if (line.includes("words: ")) continue
    for (const { pattern, instead } of patterns) {
      const [word] = pattern.exec(line) ?? []
      if (word === undefined) continue
      found++
      console.log(`${name}:${i + 1}: "${word}"; write: ${instead}`)
    }
  }
}
console.log(`looked at ${files.length} files`)
process.exitCode = found > 0 ? 1 : 0
