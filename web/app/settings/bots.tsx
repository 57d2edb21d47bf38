import { useState } from "preact/hooks"
import type { BotResponse, PermissionName } from "../../../client/contract.ts"
import { ask } from "../../kit/dialog.tsx"
import { Checkbox, CopyButton, Form, TextField } from "../../kit/forms.tsx"
import { useResource } from "../../kit/resource.ts"
import { linkTo } from "../../kit/router.ts"
import { Empty, Loaded } from "../../kit/states.tsx"
import { t } from "../../kit/text.ts"
import { attempt, say } from "../../kit/toasts.tsx"
import type { FileToUpload } from "../files.ts"
import { avatarOf } from "../names.ts"
import { permissionGroups } from "../permission-words.ts"
import { PictureButton } from "../picture-button.tsx"
import { base, me } from "../session.ts"

/** What somebody opens who is to add the bot to their server. */
const linkOf = (bot: string) => `${location.origin}${base}/app${linkTo(["bots", bot])}`

/** The programs of a person: each is an account of its own. */
export function Bots() {
  const { client } = me()
  const bots = useResource(() => client.listBots(), [])
  const [username, setUsername] = useState("")
  const [shown, show] = useState<{ readonly username: string; readonly token: string }>()
  const make = async () => {
    show(await client.createBot({ username: username.trim() }))
    setUsername("")
    bots.reload()
  }
  const renew = ({ id: bot_id, username }: BotResponse) =>
    ask({
      title: t("Give {name} a new token?", { name: username }),
      will: <p>{t("The token it has ends at once, and whatever uses it is signed out.")}</p>,
      does: t("Give a new one"),
      isDangerous: true,
      work: async () => {
        const { token } = await client.resetBotToken({ bot_id })
        show({ username, token })
        bots.reload()
      },
    })
  return (
    <>
      <section class="card">
        <h2>{t("Make a bot")}</h2>
        <p>{t("A bot is an account that a program of yours uses.")}</p>
        <Form inline does={t("Make it")} onSubmit={make}>
          <TextField label={t("Name")} value={username} onValue={setUsername} required minLength={3} maxLength={32} />
        </Form>
      </section>
      {shown && (
        <section class="card" role="status">
          <h2>{t("The token of {name}", { name: shown.username })}</h2>
          <p>{t("Keep it now: it is not shown again. Who has it is the bot.")}</p>
          <p class="share">
            <input
              readOnly
              value={shown.token}
              aria-label={t("Token")}
              onFocus={event => event.currentTarget.select()}
            />
            <CopyButton text={shown.token} />
          </p>
          <p class="buttons start">
            <button type="button" onClick={() => show(undefined)}>
              {t("I have kept it")}
            </button>
          </p>
        </section>
      )}
      <Loaded of={bots}>
        {list =>
          list.length === 0 ? (
            <Empty title={t("You have no bots.")} />
          ) : (
            list.map(bot => <OneBot key={bot.id} bot={bot} onRenew={() => renew(bot)} onChange={bots.reload} />)
          )
        }
      </Loaded>
    </>
  )
}

function OneBot({ bot, onRenew, onChange }: { bot: BotResponse; onRenew: () => void; onChange: () => void }) {
  const { client } = me()
  const bot_id = bot.id
  const [username, setUsername] = useState(bot.username)
  const [isPublic, setPublic] = useState(bot.public)
  const [asked, setAsked] = useState<ReadonlySet<string>>(new Set(bot.permissions))
  // Its address stays the same.
  const [pictures, setPictures] = useState(0)
  const save = async () => {
    const permissions = [...asked] as PermissionName[]
    await client.editBot({ bot_id, ...(username !== bot.username && { username }), permissions, public: isPublic })
    say(t("Saved."))
    onChange()
  }
  const setPicture = async (file: FileToUpload) => {
    if (await attempt(() => client.putBotAvatar({ bot_id, file }))) setPictures(n => n + 1)
  }
  const remove = () =>
    ask({
      title: t("Delete {name}?", { name: bot.username }),
      will: <p>{t("It leaves all servers, and its token ends. What it wrote stays. This cannot be undone.")}</p>,
      does: t("Delete it"),
      typed: bot.username,
      isDangerous: true,
      work: async () => {
        await client.deleteBot({ bot_id })
        onChange()
      },
    })
  return (
    <section class="card" aria-label={bot.username}>
      <h2>
        <img
          class="avatar small"
          key={pictures}
          src={`${avatarOf(bot_id, bot.avatar_url)}?${pictures}`}
          alt=""
          width={28}
          height={28}
        />{" "}
        {bot.username}
      </h2>
      <Form does={t("Save")} onSubmit={save}>
        <TextField label={t("Name")} value={username} onValue={setUsername} required minLength={3} maxLength={32} />
        <Checkbox label={t("Others may add it to their servers")} value={isPublic} onValue={setPublic} />
        <details>
          <summary>{t("What it asks for in a server")}</summary>
          <PermissionChoice value={asked} onValue={setAsked} />
        </details>
      </Form>
      <p class="buttons start">
        <a class="button" href={linkTo(["bots", bot_id])}>
          {t("Add it to a server")}
        </a>
        <CopyButton text={linkOf(bot_id)} label={t("Copy the link for others")} />
        <button type="button" onClick={onRenew}>
          {t("New token")}
        </button>
        <PictureButton onPick={setPicture} />
        <button type="button" class="danger" onClick={remove}>
          {t("Delete it")}
        </button>
      </p>
    </section>
  )
}

function PermissionChoice({
  value,
  onValue,
}: {
  value: ReadonlySet<string>
  onValue: (value: ReadonlySet<string>) => void
}) {
  return permissionGroups().map(({ title, permissions }) => (
    <fieldset key={title}>
      <legend>{title}</legend>
      {permissions.map(([name, { title: label, about }]) => (
        <Checkbox
          key={name}
          label={label}
          hint={about}
          value={value.has(name)}
          onValue={isOn => {
            const now = new Set(value)
            if (isOn) now.add(name)
            else now.delete(name)
            onValue(now)
          }}
        />
      ))}
    </fieldset>
  ))
}
