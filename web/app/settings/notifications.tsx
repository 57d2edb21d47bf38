import { useState } from "preact/hooks"
import { Checkbox } from "../../kit/forms.tsx"
import { useResource } from "../../kit/resource.ts"
import { Loaded } from "../../kit/states.tsx"
import { t } from "../../kit/text.ts"
import { Time } from "../../kit/time.tsx"
import { attempt } from "../../kit/toasts.tsx"
import { choice, mayShow, show, subscribe, unsubscribe, type Choice } from "../notifications.ts"
import { registration } from "../offline/registration.ts"
import { me } from "../session.ts"

/** What this browser shows, and which browsers are sent something. */
export function Notifications() {
  const { client } = me()
  const subscriptions = useResource(() => client.listPushSubscriptions(), [])
  const [permission, setPermission] = useState(permissionNow)
  const { value } = choice
  const edit = (change: Partial<Choice>) => {
    choice.value = { ...choice.value, ...change }
    if (choice.value.isPushed) attempt(() => subscribe(me())).then(subscriptions.reload, () => {})
  }
  // Browsers answer only where the person has pressed something.
  const ask = () =>
    attempt(async () => {
      setPermission(await Notification.requestPermission())
      if (mayShow()) edit({ isOn: true })
    })
  const push = (isPushed: boolean) =>
    attempt(async () => {
      if (!isPushed) await unsubscribe(me())
      else if (!(await subscribe(me()))) throw new Error(t("This browser takes nothing while the page is closed."))
      choice.value = { ...choice.value, isPushed }
    }).then(subscriptions.reload)
  const test = () =>
    attempt(async () => {
      const own = await ownEndpoint()
      const listed = subscriptions.data?.subscriptions.find(({ endpoint }) => endpoint === own)
      if (value.isPushed && listed) await client.testPushSubscription({ subscription_id: listed.id })
      else await show(document.body.dataset["server"] ?? "", t("This is a test."), "test", "settings/notifications")
    })
  return (
    <>
      <section class="card">
        <h2>{t("This browser")}</h2>
        {permission === "none" && <p>{t("This browser shows no notifications.")}</p>}
        {permission === "denied" && <p>{t("You have forbidden this browser to show notifications of this page.")}</p>}
        {permission === "default" && (
          <>
            <p>{t("See what is for you while you look at something else.")}</p>
            <button type="button" onClick={() => void ask()}>
              {t("Show notifications")}
            </button>
          </>
        )}
        {permission === "granted" && (
          <>
            <Checkbox label={t("Show notifications")} value={value.isOn} onValue={isOn => edit({ isOn })} />
            <Checkbox label={t("Of direct messages")} value={value.directs} onValue={directs => edit({ directs })} />
            <Checkbox label={t("Of mentions")} value={value.mentions} onValue={mentions => edit({ mentions })} />
            <Checkbox
              label={t("Without what was written")}
              value={value.hidesContent}
              onValue={hidesContent => edit({ hidesContent })}
            />
            <Checkbox
              label={t("Also when this page is closed")}
              value={value.isPushed}
              onValue={isPushed => void push(isPushed)}
            />
            <p class="buttons start">
              <button type="button" onClick={() => void test()}>
                {t("Send a test")}
              </button>
            </p>
          </>
        )}
      </section>
      <section class="card">
        <h2>{t("Browsers that are sent something")}</h2>
        <Loaded of={subscriptions}>
          {({ subscriptions: list }) => (
            <>
              {list.length === 0 && <p class="faint">{t("None yet.")}</p>}
              <ul class="rows">
                {list.map(({ id, endpoint, created_at, current }) => (
                  <li key={id}>
                    <span class="long">
                      {new URL(endpoint).host} <Time at={created_at} apart />
                    </span>
                    {current && <span class="badge good">{t("this session")}</span>}
                    <button
                      type="button"
                      class="small"
                      onClick={() =>
                        void attempt(() => client.deletePushSubscription({ subscription_id: id })).then(
                          subscriptions.reload,
                        )
                      }
                    >
                      {t("Remove")}
                    </button>
                  </li>
                ))}
              </ul>
            </>
          )}
        </Loaded>
      </section>
    </>
  )
}

const permissionNow = (): NotificationPermission | "none" =>
  "Notification" in globalThis ? Notification.permission : "none"

async function ownEndpoint(): Promise<string | undefined> {
  const worker = await registration()
  return (await worker?.pushManager?.getSubscription())?.endpoint
}
