import { useState } from "preact/hooks"
import type { BotPublicResponse, PermissionName, Snowflake } from "../../client/contract.ts"
import { Checkbox, Form, Select } from "../kit/forms.tsx"
import { useResource } from "../kit/resource.ts"
import { Loaded } from "../kit/states.tsx"
import { t } from "../kit/text.ts"
import { say } from "../kit/toasts.tsx"
import { answersFor, holderIn } from "./may.ts"
import { avatarOf } from "./names.ts"
import { titleOf } from "./permission-words.ts"
import { goTo } from "./places.ts"
import { me, ownId, watch } from "./session.ts"

/** Where the link of a bot leads: who manages a server adds it there, and sees what it asks for. */
export function AddBot({ bot }: { bot: Snowflake }) {
  const offered = useResource(() => me().client.getOfferedBot({ bot_id: bot }), [bot])
  return (
    <div class="page">
      <section class="card">
        <Loaded of={offered}>{found => <Choice bot={found} />}</Loaded>
      </section>
    </div>
  )
}

function Choice({ bot }: { bot: BotPublicResponse }) {
  const { state } = watch("servers", "user")
  const managed = [...state.servers.values()].flatMap(known => {
    if (!known) return []
    const held = answersFor(known, holderIn(known, ownId()))
    return held["server.manage"]?.isHeld ? [{ known, held }] : []
  })
  const [chosen, choose] = useState<Snowflake>()
  const [refused, refuse] = useState<ReadonlySet<string>>(new Set())
  const target = managed.find(({ known }) => known.facts.id === chosen) ?? managed[0]
  const mayGive = (name: string) => target?.held[name]?.isHeld === true
  const granted = bot.permissions.filter(name => mayGive(name) && !refused.has(name)) as PermissionName[]
  const add = async () => {
    const server_id = target!.known.facts.id
    await me().client.addBot({ server_id, bot_id: bot.id, permissions: granted })
    say(t("{name} is in {server} now.", { name: bot.username, server: target!.known.facts.name }))
    goTo({ server: server_id })
  }
  return (
    <>
      <h2>
        <img class="avatar small" src={avatarOf(bot.id, bot.avatar_url)} alt="" width={28} height={28} /> {bot.username}
      </h2>
      <p>{t("A bot of {name}.", { name: bot.owner.username })}</p>
      {target ? (
        <Form does={t("Add it")} onSubmit={add}>
          <Select
            label={t("Server")}
            value={target.known.facts.id}
            onValue={choose}
            choices={managed.map(({ known: { facts } }) => [facts.id, facts.name] as const)}
          />
          {bot.permissions.length === 0 ? (
            <p>{t("It asks for nothing that others there may not do.")}</p>
          ) : (
            <fieldset>
              <legend>{t("It asks to be allowed this:")}</legend>
              {bot.permissions.map(name => (
                <Checkbox
                  key={name}
                  label={
                    mayGive(name)
                      ? titleOf(name)
                      : t("{permission} (you may not give this)", { permission: titleOf(name) })
                  }
                  value={mayGive(name) && !refused.has(name)}
                  onValue={isOn => {
                    const now = new Set(refused)
                    if (isOn) now.delete(name)
                    else now.add(name)
                    refuse(now)
                  }}
                />
              ))}
            </fieldset>
          )}
        </Form>
      ) : (
        <p class="notice warm">{t("You manage no server to which you could add it.")}</p>
      )}
    </>
  )
}
