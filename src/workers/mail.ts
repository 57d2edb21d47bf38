import { createTransport } from "nodemailer"
import { unavailable } from "../contract/core/errors.ts"
import type { Log } from "../observability/log.ts"
import type { MailKind } from "../storage/accounts/mails.ts"
import { linkOf, mailText, oneLine } from "./mail-texts.ts"

export interface OutgoingMail {
  readonly kind: MailKind
  /** The address. */
  readonly to: string
  readonly username: string
  readonly token: string
}

export interface Mailer {
  /**
   * Resolves when the mail is handed over, or refused for good, so that no further try would help.
   * Throws when it may be tried again.
   */
  send(mail: OutgoingMail, signal: AbortSignal): Promise<void>
}

export interface MailerOptions {
  /** Without, the log shows each mail's link. */
  readonly smtpUrl: string | undefined
  readonly from: string | undefined
  readonly serverName: string
  readonly publicUrl: string
  readonly log: Log
  /** Milliseconds: of a step, and of all of it, however slowly the other side talks. */
  readonly timeoutsMs?: { readonly step: number; readonly whole: number }
}

const defaultTimeoutsMs = { step: 5_000, whole: 20_000 }
/** A mail server that does not answer leaves capacity for the other jobs of the process. */
const maxConcurrent = 8

export function createMailer({
  smtpUrl,
  from,
  serverName,
  publicUrl,
  log,
  timeoutsMs = defaultTimeoutsMs,
}: MailerOptions): Mailer {
  if (smtpUrl === undefined || from === undefined)
    return {
      async send({ kind, token }) {
        log.info({ kind, link: linkOf(publicUrl, kind, token) }, "mail not sent, because there is no SMTP_URL")
      },
    }

  const { username, hostname } = new URL(smtpUrl)
  const transport = createTransport({
    // What stands in its query wins over what follows.
    url: smtpUrl,
    connectionTimeout: timeoutsMs.step,
    greetingTimeout: timeoutsMs.step,
    dnsTimeout: timeoutsMs.step,
    socketTimeout: 2 * timeoutsMs.step,
    // A password goes to another machine encrypted or not at all.
    requireTLS: username !== "" && !isLoopback(hostname),
    disableFileAccess: true,
    disableUrlAccess: true,
  })
  let sending = 0

  return {
    async send({ kind, to, username, token }, signal) {
      if (sending >= maxConcurrent) throw unavailable("too many mails at once")
      const facts = mailText({ kind, serverName, username, link: linkOf(publicUrl, kind, token) })
      sending++
      try {
        await transport.sendMail({
          from: { name: oneLine(serverName), address: from },
          to,
          ...facts,
          headers: { "Auto-Submitted": "auto-generated", "X-Auto-Response-Suppress": "All" },
          signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutsMs.whole)]),
        })
      } catch (error) {
        // The server's own words may name the address: neither they nor the error go on from here.
        const { code, originalCode, command, responseCode, permanent } = error as Refusal
        const about = { kind, code, because: originalCode, command, answer: responseCode }
        if (permanent === true && command === "RCPT TO") {
          log.info(about, "mail refused by its addressee's server")
          return
        }
        if (!signal.aborted) log.warn(about, "mail not sent, will be retried")
        throw unavailable("the mail server does not take it")
      } finally {
        sending--
      }
    },
  }
}

interface Refusal {
  code?: string
  /** Of the system, such as ECONNREFUSED. */
  originalCode?: string
  command?: string
  responseCode?: number
  permanent?: boolean
}

const isLoopback = (host: string) => host === "localhost" || host === "[::1]" || host.startsWith("127.")
