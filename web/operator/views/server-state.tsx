import { useState } from "preact/hooks"
import { announcementOf, closingSeconds, shownStatus } from "../../../src/domain/service/server-status.ts"
import { ask } from "../../kit/dialog.tsx"
import { Form, Select, TextField, type Choices } from "../../kit/forms.tsx"
import { duration, fieldTime } from "../../kit/format.ts"
import { Time } from "../../kit/time.tsx"
import { useResource } from "../../kit/resource.ts"
import { Badge, Facts, Loaded, type Tone } from "../../kit/states.tsx"
import { count, t } from "../../kit/text.ts"
import { say } from "../../kit/toasts.tsx"
import { call } from "../client.ts"
import { Header } from "../header.tsx"
import { sessionsNow } from "../live.ts"
import type { ServerState } from "../wire.ts"

type State = ServerState["state"]
const states: Choices<State> = [
  ["running", t("Running")],
  ["maintenance", t("Maintenance")],
  ["restarting", t("Restarting")],
  ["shutting_down", t("Shutting down")],
]
const tones: Record<State, Tone> = { running: "good", maintenance: "warm", restarting: "cool", shutting_down: "bad" }
const effects: Record<State, string> = {
  running: t("Everything is served."),
  maintenance: t("Every request is refused with 503 and the message, but for the status and this area."),
  restarting: t("It is only announced: requests are served as before."),
  shutting_down: t("It is announced, and all connections are closed. Requests are served as before."),
}

export function ServerStatePage() {
  const state = useResource(signal => call("GET /server-state", {}, { signal }), [])
  return (
    <>
      <Header
        title={
          <>
            {t("Server state")} {state.data && <StateBadge of={state.data.state} />}
          </>
        }
        about={t("What the service says of itself, to everybody.")}
      />
      <Loaded of={state}>{data => <Change key={JSON.stringify(data)} before={data} reload={state.reload} />}</Loaded>
      <SignEverybodyOut />
    </>
  )
}

const StateBadge = ({ of }: { of: State }) => (
  <Badge tone={tones[of]}>{states.find(([state]) => state === of)?.[1]}</Badge>
)

const put = ({ state, message, estimated_downtime_seconds, restart_at }: ServerState) =>
  call("PUT /server-state", {
    body: {
      state,
      ...(message !== null && { message }),
      ...(estimated_downtime_seconds !== null && { estimated_downtime_seconds }),
      ...(restart_at !== null && { restart_at }),
    },
  })

function Change({ before, reload }: { before: ServerState; reload: () => void }) {
  const [state, setState] = useState(before.state)
  const [message, setMessage] = useState(before.message ?? "")
  const [minutes, setMinutes] = useState(
    before.estimated_downtime_seconds === null ? "" : String(Math.round(before.estimated_downtime_seconds / 60)),
  )
  const restartBefore = before.restart_at === null ? "" : fieldTime(before.restart_at)
  const [restart, setRestart] = useState(restartBefore)
  const turnTo = (state: State) => {
    setState(state)
    // What was said of an interruption is no news of a service that runs.
    if (state === "running") for (const clear of [setMessage, setMinutes, setRestart]) clear("")
  }
  const next: ServerState = {
    state,
    message: message || null,
    estimated_downtime_seconds: minutes === "" ? null : Math.round(Number(minutes) * 60),
    restart_at:
      restart === ""
        ? null
        : restart === restartBefore
          ? before.restart_at
          : Math.floor(new Date(restart).getTime() / 1_000),
  }
  const closes = announcementOf(next)?.close !== undefined
  const save = async () => {
    await put(next)
    say(t("The service says it now."), async () => {
      await put(before)
      reload()
    })
    reload()
  }
  const submit = async () => {
    if (state === "running" || state === "restarting") return save()
    const sessions = await sessionsNow()
    ask({
      title: state === "maintenance" ? t("Begin the maintenance?") : t("Announce the end?"),
      will: (
        <>
          <p>{effects[state]}</p>
          <p>
            {count(
              sessions,
              "{n} connected session is told, and closed {s} seconds later.",
              "{n} connected sessions are told, and closed {s} seconds later.",
              { s: closingSeconds },
            )}{" "}
            {t("It can be undone; applications then connect again by themselves.")}
          </p>
        </>
      ),
      does: state === "maintenance" ? t("Begin") : t("Announce"),
      isDangerous: true,
      work: save,
    })
  }
  return (
    <div class="columns">
      <section class="card" aria-labelledby="change">
        <h2 id="change">{t("Change it")}</h2>
        <Form does={t("Apply")} isDangerous={closes} onSubmit={submit}>
          <Select label={t("State")} hint={effects[state]} value={state} choices={states} onValue={turnTo} />
          <TextField label={t("Message to everybody")} value={message} onValue={setMessage} maxLength={500} />
          <TextField
            label={t("Takes about, in minutes")}
            type="number"
            min={0}
            max={525_600}
            value={minutes}
            onValue={setMinutes}
          />
          <TextField label={t("Back at")} type="datetime-local" value={restart} onValue={setRestart} />
        </Form>
      </section>
      <Preview of={next} />
    </div>
  )
}

/** What people will see, made by the rules that the server uses. */
function Preview({ of }: { of: ServerState }) {
  const shown = shownStatus(of)
  const announced = announcementOf(of)
  return (
    <section class="card" aria-labelledby="preview" aria-live="polite">
      <h2 id="preview">{t("What users will see")}</h2>
      {shown.maintenance_message === null ? (
        <p class="faint">{t("No message.")}</p>
      ) : (
        <div class={`notice ${tones[of.state]}`}>
          <p class="text">{shown.maintenance_message}</p>
          {shown.estimated_downtime_seconds !== null && (
            <p class="faint">{t("It takes about {time}.", { time: duration(shown.estimated_downtime_seconds) })}</p>
          )}
          {shown.restart_at !== null && (
            <p class="faint">
              {t("Back at")} <Time at={shown.restart_at} />
            </p>
          )}
        </div>
      )}
      <Facts
        of={[
          [
            t("Requests"),
            of.state === "maintenance" ? (
              <>
                <code>503</code> <code>{shown.maintenance_message}</code>
              </>
            ) : (
              t("are served")
            ),
          ],
          [
            t("Connections"),
            announced?.close
              ? t("are told, and closed after {s} s", { s: closingSeconds })
              : announced
                ? t("are told")
                : t("stay"),
          ],
        ]}
      />
      {announced && (
        <details>
          <summary>{t("As applications get it")}</summary>
          <pre tabIndex={0} aria-label={t("As applications get it")}>
            {JSON.stringify(announced.status, null, 2)}
          </pre>
        </details>
      )}
    </section>
  )
}

function SignEverybodyOut() {
  const start = async () => {
    const sessions = await sessionsNow()
    ask({
      title: t("Sign everybody out?"),
      will: (
        <>
          <p>
            {count(sessions, "{n} connected session ends", "{n} connected sessions end", {})}
            {t(
              ", and every other session of every user. Everybody has to sign in again. The tokens of all bots end, too: their owners have to make new ones. Operators stay signed in. It cannot be undone.",
            )}
          </p>
          <p>{t("It is for the day on which tokens may have become known to somebody.")}</p>
        </>
      ),
      does: t("Sign everybody out"),
      isDangerous: true,
      typed: t("everybody"),
      work: async () => {
        await call("POST /security/logout-all")
        say(t("Everybody is signed out."))
      },
    })
  }
  return (
    <section class="card" aria-labelledby="everybody">
      <h2 id="everybody">{t("Sign everybody out")}</h2>
      <p>{t("Ends every session of every user, and the token of every bot, at once.")}</p>
      <p class="buttons start">
        <button type="button" class="danger" onClick={() => void start()}>
          {t("Sign everybody out …")}
        </button>
      </p>
    </section>
  )
}
