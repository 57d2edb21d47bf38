import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks"
import type { MessageResponse, Snowflake } from "../../client/contract.ts"
import { useKeys } from "../kit/keys.ts"
import { count, t } from "../kit/text.ts"
import { say, sayFailed } from "../kit/toasts.tsx"
import { dayName, dayOf } from "./clock.ts"
import { seenAmong, type Seen } from "./heard.ts"
import { Composer } from "./composer.tsx"
import { usePermissions } from "./may.ts"
import { MessageRow, OutgoingRow, type Rights } from "./message.tsx"
import { focusedMessage, useMessageKeys } from "./message-keys.ts"
import { nameIn } from "./names.ts"
import { comesBack } from "./offline/as-of.tsx"
import { keepPlace, useOpening, type Opening } from "./opening.ts"
import { outgoing } from "./outbox.ts"
import { me, ownId, watch } from "./session.ts"
import { SpokenMessages } from "./spoken.tsx"
import { Timeline } from "./timeline.ts"

interface ConversationOptions {
  readonly channel: Snowflake
  readonly server: Snowflake | undefined
  /** What the field says in which one writes. */
  readonly prompt: string
  /** Why the person cannot write here, beside what the channel allows them. */
  readonly closed?: string | undefined
  /** A message to show, from a link or a search. */
  readonly target: Snowflake | undefined
}

/** So near to the end a person counts as reading the newest messages. In pixels. */
const nearPx = 80
/** So near to an edge of what is shown more is read. */
const edgePx = 400
/** Messages of one author within so many seconds stand together. */
const togetherSeconds = 420

/** The messages of a channel or DM, and where one writes. */
export function Conversation({ channel, server, prompt, closed: shut, target }: ConversationOptions) {
  const timeline = useMemo(() => new Timeline(channel), [channel])
  useEffect(() => () => timeline.close(), [timeline])
  const [replyTo, setReplyTo] = useState<MessageResponse>()
  const [editing, setEditing] = useState<Snowflake>()
  const { jump, marked } = useJump(timeline, target)
  const opening = useOpening(timeline, target)
  const messages = opening && timeline.messages()
  const { isRestored: isUnavailable, connection } = watch("connection")
  const isOver = connection === "closed" && !comesBack(me().outage.value)
  const rights = useRights(channel, server)
  const closed =
    shut ??
    (isOver ? t("Read only: not connected") : rights.mayWrite ? undefined : t("You may not write in this channel."))
  const scroller = useRef<HTMLDivElement>(null)
  const isFollowing = useScroll({ scroller, timeline, messages, opening })
  useEffect(() => {
    timeline.isFollowed = isFollowing
  }, [timeline])

  // A row is rendered again when an option of it changes: this stays the same, and `jump`.
  const edit = useCallback((message: MessageResponse | undefined) => {
    setEditing(message?.id)
    if (!message) field()?.focus()
  }, [])
  useAcknowledging(channel, messages?.at(-1)?.id, () => timeline.isAtEnd && isFollowing())

  const toEnd = () => {
    timeline.toEnd()
    requestAnimationFrame(() => {
      const { current } = scroller
      if (current) current.scrollTop = current.scrollHeight
    })
  }
  useKeys(t("Conversation"), [
    { key: "e", does: t("Go to the newest messages"), run: toEnd },
    { key: "r", does: t("Write, or reply to the message with the focus"), run: write },
  ])
  const { onKeyDown, toMessages } = useMessageKeys(scroller)
  useKeptFocus(scroller)
  const editLast = () => {
    const own = ownId()
    const last = timeline.messages()?.findLast(one => one.author_id === own && one.webhook_id === undefined)
    if (last) setEditing(last.id)
  }
  const waiting = timeline.isAtEnd ? outgoing(channel) : []
  return (
    <section class="conversation" aria-label={prompt}>
      <div
        class="scroller"
        ref={scroller}
        tabIndex={0}
        role="log"
        aria-label={t("Messages")}
        aria-live="off"
        onKeyDown={onKeyDown}
      >
        <div class="lines">
          {messages === undefined ? (
            <Missing isUnavailable={isUnavailable} />
          ) : (
            <>
              {timeline.hasOlder ? <p class="loading">{t("Loading …")}</p> : <Beginning />}
              {rowsOf({ messages, server, editing, marked, firstUnread: opening?.firstUnread }).map(row =>
                row.kind === "day" ? (
                  <Divider key={row.key} class="day" text={row.text} />
                ) : row.kind === "unread" ? (
                  <Divider key="unread" class="unread-line" id="unread" text={t("New")} />
                ) : row.kind === "seen" ? (
                  <SeenMark key="seen" by={row.by} isDirect={server === undefined} />
                ) : (
                  <MessageRow
                    key={row.message.id}
                    {...row}
                    rights={rights}
                    onReply={setReplyTo}
                    onEdit={edit}
                    onJump={jump}
                  />
                ),
              )}
              {waiting.map(one => (
                <OutgoingRow key={one.nonce} one={one} server={server} />
              ))}
            </>
          )}
        </div>
      </div>
      {!timeline.isAtEnd && (
        <button type="button" class="to-end" onClick={leaveOlder}>
          {t("You are looking at older messages. Go to the newest")} ↓
        </button>
      )}
      <Typing channel={channel} server={server} />
      <SpokenMessages messages={messages} server={server} />
      {closed === undefined ? (
        <Composer
          key={channel}
          channel={channel}
          server={server}
          prompt={prompt}
          replyTo={replyTo}
          onReplied={() => setReplyTo(undefined)}
          onEditLast={editLast}
          onLeave={toMessages}
          onSent={toEnd}
        />
      ) : (
        <p class="composer closed">{closed}</p>
      )}
    </section>
  )

  function write(): void {
    const id = focusedMessage()
    const message = timeline.messages()?.find(one => one.id === id)
    if (message && closed === undefined) setReplyTo(message)
    // At once: the next key is about it already.
    field()?.focus()
  }
  function leaveOlder(): void {
    toEnd()
    // The button that was pressed is gone.
    scroller.current?.focus()
  }
}

/** Leads to a message with what stands around it: to the one that a link or a search is about, at once. */
function useJump(timeline: Timeline, target: Snowflake | undefined) {
  const [marked, mark] = useState<Snowflake>()
  const jump = useCallback(
    (id: Snowflake) => {
      const show = async () => {
        if (!(await timeline.jump(id))) return void say(t("This message is not there any more."))
        mark(id)
        requestAnimationFrame(() => document.getElementById(`message-${id}`)?.scrollIntoView({ block: "center" }))
        setTimeout(() => mark(now => (now === id ? undefined : now)), 3_000)
      }
      show().catch(sayFailed)
    },
    [timeline],
  )
  useEffect(() => {
    if (target === undefined) return
    jump(target)
    // Who follows the same link again is led there again.
    const { hash } = location
    const again = () => location.hash === hash && jump(target)
    addEventListener("hashchange", again)
    return () => removeEventListener("hashchange", again)
  }, [target, timeline])
  return { jump, marked }
}

/** In a DM both may do what is no moderation; of a channel it is not known at once. */
function useRights(channel: Snowflake, server: Snowflake | undefined): Rights {
  const may = usePermissions(server, channel)
  const mayWrite = may?.["messages.send"] !== false
  const mayReact = may?.["messages.add_reactions"] !== false
  const mayDelete = may?.["messages.manage"] === true
  const mayPin = mayDelete || server === undefined
  // A row is rendered again when an option of it changes: this stays the same.
  return useMemo(() => ({ mayWrite, mayReact, mayPin, mayDelete }), [mayWrite, mayReact, mayPin, mayDelete])
}

const field = () => document.querySelector<HTMLElement>(".composer textarea")

const Divider = ({ text, ...rest }: { text: string; class: string; id?: string }) => (
  <p {...rest}>
    <span>{text}</span>
  </p>
)

const maxNames = 3
function SeenMark({ by: { names, count: n }, isDirect }: { by: Seen; isDirect: boolean }) {
  const isShort = n === names.length && n <= maxNames
  return (
    <p class="seen faint" title={names.slice(0, 100).join(", ")}>
      {isDirect
        ? t("Seen")
        : isShort
          ? t("Seen by {names}", { names: names.join(", ") })
          : count(n, "Seen by {n} person", "Seen by {n} people")}
    </p>
  )
}

const Missing = ({ isUnavailable }: { isUnavailable: boolean }) => (
  <p class="loading">
    {isUnavailable ? t("Nothing of this is kept here. It comes with the connection.") : t("Loading …")}
  </p>
)

const Beginning = () => <p class="beginning">{t("This is where it begins.")}</p>

type Row =
  | { readonly kind: "day"; readonly key: string; readonly text: string }
  | { readonly kind: "unread" }
  | { readonly kind: "seen"; readonly by: Seen }
  | {
      readonly kind: "message"
      readonly message: MessageResponse
      readonly server: Snowflake | undefined
      readonly isContinued: boolean
      readonly isMarked: boolean
      readonly isEditing: boolean
      readonly repliedTo: MessageResponse | undefined
    }

interface Shown {
  readonly messages: readonly MessageResponse[]
  readonly server: Snowflake | undefined
  readonly editing: Snowflake | undefined
  readonly marked: Snowflake | undefined
  readonly firstUnread: Snowflake | undefined
}

function rowsOf({ messages, server, editing, marked, firstUnread }: Shown): Row[] {
  const byId = new Map(messages.map(message => [message.id, message]))
  const rows: Row[] = []
  const seen = seenAmong(messages, server)
  let before: MessageResponse | undefined
  for (const message of messages) {
    const isNewDay = !before || dayOf(before.created_at) !== dayOf(message.created_at)
    if (isNewDay) rows.push({ kind: "day", key: `day ${message.id}`, text: dayName(message.created_at) })
    if (message.id === firstUnread) rows.push({ kind: "unread" })
    rows.push({
      kind: "message",
      message,
      server,
      isContinued:
        !isNewDay &&
        message.id !== firstUnread &&
        before?.author_id === message.author_id &&
        message.reply_to_id === null &&
        message.created_at - before.created_at < togetherSeconds,
      isMarked: message.id === marked,
      isEditing: message.id === editing,
      repliedTo: message.reply_to_id === null ? undefined : byId.get(message.reply_to_id),
    })
    if (message.id === seen?.id) rows.push({ kind: "seen", by: seen })
    before = message
  }
  return rows
}

interface ScrollOptions {
  readonly scroller: { readonly current: HTMLDivElement | null }
  readonly timeline: Timeline
  readonly messages: readonly MessageResponse[] | undefined
  readonly opening: Opening | undefined
}

/**
 * Who reads the newest messages stays with them; who has scrolled away keeps their place, also
 * when older messages come in above. @returns whether the newest are in sight
 */
function useScroll({ scroller, timeline, messages, opening }: ScrollOptions): () => boolean {
  const isFollowing = useRef(true)
  /** Where we have put it last: who is above that has moved it, before the browser says so. */
  const put = useRef(0)
  const toBottom = (element: HTMLElement) => {
    element.scrollTop = element.scrollHeight
    put.current = element.scrollTop
  }
  const follows = (element: HTMLElement) => {
    if (element.scrollTop < put.current - nearPx) isFollowing.current = false
    return isFollowing.current && timeline.isAtEnd
  }
  // What is shown is still what was: the line that one reads, and where it stands.
  const anchor = scroller.current && !follows(scroller.current) ? firstShown(scroller.current) : undefined
  const isOpened = useRef(false)

  useLayoutEffect(() => {
    const { current } = scroller
    if (!current || !messages) return
    if (!isOpened.current) {
      isOpened.current = true
      const line = current.querySelector("#unread")
      if (opening?.place) stay(current, `message-${opening.place.id}`, opening.place.topPx)
      else if (line) line.scrollIntoView({ block: "center" })
      else toBottom(current)
      put.current = current.scrollTop
      isFollowing.current = isNearEnd(current)
    } else if (follows(current)) {
      toBottom(current)
      timeline.trim()
    } else if (anchor) stay(current, anchor.id, anchor.topPx)
    // Who is at the beginning already cannot scroll to it.
    if (current.scrollTop < edgePx && timeline.hasOlder) timeline.older().catch(sayFailed)
  })

  useEffect(() => {
    const { current } = scroller
    if (!current) return
    const note = () => {
      isFollowing.current = isNearEnd(current)
      put.current = current.scrollTop
      if (current.scrollTop < edgePx && timeline.hasOlder) timeline.older().catch(sayFailed)
      else if (!timeline.isAtEnd && current.scrollHeight - current.scrollTop - current.clientHeight < edgePx)
        timeline.newer().catch(sayFailed)
    }
    // Pictures that arrive, a field that grows, a keyboard that opens.
    const observer = new ResizeObserver(() => {
      if (follows(current)) toBottom(current)
    })
    observer.observe(current)
    if (current.firstElementChild) observer.observe(current.firstElementChild)
    current.addEventListener("scroll", note, { passive: true })
    // The browser may have told of the first scroll before: messages that are hardly longer than the window stay near both ends.
    note()
    return () => {
      observer.disconnect()
      current.removeEventListener("scroll", note)
    }
  }, [timeline, messages === undefined])

  // Who comes back to the channel finds it as they left it.
  useLayoutEffect(
    () => () => {
      const { current } = scroller
      if (!current || !isOpened.current) return
      const row = follows(current) ? undefined : firstShown(current)
      keepPlace(timeline.channel, row && { id: row.id.replace("message-", ""), topPx: row.topPx })
    },
    [timeline],
  )
  return () => isFollowing.current
}

/** Puts a line where it stood: so far below the edge of the scroller. */
function stay(scroller: HTMLElement, id: string, topPx: number): void {
  const line = document.getElementById(id)
  const moved = line ? line.getBoundingClientRect().top - scroller.getBoundingClientRect().top - topPx : 0
  if (moved !== 0) scroller.scrollTop += moved
}

function firstShown(scroller: HTMLElement): { id: string; topPx: number } | undefined {
  const { top } = scroller.getBoundingClientRect()
  const rows = scroller.querySelectorAll<HTMLElement>(".message[id]")
  let [low, high] = [0, rows.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if (rows[middle]!.getBoundingClientRect().bottom > top) high = middle
    else low = middle + 1
  }
  const row = rows[low]
  return row && { id: row.id, topPx: row.getBoundingClientRect().top - top }
}

const isNearEnd = (element: HTMLElement) => element.scrollHeight - element.scrollTop - element.clientHeight < nearPx

/** When the message is gone that had the focus, what is around it has. */
function useKeptFocus(scroller: { readonly current: HTMLElement | null }): void {
  const hadFocus = scroller.current?.contains(document.activeElement) === true
  useLayoutEffect(() => {
    if (hadFocus && document.activeElement === document.body) scroller.current?.focus({ preventScroll: true })
  })
}

const ackAfterMs = 1_500
/** Tells the server what was read: the newest message that is in sight, a while after it came. */
function useAcknowledging(channel: Snowflake, newest: Snowflake | undefined, isSeen: () => boolean): void {
  const { unread } = watch("unread").state
  const latest = useRef({ newest, isSeen })
  latest.current = { newest, isSeen }
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined)
  const acknowledge = useCallback(() => {
    timer.current = undefined
    const { newest, isSeen } = latest.current
    const entry = me().store.state.unread.get(channel)
    if (newest === undefined || !entry || document.hidden || !document.hasFocus() || !isSeen()) return
    me()
      .client.ackMessages({ channel_id: channel, message_id: newest })
      .catch(() => {})
  }, [channel])
  // Not put off by each message: where they never stop it would never be told.
  useEffect(() => {
    timer.current ??= setTimeout(acknowledge, ackAfterMs)
  }, [newest, unread.get(channel)?.count])
  useEffect(() => {
    addEventListener("focus", acknowledge)
    return () => {
      clearTimeout(timer.current)
      removeEventListener("focus", acknowledge)
    }
  }, [acknowledge])
}

function Typing({ channel, server }: { channel: Snowflake; server: Snowflake | undefined }) {
  const { state } = watch(`channel ${channel}`)
  const known = server === undefined ? undefined : state.servers.get(server)
  const own = ownId()
  const names = [...state.typing]
    .map(entry => entry.split(" "))
    .filter(([where, user]) => where === channel && user !== own)
    .map(([, user]) => nameIn(known, user!, state.directs.get(channel)?.recipient?.username ?? t("somebody")))
  return (
    <p class="typing" aria-live="polite">
      {names.length === 0
        ? " "
        : names.length > 3
          ? t("Several people are typing …")
          : count(names.length, "{names} is typing …", "{names} are typing …", { names: names.join(", ") })}
    </p>
  )
}
