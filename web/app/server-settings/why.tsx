import { useState } from "preact/hooks"
import type { OverrideResponse, Snowflake } from "../../../client/contract.ts"
import type { PermissionAnswer, PermissionStep } from "../../../client/permissions.ts"
import type { KnownServer } from "../../../client/state.ts"
import { t } from "../../kit/text.ts"
import { answersFor } from "../may.ts"
import { permissionGroups } from "../permission-words.ts"
import { MemberPicker, nameOfMember, useHolder } from "./shared.tsx"

interface WhyOptions {
  readonly known: KnownServer
  /** Those of a channel; absent: it is about the server. */
  readonly overrides?: readonly OverrideResponse[]
}

/** What a chosen member can do there, and what decides it. */
export function WhatMembersCan({ known, overrides }: WhyOptions) {
  const [user, choose] = useState<Snowflake>()
  return (
    <section class="card">
      <h2>{overrides ? t("What a member can do here") : t("What a member can do")}</h2>
      <MemberPicker known={known} label={t("Member")} onPick={choose} />
      {user !== undefined && <Answers key={user} known={known} user={user} overrides={overrides} />}
    </section>
  )
}

function Answers({
  known,
  user,
  overrides,
}: {
  known: KnownServer
  user: Snowflake
  overrides: WhyOptions["overrides"]
}) {
  const member = useHolder(known, user)
  if (!member) return <p class="loading">{t("Loading …")}</p>
  const answers = answersFor(known, member, overrides)
  const name = nameOfMember(known, user)
  const isHidden = overrides !== undefined && !answers["channels.view"]?.isHeld
  return (
    <>
      <h3>{name}</h3>
      {isHidden && <p class="notice warm">{t("{name} does not see this channel: nothing below counts.", { name })}</p>}
      <table class="why">
        <caption class="unseen">{t("What {name} can do, and why", { name })}</caption>
        <thead>
          <tr>
            <th scope="col">{t("Permission")}</th>
            <th scope="col">{t("May they?")}</th>
            <th scope="col">{t("Why")}</th>
          </tr>
        </thead>
        <tbody>
          {permissionGroups({ ofChannels: overrides !== undefined })
            .flatMap(({ permissions }) => permissions)
            .map(([permission, { title }]) => (
              <tr key={permission} data-permission={permission}>
                <th scope="row">{title}</th>
                <Verdict of={answers[permission]} known={known} />
              </tr>
            ))}
        </tbody>
      </table>
    </>
  )
}

function Verdict({ of: answer, known }: { of: PermissionAnswer | undefined; known: KnownServer }) {
  const steps = answer?.steps ?? []
  const last = steps.at(-1)
  const before = steps.slice(0, -1)
  return (
    <>
      <td>
        <span class={answer?.isHeld ? "badge good" : "badge bad"}>{answer?.isHeld ? t("yes") : t("no")}</span>
      </td>
      <td>
        <b>{last ? sentenceOf(last, known) : t("No role grants it.")}</b>
        {before.length > 0 && (
          <span class="hint">
            {" "}
            {t("Before that: {steps}", { steps: before.map(one => sentenceOf(one, known)).join(" ") })}
          </span>
        )}
      </td>
    </>
  )
}

/** One step in words. */
export function sentenceOf({ by, id, allows }: PermissionStep, known: KnownServer): string {
  const role = known.roles.get(id)?.name ?? id
  const name = nameOfMember(known, id)
  switch (by) {
    case "owner":
      return t("{name} owns the server.", { name })
    case "administrator":
      return t("The role {role} makes administrators.", { role })
    case "role":
      return t("The role {role} grants it.", { role })
    case "role override":
      return allows
        ? t("This channel allows it to the role {role}.", { role })
        : t("This channel denies it to the role {role}.", { role })
    case "member override":
      return allows
        ? t("This channel allows it to {name}.", { name })
        : t("This channel denies it to {name}.", { name })
    case "time-out":
      return t("{name} is timed out.", { name })
  }
}
