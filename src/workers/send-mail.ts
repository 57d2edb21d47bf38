import { userActor } from "../actors/user.ts"
import { newTokenSecret, tokenText } from "../cluster/one-time-tokens.ts"
import type { Mail } from "../storage/accounts/mails.ts"
import { linkSeconds } from "./mail-texts.ts"
import type { JobTools, Processor } from "./processor.ts"
import { ending, forgetting, type Sweep } from "./sweep.ts"

/** Seconds for which one job has a mail to itself; sending takes less. */
const leaseSeconds = 60

/**
 * A mail that was sent may go out once more when nobody lived to note it: either link is good then;
 * of a way back the last one is.
 */
export const sendMail: Processor<"sendMail"> = async (tools, { mail_id }) => {
  const { storage, now } = tools
  const seconds = () => Math.floor(now() / 1000)
  const mail = await storage.mails.take(mail_id, seconds(), leaseSeconds)
  if (!mail) return
  try {
    await deliver(tools, mail_id, mail, seconds())
  } catch (error) {
    // Where this fails, too, the lease ends by itself.
    await storage.mails.putBack(mail_id, leaseSeconds).catch(() => {})
    throw error
  }
  await storage.mails.settle(mail_id, seconds())
}

/** The secret is made here and goes into the mail; what the account keeps is its hash. */
async function deliver(
  { ask, storage, mailer, signal }: JobTools,
  mail_id: string,
  { kind, user_id }: Mail,
  now: number,
) {
  const user = user_id === null ? undefined : await storage.users.find(user_id)
  if (!user || user.email === null) return
  const { id, username, email } = user
  const { secret, token_hash } = newTokenSecret()
  const expires_at = now + linkSeconds[kind]
  if (kind === "restore_email") {
    const left = await ask(userActor, id, { type: "startRestoration", token_id: mail_id, token_hash, expires_at })
    if (left.email !== null)
      await mailer.send({ kind, to: left.email, username, token: tokenText(kind, mail_id, secret) }, signal)
    return
  }
  const { token_id } = await ask(userActor, id, { type: "startMailedToken", kind, token_hash, email, expires_at })
  if (token_id === null) return
  await mailer.send({ kind, to: email, username, token: tokenText(kind, token_id, secret) }, signal)
}

/** For which mails are remembered, so that nobody is sent too many. */
const mailsKeptS = 86_400
/** Mails sent at a time: fewer than the mailer takes, so that other jobs find capacity. */
const maxConcurrentMails = 4

export const sweeps: readonly Sweep[] = [
  forgetting(({ mails }, beforeS, limit) => mails.forgetOld(beforeS - mailsKeptS, limit)),
  ending(
    ({ mails }, beforeS, limit) => mails.waiting(beforeS, limit),
    (tools, mail_id) => sendMail(tools, { mail_id }),
    maxConcurrentMails,
  ),
]
