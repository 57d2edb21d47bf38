import { useState } from "preact/hooks"
import type { RoleResponse } from "../../../client/contract.ts"
import type { KnownServer } from "../../../client/state.ts"
import { ask } from "../../kit/dialog.tsx"
import { Checkbox, Form, TextField } from "../../kit/forms.tsx"
import { go, linkTo } from "../../kit/router.ts"
import { Empty } from "../../kit/states.tsx"
import { count, t } from "../../kit/text.ts"
import { attempt, say } from "../../kit/toasts.tsx"
import { rankOf, useMay } from "../may.ts"
import { avatarOf } from "../names.ts"
import { me } from "../session.ts"
import { permissionGroups, type PermissionName } from "../permission-words.ts"
import { MemberPicker, MoveButtons, useSelf, useServer, type PartOptions } from "./shared.tsx"
import { WhatMembersCan } from "./why.tsx"

export function Roles({ server, item }: PartOptions) {
  const known = useServer(server)
  if (!known) return <p class="loading">{t("Loading …")}</p>
  if (item === undefined) return <RoleList known={known} />
  const role = known.roles.get(item)
  return (
    <>
      <p>
        <a href={linkTo(["servers", server, "settings", "roles"])}>← {t("All roles")}</a>
      </p>
      {role ? (
        <>
          <RoleEditor key={role.id} known={known} role={role} />
          {!role.is_default && <Holders known={known} role={role} />}
        </>
      ) : (
        <Empty title={t("This role is gone.")} />
      )}
    </>
  )
}

/** Highest first; what ranks at or above one's own is not one's to change. */
const inOrder = (known: KnownServer): RoleResponse[] =>
  [...known.roles.values()].toSorted((one, other) => other.position - one.position)

function RoleList({ known }: { known: KnownServer }) {
  const { id: server } = known.facts
  const [name, setName] = useState("")
  const rank = rankOf(known, useSelf(known))
  const mayManage = useMay(server)("roles.manage")
  const roles = inOrder(known)
  const make = async () => {
    const { id } = await me().client.createRole({ server_id: server, name: name.trim() })
    setName("")
    go(["servers", server, "settings", "roles", id])
  }
  /** It takes the place of the other, which steps aside. */
  const moveTo = (role: RoleResponse, other: RoleResponse | undefined) => {
    if (!mayManage || !other || other.is_default || role.is_default || role.position >= rank || other.position >= rank)
      return undefined
    return () =>
      void attempt(() => me().client.editRole({ server_id: server, role_id: role.id, position: other.position }))
  }
  const holders = (role: RoleResponse) =>
    role.is_default
      ? known.facts.member_count
      : [...known.members.values()].filter(({ roles: own }) => own.includes(role.id)).length
  return (
    <>
      <section class="card">
        <h2>{t("Roles")}</h2>
        <p class="hint">
          {t("Who has several roles may what they grant together. A role can only change what ranks below it.")}
        </p>
        <ul class="rows order">
          {roles.map((role, i) => {
            const [onUp, onDown] = [moveTo(role, roles[i - 1]), moveTo(role, roles[i + 1])]
            return (
              <li
                key={role.id}
                onKeyDown={event => {
                  if (!event.altKey || (event.key !== "ArrowUp" && event.key !== "ArrowDown")) return
                  event.preventDefault()
                  ;(event.key === "ArrowUp" ? onUp : onDown)?.()
                }}
              >
                <span class="swatch" style={swatchOf(role)} aria-hidden="true" />
                <a class="long" href={linkTo(["servers", server, "settings", "roles", role.id])}>
                  {role.name}
                </a>
                <span class="faint">{count(holders(role), "{n} member", "{n} members")}</span>
                {role.position >= rank && <span class="badge">{t("above you")}</span>}
                {mayManage && !role.is_default && <MoveButtons name={role.name} onUp={onUp} onDown={onDown} />}
              </li>
            )
          })}
        </ul>
        {mayManage && <p class="hint">{t("The arrows move a role; so do Alt ↑ and Alt ↓.")}</p>}
        {mayManage && rank > 0 && (
          <Form inline does={t("Make a role")} isReady={name.trim() !== ""} onSubmit={make} at={{ name: /name/i }}>
            <TextField
              name="name"
              label={t("Name of the new role")}
              value={name}
              onValue={setName}
              required
              maxLength={100}
            />
          </Form>
        )}
      </section>
      <WhatMembersCan known={known} />
    </>
  )
}

/** The page's policy takes no style of a text; properties it does. */
export const swatchOf = ({ color }: Pick<RoleResponse, "color">): { background?: string } =>
  color === noColor ? {} : { background: color }
const noColor = "#000000"

type Change = Partial<Pick<RoleResponse, "name" | "color" | "hoist" | "mentionable">>

/** Only what was changed here is sent, so that a change by somebody else meanwhile stays. */
function RoleEditor({ known, role }: { known: KnownServer; role: RoleResponse }) {
  const { id: server } = known.facts
  const may = useMay(server)
  const self = useSelf(known)
  const rank = rankOf(known, self)
  const [change, setChange] = useState<Change>({})
  const [granted, setGranted] = useState<Readonly<Record<string, boolean>>>({})
  const set = (more: Change) => setChange(before => ({ ...before, ...more }))
  const shown = { ...role, ...change }
  const highest = inOrder(known).find(({ id }) => self.roles.includes(id))
  const isAbove = role.position >= rank
  const isLocked = isAbove || !may("roles.manage")
  const save = async () => {
    await me().client.editRole({
      server_id: server,
      role_id: role.id,
      ...change,
      ...(Object.keys(granted).length > 0 && { permissions: { ...role.permissions, ...granted } }),
    })
    setChange({})
    setGranted({})
    say(t("Saved."))
  }
  const remove = () =>
    ask({
      title: t("Delete the role {name}?", { name: role.name }),
      will: <p>{t("Its members lose it, and what channels say of it is gone.")}</p>,
      does: t("Delete"),
      isDangerous: true,
      work: async () => {
        await me().client.deleteRole({ server_id: server, role_id: role.id })
        go(["servers", server, "settings", "roles"])
      },
    })
  const isChanged = Object.keys(change).length > 0 || Object.keys(granted).length > 0
  return (
    <section class="card">
      <h2>
        <span class="swatch" style={swatchOf(shown)} aria-hidden="true" /> {role.name}
      </h2>
      {isAbove && (
        <p class="notice warm">
          {highest && !highest.is_default
            ? t("It ranks at or above {role}, your highest role: you can only change roles below that.", {
                role: highest.name,
              })
            : t("You can only change roles below your own, and you have none.")}
        </p>
      )}
      {!isAbove && isLocked && <p class="notice">{t("You may give and take it, not change it.")}</p>}
      <Form does={t("Save")} isReady={isChanged && !isLocked} onSubmit={save} at={{ name: /name/i, color: /color/i }}>
        <fieldset class="bare" disabled={isLocked}>
          {role.is_default ? (
            <p class="hint">{t("Everybody in this server has it. It is the lowest, and keeps its name.")}</p>
          ) : (
            <TextField
              name="name"
              label={t("Name")}
              value={shown.name}
              onValue={name => set({ name })}
              required
              maxLength={100}
            />
          )}
          <div class="bar">
            <TextField
              name="color"
              label={t("Colour")}
              type="color"
              value={shown.color}
              onValue={color => set({ color })}
            />
            <button type="button" disabled={shown.color === noColor} onClick={() => set({ color: noColor })}>
              {t("No colour")}
            </button>
          </div>
          <Checkbox
            label={t("List its members apart from the others")}
            value={shown.hoist}
            onValue={hoist => set({ hoist })}
          />
          <Checkbox
            label={t("Everybody may mention it")}
            value={shown.mentionable}
            onValue={mentionable => set({ mentionable })}
          />
          <Grants
            role={role}
            granted={granted}
            may={may}
            isLocked={isLocked}
            onValue={(name, on) => setGranted(before => ({ ...before, [name]: on }))}
          />
        </fieldset>
      </Form>
      {!role.is_default && !isLocked && (
        <p class="buttons start">
          <button type="button" class="danger" onClick={remove}>
            {t("Delete the role")}
          </button>
        </p>
      )}
    </section>
  )
}

interface GrantsOptions {
  readonly role: RoleResponse
  /** What was changed here. */
  readonly granted: Readonly<Record<string, boolean>>
  /** What the reader may themselves. */
  readonly may: (permission: PermissionName) => boolean
  readonly isLocked: boolean
  readonly onValue: (name: PermissionName, isGranted: boolean) => void
}

/** What a role grants already may stay in it, and may be taken out. */
function Grants({ role, granted, may, isLocked, onValue }: GrantsOptions) {
  return permissionGroups().map(({ title, permissions }) => (
    <fieldset key={title}>
      <legend>{title}</legend>
      {permissions.map(([name, words]) => {
        const isLacking = !may(name) && role.permissions[name] !== true
        return (
          <Checkbox
            key={name}
            label={words.title}
            hint={
              <>
                {words.about}
                {isLacking && !isLocked && <b> {t("You do not have it, so you cannot grant it.")}</b>}
              </>
            }
            isDisabled={isLacking}
            value={granted[name] ?? role.permissions[name] === true}
            onValue={on => onValue(name, on)}
          />
        )
      })}
    </fieldset>
  ))
}

/** So many of a role are listed; others are found by their name. */
const maxHolders = 200

function Holders({ known, role }: { known: KnownServer; role: RoleResponse }) {
  const { id: server } = known.facts
  const { client } = me()
  const mayAssign = role.position < rankOf(known, useSelf(known))
  const holders = [...known.members].filter(([, { roles }]) => roles.includes(role.id))
  return (
    <section class="card">
      <h2>
        {t("Members with this role")} <span class="count">{holders.length}</span>
      </h2>
      {holders.length === 0 && <p class="faint">{t("Nobody has it.")}</p>}
      <ul class="rows">
        {holders.slice(0, maxHolders).map(([user, { username, nickname, avatar_url }]) => (
          <li key={user}>
            <img class="avatar small" src={avatarOf(user, avatar_url)} alt="" width={28} height={28} />
            <span class="long">{nickname ?? username}</span>
            {mayAssign && (
              <button
                type="button"
                class="small"
                aria-label={t("Take {role} from {name}", { role: role.name, name: nickname ?? username })}
                onClick={() =>
                  void attempt(() => client.takeRole({ server_id: server, member_id: user, role_id: role.id }))
                }
              >
                {t("Take it")}
              </button>
            )}
          </li>
        ))}
      </ul>
      {mayAssign && role.bot_id === undefined && (
        <MemberPicker
          known={known}
          label={t("Give it to")}
          without={user => known.members.get(user)?.roles.includes(role.id) === true}
          onPick={user => void attempt(() => client.giveRole({ server_id: server, member_id: user, role_id: role.id }))}
        />
      )}
    </section>
  )
}
