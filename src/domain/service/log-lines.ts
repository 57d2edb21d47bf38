export interface LogLine {
  timestamp: string
  level: string
  message: string
  raw: string
}

const form = /^(\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}(?:,\d{3})?) - ([A-Za-z]+) - (.*)$/s
/** Of a line of another form. */
const plainLevel = "INFO"

/** Names that others give the levels. */
const aliases: Readonly<Record<string, string>> = { WARNING: "WARN", CRITICAL: "FATAL" }
const levelNamed = (name: string): string => aliases[name.toUpperCase()] ?? name.toUpperCase()

export function logLineOf(raw: string): LogLine {
  const [, timestamp = "", level = plainLevel, message = raw] = form.exec(raw) ?? []
  return { timestamp, level, message, raw }
}

/** Which lines are asked for. `search`: a part of it in any case; `level`: its name in any case. */
export interface LogFilter {
  readonly search?: string | undefined
  readonly level?: string | undefined
}

/** Blank lines are none. */
export function logFilterOf({ search, level }: LogFilter): (line: string) => boolean {
  const part = search?.toLowerCase()
  const wanted = level === undefined ? undefined : levelNamed(level)
  return line => {
    if (line.trim() === "") return false
    if (wanted !== undefined && levelNamed(logLineOf(line).level) !== wanted) return false
    return part === undefined || line.toLowerCase().includes(part)
  }
}

/** So many of the last lines that match can be reached. */
export const reachableLines = 10_000

/**
 * Where a page of matches begins and ends, counted from the start of the file. Offset 0 is the end of it.
 * @param total all that match
 */
export function pageOfLines(
  total: number,
  limit: number,
  offset: number,
): { from: number; until: number; offset: number } {
  if (offset === 0) return { from: Math.max(0, total - limit), until: total, offset }
  const from = Math.max(offset, total - reachableLines)
  return { from, until: Math.min(total, from + limit), offset: from }
}
