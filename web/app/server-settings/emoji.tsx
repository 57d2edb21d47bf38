import { useState } from "preact/hooks"
import type { EmojiResponse, StickerPackResponse, StickerResponse } from "../../../client/contract.ts"
import type { KnownServer } from "../../../client/state.ts"
import { ask } from "../../kit/dialog.tsx"
import { FileField, Form, TextField } from "../../kit/forms.tsx"
import { useResource } from "../../kit/resource.ts"
import { Loaded } from "../../kit/states.tsx"
import { count, t } from "../../kit/text.ts"
import { say } from "../../kit/toasts.tsx"
import { nameIn, pathOnServer } from "../names.ts"
import { fileOf } from "../files.ts"
import { me } from "../session.ts"
import { useServer, type PartOptions } from "./shared.tsx"

export function EmojiAndStickers({ server }: PartOptions) {
  const known = useServer(server)
  if (!known) return <p class="loading">{t("Loading …")}</p>
  return (
    <>
      <Emojis known={known} />
      <Stickers known={known} />
    </>
  )
}

/** A name that the server takes, from that of a file. */
export const emojiNameOf = (filename: string): string =>
  filename
    .replace(/\.[^.]*$/, "")
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "_")
    .replace(/^_+|_+$/g, "")
    .slice(0, 32)

const emojiFaults = { name: /emoji.* name|^Invalid name/i, image: /file|picture/i }

function Emojis({ known }: { known: KnownServer }) {
  const { client } = me()
  const { id: server } = known.facts
  const counts = useResource(
    () => client.countEmojis({ server_id: server }),
    [server, known.emojis.map(({ id }) => id)],
  )
  const [name, setName] = useState("")
  const [file, setFile] = useState<File>()
  const add = async () => {
    if (!file) return
    const emoji = await client.createEmoji({ server_id: server, name: name.trim(), image: await fileOf(file) })
    setName("")
    setFile(undefined)
    say(t(":{name}: is there.", { name: emoji.name }))
  }
  return (
    <section class="card">
      <h2>{t("Emoji")}</h2>
      <Loaded of={counts}>
        {({ static: still, animated, max_static, max_animated }) => (
          <p class="faint">
            {t("{n} of {most} still ones, {moving} of {maxMoving} that move.", {
              n: still,
              most: max_static,
              moving: animated,
              maxMoving: max_animated,
            })}
          </p>
        )}
      </Loaded>
      <Form
        inline
        does={t("Add the emoji")}
        isReady={file !== undefined && name.trim() !== ""}
        onSubmit={add}
        at={emojiFaults}
      >
        <FileField
          name="image"
          label={t("Picture")}
          hint={t("PNG, GIF or WebP, at most 256 KB and 1024 × 1024 pixels.")}
          accept="image/png,image/gif,image/webp"
          value={file}
          onValue={chosen => {
            setFile(chosen)
            if (chosen && name === "") setName(emojiNameOf(chosen.name))
          }}
        />
        <TextField
          name="name"
          label={t("Name of the emoji")}
          hint={t("2 to 32 of a to z, 0 to 9 and _.")}
          value={name}
          onValue={setName}
          required
          maxLength={32}
        />
      </Form>
      {known.emojis.length === 0 && <p class="faint">{t("There are none.")}</p>}
      <ul class="rows pictures">
        {known.emojis.map(emoji => (
          <EmojiRow key={`${emoji.id} ${emoji.name}`} known={known} emoji={emoji} />
        ))}
      </ul>
    </section>
  )
}

function EmojiRow({ known, emoji: { id, name, url, created_by } }: { known: KnownServer; emoji: EmojiResponse }) {
  const { client } = me()
  const { id: server } = known.facts
  const [written, write] = useState(name)
  const remove = () =>
    ask({
      title: t("Delete {name}?", { name: `:${name}:` }),
      will: <p>{t("Messages that have it show its name instead.")}</p>,
      does: t("Delete"),
      isDangerous: true,
      work: () => client.deleteEmoji({ server_id: server, emoji_id: id }),
    })
  return (
    <li>
      <img src={pathOnServer(url)} alt={`:${name}:`} width={32} height={32} loading="lazy" />
      <Form
        inline
        does={t("Rename")}
        isReady={written.trim() !== name && written.trim() !== ""}
        onSubmit={() => client.renameEmoji({ server_id: server, emoji_id: id, name: written.trim() })}
        at={emojiFaults}
      >
        <TextField
          name="name"
          label={t("Name of {name}", { name: `:${name}:` })}
          value={written}
          onValue={write}
          required
          maxLength={32}
        />
      </Form>
      <span class="faint">{nameIn(known, created_by, "")}</span>
      <button type="button" class="small" aria-label={t("Delete {name}", { name: `:${name}:` })} onClick={remove}>
        {t("Delete")}
      </button>
    </li>
  )
}

/** So many are in one pack; a full one is followed by another. */
const stickersPerPack = 50

function Stickers({ known }: { known: KnownServer }) {
  const { client } = me()
  const { id: server } = known.facts
  const [name, setName] = useState("")
  const [tags, setTags] = useState("")
  const [file, setFile] = useState<File>()
  const total = known.packs.reduce((sum, { sticker_count }) => sum + sticker_count, 0)
  const add = async () => {
    if (!file) return
    const image = await fileOf(file)
    await client.createSticker({ server_id: server, name: name.trim(), image, ...(tags.trim() !== "" && { tags }) })
    setName("")
    setTags("")
    setFile(undefined)
    say(t("The sticker is there."))
  }
  return (
    <section class="card">
      <h2>{t("Stickers")}</h2>
      <p class="faint">
        {count(total, "{n} sticker; a pack holds {most}.", "{n} stickers; a pack holds {most}.", {
          most: stickersPerPack,
        })}
      </p>
      <Form
        inline
        does={t("Add the sticker")}
        isReady={file !== undefined && name.trim() !== ""}
        onSubmit={add}
        at={{ name: /^Invalid name/i, image: /file|picture/i, tags: /tags/i }}
      >
        <FileField
          name="image"
          label={t("Picture of the sticker")}
          hint={t("PNG, APNG or Lottie, at most 512 KB.")}
          accept="image/png,image/apng,application/json,.json"
          value={file}
          onValue={setFile}
        />
        <TextField
          name="name"
          label={t("Name of the sticker")}
          value={name}
          onValue={setName}
          required
          minLength={2}
          maxLength={30}
        />
        <TextField
          name="tags"
          label={t("Words by which it is suggested")}
          hint={t("With commas between them.")}
          value={tags}
          onValue={setTags}
          maxLength={500}
        />
      </Form>
      {known.packs.map(pack => (
        <Pack key={pack.id} of={pack} />
      ))}
    </section>
  )
}

function Pack({ of: { name, stickers } }: { of: StickerPackResponse }) {
  return (
    <>
      <h3>{name}</h3>
      <ul class="rows pictures">
        {stickers.map(sticker => (
          <StickerRow key={sticker.id} of={sticker} />
        ))}
      </ul>
    </>
  )
}

function StickerRow({ of: { id, name, tags, url, format } }: { of: StickerResponse }) {
  const remove = () =>
    ask({
      title: t("Delete {name}?", { name }),
      will: <p>{t("Messages that have it show its name instead.")}</p>,
      does: t("Delete"),
      isDangerous: true,
      work: () => me().client.deleteSticker({ sticker_id: id }),
    })
  return (
    <li>
      {format === "json" ? (
        <span class="badge">{t("Lottie")}</span>
      ) : (
        <img src={pathOnServer(url)} alt="" width={48} height={48} loading="lazy" />
      )}
      <span class="long">{name}</span> <span class="faint long">{tags.join(", ")}</span>
      <button type="button" class="small" aria-label={t("Delete {name}", { name })} onClick={remove}>
        {t("Delete")}
      </button>
    </li>
  )
}
