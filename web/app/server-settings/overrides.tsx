import { useState } from "preact/hooks"
import type { ChannelResponse, OverrideResponse, Snowflake } from "../../../client/contract.ts"
import type { PermissionAnswer, PermissionMember } from "../../../client/permissions.ts"
import type { KnownServer } from "../../../client/state.ts"
import { ask } from "../../kit/dialog.tsx"
import { Form, Select } from "../../kit/forms.tsx"
import { useResource, type Resource } from "../../kit/resource.ts"
import { Loaded } from "../../kit/states.tsx"
import { count, t } from "../../kit/text.ts"
import { attempt, say } from "../../kit/toasts.tsx"
import { answersFor, rankOf } from "../may.ts"
import { me } from "../session.ts"
import { permissionGroups, type PermissionName } from "../permission-words.ts"
import { MemberPicker, nameOfMember, useEvents, useHolder, useSelf } from "./shared.tsx"
import { WhatMembersCan } from "./why.tsx"

type Target = Pick<OverrideResponse, "target_id" | "type">
type Says = "allow" | "neither" | "deny"

interface OverridesOptions {
  readonly known: KnownServer
  readonly channel: ChannelResponse
}

/** What a channel allows and denies beside the server's roles, and what comes of it for a member. */
export function Overrides({ known, channel }: OverridesOptions) {
  const { client } = me()
  const overrides = useResource(() => client.listOverrides({ channel_id: channel.id }), [channel.id])
  useEvents(["CHANNEL_UPDATE"], ({ id }) => id === channel.id, overrides.reload)
  return (
    <>
      <section class="card">
        <h2>{channel.type === "category" ? t("Permissions of this category") : t("Permissions in this channel")}</h2>
        <Loaded of={overrides}>{list => <Editor known={known} channel={channel} list={list} of={overrides} />}</Loaded>
      </section>
      {overrides.data && <WhatMembersCan known={known} overrides={overrides.data} />}
    </>
  )
}

interface EditorOptions extends OverridesOptions {
  readonly list: readonly OverrideResponse[]
  readonly of: Resource<OverrideResponse[]>
}

function Editor({ known, channel, list, of }: EditorOptions) {
  const { id: everyone } = known.facts
  const self = useSelf(known)
  const [added, add] = useState<readonly Target[]>([])
  const [chosen, choose] = useState<Snowflake>(everyone)
  const targets: Target[] = [{ target_id: everyone, type: "role" }]
  for (const one of [...list, ...added])
    if (!targets.some(({ target_id }) => target_id === one.target_id)) targets.push(one)
  const target = targets.find(({ target_id }) => target_id === chosen) ?? targets[0]!
  const choice = (more: Target) => {
    add(before => [...before, more])
    choose(more.target_id)
  }
  const left = [...known.roles.values()]
    .filter(({ id }) => !targets.some(({ target_id }) => target_id === id))
    .toSorted((one, other) => other.position - one.position)
  return (
    <>
      <Select
        label={t("For")}
        value={target.target_id}
        choices={targets.map(one => [one.target_id, nameOf(known, one)] as const)}
        onValue={choose}
      />
      <details>
        <summary>{t("Add a role or a member")}</summary>
        {left.length > 0 && (
          <Select
            label={t("Role")}
            value=""
            choices={[["", t("Choose …")], ...left.map(({ id, name }) => [id, name] as const)]}
            onValue={id => id !== "" && choice({ target_id: id, type: "role" })}
          />
        )}
        <MemberPicker
          known={known}
          label={t("Member")}
          without={user => targets.some(({ target_id }) => target_id === user)}
          onPick={user => choice({ target_id: user, type: "member" })}
        />
      </details>
      <OverrideForm
        key={target.target_id}
        known={known}
        channel={channel}
        target={target}
        stored={list.find(({ target_id }) => target_id === target.target_id)}
        mine={answersFor(known, self, list)}
        self={self}
        onChange={of.reload}
        onRemove={() => add(before => before.filter(({ target_id }) => target_id !== target.target_id))}
      />
      {channel.type === "category" && <Spread known={known} category={channel} list={list} />}
    </>
  )
}

const nameOf = (known: KnownServer, { target_id, type }: Target): string =>
  type === "role" ? (known.roles.get(target_id)?.name ?? target_id) : `@${nameOfMember(known, target_id)}`

const saysOf = (override: OverrideResponse | undefined, name: string): Says =>
  override?.allow.includes(name) ? "allow" : override?.deny.includes(name) ? "deny" : "neither"

interface FormOptions extends OverridesOptions {
  readonly target: Target
  readonly stored: OverrideResponse | undefined
  /** What the reader may do in this channel themselves. */
  readonly mine: Readonly<Record<string, PermissionAnswer>>
  readonly self: PermissionMember
  readonly onChange: () => void
  readonly onRemove: () => void
}

function OverrideForm({ known, channel, target, stored, mine, self, onChange, onRemove }: FormOptions) {
  const { client } = me()
  const [draft, setDraft] = useState<Readonly<Record<string, Says>>>({})
  const where = { channel_id: channel.id, target_id: target.target_id }
  const holder = useHolder(known, target.target_id, target.type === "member")
  const rank =
    target.type === "role" ? (known.roles.get(target.target_id)?.position ?? 0) : holder ? rankOf(known, holder) : 0
  const isAbove = self.user_id !== known.facts.owner_id && rank >= rankOf(known, self)
  const save = async () => {
    const of = (wanted: Says) => {
      const kept = (wanted === "allow" ? stored?.allow : stored?.deny) ?? []
      const chosen = Object.keys(draft).filter(name => draft[name] === wanted)
      return [...kept.filter(name => !Object.hasOwn(draft, name)), ...chosen]
    }
    await client.setOverride({ ...where, type: target.type, allow: of("allow"), deny: of("deny") })
    setDraft({})
    onChange()
    say(t("Saved."))
  }
  const remove = async () => {
    if (!stored || (await attempt(() => client.deleteOverride(where)))) {
      onRemove()
      onChange()
    }
  }
  return (
    <Form does={t("Save")} isReady={!isAbove && Object.keys(draft).length > 0} onSubmit={save}>
      {isAbove && <p class="notice warm">{t("It ranks at or above you, so you cannot change what it may here.")}</p>}
      {permissionGroups({ ofChannels: true }).map(({ title, permissions }) => (
        <fieldset key={title} disabled={isAbove}>
          <legend>{title}</legend>
          {permissions.map(([name, words]) => (
            <ThreeStates
              key={name}
              name={name}
              title={words.title}
              about={words.about}
              stored={saysOf(stored, name)}
              value={draft[name] ?? saysOf(stored, name)}
              isMine={mine[name]?.isHeld === true}
              onValue={says => setDraft(before => ({ ...before, [name]: says }))}
            />
          ))}
        </fieldset>
      ))}
      {!isAbove && (stored ?? target.target_id !== known.facts.id) && (
        <p class="buttons start">
          <button type="button" onClick={() => void remove()}>
            {t("As the server says: forget all of it")}
          </button>
        </p>
      )}
    </Form>
  )
}

interface StatesOptions {
  readonly name: PermissionName
  readonly title: string
  readonly about: string
  readonly stored: Says
  readonly value: Says
  readonly isMine: boolean
  readonly onValue: (says: Says) => void
}

/** Nobody lets others do what they may not do themselves, be it by allowing it or by denying it no more. */
function ThreeStates({ name, title, about, stored, value, isMine, onValue }: StatesOptions) {
  const isLocked = (says: Says) => !isMine && says !== stored && (says === "allow" || stored === "deny")
  const choices = [
    ["allow", t("Allow")],
    ["neither", t("As the server")],
    ["deny", t("Deny")],
  ] as const
  return (
    <div class="states" role="radiogroup" aria-labelledby={`state-${name}`} aria-describedby={`about-${name}`}>
      <span id={`state-${name}`}>{title}</span>
      <span class="choices">
        {choices.map(([says, words]) => (
          <label key={says} class={says}>
            <input
              type="radio"
              name={`says-${name}`}
              value={says}
              checked={value === says}
              disabled={isLocked(says)}
              onChange={() => onValue(says)}
            />{" "}
            {words}
          </label>
        ))}
      </span>
      <p class="hint" id={`about-${name}`}>
        {about}
        {!isMine && <b> {t("You may not do it here, so you cannot allow it.")}</b>}
      </p>
    </div>
  )
}

/** A category's own say nothing of its channels until they are given the same. */
function Spread({
  known,
  category,
  list,
}: {
  known: KnownServer
  category: ChannelResponse
  list: readonly OverrideResponse[]
}) {
  const { client } = me()
  const channels = [...known.channels.values()].filter(({ category_id }) => category_id === category.id)
  if (channels.length === 0) return null
  const spread = async () => {
    for (const { id: channel_id } of channels) {
      for (const { target_id, type, allow, deny } of list)
        await client.setOverride({ channel_id, target_id, type, allow, deny })
      for (const { target_id } of await client.listOverrides({ channel_id }))
        if (!list.some(one => one.target_id === target_id)) await client.deleteOverride({ channel_id, target_id })
    }
    say(t("All its channels have the same permissions now."))
  }
  return (
    <p>
      <span class="hint">{t("They are about the category itself; each of its channels has its own.")}</span>{" "}
      <button
        type="button"
        onClick={() =>
          ask({
            title: t("The same in all its channels?"),
            will: (
              <p>
                {count(channels.length, "{n} channel changes.", "{n} channels change.")}{" "}
                {t("What they have now is replaced.")}
              </p>
            ),
            does: t("Do it"),
            isDangerous: true,
            work: spread,
          })
        }
      >
        {t("The same in all its channels")}
      </button>
    </p>
  )
}
