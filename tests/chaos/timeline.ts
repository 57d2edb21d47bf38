/** A run as a picture: what was done to it, and what clients saw, second by second. */
import { faultsOf, isA, isBeside, operationsOf, type FaultKind, type History } from "./history.ts"

const left = 240
const right = 20
const row = 13
const curve = 56
const between = 22

const meanings: Record<FaultKind, string> = {
  worker: "one worker",
  all: "all workers",
  rolling: "restart in turn",
  dependency: "PostgreSQL, Redis",
  public: "the clients' way in",
  job: "job workers",
  load: "what clients send",
  clock: "clocks",
  reader: "readers",
}

const colours: Record<FaultKind, string> = {
  worker: "#c2410c",
  all: "#b91c1c",
  rolling: "#a16207",
  dependency: "#1d4ed8",
  public: "#0f766e",
  job: "#be185d",
  load: "#0369a1",
  clock: "#7e22ce",
  reader: "#4d7c0f",
}

interface Curve {
  title: string
  colour: string
  perSecond: readonly number[]
}

export function drawTimeline(history: History, title: string): string {
  const length = Math.ceil((history.at(-1)?.at ?? 0) / 1e9) + 1
  const width = Math.max(1_100, Math.min(1_600, left + right + length * 12))
  const x = (nanoseconds: number) => left + ((width - left - right) * Math.min(nanoseconds / 1e9, length)) / length
  const faults = faultsOf(history)
  const names = [...new Set(faults.map(({ name }) => name))]
  const curves = curvesOf(history, length)
  const top = 44
  const height = top + names.length * row + curves.length * (curve + between) + 50
  const parts: string[] = []
  const text = (at: number, y: number, words: string, more = "") =>
    parts.push(`<text x="${round(at)}" y="${round(y)}" ${more}>${escaped(words)}</text>`)

  text(16, 24, title, 'font-size="15" font-weight="600"')
  for (const [at, kind] of [...new Set(faults.map(({ kind }) => kind))].toReversed().entries()) {
    const place = width - right - (at + 1) * 118
    parts.push(`<rect x="${place}" y="15" width="10" height="10" rx="2" fill="${colours[kind]}"/>`)
    text(place + 15, 24, meanings[kind])
  }
  // What was broken when, behind what clients saw of it.
  for (const { from, to, kind } of faults)
    if (!isBeside({ kind })) {
      const span = Math.max(1, x(Math.min(to, length * 1e9)) - x(from))
      parts.push(
        `<rect x="${round(x(from))}" y="${top}" width="${round(span)}" height="${height - 30 - top}" fill="${colours[kind]}" opacity="0.09"/>`,
      )
    }
  const step = length > 200 ? 30 : length > 90 ? 10 : 5
  for (let second = 0; second <= length; second += step) {
    const at = round(x(second * 1e9))
    parts.push(`<line x1="${at}" x2="${at}" y1="${top - 6}" y2="${height - 30}" stroke="#e5e7eb"/>`)
    text(at, height - 14, `${second} s`, 'text-anchor="middle" fill="#6b7280"')
  }
  for (const [lane, name] of names.entries()) {
    const y = top + lane * row
    text(left - 8, y + 9, name, 'text-anchor="end"')
    for (const { from, to, kind, target } of faults.filter(fault => fault.name === name)) {
      const span = Math.max(3, x(Math.min(to, length * 1e9)) - x(from))
      parts.push(
        `<rect x="${round(x(from))}" y="${y + 1}" width="${round(span)}" height="${row - 3}" rx="2" fill="${colours[kind]}"><title>${escaped(`${name}: ${target}, at ${(from / 1e9).toFixed(1)} s`)}</title></rect>`,
      )
    }
  }
  let bottom = top + names.length * row + between
  for (const { title, colour, perSecond } of curves) {
    const most = Math.max(1, ...perSecond)
    text(left - 8, bottom + curve / 2, title, 'text-anchor="end"')
    text(left - 8, bottom + curve / 2 + 13, `most: ${Math.round(most)}`, 'text-anchor="end" fill="#6b7280"')
    parts.push(
      `<line x1="${left}" x2="${width - right}" y1="${bottom + curve}" y2="${bottom + curve}" stroke="#9ca3af"/>`,
    )
    const bars = perSecond.map((value, second) => {
      const high = (curve * value) / most
      const span = x((second + 1) * 1e9) - x(second * 1e9)
      return high === 0
        ? ""
        : `M${round(x(second * 1e9))} ${bottom + curve}v${round(-high)}h${round(span - 1)}v${round(high)}z`
    })
    parts.push(`<path d="${bars.join("")}" fill="${colour}"/>`)
    bottom += curve + between
  }
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" font-family="system-ui, sans-serif" font-size="10.5" fill="#111827"><rect width="100%" height="100%" fill="#fff"/>\n${parts.join("\n")}\n</svg>\n`
}

function curvesOf(history: History, length: number): Curve[] {
  const sends = operationsOf(history).filter(isA("send"))
  const perSecond = (times: readonly number[]) => {
    const counts = Array<number>(length).fill(0)
    for (const at of times) if (Number.isFinite(at)) counts[Math.min(length - 1, Math.floor(at / 1e9))]! += 1
    return counts
  }
  const ended = (outcome: string) => sends.filter(send => send.outcome === outcome).map(({ to }) => to)
  const entered = (...types: string[]) => history.filter(({ type }) => types.includes(type)).map(({ at }) => at)
  return [
    { title: "acknowledged sends / s", colour: "#15803d", perSecond: perSecond(ended("ok")) },
    { title: "503 or no answer / s", colour: "#dc2626", perSecond: perSecond(ended("maybe")) },
    { title: "events to readers / s", colour: "#2563eb", perSecond: perSecond(entered("event")) },
    { title: "connections lost / s", colour: "#6b7280", perSecond: perSecond(entered("close")) },
    { title: "resumes / s", colour: "#0d9488", perSecond: perSecond(entered("resumed")) },
    { title: "new sessions / s", colour: "#9333ea", perSecond: perSecond(entered("ready")) },
  ]
}

const round = (value: number): number => Math.round(value * 10) / 10
const escaped = (words: string): string =>
  words.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;")
