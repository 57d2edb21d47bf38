import { useEffect, useState } from "preact/hooks"
import { Form, CopyButton, TextField } from "../kit/forms.tsx"
import { Dialog } from "../kit/dialog.tsx"
import { Loaded } from "../kit/states.tsx"
import { useResource } from "../kit/resource.ts"
import { t } from "../kit/text.ts"
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

/** A link to share, at once. */
export function ShareLink({ channel, onClose }: { channel: Snowflake; onClose: () => void }) {
  const [days, setDays] = useState("7")
  const invite = useResource(
    () => me().client.createInvite({ channel_id: channel, max_age: Math.round(Number(days) * 86_400) }),
    [channel, days],
  )
  return (
    <Dialog title={t("Invite people")} onClose={onClose}>
      <Loaded of={invite}>
        {({ code }) => (
          <p class="share">
            <input
              readOnly
              value={linkOf(code)}
              aria-label={t("Link")}
              onFocus={event => event.currentTarget.select()}
            />
            <CopyButton text={linkOf(code)} />
          </p>
        )}
      </Loaded>
      <TextField
        label={t("Days until it ends")}
        hint={t("0: it does not end.")}
        type="number"
        min={0}
        max={365}
        value={days}
        onValue={setDays}
      />
      <p class="buttons">
        <button type="button" onClick={onClose}>
          {t("Done")}
        </button>
      </p>
    </Dialog>
  )
}
