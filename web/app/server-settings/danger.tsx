import { useState } from "preact/hooks"
import type { Snowflake } from "../../../client/contract.ts"
import type { KnownServer } from "../../../client/state.ts"
import { ask } from "../../kit/dialog.tsx"
import { Form } from "../../kit/forms.tsx"
import { go } from "../../kit/router.ts"
import { t } from "../../kit/text.ts"
import { say } from "../../kit/toasts.tsx"
import { ProofFields, useProof } from "../proof.tsx"
import { me, ownId } from "../session.ts"
import { MemberPicker, nameOfMember, useServer, type PartOptions } from "./shared.tsx"

/** What cannot be taken back: to leave a server, to hand it over, to delete it. */
export function Danger({ server }: PartOptions) {
  const known = useServer(server)
  const { client } = me()
  if (!known) return <p class="loading">{t("Loading …")}</p>
  const { name, owner_id } = known.facts
  if (owner_id !== ownId())
    return (
      <section class="card">
        <h2>{t("Leave the server")}</h2>
        <button
          type="button"
          class="danger"
          onClick={() =>
            ask({
              title: t("Leave {name}?", { name }),
              will: <p>{t("You can come back with an invite.")}</p>,
              does: t("Leave"),
              isDangerous: true,
              work: async () => {
                await client.leaveServer({ server_id: server })
                go([])
              },
            })
          }
        >
          {t("Leave the server")}
        </button>
      </section>
    )
  return (
    <>
      <HandOver known={known} />
      <section class="card">
        <h2>{t("Delete the server")}</h2>
        <p>{t("The server is gone for everybody, with all that was written in it.")}</p>
        <button
          type="button"
          class="danger"
          onClick={() =>
            ask({
              title: t("Delete {name}?", { name }),
              will: <p>{t("The server is gone for everybody, with all that was written in it.")}</p>,
              does: t("Delete the server"),
              isDangerous: true,
              typed: name,
              work: async () => {
                await client.deleteServer({ server_id: server })
                go([])
              },
            })
          }
        >
          {t("Delete the server")}
        </button>
      </section>
    </>
  )
}

function HandOver({ known }: { known: KnownServer }) {
  const [user, choose] = useState<Snowflake>()
  const proof = useProof()
  const name = user === undefined ? "" : nameOfMember(known, user)
  const handOver = async () => {
    if (user === undefined) return
    await me().client.transferServer({
      server_id: known.facts.id,
      user_id: user,
      ...proof.given,
    })
    choose(undefined)
    proof.forget()
    say(t("{name} owns the server now.", { name }))
  }
  return (
    <section class="card">
      <h2>{t("Hand the server over")}</h2>
      <p>{t("Another member owns it then. You stay a member, with the roles that you have.")}</p>
      <MemberPicker
        known={known}
        label={t("New owner")}
        without={id => id === known.facts.owner_id || known.members.get(id)?.bot === true}
        onPick={choose}
      />
      {user !== undefined && (
        <Form
          does={t("Hand it over to {name}", { name })}
          isDangerous
          onSubmit={handOver}
          onCancel={() => choose(undefined)}
          at={{ password: /password|sign in/i, code: /code/i }}
        >
          <ProofFields of={proof} />
        </Form>
      )}
    </section>
  )
}
