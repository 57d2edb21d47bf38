import { useMemo, useState } from "preact/hooks"
import type { Snowflake } from "../../client/contract.ts"
import { t } from "../kit/text.ts"
import { parse, type Block, type Inline } from "./markdown.ts"
import { nameIn, serverOfChannel } from "./names.ts"
import { linkToPlace } from "./places.ts"
import { base, ownId, watch } from "./session.ts"
import { stickerIn, stickerUrl, type SentSticker } from "./stickers.ts"

interface Around {
  /** Where names of members and roles are known. */
  readonly server: Snowflake | undefined
}

/** A message's text, with everything that Markdown makes of it. */
export function RichText({ text, server }: Around & { text: string }) {
  const blocks = useMemo(() => parse(text), [text])
  const sticker = stickerIn(text)
  if (sticker) return <Sticker of={sticker} />
  return (
    <div class={isOnlyEmoji(text) ? "rich large" : "rich"} dir="auto">
      {blocks.map((block, i) => (
        <BlockOf key={i} block={block} server={server} />
      ))}
    </div>
  )
}

/** Its place is as large before it is there. */
function Sticker({ of: { id, name } }: { of: SentSticker }) {
  const words = t("Sticker: {name}", { name })
  return (
    <div class="rich">
      <img class="sticker" src={stickerUrl(id)} alt={words} title={words} width={160} height={160} loading="lazy" />
    </div>
  )
}

const isOnlyEmoji = (text: string) =>
  text.length <= 40 &&
  /^(?:\p{Extended_Pictographic}|\p{Emoji_Component}|\s|<a?:\w+:\d+>)+$/u.test(text) &&
  !/^[\d\s#*]+$/.test(text)

function BlockOf({ block, server }: Around & { block: Block }) {
  switch (block.kind) {
    case "paragraph":
      return <p>{inlines(block.of, server)}</p>
    case "heading":
      return <p class={`heading level-${block.level}`}>{inlines(block.of, server)}</p>
    case "quote":
      return (
        <blockquote>
          {block.of.map((inner, i) => (
            <BlockOf key={i} block={inner} server={server} />
          ))}
        </blockquote>
      )
    case "list": {
      const items = block.items.map((item, i) => <li key={i}>{inlines(item, server)}</li>)
      return block.isOrdered ? <ol start={block.start}>{items}</ol> : <ul>{items}</ul>
    }
    case "code":
      return (
        <pre tabIndex={0}>
          <code>{block.text}</code>
        </pre>
      )
  }
}

const inlines = (nodes: readonly Inline[], server: Snowflake | undefined) =>
  nodes.map((node, i) => <InlineOf key={i} node={node} server={server} />)

function InlineOf({ node, server }: Around & { node: Inline }) {
  switch (node.kind) {
    case "text":
      return <>{node.text}</>
    case "strong":
      return <strong>{inlines(node.of, server)}</strong>
    case "em":
      return <em>{inlines(node.of, server)}</em>
    case "del":
      return <del>{inlines(node.of, server)}</del>
    case "spoiler":
      return <Spoiler of={node.of} server={server} />
    case "code":
      return <code>{node.text}</code>
    case "link":
      return (
        <a href={node.url} target="_blank" rel="noopener noreferrer nofollow">
          {inlines(node.of, server)}
        </a>
      )
    case "user":
      return <UserMention id={node.id} server={server} />
    case "role": {
      const role =
        server === undefined ? undefined : watch(`server ${server}`).state.servers.get(server)?.roles.get(node.id)
      return <span class="mention">@{role?.name ?? t("a role")}</span>
    }
    case "channel": {
      const found = serverOfChannel(node.id)
      const name = found?.[1].channels.get(node.id)?.name
      if (!found || name === undefined) return <span class="mention">#{t("a channel")}</span>
      return (
        <a class="mention" href={linkToPlace({ server: found[0], channel: node.id })}>
          #{name}
        </a>
      )
    }
    case "everyone":
      return <span class="mention own">{node.text}</span>
    case "emoji":
    case "sticker":
      return (
        <img
          class="emoji"
          src={node.kind === "emoji" ? `${base}/api/v1/media/emojis/${node.id}` : stickerUrl(node.id)}
          alt={`:${node.name}:`}
          title={`:${node.name}:`}
          loading="lazy"
        />
      )
  }
}

function UserMention({ id, server }: Around & { id: Snowflake }) {
  const known = server === undefined ? undefined : watch(`server ${server}`).state.servers.get(server)
  const isOwn = id === ownId()
  const name = nameIn(known, id, isOwn ? (watch("user").state.user?.username ?? "") : t("somebody"))
  return <span class={isOwn ? "mention own" : "mention"}>@{name}</span>
}

function Spoiler({ of, server }: Around & { of: readonly Inline[] }) {
  const [isOpen, open] = useState(false)
  return isOpen ? (
    <span class="spoiler open">{inlines(of, server)}</span>
  ) : (
    <button type="button" class="spoiler" aria-label={t("Hidden text: show it")} onClick={() => open(true)}>
      <span aria-hidden="true">{inlines(of, server)}</span>
    </button>
  )
}
