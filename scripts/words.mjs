/**
 * Refuses words that have a better one. The program says what it means in the field's standard terms and in plain
 * English: a word below was once the name of something here, or needs a second reading. The table says what to write instead.
 * Texts of a page have to be there in each of its languages.
 */
import { execFileSync } from "node:child_process"
import { existsSync, readFileSync, readdirSync } from "node:fs"

/** Each is a regular expression on one line of text, case ignored, and the words to use. */
const refused = [
  ["\\b(?:he|him|his|himself)\\b", "they, them, their"],
  ["\\bwhoever\\b", "who, anybody who, a user who"],
  ["\\bdoors?\\b", "server, entry point, HTTP, the gateway"],
  ["\\brooms?\\b", "layer, folder, byte budget, capacity"],
  ["\\b(?:the house|of the house|houses)\\b", "program, project"],
  ["\\bgraves?\\b|\\bmourn\\w*|\\bburied\\b|\\bbury\\b|\\bfarewells?\\b", "dead workers, declare dead, begin drain"],
  ["\\bdeeds?\\b", "audit entry, AuditContext, action"],
  ["\\bmint(?:s|ed|ing)?\\b|\\bmintedUpTo\\b", "make an id"],
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

/** The same for names, in code only and with the case of letters. */
const refusedNames = [
  ["\\bmost[A-Z]\\w*", "max…"],
  ["\\batOnce\\b|\\w+AtOnce\\b", "maxConcurrent…"],
  ["\\w*Patience\\w*|\\b#?patiently\\b", "…TimeoutMs, retry…"],
  ["\\w*Room\\b|\\bisRoomFor\\b", "isBelowLimit, hasWaited"],
  ["\\bmailed(?:[A-Z]\\w*|\\.ts)", "emailLink…, email-links.ts"],
  ["\\b(?:is|Provider)Away\\b|\\bawayCodes\\b", "unavailable"],
  ["\\b\\w+Together\\b", "…BatchSize"],
  ["\\bheard: true\\b|\\bservedHomes\\b", "notified, homeSubscriptions"],
]

const patterns = [
  ...refused.map(([source, instead]) => ({ pattern: new RegExp(source, "i"), instead })),
  ...refusedNames.map(([source, instead]) => ({ pattern: new RegExp(source), instead, codeOnly: true })),
]
const isCode = name => /\.(?:tsx?|mts|mjs|js|lua)$/.test(name)
const isText = name => /\.(?:tsx?|css|mts|mjs|js|lua|sql|md|json|ya?ml|sh)$|^Dockerfile$|^\.ci\/run$/.test(name)
/** What is not our words: what packages are called, what was measured, what tests make up. */
const leftOut = /^(?:package-lock\.json|bench\/results\/|tests\/fixtures\/|scripts\/words\.mjs)/

/** Where a word stays. */
const exceptions = [
  // A database keeps the digest of the text of each migration.
  "src/storage/migrations/",
  // Words that a rule looks for, bytes that are no text, and a media server's own term.
  "src/domain/communities/automod.test.ts",
  "src/domain/core/file-types.test.ts",
  "src/domain/voice/voice.test.ts",
]

const files = listed().filter(
  name => isText(name) && existsSync(name) && !leftOut.test(name) && !exceptions.some(path => name.startsWith(path)),
)

/** What git knows, or may come to know; without git, everything. */
function listed() {
  try {
    const options = { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }
    return execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard"], options).split("\n")
  } catch {
    return everythingBelow("")
  }
}

/** But for packages, whose folder may be a link and hold checkouts that a benchmark compares. */
function everythingBelow(folder) {
  return readdirSync(folder || ".", { withFileTypes: true }).flatMap(entry => {
    if (entry.name === "node_modules") return []
    return entry.isDirectory() ? everythingBelow(`${folder}${entry.name}/`) : [folder + entry.name]
  })
}
let found = 0
for (const name of files) {
  for (const [i, line] of readFileSync(name, "utf8").split("\n").entries()) {
    for (const { pattern, instead, codeOnly } of patterns) {
      if (codeOnly && !isCode(name)) continue
      const [word] = pattern.exec(line) ?? []
      if (word === undefined) continue
      found++
      console.log(`${name}:${i + 1}: "${word}"; write: ${instead}`)
    }
  }
}
// Only a project that has the page.
const { wrong } = existsSync("web/app/messages")
  ? await import("./messages.mjs").then(({ untranslated }) => untranslated())
  : { wrong: [] }
for (const line of wrong) console.log(line)
console.log(`looked at ${files.length} files`)
process.exitCode = found + wrong.length > 0 ? 1 : 0
