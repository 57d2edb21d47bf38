import { wayBackSeconds } from "../domain/accounts/one-time-tokens.ts"
import type { MailKind } from "../storage/accounts/mails.ts"

/** What a mail says, in plain English; everything it needs stands in it, nothing is fetched. */
export interface MailText {
  readonly subject: string
  readonly text: string
  readonly html: string
}

export interface MailFacts {
  readonly kind: MailKind
  readonly serverName: string
  readonly username: string
  readonly link: string
}

/** How long the links hold, in seconds. */
export const linkSeconds = {
  verify_email: 24 * 3600,
  password_reset: 3600,
  restore_email: wayBackSeconds,
} as const satisfies Record<MailKind, number>

const pages = {
  verify_email: "verify-email",
  password_reset: "reset-password",
  restore_email: "restore-email",
} as const satisfies Record<MailKind, string>

/** What is said around the link. */
interface Words {
  readonly subject: string
  readonly why: string
  readonly effect: string
  readonly button: string
  readonly otherwise: string
}

const wordsOf: Record<MailKind, (server: string, username: string) => Words> = {
  verify_email: (server, username) => ({
    subject: `Verify your e-mail address on ${server}`,
    why: `This address was given for your account on ${server}.`,
    effect: "Please confirm with this link that it is yours. It works once, for a day:",
    button: "Verify this address",
    otherwise: `If you have made no account called ${username} there, somebody else gave your address: do not follow the link.`,
  }),
  password_reset: server => ({
    subject: `Reset your password on ${server}`,
    why: `Somebody, probably you, has asked for a new password for your account on ${server}.`,
    effect: "With this link you choose one. It works once, for an hour, and signs you out everywhere:",
    button: "Choose a new password",
    otherwise: "If it was not you, you need do nothing: your password stays as it is.",
  }),
  restore_email: server => ({
    subject: `Your account on ${server} has another e-mail address now`,
    why: `The e-mail address of your account on ${server} was changed. It is no longer this one.`,
    effect:
      "If it was not you, take your account back with this link. It works once, for three days, brings this address back and signs everybody out:",
    button: "Take my account back",
    otherwise: "If it was you, you need do nothing.",
  }),
}

/** Behind `#` the token reaches no server's log, nor the page that is visited next. */
export const linkOf = (publicUrl: string, kind: MailKind, token: string): string =>
  `${publicUrl}/${pages[kind]}#${token}`

export function mailText({ kind, serverName, username, link }: MailFacts): MailText {
  const server = oneLine(serverName)
  const { subject, why, effect, button, otherwise } = wordsOf[kind](server, username)
  const paragraph = (text: string) => `<p style="margin:0 0 16px">${escaped(text)}</p>`
  return {
    subject,
    text: [`Hello ${username},`, why, effect, link, otherwise].join("\n\n") + "\n",
    html: `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="color-scheme" content="light dark"><title>${escaped(subject)}</title></head>
<body style="margin:0;padding:24px;font:16px/1.5 system-ui,sans-serif">
<div style="max-width:36rem;margin:0 auto">
${[`Hello ${username},`, why, effect].map(paragraph).join("\n")}
<p style="margin:24px 0"><a href="${escaped(link)}" style="display:inline-block;padding:10px 18px;border-radius:8px;background:#1a5fb4;color:#ffffff;text-decoration:none">${button}</a></p>
<p style="margin:0 0 16px;font-size:14px;word-break:break-all"><a href="${escaped(link)}">${escaped(link)}</a></p>
${paragraph(otherwise)}
</div>
</body>
</html>
`,
  }
}

/** A name that goes into a header begins no other. */
export const oneLine = (text: string) => text.replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, " ").trim()

const escaped = (text: string) =>
  text.replace(/[&<>"]/g, character => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[character]!)
