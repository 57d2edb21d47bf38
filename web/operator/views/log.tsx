import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks"
import { Checkbox, Select, TextField, type Choices } from "../../kit/forms.tsx"
import { bytes } from "../../kit/format.ts"
import { useKeys } from "../../kit/keys.ts"
import { useResource } from "../../kit/resource.ts"
import { Empty, Loaded } from "../../kit/states.tsx"
import { count, t } from "../../kit/text.ts"
import { call } from "../client.ts"
import { Header } from "../header.tsx"
import type { LogLine } from "../wire.ts"

const levels: Choices<string> = ["", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"].map(
  level => [level, level || t("all")] as const,
)
const followEveryMs = 2_000
const settledAfterMs = 300
const pageLines = 500

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

function Lines({ files }: { files: Choices<string> }) {
  const [filename, setFilename] = useState(files[0]?.[0] ?? "")
  const [level, setLevel] = useState("")
  const [text, setText] = useState("")
  const [search, setSearch] = useState("")
  const [isFollowing, follow] = useState(true)
  const [older, setOlder] = useState<readonly LogLine[]>([])
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
  useEffect(() => setOlder([]), [filename, search, level, isFollowing])

  const lines = [...older, ...(tail.data?.lines ?? [])]
  const left = (tail.data?.total_lines ?? 0) - lines.length
  const loadOlder = async () => {
    const from = Math.max(0, left - pageLines)
    // Offset 0 means the end; the first line is reached only together with the second.
    const page = await call("GET /logs/:filename", {
      params: { filename },
      query: { ...query, offset: Math.max(1, from), limit: Math.max(1, Math.min(pageLines, left - Math.max(1, from))) },
    })
    setOlder([...page.lines, ...older])
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
        {left > 1 && !isFollowing && (
          <>
            {" · "}
            <button type="button" class="small" onClick={() => void loadOlder()}>
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
                <div key={older.length === 0 ? i : i - older.length} class={`line ${line.level.toLowerCase()}`}>
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
