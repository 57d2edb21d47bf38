import { memo } from "preact/compat"
import { useState } from "preact/hooks"
import type { AttachmentResponse, MessageResponse, ReactionResponse, Snowflake } from "../../client/contract.ts"
import { ask, present } from "../kit/dialog.tsx"
import { bytes } from "../kit/format.ts"
import { count, t } from "../kit/text.ts"
import { attempt, sayFailed } from "../kit/toasts.tsx"
import { clock, exactly, fullTime } from "./clock.ts"
import { Embeds } from "./embeds.tsx"
import { EmojiPicker } from "./emoji-picker.tsx"
import { Pictures } from "./gallery.tsx"
import { avatarOf, colorStyleIn, initials, nameIn, pathOnServer, plainText } from "./names.ts"
import { forget, sendAgain, type Outgoing } from "./outbox.ts"
import { PollOf } from "./poll.tsx"
import type { Given } from "./report.tsx"
import { RichText } from "./rich-text.tsx"
import { me, ownId, watch } from "./session.ts"
import { Icon } from "./icons.tsx"

/** What the person may do with messages of a channel; with their own they may do more. */
export interface Rights {
  readonly mayWrite: boolean
  readonly mayReact: boolean
  readonly mayPin: boolean
  readonly mayDelete: boolean
}

export interface MessageOptions {
  readonly message: MessageResponse
  readonly server: Snowflake | undefined
  /** By the same author, soon after the one before: without name and picture. */
  readonly isContinued: boolean
  readonly isMarked: boolean
  readonly isEditing: boolean
  readonly repliedTo: MessageResponse | undefined
  readonly rights: Rights
  readonly onReply: (message: MessageResponse) => void
  readonly onEdit: (message: MessageResponse | undefined) => void
  readonly onJump: (message: Snowflake) => void
}

/** Rendered again when its message has changed: the store makes a new one of it then. */
export const MessageRow = memo(function MessageRow(options: MessageOptions) {
  const { message, server, isContinued, isMarked, isEditing, repliedTo, onJump } = options
  const known = server === undefined ? undefined : watch(`server ${server}`).state.servers.get(server)
  const name = nameIn(known, message.author_id, message.author_username)
  // Of most messages nobody asks what can be done with them, and the buttons would be half of the page.
  const [isMet, meet] = useState(false)
  return (
    <article
      id={`message-${message.id}`}
      class={`message${isContinued ? " continued" : ""}${isMarked ? " marked" : ""}`}
      aria-label={t("{name}, {time}", { name, time: clock(message.created_at) })}
      tabIndex={-1}
      onPointerEnter={() => meet(true)}
      onFocusIn={() => meet(true)}
    >
      {message.reply_to_id !== null && (
        <button type="button" class="reply-line" onClick={() => onJump(message.reply_to_id!)}>
          <span aria-hidden="true">↱ </span>
          {repliedTo ? (
            <>
              <b dir="auto">{nameIn(known, repliedTo.author_id, repliedTo.author_username)}</b>{" "}
              <bdi>{plainText(repliedTo.content ?? "", known)}</bdi>
            </>
          ) : (
            t("an earlier message")
          )}
        </button>
      )}
      {isContinued ? (
        <time class="side" dateTime={exactly(message.created_at)} title={fullTime(message.created_at)}>
          {clock(message.created_at)}
        </time>
      ) : message.webhook_id !== undefined && !message.author_avatar_url ? (
        // The server has none for it.
        <span class="avatar" aria-hidden="true">
          {initials(name)}
        </span>
      ) : (
        <img
          class="avatar"
          src={avatarOf(message.author_id, message.author_avatar_url)}
          alt=""
          loading="lazy"
          width={40}
          height={40}
        />
      )}
      <div class="body">
        {!isContinued && (
          <header>
            <b dir="auto" style={colorStyleIn(known, message.author_id)}>
              {name}
            </b>
            {(message.author_bot || message.webhook_id !== undefined) && <span class="badge cool">{t("Bot")}</span>}
            <time dateTime={exactly(message.created_at)} title={fullTime(message.created_at)}>
              {clock(message.created_at)}
            </time>
            {message.pinned && (
              <span title={t("Pinned")}>
                <Icon name="pin" />
              </span>
            )}
          </header>
        )}
        {isEditing ? (
          <Editor {...options} />
        ) : (
          <>
            {message.content && <RichText text={message.content} server={server} />}
            {message.edited_at !== null && (
              <small class="faint" title={fullTime(message.edited_at)}>
                {t("(edited)")}
              </small>
            )}
          </>
        )}
        <Attachments of={message.attachments} />
        <Embeds of={message.embeds} />
        {message.poll && <PollOf poll={message.poll} results={message.poll_results} />}
        <Reactions message={message} mayReact={options.rights.mayReact} />
      </div>
      {isMet && !isEditing && <Actions {...options} />}
    </article>
  )
})

function Actions({ message, rights, onReply, onEdit }: MessageOptions) {
  const [isPicking, pick] = useState(false)
  const { client } = me()
  const where = { channel_id: message.channel_id, message_id: message.id }
  const isOwn = message.author_id === ownId() && message.webhook_id === undefined
  const remove = () =>
    ask({
      title: t("Delete this message?"),
      will: <p>{t("It is gone for everybody. This cannot be undone.")}</p>,
      does: t("Delete"),
      isDangerous: true,
      work: () => client.deleteMessage(where),
    })
  const report = () =>
    present(async () => {
      const { Report } = await import("./dialogs.ts")
      const send = (given: Given) => client.reportMessage({ ...where, ...given })
      return onClose => <Report title={t("Report this message")} send={send} onClose={onClose} />
    })
  const pin = () => void attempt(() => (message.pinned ? client.unpinMessage(where) : client.pinMessage(where)))
  return (
    <div class="actions" role="toolbar" aria-label={t("What to do with this message")}>
      {rights.mayReact && (
        <button
          type="button"
          class="quiet small"
          title={t("React")}
          aria-label={t("React")}
          onClick={() => pick(!isPicking)}
        >
          <Icon name="smile" />
        </button>
      )}
      {rights.mayWrite && (
        <button
          type="button"
          class="quiet small"
          title={t("Reply")}
          aria-label={t("Reply")}
          onClick={() => onReply(message)}
        >
          <Icon name="reply" />
        </button>
      )}
      {isOwn && rights.mayWrite && (
        <button
          type="button"
          class="quiet small"
          title={t("Edit")}
          aria-label={t("Edit")}
          onClick={() => onEdit(message)}
        >
          <Icon name="edit" />
        </button>
      )}
      {rights.mayPin && (
        <button
          type="button"
          class="quiet small"
          title={message.pinned ? t("Unpin") : t("Pin")}
          aria-label={message.pinned ? t("Unpin") : t("Pin")}
          onClick={pin}
        >
          <Icon name="pin" />
        </button>
      )}
      {!isOwn && message.webhook_id === undefined && (
        <button type="button" class="quiet small" title={t("Report")} aria-label={t("Report")} onClick={report}>
          <Icon name="flag" />
        </button>
      )}
      {(isOwn || rights.mayDelete) && (
        <button type="button" class="quiet small" title={t("Delete")} aria-label={t("Delete")} onClick={remove}>
          <Icon name="bin" />
        </button>
      )}
      {isPicking && (
        <EmojiPicker
          takesAny
          onClose={() => pick(false)}
          onPick={emoji => {
            pick(false)
            attempt(() => client.addReaction({ ...where, emoji })).catch(sayFailed)
          }}
        />
      )}
    </div>
  )
}

function Editor({ message, onEdit }: MessageOptions) {
  const [text, setText] = useState(message.content ?? "")
  const save = () => {
    const content = text.trim()
    onEdit(undefined)
    if (content === (message.content ?? "") || content === "") return
    attempt(() => me().client.editMessage({ channel_id: message.channel_id, message_id: message.id, content })).catch(
      sayFailed,
    )
  }
  return (
    <div class="editor">
      <textarea
        aria-label={t("Edit the message")}
        rows={Math.min(12, text.split("\n").length + 1)}
        value={text}
        dir="auto"
        ref={focusOnce}
        onInput={event => setText(event.currentTarget.value)}
        onKeyDown={event => {
          if (event.key === "Escape") onEdit(undefined)
          else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
            event.preventDefault()
            save()
          }
        }}
      />
      <p class="hint">
        <button type="button" class="quiet small" onClick={() => onEdit(undefined)}>
          {t("Cancel")} <kbd>Esc</kbd>
        </button>
        <button type="button" class="quiet small" onClick={save}>
          {t("Save")} <kbd>Enter</kbd>
        </button>
      </p>
    </div>
  )
}

function focusOnce(element: HTMLTextAreaElement | null): void {
  if (!element || element.dataset["met"]) return
  element.dataset["met"] = "yes"
  element.focus()
  element.setSelectionRange(element.value.length, element.value.length)
}

function Reactions({ message, mayReact }: { message: MessageResponse; mayReact: boolean }) {
  if (message.reactions.length === 0) return null
  const { client } = me()
  const toggle = (reaction: ReactionResponse) => {
    const asked = {
      channel_id: message.channel_id,
      message_id: message.id,
      emoji: reaction.custom_emoji_id ?? reaction.emoji,
    }
    attempt(() => (reaction.me ? client.removeReaction(asked) : client.addReaction(asked))).catch(sayFailed)
  }
  return (
    <div class="reactions">
      {message.reactions.map(reaction => (
        <button
          key={reaction.custom_emoji_id ?? reaction.emoji}
          type="button"
          class="reaction"
          aria-pressed={reaction.me}
          disabled={!mayReact && !reaction.me}
          aria-label={count(reaction.count, "{emoji}: {n} reaction", "{emoji}: {n} reactions", {
            emoji: reaction.emoji,
          })}
          onClick={() => toggle(reaction)}
        >
          {reaction.url === null ? (
            reaction.emoji
          ) : (
            <img class="emoji" src={pathOnServer(reaction.url)} alt={reaction.emoji} />
          )}
          <span>{reaction.count}</span>
        </button>
      ))}
    </div>
  )
}

function Attachments({ of }: { of: readonly AttachmentResponse[] }) {
  if (of.length === 0) return null
  return (
    <div class="attachments">
      <Pictures of={of.filter(isPicture)} />
      {of
        .filter(file => !isPicture(file))
        .map(file => (
          <Attachment key={file.id} file={file} />
        ))}
    </div>
  )
}

const isPicture = ({ content_type }: AttachmentResponse) => content_type.startsWith("image/")

function Attachment({ file }: { file: AttachmentResponse }) {
  const url = pathOnServer(file.url)
  if (file.content_type.startsWith("audio/"))
    return <audio controls preload="none" src={url} aria-label={file.filename} />
  if (file.content_type.startsWith("video/"))
    return <video controls preload="none" src={url} aria-label={file.filename} />
  return (
    <a class="file" href={url} target="_blank" rel="noopener" download={file.filename}>
      <b dir="auto">{file.filename}</b> <small dir="ltr">{bytes(file.size)}</small>
    </a>
  )
}

/** A message that is on its way, or that did not get there. */
export function OutgoingRow({ one, server }: { one: Outgoing; server: Snowflake | undefined }) {
  const user = watch("user").state.user
  return (
    <article
      class={one.failure === undefined ? "message pending" : "message failed"}
      aria-busy={one.failure === undefined}
    >
      <img class="avatar" src={avatarOf(user?.id ?? "0", user?.avatar_url)} alt="" width={40} height={40} />
      <div class="body">
        <header>
          <b dir="auto">{user?.username}</b>
          <span class="faint">
            {one.failure !== undefined ? t("not sent") : one.isWaiting ? t("waits for the connection") : t("sending …")}
          </span>
        </header>
        {one.input.content && <RichText text={one.input.content} server={server} />}
        {one.failure !== undefined && (
          <p class="failure" role="alert">
            {one.failure}{" "}
            <button type="button" class="small" onClick={() => sendAgain(one)}>
              {t("Try again")}
            </button>{" "}
            <button type="button" class="small quiet" onClick={() => forget(one)}>
              {t("Discard")}
            </button>
          </p>
        )}
      </div>
    </article>
  )
}
