import { useEffect, useRef, useState } from "preact/hooks"
import type { Snowflake } from "../../client/contract.ts"
import { present, Questions } from "../kit/dialog.tsx"
import { useKeys } from "../kit/keys.ts"
import { go } from "../kit/router.ts"
import { msgid, t } from "../kit/text.ts"
import { Toasts } from "../kit/toasts.tsx"
import { watchActivity } from "./activity.ts"
import { Bell } from "./bell.tsx"
import { ChannelList } from "./channel-list.tsx"
import { Conversation } from "./conversation.tsx"
import { DirectList } from "./direct-list.tsx"
import { Friends } from "./friends.tsx"
import { Joining, inviteInPath } from "./invite.tsx"
import { KeyList } from "../kit/key-list.tsx"
import { listen } from "./heard.ts"
import { later } from "./later.tsx"
import { Members } from "./members.tsx"
import { followMutes, shown } from "./mutes.ts"
import { keepSubscribed, notify } from "./notifications.ts"
import { AsOf, comesBack } from "./offline/as-of.tsx"
import { forgetPlaces } from "./opening.ts"
import { forgetAll, sendKept } from "./outbox.ts"
import { Palette } from "./palette.tsx"
import { Pins } from "./pins.tsx"
import { goTo, where, type Where } from "./places.ts"
import { Presence } from "./presence.tsx"
import { Rail } from "./rail.tsx"
import { Search } from "./search.tsx"
import { me, onLeave, watch } from "./session.ts"
import { Settings } from "./settings/settings.tsx"
import { Icon } from "./icons.tsx"
import { isForVoice, type KnownServer } from "../../client/state.ts"
import { CallBar, VoiceChannel } from "./voice/voice-channel.tsx"

/** Everything that a person sees who is signed in. */
export function Shell() {
  const place = where()
  const [invite, setInvite] = useState(inviteInPath())
  const [isSearching, search] = useState(false)
  const [isFinding, find] = useState(false)
  const [isListing, list] = useState(false)
  /** Of which channel what is pinned is shown. */
  const [pinned, showPinned] = useState<Snowflake>()
  const panels = usePanels(place)
  useOpened(place)
  useEffect(() => {
    const session = me()
    listen(session)
    notify(session)
    followMutes(session)
    keepSubscribed(session)
    sendKept(session).catch(() => {})
    onLeave(forgetAll)
    onLeave(forgetPlaces)
    return watchActivity(session)
  }, [])
  useKeys(t("Everywhere"), [
    { key: "Ctrl k", does: t("Go to a channel, a person, a server") },
    { key: "/", does: t("Search messages"), run: () => search(true) },
    { key: "?", does: t("List the keys"), run: () => list(true) },
    { key: "g h", does: t("Direct messages and friends"), run: () => go([]) },
    { key: "g s", does: t("Settings"), run: () => go(["settings"]) },
  ])
  useEffect(() => {
    const open = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
        event.preventDefault()
        find(true)
      }
    }
    addEventListener("keydown", open)
    return () => removeEventListener("keydown", open)
  }, [])

  if (invite !== undefined) return <Joining code={invite} onDone={() => setInvite(undefined)} />
  return (
    <div class={`app ${panels.open ?? ""}`} onKeyDown={panels.onKeyDown}>
      <a class="skip" href="#content">
        {t("Skip to the messages")}
      </a>
      <nav class="lists" aria-label={t("Servers and channels")}>
        <Rail />
        <div class="sidebar">
          {place.view === "server" || place.view === "serverSettings" ? (
            <ChannelList server={place.server} current={place.view === "server" ? place.channel : undefined} />
          ) : (
            <DirectList current={place.view === "direct" ? place.channel : undefined} />
          )}
          <CallBar looksAt={place.view === "server" ? place.channel : undefined} />
          <OwnLine />
        </div>
      </nav>
      <main id="content" tabIndex={-1} onClick={panels.onAside}>
        <Header place={place} onPanel={panels.toggle} onSearch={() => search(true)} onPinned={showPinned} />
        <View place={place} />
      </main>
      {place.view === "server" && <Members server={place.server} />}
      {isSearching && <Search place={place} onClose={() => search(false)} />}
      {pinned !== undefined && <Pins channel={pinned} onClose={() => showPinned(undefined)} />}
      {isFinding && <Palette onClose={() => find(false)} />}
      {isListing && <KeyList onClose={() => list(false)} />}
      <Questions />
      <Toasts />
      <Title place={place} />
    </div>
  )
}

function View({ place }: { place: Where }) {
  switch (place.view) {
    case "home":
      return <Friends />
    case "settings":
      return <Settings part={place.part} />
    case "addBot":
      return <AddBot key={place.bot} bot={place.bot} />
    case "serverSettings":
      return <ServerSettings server={place.server} part={place.part} item={place.item} />
    case "direct": {
      const direct = watch("directs").state.directs.get(place.channel)
      const name = direct?.recipient?.username
      const { relationships } = watch("relationships").state
      const isBlocked = direct !== undefined && relationships.get(direct.recipient_id)?.status === "blocked"
      const prompt = name === undefined ? t("Your notes") : t("Message {name}", { name: `@${name}` })
      return (
        <Conversation
          key={place.channel}
          channel={place.channel}
          server={undefined}
          prompt={prompt}
          closed={isBlocked ? t("You have blocked {name}.", { name: name ?? "" }) : undefined}
          target={place.message}
        />
      )
    }
    case "server":
      return <ServerView server={place.server} channel={place.channel} message={place.message} />
  }
}

const ServerSettings = later(async () => (await import("./server-settings/server-settings.tsx")).ServerSettings)
const AddBot = later(async () => (await import("./dialogs.ts")).AddBot)

function ServerView({
  server,
  channel,
  message,
}: {
  server: Snowflake
  channel: Snowflake | undefined
  message: Snowflake | undefined
}) {
  const { state } = watch("servers", `server ${server}`)
  // It is read anew after READY: until then it stays as it was known.
  const before = useRef<{ readonly server: Snowflake; readonly known: KnownServer }>(undefined)
  const current = state.servers.get(server)
  if (current) before.current = { server, known: current }
  const known = before.current?.server === server ? before.current.known : undefined
  // Who opens a server is led to its first channel.
  useEffect(() => {
    const first =
      known &&
      [...known.channels.values()]
        .filter(({ type }) => type === "text" || type === "announcement")
        .toSorted((one, other) => one.position - other.position)[0]
    if (channel === undefined && first) goTo({ server, channel: known.facts.default_channel_id ?? first.id })
  }, [server, channel, known])
  if (!state.servers.has(server)) return <p class="empty">{t("You are not in this server.")}</p>
  if (!known || channel === undefined) return <p class="loading">{t("Loading …")}</p>
  const facts = known.channels.get(channel)
  if (!facts) return <p class="empty">{t("This channel is not there, or you may not view it.")}</p>
  if (facts.type === "category") return <p class="empty">{facts.name}</p>
  if (isForVoice(facts)) return <VoiceChannel key={channel} server={server} channel={facts} />
  return (
    <Conversation
      key={channel}
      channel={channel}
      server={server}
      prompt={t("Message {name}", { name: `#${facts.name}` })}
      target={message}
    />
  )
}

type Panel = "menu-open" | "members-open"
const panelOf = { "menu-open": ".lists", "members-open": ".members" } as const

/** On a narrow window the lists, and the members, cover the messages until something was chosen. */
function usePanels(place: Where) {
  const [open, setOpen] = useState<Panel>()
  const before = useRef<Element | null>(null)
  const close = () => {
    setOpen(undefined)
    if (before.current instanceof HTMLElement) before.current.focus()
  }
  useEffect(() => {
    if (open) document.querySelector<HTMLElement>(`${panelOf[open]} :is(a, button)`)?.focus()
  }, [open])
  const here = JSON.stringify(place)
  useEffect(() => {
    if (open) document.getElementById("content")?.focus()
    setOpen(undefined)
  }, [here])
  return {
    open,
    toggle: (panel: Panel) => {
      before.current = document.activeElement
      setOpen(open === panel ? undefined : panel)
    },
    onAside: (event: Event) => {
      if (open && event.target instanceof Element && !event.target.closest("header.top")) close()
    },
    onKeyDown: (event: KeyboardEvent) => {
      if (open && event.key === "Escape" && !document.querySelector("dialog[open]")) close()
    },
  }
}

interface HeaderOptions {
  readonly place: Where
  readonly onPanel: (panel: Panel) => void
  readonly onSearch: () => void
  readonly onPinned: (channel: Snowflake) => void
}

function Header({ place, onPanel, onSearch, onPinned }: HeaderOptions) {
  const { title, about } = titleOf(place)
  const channel = channelWithMessages(place)
  return (
    <header class="top">
      <button
        type="button"
        class="quiet menu"
        aria-label={t("Servers and channels")}
        onClick={() => onPanel("menu-open")}
      >
        <Icon name="menu" />
      </button>
      <h1 dir="auto">{title}</h1>
      {about && (
        <p class="faint about" dir="auto">
          {about}
        </p>
      )}
      {channel !== undefined && (
        <button
          type="button"
          class="quiet"
          aria-label={t("Pinned messages")}
          title={t("Pinned messages")}
          onClick={() => onPinned(channel)}
        >
          <Icon name="pin" />
        </button>
      )}
      {(place.view === "server" || place.view === "direct") && place.channel !== undefined && (
        <Bell key={place.channel} place={{ channel: place.channel }} name={title} />
      )}
      <button type="button" class="quiet" onClick={onSearch} aria-label={t("Search messages")}>
        <Icon name="search" /> <kbd>/</kbd>
      </button>
      {place.view === "server" && (
        <button
          type="button"
          class="quiet people"
          aria-label={t("Members")}
          title={t("Members")}
          onClick={() => onPanel("members-open")}
        >
          <Icon name="people" />
        </button>
      )}
    </header>
  )
}

function channelWithMessages(place: Where): Snowflake | undefined {
  if (place.view === "direct") return place.channel
  if (place.view !== "server" || place.channel === undefined) return undefined
  const facts = watch(`server ${place.server}`).state.servers.get(place.server)?.channels.get(place.channel)
  return facts && facts.type !== "category" && !isForVoice(facts) ? place.channel : undefined
}

function titleOf(place: Where): { title: string; about?: string | null } {
  const { state } = watch("servers", "directs")
  switch (place.view) {
    case "server": {
      const channel =
        place.channel === undefined
          ? undefined
          : watch(`server ${place.server}`).state.servers.get(place.server)?.channels.get(place.channel)
      return channel
        ? { title: `#${channel.name}`, about: channel.topic }
        : { title: state.names.get(place.server) ?? "" }
    }
    case "direct":
      return { title: state.directs.get(place.channel)?.recipient?.username ?? t("Your notes") }
    case "settings":
      return { title: t("Settings") }
    case "addBot":
      return { title: t("Add a bot") }
    case "serverSettings":
      return { title: state.names.get(place.server) ?? t("Server") }
    case "home":
      return { title: t("Friends") }
  }
}

/** The tab says where one is and how much waits; what is around it is not rendered for each message. */
function Title({ place }: { place: Where }) {
  const { title } = titleOf(place)
  const { unread, directs } = watch("unread", "directs").state
  // Of DMs every message is for the person, unless they are muted.
  const mentions = [...unread].reduce(
    (sum, [id, one]) => sum + (directs.has(id) ? (shown(id, one)?.count ?? 0) : one.mentions),
    0,
  )
  useEffect(() => {
    const { setAppBadge } = navigator as { setAppBadge?: (count: number) => Promise<void> }
    setAppBadge?.call(navigator, mentions).catch(() => {})
    document.title = `${mentions > 0 ? `(${mentions}) ` : ""}${title} · ${document.body.dataset["server"] ?? ""}`
  }, [title, mentions])
  return null
}

/** What is looked at is read, and kept current. */
function useOpened(place: Where): void {
  const channel = place.view === "server" || place.view === "direct" ? place.channel : undefined
  const server = place.view === "server" || place.view === "serverSettings" ? place.server : undefined
  useEffect(() => {
    const { store } = me()
    if (server !== undefined) store.openServer(server)
    if (channel === undefined) return
    store.openChannel(channel, server)
    // The last few channels stay, so that going back and forth shows them at once.
    recent = [channel, ...recent.filter(one => one !== channel)]
    for (const old of recent.splice(10)) store.closeChannel(old)
  }, [server, channel])
}
let recent: Snowflake[] = []

const connectionWords = {
  connecting: msgid("Connecting …"),
  live: msgid("Connected"),
  returning: msgid("Connection lost. Coming back …"),
  closed: msgid("Read only: not connected"),
}

/** Who one is, and whether what is shown is current. */
function OwnLine() {
  const { connection: known } = watch("connection")
  const connection = known === "closed" && comesBack(me().outage.value) ? "returning" : known
  return (
    <div class="own-line">
      <span class={`dot ${connection}`} role="status" title={t(connectionWords[connection])}>
        <span class="unseen">{t(connectionWords[connection])}</span>
      </span>
      <OwnName />
      <a class="button quiet small" href="#/settings" aria-label={t("Settings")} title={t("Settings")}>
        <Icon name="gear" />
      </a>
      <AsOf />
    </div>
  )
}

/** One's name, which leads to what others see of one. */
function OwnName() {
  const { user } = watch("user").state
  if (!user) return <b />
  return (
    <button type="button" class="quiet own-name" title={t("Your status")} onClick={chooseStatus}>
      <b class="long">{user.username}</b>
      <Presence user={user.id} />
      <span class="unseen">{t("Your status")}</span>
    </button>
  )
}

const chooseStatus = () =>
  present(async () => {
    const { OwnStatus } = await import("./dialogs.ts")
    return onClose => <OwnStatus onClose={onClose} />
  })
