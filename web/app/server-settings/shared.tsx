import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks"
import { opcodes, type Snowflake } from "../../../client/contract.ts"
import type { PermissionMember } from "../../../client/permissions.ts"
import type { KnownServer } from "../../../client/state.ts"
import { useResource } from "../../kit/resource.ts"
import { t } from "../../kit/text.ts"
import { holderIn } from "../may.ts"
import { avatarOf, nameIn } from "../names.ts"
import { me, ownId, watch } from "../session.ts"

/** What a part of the settings is told: of which server, and which of its things was chosen. */
export interface PartOptions {
  readonly server: Snowflake
  readonly item: string | undefined
}

/** Another object whenever something in it changed: what is given the same one is not rendered again. */
export function useServer(server: Snowflake): KnownServer | undefined {
  const known = watch(`server ${server}`).state.servers.get(server)
  return known && { ...known }
}

/** What an event is about, as far as the parts ask. */
interface About {
  readonly id?: Snowflake
  readonly server_id?: Snowflake | null
  readonly channel_id?: Snowflake
}

/** Runs when others change what no store keeps, and after a connection that missed some of it. */
export function useEvents(names: readonly string[], isMine: (about: About) => boolean, run: () => void): void {
  const latest = useRef({ isMine, run })
  latest.current = { isMine, run }
  useEffect(
    () =>
      me().gateway.on("dispatch", ({ name, data }) => {
        if (name === "READY" || (names.includes(name) && latest.current.isMine(data as About))) latest.current.run()
      }),
    [],
  )
}

/** As much of a member as permissions and ranks take. The store has not every member of a large server. */
export function useHolder(known: KnownServer, user: Snowflake, isMember = true): PermissionMember | undefined {
  const kept = known.members.get(user)
  const asked = useResource(
    async () => (kept || !isMember ? undefined : me().client.getMember({ server_id: known.facts.id, member_id: user })),
    [known.facts.id, user, kept !== undefined],
  )
  const member = kept ?? asked.data
  return member && { user_id: user, roles: member.roles, timeout_until: member.timeout_until }
}

export const useSelf = (known: KnownServer): PermissionMember => useHolder(known, ownId()) ?? holderIn(known, ownId())

interface MoveOptions {
  readonly name: string
  /** Absent: there is no further place. */
  readonly onUp?: (() => void) | undefined
  readonly onDown?: (() => void) | undefined
}

/** Moves a row of a list. The button keeps the focus, wherever the row goes. */
export function MoveButtons({ name, onUp, onDown }: MoveOptions) {
  const pressed = useRef<HTMLButtonElement>(null)
  useLayoutEffect(() => {
    const { current } = pressed
    if (!current || document.activeElement === current) return
    if (document.activeElement === document.body) current.focus()
    else pressed.current = null
  })
  const press = (move: (() => void) | undefined) => (event: Event) => {
    pressed.current = event.currentTarget as HTMLButtonElement
    move?.()
  }
  return (
    <span class="moves">
      <button
        type="button"
        class="small quiet"
        aria-disabled={onUp === undefined}
        aria-label={t("Move {name} up", { name })}
        onClick={press(onUp)}
      >
        ↑
      </button>
      <button
        type="button"
        class="small quiet"
        aria-disabled={onDown === undefined}
        aria-label={t("Move {name} down", { name })}
        onClick={press(onDown)}
      >
        ↓
      </button>
    </span>
  )
}

/** So many are offered at once; a longer name finds fewer. */
const maxOffered = 8

interface Offered {
  readonly user_id: Snowflake
  readonly username: string
  readonly nickname: string | null
  readonly avatar_url: string | null
}

/** Of a large server the store has not every member: the others are asked for by the beginning of their names. */
function useOthers(known: KnownServer, words: string): readonly Offered[] {
  const [found, find] = useState<{ readonly words: string; readonly members: readonly Offered[] }>()
  const { id: server } = known.facts
  const isPartial = known.facts.member_count > known.members.size
  useEffect(() => {
    if (!isPartial || words === "") return
    const { gateway } = me()
    const nonce = `picker ${++questions}`
    const end = gateway.on("GUILD_MEMBERS_CHUNK", chunk => {
      if (chunk.nonce !== nonce) return
      for (const member of chunk.members) namesFound.set(member.user_id, member.nickname ?? member.username)
      find({ words, members: chunk.members })
    })
    const ask = setTimeout(() => {
      const d = { guild_id: server, query: words, limit: maxOffered, presences: false, nonce }
      if (me().store.connection === "live") gateway.send({ op: opcodes.REQUEST_GUILD_MEMBERS, d })
    }, askAfterMs)
    return () => {
      clearTimeout(ask)
      end()
    }
  }, [server, isPartial, words])
  return found?.words === words ? found.members : []
}
let questions = 0
/** Who types on is not asked for at each letter. */
const askAfterMs = 250
/** Of members whom the store does not have. A page is not open long enough for it to grow large. */
const namesFound = new Map<Snowflake, string>()

/** How a member is called, also one who was only found. */
export const nameOfMember = (known: KnownServer, user: Snowflake): string =>
  nameIn(known, user, namesFound.get(user) ?? user)

interface PickerOptions {
  readonly known: KnownServer
  readonly label: string
  /** Who is not offered. */
  readonly without?: (user: Snowflake) => boolean
  readonly onPick: (user: Snowflake) => void
}

/** Finds a member by a part of their name. */
export function MemberPicker({ known, label, without = () => false, onPick }: PickerOptions) {
  const [written, write] = useState("")
  const id = useId()
  const words = written.trim().toLowerCase()
  const kept = [...known.members].flatMap(([user_id, { username, nickname, avatar_url }]): Offered[] => {
    const isFound = username.toLowerCase().includes(words) || nickname?.toLowerCase().includes(words) === true
    return isFound ? [{ user_id, username, nickname, avatar_url }] : []
  })
  const others = useOthers(known, words).filter(({ user_id }) => !known.members.has(user_id))
  const found = [...kept, ...others].filter(({ user_id }) => !without(user_id)).slice(0, maxOffered)
  return (
    <div class="field picker">
      <label for={id}>{label}</label>
      <input
        id={id}
        type="search"
        autocomplete="off"
        value={written}
        maxLength={32}
        placeholder={t("A part of the name")}
        onInput={event => write(event.currentTarget.value)}
        onKeyDown={event => {
          if (event.key !== "Enter") return
          event.preventDefault()
          if (words !== "" && found[0]) pick(found[0].user_id)
        }}
      />
      {words !== "" && (
        <ul class="picks" aria-label={label}>
          {found.map(({ user_id: user, username, nickname, avatar_url }) => (
            <li key={user}>
              <button type="button" class="small quiet" onClick={() => pick(user)}>
                <img class="avatar small" src={avatarOf(user, avatar_url)} alt="" width={20} height={20} />
                <span class="long">{nickname ?? username}</span> <span class="faint">@{username}</span>
              </button>
            </li>
          ))}
          {found.length === 0 && <li class="faint">{t("Nobody is called so.")}</li>}
        </ul>
      )}
    </div>
  )
  function pick(user: Snowflake) {
    write("")
    onPick(user)
  }
}

/** Of somebody who may be in no list any more. */
export function UserName({ id }: { id: Snowflake }) {
  const { data } = useResource(() => me().client.getUser({ user_id: id }), [id])
  return <b>{data?.username ?? id}</b>
}
