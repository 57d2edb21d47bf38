/** Of a line of the log files, in characters; what is longer is cut. */
export const maxLineCharacters = 8_192

/** Nothing that is logged can begin another line, or speak to a terminal. */
const control = /[\p{Cc}\u2028\u2029]/gu
const cut = "…"

/**
 * A line of JSON as a person reads it in the log files, always one line:
 * `2026-11-27 10:08:54,123 - WARN - web-0 lease lost shard=12`. Times are UTC; facts are JSON.
 * @param place the process that says it
 */
export function textOf(json: string, place: string): string {
  const { level, time, msg, process: _, worker: __, pid: ___, ...facts } = JSON.parse(json) as Record<string, unknown>
  const when = `${String(time).slice(0, 10)} ${String(time).slice(11, 19)},${String(time).slice(20, 23)}`
  const words = Object.entries(facts).map(([name, fact]) => `${name}=${JSON.stringify(fact)}`)
  const message = [place, msg, ...words].join(" ").replace(control, " ")
  const line = `${when} - ${String(level).toUpperCase()} - ${message}`
  return line.length <= maxLineCharacters ? line : line.slice(0, maxLineCharacters - cut.length) + cut
}
