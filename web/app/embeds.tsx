import { useState } from "preact/hooks"
import { t } from "../kit/text.ts"
import { fullTime } from "./clock.ts"
import { RichText } from "./rich-text.tsx"

interface Picture {
  readonly url: string
}

/** As the server has checked it; all but the title's length is its author's. */
interface Embed {
  readonly title?: string
  readonly description?: string
  readonly url?: string
  readonly color?: string
  readonly timestamp?: string
  readonly author?: { readonly name?: string; readonly url?: string }
  readonly provider?: { readonly name?: string; readonly url?: string }
  readonly fields?: readonly { readonly name: string; readonly value: string; readonly inline?: boolean }[]
  readonly image?: Picture
  readonly thumbnail?: Picture
  readonly video?: Picture
  readonly footer?: { readonly text?: string }
}

export function Embeds({ of }: { of: readonly unknown[] }) {
  return (
    <>
      {(of as Embed[]).map((embed, i) => (
        <EmbedOf key={i} {...embed} />
      ))}
    </>
  )
}

function EmbedOf(embed: Embed) {
  const { title, description, url, color, timestamp, author, provider, fields, image, thumbnail, video, footer } = embed
  const at = timestamp === undefined ? NaN : Date.parse(timestamp)
  const last = [footer?.text, Number.isNaN(at) ? undefined : fullTime(at / 1_000)].filter(Boolean).join(" · ")
  return (
    <section
      class="embed"
      // The page's policy takes no style of a text; properties it does.
      style={color !== undefined && /^#[0-9a-f]{6}$/i.test(color) ? { borderInlineStartColor: color } : {}}
    >
      {provider?.name && (
        <small class="faint">
          <Linked text={provider.name} url={provider.url} />
        </small>
      )}
      {author?.name && (
        <p>
          <Linked text={author.name} url={author.url} />
        </p>
      )}
      {title && (
        <b>
          <Linked text={title} url={url} />
        </b>
      )}
      {description && <RichText text={description} server={undefined} />}
      {fields && fields.length > 0 && (
        <dl>
          {fields.map(({ name, value, inline }, i) => (
            <div key={i} class={inline ? "beside" : undefined}>
              <dt dir="auto">{name}</dt>
              <dd>
                <RichText text={value} server={undefined} />
              </dd>
            </div>
          ))}
        </dl>
      )}
      {[image, thumbnail].map(one => one && <Elsewhere key={one.url} url={one.url} title={title} />)}
      {video && (
        <p>
          <Linked text={t("Video at {host}", { host: hostOf(video.url) })} url={video.url} />
        </p>
      )}
      {last && (
        <small class="faint" dir="auto">
          {last}
        </small>
      )}
    </section>
  )
}

const isWeb = (url: string | undefined): url is string => url !== undefined && /^https?:\/\//i.test(url)
const hostOf = (url: string): string => (URL.canParse(url) ? new URL(url).host : url)

const Linked = ({ text, url }: { text: string; url: string | undefined }) => (
  <bdi>
    {isWeb(url) ? (
      <a href={url} target="_blank" rel="noopener noreferrer nofollow">
        {text}
      </a>
    ) : (
      text
    )}
  </bdi>
)

/**
 * Who writes a message would learn the address of everybody who sees it: a picture from elsewhere
 * comes when it is asked for.
 */
function Elsewhere({ url, title }: { url: string; title: string | undefined }) {
  const [isShown, show] = useState(false)
  if (!isWeb(url)) return null
  // The page loads pictures over https only.
  if (!/^https:/i.test(url)) return <Linked text={t("Picture at {host}", { host: hostOf(url) })} url={url} />
  return isShown ? (
    <a href={url} target="_blank" rel="noopener noreferrer nofollow">
      <img class="picture" src={url} alt={title ?? ""} />
    </a>
  ) : (
    <button type="button" class="small" onClick={() => show(true)}>
      {t("Show the picture from {host}", { host: hostOf(url) })}
    </button>
  )
}
