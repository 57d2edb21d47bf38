import { sayFailed } from "../kit/toasts.tsx"
import { useEffect, useRef, useState } from "preact/hooks"
import type { MessageResponse, Snowflake, StickerResponse } from "../../client/contract.ts"
import { uploadInChunks } from "../../client/uploads.ts"
import { wordsOf } from "../kit/api.ts"
import { bytes } from "../kit/format.ts"
import { present } from "../kit/dialog.tsx"
import { useKeys } from "../kit/keys.ts"
import { t } from "../kit/text.ts"
import { draftIn, keepDraft } from "./drafts.ts"
import { emojis } from "./emoji.ts"
import { fileOf } from "./files.ts"
import { EmojiPicker } from "./emoji-picker.tsx"
import { nameIn } from "./names.ts"
import { send, type Input } from "./outbox.ts"
import { me, watch } from "./session.ts"
import { isPicture, stickerText, usePacks } from "./stickers.ts"
import { Icon } from "./icons.tsx"

interface ComposerOptions {
  readonly channel: Snowflake
  readonly server: Snowflake | undefined
  readonly prompt: string
  readonly replyTo: MessageResponse | undefined
  readonly onReplied: () => void
  readonly onEditLast: () => void
  /** Escape, where there is nothing to cancel. */
  readonly onLeave: () => void
  readonly onSent: () => void
}

/** A file that is chosen: on its way to the server, there, or refused. */
interface Chosen {
  readonly key: number
  readonly file: File
  readonly sent: number
  readonly id: string | undefined
  readonly failure: string | undefined
  readonly abort: AbortController
}

/** Others are told that somebody types, at most this often. */
const typingEveryMs = 5_000
let lastKey = 0

export function Composer({
  channel,
  server,
  prompt,
  replyTo,
  onReplied,
  onEditLast,
  onLeave,
  onSent,
}: ComposerOptions) {
  const { text, write } = useDraft(channel)
  const { files, add, drop, clearSent } = useFiles(channel)
  const [isPicking, pick] = useState(false)
  const field = useRef<HTMLTextAreaElement>(null)
  const completion = useCompletion(text, write, field, server)
  const isWaiting = files.some(({ id, failure }) => id === undefined && failure === undefined)
  const submit = () => {
    const content = text.trim()
    const attachments = files.flatMap(({ id }) => (id === undefined ? [] : [{ id }]))
    if (isWaiting || (content === "" && attachments.length === 0)) return
    post({ ...(content && { content }), ...(attachments.length > 0 && { attachments }) })
    write("")
    clearSent()
  }
  const post = (input: Input) => {
    send(channel, { ...input, ...(replyTo && { reply_to_id: replyTo.id }) })
    onReplied()
    onSent()
  }

  useHeight(field, text)
  useEffect(() => {
    if (replyTo) field.current?.focus()
  }, [replyTo])
  useDropped(add)
  useListedKeys()

  return (
    <form
      class="composer"
      onSubmit={event => {
        event.preventDefault()
        submit()
      }}
    >
      {replyTo && <Replying to={replyTo.author_username} onReplied={onReplied} />}
      {files.length > 0 && (
        <ul class="chosen">
          {files.map(one => (
            <ChosenFile key={one.key} one={one} onDrop={() => drop(one)} />
          ))}
        </ul>
      )}
      {completion.list}
      <div class="line">
        <FileButton onFiles={add} />
        <PollButton channel={channel} />
        <textarea
          ref={field}
          rows={1}
          dir="auto"
          value={text}
          placeholder={prompt}
          aria-label={prompt}
          {...completion.aria}
          onInput={event => {
            write(event.currentTarget.value)
            completion.look()
          }}
          onSelect={completion.look}
          onPaste={event => {
            const pasted = event.clipboardData?.files
            if (!pasted?.length) return
            event.preventDefault()
            add(pasted)
          }}
          onKeyDown={event => {
            if (event.isComposing || completion.takes(event)) return
            if (event.key === "Enter" && !event.shiftKey) {
              event.preventDefault()
              submit()
            } else if (event.key === "ArrowUp" && text === "") {
              event.preventDefault()
              onEditLast()
            } else if (event.key === "Escape") {
              if (replyTo) onReplied()
              else onLeave()
            }
          }}
        />
        <button
          type="button"
          class="quiet"
          aria-label={t("Add an emoji")}
          title={t("Add an emoji")}
          onClick={() => pick(!isPicking)}
        >
          <Icon name="smile" />
        </button>
        <StickerButton server={server} onPick={sticker => post({ content: stickerText(sticker) })} />
        <button
          type="submit"
          class="strong send"
          disabled={isWaiting || (text.trim() === "" && !files.some(({ id }) => id))}
        >
          {t("Send")}
        </button>
        {isPicking && (
          <EmojiPicker
            onClose={() => pick(false)}
            onPick={emoji => {
              pick(false)
              insert(emoji, field.current, write)
            }}
          />
        )}
      </div>
    </form>
  )
}

/** After the text has been rendered. */
const putCursor = (field: HTMLTextAreaElement, place: number) =>
  requestAnimationFrame(() => field.setSelectionRange(place, place))

/** Where the cursor is, in place of what is selected. */
function insert(what: string, field: HTMLTextAreaElement | null, write: (text: string) => void): void {
  if (!field) return
  const { value, selectionStart: from, selectionEnd: to } = field
  write(`${value.slice(0, from)}${what}${value.slice(to)}`)
  field.focus()
  putCursor(field, from + what.length)
}

/** A poll is a message of its own. */
const PollButton = ({ channel }: { channel: Snowflake }) => (
  <button
    type="button"
    class="quiet"
    aria-label={t("Make a poll")}
    title={t("Make a poll")}
    onClick={() => makePoll(channel)}
  >
    <Icon name="poll" />
  </button>
)

const makePoll = (channel: Snowflake) =>
  present(async () => {
    const { PollMaker } = await import("./dialogs.ts")
    return onClose => <PollMaker channel={channel} onClose={onClose} />
  })

interface StickerOptions {
  readonly server: Snowflake | undefined
  readonly onPick: (sticker: StickerResponse) => void
}

/** A sticker is a message of its own, too. There is no button where there is none to send. */
function StickerButton({ server, onPick }: StickerOptions) {
  if (!usePacks(server).some(({ stickers }) => stickers.some(isPicture))) return null
  const choose = () =>
    present(async () => {
      const { StickerPicker } = await import("./dialogs.ts")
      return onClose => <StickerPicker server={server} onPick={onPick} onClose={onClose} />
    })
  return (
    <button type="button" class="quiet" aria-label={t("Send a sticker")} title={t("Send a sticker")} onClick={choose}>
      <Icon name="sticker" />
    </button>
  )
}

const Replying = ({ to, onReplied }: { to: string; onReplied: () => void }) => (
  <p class="replying">
    {t("Reply to {name}", { name: to })}
    <button type="button" class="quiet small" aria-label={t("Do not reply")} onClick={onReplied}>
      ×
    </button>
  </p>
)

/** As high as what is written in it, up to a limit. */
function useHeight(field: { readonly current: HTMLTextAreaElement | null }, text: string): void {
  useEffect(() => {
    const { current } = field
    if (!current) return
    current.style.height = "auto"
    current.style.height = `${Math.min(current.scrollHeight + 2, 240)}px`
  }, [text])
}

/** For the list of keys: the field takes them itself. */
const useListedKeys = () =>
  useKeys(t("Writing"), [
    { key: "Enter", does: t("Send") },
    { key: "Shift Enter", does: t("New line") },
    { key: "↑", does: t("Edit the last message") },
    { key: "@ # :", does: t("People, channels, emoji") },
  ])

/** What is being written: kept while the tab is open, and others are told that it goes on. */
function useDraft(channel: Snowflake) {
  const [text, setText] = useState(draftIn(channel))
  const typedAt = useRef(-Infinity)
  const write = (value: string) => {
    setText(value)
    keepDraft(channel, value)
    if (value && performance.now() - typedAt.current > typingEveryMs) {
      typedAt.current = performance.now()
      // Where the connection is away nobody is told.
      if (me().store.connection === "live") me().gateway.typing(channel)
    }
  }
  return { text, write }
}

/** Files that will be part of the message; they are sent to the server at once. */
function useFiles(channel: Snowflake) {
  const [files, setFiles] = useState<readonly Chosen[]>([])
  const add = (list: Iterable<File>) => {
    for (const file of list) {
      const rest = { sent: 0, id: undefined, failure: undefined, abort: new AbortController() }
      const one: Chosen = { key: ++lastKey, file, ...rest }
      setFiles(before => [...before, one].slice(0, 10))
      upload(one, channel, change =>
        setFiles(before => before.map(other => (other.key === one.key ? { ...other, ...change } : other))),
      ).catch(sayFailed)
    }
  }
  const drop = ({ key, abort }: Chosen) => {
    abort.abort()
    setFiles(before => before.filter(one => one.key !== key))
  }
  // What failed is not in the message: it stays, with why, until the person has seen it.
  const clearSent = () => setFiles(before => before.filter(({ id }) => id === undefined))
  return { files, add, drop, clearSent }
}

function FileButton({ onFiles }: { onFiles: (files: Iterable<File>) => void }) {
  const picker = useRef<HTMLInputElement>(null)
  const title = t("Add a file")
  return (
    <>
      <button type="button" class="quiet" aria-label={title} title={title} onClick={() => picker.current?.click()}>
        <Icon name="plus" />
      </button>
      <input
        ref={picker}
        type="file"
        multiple
        hidden
        onChange={event => {
          onFiles(event.currentTarget.files ?? [])
          event.currentTarget.value = ""
        }}
      />
    </>
  )
}

/** Small files go in one request, others in chunks that survive a broken connection. */
const inOneRequestBytes = 4 * 1024 * 1024

async function upload(
  { file, abort }: Chosen,
  channel: Snowflake,
  change: (to: Partial<Chosen>) => void,
): Promise<void> {
  const { client } = me()
  try {
    if (file.size <= inOneRequestBytes) {
      const input = { channel_id: channel, file: await fileOf(file) }
      const { id } = await client.uploadAttachment(input, { signal: abort.signal })
      change({ id, sent: file.size })
      return
    }
    const { id } = await uploadInChunks(client, {
      source: file,
      filename: file.name,
      ...(file.type && { contentType: file.type }),
      signal: abort.signal,
      onProgress: ({ sent }) => change({ sent }),
    })
    change({ id })
  } catch (error) {
    if (!abort.signal.aborted) change({ failure: wordsOf(error) })
  }
}

function ChosenFile({ one, onDrop }: { one: Chosen; onDrop: () => void }) {
  const { file, sent, id, failure } = one
  const [preview, setPreview] = useState<string>()
  useEffect(() => {
    if (!file.type.startsWith("image/")) return
    const url = URL.createObjectURL(file)
    setPreview(url)
    return () => URL.revokeObjectURL(url)
  }, [file])
  return (
    <li>
      {preview !== undefined && <img src={preview} alt="" />}
      <span class="long">{file.name}</span> <small>{bytes(file.size)}</small>
      {failure !== undefined ? (
        <span class="failure" role="alert">
          {failure}
        </span>
      ) : (
        id === undefined && (
          <progress max={file.size} value={sent} aria-label={t("Uploading {name}", { name: file.name })} />
        )
      )}
      <button type="button" class="quiet small" aria-label={t("Remove {name}", { name: file.name })} onClick={onDrop}>
        ×
      </button>
    </li>
  )
}

/** Files may be dropped anywhere on the page. */
function useDropped(add: (files: Iterable<File>) => void): void {
  const latest = useRef(add)
  latest.current = add
  useEffect(() => {
    const over = (event: DragEvent) => {
      if (event.dataTransfer?.types.includes("Files")) event.preventDefault()
    }
    const dropped = (event: DragEvent) => {
      if (!event.dataTransfer?.files.length) return
      event.preventDefault()
      latest.current(event.dataTransfer.files)
    }
    addEventListener("dragover", over)
    addEventListener("drop", dropped)
    return () => {
      removeEventListener("dragover", over)
      removeEventListener("drop", dropped)
    }
  }, [])
}

interface Candidate {
  readonly key: string
  readonly shown: string
  readonly inserted: string
}

/** Names after `@`, channels after `#`, emoji after `:`. */
function useCompletion(
  text: string,
  write: (text: string) => void,
  field: { readonly current: HTMLTextAreaElement | null },
  server: Snowflake | undefined,
) {
  const [begun, setBegun] = useState<{ mark: string; word: string; from: number }>()
  const [chosen, choose] = useState(0)
  const candidates = begun ? candidatesFor(begun, server) : []
  const look = () => {
    const { current } = field
    const upTo = current ? current.value.slice(0, current.selectionStart) : ""
    const found = /(?:^|\s)([@#:])([\p{L}\p{N}_.-]{0,32})$/u.exec(upTo)
    const isEnough = found && (found[1] !== ":" || found[2]!.length >= 2)
    setBegun(
      isEnough
        ? { mark: found[1]!, word: found[2]!.toLowerCase(), from: upTo.length - found[2]!.length - 1 }
        : undefined,
    )
    choose(0)
  }
  const take = (candidate: Candidate) => {
    const { current } = field
    if (!begun || !current) return
    const rest = text.slice(current.selectionStart)
    write(`${text.slice(0, begun.from)}${candidate.inserted} ${rest}`)
    setBegun(undefined)
    putCursor(current, begun.from + candidate.inserted.length + 1)
  }
  const isOpen = candidates.length > 0
  return {
    look,
    aria: isOpen
      ? ({
          "aria-autocomplete": "list",
          "aria-controls": "completions",
          "aria-activedescendant": `completion-${chosen}`,
        } as const)
      : {},
    /** Whether the key is about the list. */
    takes(event: KeyboardEvent): boolean {
      if (!isOpen) return false
      const { key } = event
      if (key === "ArrowDown") choose((chosen + 1) % candidates.length)
      else if (key === "ArrowUp") choose((chosen + candidates.length - 1) % candidates.length)
      else if (key === "Enter" || key === "Tab") take(candidates[chosen]!)
      else if (key === "Escape") setBegun(undefined)
      else return false
      event.preventDefault()
      return true
    },
    list: isOpen && (
      <ul class="completions" id="completions" role="listbox" aria-label={t("Suggestions")}>
        {candidates.map((candidate, i) => (
          <li
            key={candidate.key}
            id={`completion-${i}`}
            role="option"
            aria-selected={i === chosen}
            onPointerDown={event => {
              event.preventDefault()
              take(candidate)
            }}
          >
            {candidate.shown}
          </li>
        ))}
      </ul>
    ),
  }
}

const maxCandidates = 8

function candidatesFor({ mark, word }: { mark: string; word: string }, server: Snowflake | undefined): Candidate[] {
  const known = server === undefined ? undefined : watch(`server ${server}`).state.servers.get(server)
  const fits = (name: string) => name.toLowerCase().includes(word)
  if (mark === ":") {
    const own = (known?.emojis ?? []).filter(({ name }) => fits(name))
    const common = emojis.filter(([, words]) =>
      `${words} ${t(words)}`
        .toLowerCase()
        .split(" ")
        .some(one => one.startsWith(word)),
    )
    return [
      ...own.map(({ id, name }) => ({ key: id, shown: `:${name}:`, inserted: `<:${name}:${id}>` })),
      ...common.map(([emoji, words]) => ({ key: emoji, shown: `${emoji} ${t(words)}`, inserted: emoji })),
    ].slice(0, maxCandidates)
  }
  if (!known) return []
  if (mark === "#")
    return [...known.channels.values()]
      .filter(({ name, type }) => type !== "category" && fits(name))
      .slice(0, maxCandidates)
      .map(({ id, name }) => ({ key: id, shown: `#${name}`, inserted: `<#${id}>` }))
  const found: Candidate[] = []
  for (const [id, member] of known.members) {
    if (!fits(member.username) && !fits(member.nickname ?? "")) continue
    found.push({ key: id, shown: `@${nameIn(known, id, member.username)}`, inserted: `<@${id}>` })
    if (found.length === maxCandidates) break
  }
  return found
}
