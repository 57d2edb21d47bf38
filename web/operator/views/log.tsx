import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks"
import { Checkbox, Select, TextField, type Choices } from "../../kit/forms.tsx"
import { bytes } from "../../kit/format.ts"
import { useKeys } from "../../kit/keys.ts"
import { useResource } from "../../kit/resource.ts"
import { Empty, Loaded } from "../../kit/states.tsx"
import { count, t } from "../../kit/text.ts"
import { attempt } from "../../kit/toasts.tsx"
import { call } from "../client.ts"
import { Header } from "../header.tsx"
import type { LogLine } from "../wire.ts"

const levels: Choices<string> = ["", "TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"].map(
  level => [level, level || t("all")] as const,
)
const followEveryMs = 2_000
const settledAfterMs = 300
const pageLines = 500
/** Before these the server gives none. */
const reachableLines = 10_000

export function Log() {
  const files = useResource(signal => call("GET /logs", {}, { signal }), [])
  return (
    <>
      <Header
        title={t("Log")}
        about={t(
          "What the processes of this host wrote; times are UTC. Tokens, passwords and messages never stand in it.",
        )}
      />
      <Loaded of={files}>
        {files =>
          files.length === 0 ? (
            <Empty title={t("There is no log file.")} />
          ) : (
            <Lines files={files.map(({ filename, size }) => [filename, `${filename} (${bytes(size)})`] as const)} />
          )
        }
      </Loaded>
    </>
  )
}

/** `first`: the number of the first one. */
const noneOlder: { lines: readonly LogLine[]; first?: number } = { lines: [] }

function Lines({ files }: { files: Choices<string> }) {
  const [filename, setFilename] = useState(files[0]?.[0] ?? "")
  const [level, setLevel] = useState("")
  const [text, setText] = useState("")
  const [search, setSearch] = useState("")
  const [isFollowing, follow] = useState(true)
  const [older, setOlder] = useState(noneOlder)
  const [isWrapped, wrap] = useState(false)
  const input = useRef<HTMLDivElement>(null)
  const list = useRef<HTMLDivElement>(null)

  useEffect(() => {
    const timer = setTimeout(() => setSearch(text), settledAfterMs)
    return () => clearTimeout(timer)
  }, [text])
  useKeys(t("Log"), [
    { key: "/", does: t("Go to the search"), run: () => input.current?.querySelector("input")?.focus() },
    { key: "f", does: t("Follow, or stop"), run: () => follow(!isFollowing) },
    { key: "w", does: t("Wrap lines, or not"), run: () => wrap(!isWrapped) },
  ])

  const query = { ...(search && { search }), ...(level && { level }) }
  const tail = useResource(
    signal => call("GET /logs/:filename", { params: { filename }, query: { ...query, limit: pageLines } }, { signal }),
    [filename, search, level],
    isFollowing ? { everyMs: followEveryMs } : {},
  )
  useEffect(() => setOlder(noneOlder), [filename, search, level, isFollowing])

  const lines = [...older.lines, ...(tail.data?.lines ?? [])]
  const total = tail.data?.total_lines ?? 0
  const first = older.first ?? total - lines.length
  // Offset 0 means the end; the first line of all is reached only together with the second.
  const earliest = Math.max(1, total - reachableLines)
  const loadOlder = async () => {
    const found: LogLine[] = []
    let from: number | undefined
    // An answer may end early where lines are long, and begin later where the file has grown.
    for (let at = Math.max(earliest, first - pageLines); at < first;) {
      const page = await call("GET /logs/:filename", {
        params: { filename },
        query: { ...query, offset: at, limit: first - at },
      })
      const fresh = page.lines.slice(0, Math.max(0, first - page.offset))
      if (fresh.length === 0) break
      if (found.length === 0) from = page.offset
      found.push(...fresh)
      at = page.offset + fresh.length
    }
    setOlder(({ lines }) => ({ lines: [...found, ...lines], first: from ?? earliest }))
  }
  // What comes new is seen, unless somebody scrolled away from the end.
  const isAtEnd = useRef(true)
  useLayoutEffect(() => {
    if (isFollowing && isAtEnd.current && list.current) list.current.scrollTop = list.current.scrollHeight
  }, [lines.length, lines.at(-1)?.raw, isFollowing])

  return (
    <>
      <div class="bar" ref={input}>
        <Select label={t("File")} value={filename} choices={files} onValue={setFilename} />
        <Select label={t("Level")} value={level} choices={levels} onValue={setLevel} />
        <TextField label={t("Search")} type="search" value={text} onValue={setText} />
        <Checkbox label={t("Follow")} value={isFollowing} onValue={follow} />
        <Checkbox label={t("Wrap")} value={isWrapped} onValue={wrap} />
      </div>
      <p class="faint" role="status">
        {tail.data && count(tail.data.total_lines, "{n} line", "{n} lines")}
        {first > earliest && !isFollowing && (
          <>
            {" · "}
            <button type="button" class="small" onClick={() => void attempt(loadOlder)}>
              {t("Load older ones")}
            </button>
          </>
        )}
      </p>
      <Loaded of={tail}>
        {() =>
          lines.length === 0 ? (
            <Empty title={t("No line fits.")} />
          ) : (
            <div
              ref={list}
              class={isWrapped ? "log wrapped" : "log"}
              tabIndex={0}
              role="log"
              aria-live="off"
              aria-label={t("Lines, the latest last")}
              onScroll={({ currentTarget: one }) =>
                (isAtEnd.current = one.scrollTop + one.clientHeight > one.scrollHeight - 40)
              }
            >
              {lines.map((line, i) => (
                <div key={i - older.lines.length} class={`line ${line.level.toLowerCase()}`}>
                  <span class="faint">{line.timestamp}</span> <b>{line.level}</b> {line.message}
                </div>
              ))}
            </div>
          )
        }
      </Loaded>
    </>
  )
}
