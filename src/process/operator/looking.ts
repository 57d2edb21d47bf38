/** Commands that look at a server and its surroundings, also where the database is away: they stand apart from all others. */
import { setTimeout as sleep } from "node:timers/promises"
import { parseArgs } from "node:util"
import { clusterConfig } from "../../../cluster.config.ts"
import { ConfigError, readConfig } from "../../config.ts"
import { doctor, doctorText } from "./doctor.ts"
import { lookAt, topOf, topText } from "./top.ts"
import { urlHere } from "./url-here.ts"

type Env = Record<string, string | undefined>

export interface Screen {
  readonly isTerminal: boolean
  print(text: string): void
  complain(text: string): void
}

const exitCodes = { well: 0, faulty: 1, misused: 2 } as const
/** Milliseconds between two looks of `top`. */
const lookEveryMs = 2_000
/** Between the two looks of one that is not repeated. */
const onceMs = 1_000
const clear = "\u001B[2J\u001B[3J\u001B[H"

/** @returns the exit code; undefined: the command is another's */
export async function looking(words: readonly string[], env: Env, screen: Screen): Promise<number | undefined> {
  const [name, ...args] = words
  if (name !== "doctor" && name !== "top") return undefined
  try {
    const { values } = parseArgs({ args, options: { json: { type: "boolean" }, once: { type: "boolean" } } })
    return name === "doctor"
      ? await runDoctor(env, screen, values.json === true)
      : await runTop(env, screen, { isJson: values.json === true, isOnce: values.once === true })
  } catch (error) {
    screen.complain(`${name}: ${(error as Error).message}`)
    const isMisuse = error instanceof ConfigError || (error as NodeJS.ErrnoException).code?.startsWith("ERR_PARSE_ARGS")
    return isMisuse ? exitCodes.misused : exitCodes.faulty
  }
}

async function runDoctor(env: Env, screen: Screen, isJson: boolean): Promise<number> {
  const findings = await doctor({ env, topology: clusterConfig })
  screen.print(isJson ? JSON.stringify(findings, null, 2) : doctorText(findings))
  return findings.some(({ level }) => level === "fault") ? exitCodes.faulty : exitCodes.well
}

async function runTop(
  env: Env,
  screen: Screen,
  { isJson, isOnce }: { isJson: boolean; isOnce: boolean },
): Promise<number> {
  const { metricsHost, metricsPort } = readConfig(env)
  const address = urlHere(metricsHost, metricsPort)
  let before = await lookAt(address)
  for (;;) {
    const isRepeated = screen.isTerminal && !isOnce && !isJson
    await sleep(isRepeated ? lookEveryMs : onceMs)
    const now = await lookAt(address)
    const top = topOf(before, now)
    if (isJson) screen.print(JSON.stringify(top, null, 2))
    else screen.print(`${isRepeated ? clear : ""}${topText(top)}`)
    if (!isRepeated) return exitCodes.well
    before = now
  }
}
