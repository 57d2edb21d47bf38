import { useEffect, useState } from "preact/hooks"
import { Form, CopyButton, Select } from "../kit/forms.tsx"
import { Dialog } from "../kit/dialog.tsx"
import { Loaded } from "../kit/states.tsx"
import { useResource } from "../kit/resource.ts"
import { count, t } from "../kit/text.ts"
import type { Snowflake } from "../../client/contract.ts"
import { goTo } from "./places.ts"
import { base, me } from "./session.ts"

/** The code of an invite whose link led here. */
export const inviteInPath = (): string | undefined => /\/invite\/([^/]+)\/?$/.exec(location.pathname)?.[1]

/** The code in what somebody pasted: a link, or the code itself. */
export const codeIn = (text: string): string =>
  text
    .trim()
    .replace(/^.*\/invite\//, "")
    .replace(/[/?#].*$/, "")

export const linkOf = (code: string): string => `${location.origin}${base}/invite/${code}`

/** What somebody sees first who follows a link and is not signed in; the server tells strangers no names. */
export const Invitation = () => (
  <p class="notice good">{t("You are invited to a server. Sign in, or make an account, to join it.")}</p>
)

/** For who is signed in and opens a link. */
export function Joining({ code, onDone }: { code: string; onDone: () => void }) {
  const info = useResource(() => me().client.getInvite({ invite_code: code }), [code])
  const leave = () => {
    history.replaceState(null, "", `${base}/app${location.hash}`)
    onDone()
  }
  const join = async () => {
    const { server_id } = await me().client.joinByInvite({ invite_code: code })
    leave()
    goTo({ server: server_id, channel: info.data?.channel_id ?? undefined })
  }
  // Somebody who is in it already goes there.
  const { servers } = me().store.state
  useEffect(() => {
    if (!info.data || !servers.has(info.data.server_id)) return
    leave()
    goTo({ server: info.data.server_id, channel: info.data.channel_id ?? undefined })
  }, [info.data])
  return (
    <main class="entry">
      <Loaded of={info}>
        {({ server_name }) => (
          <>
            <h1>{server_name}</h1>
            <Form does={t("Join")} onCancel={leave} onSubmit={join}>
              <p>{t("You are invited to this server.")}</p>
            </Form>
          </>
        )}
      </Loaded>
      {info.error !== undefined && (
        <button type="button" onClick={leave}>
          {t("Go on without it")}
        </button>
      )}
    </main>
  )
}

type Days = "1" | "7" | "30" | "0"
const usualDays = 7

/** Who makes a server gets a link to it at once: it is empty until somebody follows that. */
export async function firstInvite(server: Snowflake): Promise<{ channel: Snowflake; made: string } | undefined> {
  const { client } = me()
  const [channel] = await client.listChannels({ server_id: server })
  if (!channel) return undefined
  const { code } = await client.createInvite({ channel_id: channel.id, max_age: usualDays * 86_400 })
  return { channel: channel.id, made: code }
}

interface ShareOptions {
  readonly channel: Snowflake
  /** The code of a link that is there already. */
  readonly made?: string
  readonly onClose: () => void
}

/** A link to share. It is made when it is asked for, so that no other is left behind. */
export function ShareLink({ channel, made, onClose }: ShareOptions) {
  const [days, setDays] = useState<Days>(`${usualDays}`)
  const [code, setCode] = useState(made)
  const make = async () => {
    const invite = await me().client.createInvite({ channel_id: channel, max_age: Number(days) * 86_400 })
    setCode(invite.code)
  }
  const daysOf = (n: number) => count(n, "{n} day", "{n} days")
  return (
    <Dialog title={t("Invite people")} onClose={onClose}>
      {code === undefined ? (
        <Form does={t("Make a link")} onCancel={onClose} onSubmit={make}>
          <Select
            label={t("How long it is valid")}
            value={days}
            choices={[
              ["1", daysOf(1)],
              ["7", daysOf(7)],
              ["30", daysOf(30)],
              ["0", t("Without end")],
            ]}
            onValue={setDays}
          />
        </Form>
      ) : (
        <>
          {made !== undefined && <p>{t("Your server is ready. For a week this link leads others into it.")}</p>}
          <p class="share">
            <input
              readOnly
              value={linkOf(code)}
              aria-label={t("Link")}
              onFocus={event => event.currentTarget.select()}
            />
            <CopyButton text={linkOf(code)} />
          </p>
          <p class="buttons">
            <button type="button" onClick={onClose}>
              {t("Done")}
            </button>
          </p>
        </>
      )}
    </Dialog>
  )
}
