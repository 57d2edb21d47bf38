/**
 * P11: what every route, the gateway and the health pages do while PostgreSQL, Redis or the object store is not as it should be. Through the
 * program itself and services of its own. Times are bounded as `machineBounds` says.
 */
import { setTimeout as sleep } from "node:timers/promises"
import { generateSync } from "otplib"
import { afterAll, beforeAll } from "vitest"
import { ApiError } from "../../client/rest.ts"
import { hashSecret } from "../../src/cluster/tokens.ts"
import { operatorRoutes, routes, type OperatorRouteName, type Routes } from "../../src/contract/contract.ts"
import type { Channel } from "../../src/contract/communities/channels.ts"
import type { Message } from "../../src/contract/messages/messages.ts"
import type { Poll } from "../../src/contract/messages/polls.ts"
import type { Webhook } from "../../src/contract/messages/webhooks.ts"
import { openLink, type Link } from "../chaos/proxy.ts"
import { machineBounds } from "./load.ts"
import { emailLinkToken } from "./mailbox.ts"
import { Authenticator, givePasskey } from "./authenticator.ts"
import { OAuthProviderServer } from "./oauth-provider.ts"
import { apng, fileOf } from "./pictures.ts"
import { pushedTo } from "./push-service.ts"
import { clientAt, Person, type Endpoint, type Listener, type Starling } from "./person.ts"
import { startProcesses, type Processes } from "./processes.ts"
import type { OwnObjectStore } from "./object-store.ts"
import { ownPostgres, ownRedis, type OwnPostgres, type OwnRedis } from "./services.ts"
import { expect } from "./test.ts"
import { until } from "./until.ts"

/** Milliseconds, as promised. */
const answeredWithinMs = 5_000
const healedWithinMs = 10_000
type Bound = ReturnType<typeof machineBounds>
/** How long a request is waited for before it counts as one that hangs. */
export const hangsAfterMs = 9_000
/** A picture waits 20 s for its job worker, beside its other steps. */
const encodedWithinMs = 25_000

/** Where requests are made. */
export interface Ground {
  readonly program: Endpoint
  readonly postgres: Pick<OwnPostgres, "sql">
  /** Knows everybody; nothing ever happens to it. */
  readonly provider: OAuthProviderServer
}

export interface World extends Ground {
  readonly program: Processes
  readonly postgres: OwnPostgres
  readonly redis: OwnRedis
  /** Where it has the files; absent: a folder does. */
  readonly objects: OwnObjectStore | undefined
  readonly links: { readonly postgres: Link; readonly redis: Link; readonly objects?: Link }
}

export interface Fault {
  readonly name: string
  readonly begin: (world: World) => Promise<unknown>
  readonly end: (world: World) => Promise<unknown>
  /** What lived in Redis is gone: workers replace themselves, and clients identify anew. */
  readonly forgets?: true
  /** Much can still be served: `/readyz` may say either. */
  readonly serves?: true
  readonly impossible?: (world: World) => boolean
}

/** What the requests during one fault name. Nothing of it is named during another. */
interface Scene {
  readonly ada: Person
  readonly lin: Person
  /** Signed in only to sign out. */
  readonly leaving: Person
  readonly server: { id: string }
  readonly channel: Channel
  /** A voice channel of it. */
  readonly voice: Channel
  readonly doomed: { id: string }
  readonly left: { id: string }
  readonly joined: { id: string; code: string }
  /** A channel of the server, to be deleted. */
  readonly short: string
  /** Lin is a member of it, and is to own it. */
  readonly handed: { id: string }
  /** Everybody may join. */
  readonly open: { id: string }
  /** Lin is a member of it. */
  readonly kicking: { id: string; code: string }
  /** Lin is banned from it. */
  readonly unbanning: { id: string }
  /** Of the server, by what becomes of them. */
  readonly roles: { readonly edited: string; readonly deleted: string; readonly given: string; readonly taken: string }
  /** In the channel, by what becomes of them. */
  readonly webhooks: Readonly<Record<"edited" | "deleted" | "renewed" | "executed", Webhook>>
  /** Of the server, by what becomes of them; files are kept where the program keeps them. */
  readonly emojis: { readonly read: string; readonly renamed: string; readonly deleted: string }
  readonly stickers: { readonly read: string; readonly deleted: string }
  /** With an icon each. */
  readonly pictured: { readonly shown: string; readonly bared: string }
  readonly automodRules: { readonly edited: string; readonly deleted: string }
  /** Bots of Ada's, by what becomes of them. */
  readonly bots: Readonly<Record<"edited" | "deleted" | "renewed" | "pictured" | "bared" | "added", string>>
  /** A file of Ada's. */
  readonly upload: string
  /** Sessions of files of hers, by what becomes of them: one chunk each, which has come to all but the first. */
  readonly pushed: Readonly<Record<"tested" | "deleted", string>>
  readonly uploadSessions: Readonly<Record<"sending" | "completed" | "deleted", string>>
  readonly message: Message
  readonly edited: Message
  readonly deleted: Message
  /** By Lin, where Ada has read nothing. */
  readonly unread: {
    readonly one: { readonly channel_id: string; readonly message_id: string }
    readonly several: { readonly channel_id: string; readonly message_id: string }
  }
  /** Lin has reacted to it, and it is pinned. */
  readonly praised: Message
  /** Of Ada's, by what becomes of them; to one more message one is added. */
  readonly polls: Readonly<Record<"asked" | "closed" | "deleted", Poll>> & { readonly added: Message }
  readonly bulk: readonly Message[]
  /** By what becomes of what is between them and Ada. */
  readonly acquaintances: {
    readonly asked: Person
    readonly accepted: Person
    readonly left: Person
    readonly blocked: Person
  }
  /** A session of Lin's, to be ended by another. */
  readonly ending: string
  /** By what becomes of their second factors, or of all their sessions. */
  readonly confirming: Person
  readonly disabling: Person
  readonly forgetful: Person
  readonly restored: Person
  readonly revoking: Person
  readonly secondFactors: {
    /** Of who confirms. */
    readonly secret: string
    /** Of a user who switches theirs off. */
    readonly code: string
    /** Of somebody who signs in. */
    readonly challenge: { readonly challenge_token: string; readonly code: string }
  }
  readonly passkeys: {
    /** Of somebody who has a second factor, too. */
    readonly authenticator: Authenticator
    readonly challenge_token: string
    readonly answered: string
    /** Of a user who changes what is theirs. */
    readonly renamed: string
    readonly removed: string
  }
  /** What somebody brings back who has signed in at the provider. */
  readonly oauth: { readonly subject: string; readonly back: Parameters<Starling["completeOAuth"]>[0] }
  /** Tokens that a mail would have brought to three of these. */
  readonly emailLinks: { readonly reset: string; readonly verification: string; readonly restoration: string }
  /** Changes what is theirs; they have a setting "doomed" and a notification. */
  readonly editing: Person
  readonly notification_id: string
  readonly administrator: Person
  /** Whose account ends. */
  readonly ended: Person
  /** In every name that the round makes up. */
  readonly word: string
}

/** Nothing that anybody writes breaks it. */
const harmlessRule = (name: string) => ({
  name,
  rule_type: "keyword",
  config: { keywords: ["unspeakable"] },
  actions: [{ action_type: "log_only" }],
})

let words = 0

/** A scene, once the machine is quiet enough for one: what is refused here belongs to no fault. */
async function prepared(world: Ground, ada: Person, lin: Person): Promise<Scene> {
  for (let attempt = 1; ; attempt++)
    try {
      return await prepare(world, ada, lin)
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 503) || attempt === 5) throw error
      await sleep(500)
    }
}

async function prepare({ program, postgres, provider }: Ground, ada: Person, lin: Person): Promise<Scene> {
  const word = `r${process.pid}_${++words}`
  const [owner, member] = [ada.on(program), lin.on(program)]
  const serverWith = async (name: string) => {
    const server = await owner.createServer({ name })
    const [channel] = await owner.listChannels({ server_id: server.id })
    const { code } = await owner.createInvite({ channel_id: channel!.id })
    return { id: server.id, channel: channel!, code }
  }
  const [main, doomed, left, joined, kicking, handed, open] = await Promise.all(
    ["main", "doomed", "left", "joined", "kicking", "handed", "open"].map(serverWith),
  )
  const unbanning = await serverWith("unbanning")
  for (const { code } of [left!, kicking!, handed!]) await member.joinByInvite({ invite_code: code })
  await owner.editServer({ server_id: open!.id, public: true })
  await owner.banUser({ server_id: unbanning.id, user_id: lin.id })
  const roleOf = async (name: string) => (await owner.createRole({ server_id: main!.id, name })).id
  const roles = {
    edited: await roleOf("edited"),
    deleted: await roleOf("deleted"),
    given: await roleOf("given"),
    taken: await roleOf("taken"),
  }
  await owner.giveRole({ server_id: main!.id, member_id: ada.id, role_id: roles.taken })
  for (const target_id of [main!.id, roles.taken])
    await owner.setOverride({ channel_id: main!.channel.id, target_id, type: "role", allow: [], deny: ["voice.speak"] })
  const [asked, accepted, leftBehind, blocked] = [
    await Person.register(program, `asked_${word}`),
    await Person.register(program, `accepted_${word}`),
    await Person.register(program, `left_${word}`),
    await Person.register(program, `blocked_${word}`),
  ]
  for (const one of [accepted, leftBehind]) await one.on(program).requestFriend({ user_id: ada.id })
  const setUp = (person: Person) => person.on(program).enableTwoFactor({ password: person.password })
  const switchedOn = async (person: Person) => {
    const { secret, backup_codes } = await setUp(person)
    await person.on(program).confirmTwoFactor({ code: generateSync({ secret }) })
    return backup_codes[0]!
  }
  const { authenticator } = await givePasskey(asked.on(program), asked)
  const code = await switchedOn(asked)
  const challenged = async () => {
    const { username, password } = asked
    return (await clientAt(program).login({ username, password })).challenge_token!
  }
  const secondFactors = {
    secret: (await setUp(accepted)).secret,
    code: await switchedOn(blocked),
    challenge: { challenge_token: await challenged(), code },
  }
  // A reset ends all sessions of the user who asked for it, and so does a way back.
  const [restored, forgetful, editing, administrator] = [
    await Person.register(program, `restored_${word}`),
    await Person.register(program, `forgetful_${word}`),
    await Person.register(program, `editing_${word}`),
    await Person.register(program, `chief_${word}`),
  ]
  for (const key of ["doomed", "kept"]) await editing.on(program).putSetting({ key, value: "old" })
  const notification_id = String(BigInt(editing.id) + 1n)
  await postgres.sql`
    INSERT INTO notifications (id, user_id, type, title, content, created_at)
    VALUES (${notification_id}, ${editing.id}, 'mention', 'You were mentioned', 'hello', 1700000000)`
  await postgres.sql`UPDATE users SET permissions = '{administrator}' WHERE id = ${administrator.id}`
  await postgres.sql`
    INSERT INTO exports (id, user_id, requested_at, attempt, ready_at, expires_at)
    VALUES (${notification_id}, ${editing.id}, 1700000000, 1, 1700000000, 9000000000)`
  await postgres.sql`
    INSERT INTO export_parts (export_id, attempt, number, name, row_count, rows)
    VALUES (${notification_id}, 1, 1, 'users', 1, '[{"email":null}]')`
  const newcomer = String(++words)
  const email_verified = true
  provider.people.set(newcomer, { email: `oauth_${word}@example.org`, email_verified, nickname: `oauth_${word}` })
  const begun = await clientAt(program).beginOAuth({ provider: "google", redirect_uri: comingBack })
  // So that none of an earlier round counts among those that one address may have.
  await postgres.sql`UPDATE oauth_states SET address = state_hash`
  const came = await provider.visit(begun.url, newcomer)
  const webhookOf = (name: string) => owner.createWebhook({ channel_id: main!.channel.id, name })
  const picture = fileOf(apng())
  const emojiOf = async (name: string) => (await owner.createEmoji({ server_id: main!.id, name, image: picture })).id
  const stickerOf = async (name: string) =>
    (await owner.createSticker({ server_id: main!.id, name, image: picture })).id
  for (const { id } of [kicking!, open!]) await owner.putIcon({ server_id: id, file: picture })
  await administrator.on(program).putAvatar({ file: picture })
  const post = (content: string) => owner.createMessage({ channel_id: main!.channel.id, content })
  const praisedPost = async () => {
    const praised = await post("to be praised")
    const ids = { channel_id: main!.channel.id, message_id: praised.id }
    await owner.addReaction({ ...ids, emoji: "👍" })
    await owner.pinMessage(ids)
    return praised
  }
  const botOf = async (name: string) => (await owner.createBot({ username: `${name}_bot_${word}` })).id
  const bared = await botOf("bared")
  await owner.putBotAvatar({ bot_id: bared, file: picture })
  const pollOf = async () => {
    const { poll } = await owner.createMessage({
      channel_id: main!.channel.id,
      poll: { question: "?", options: ["a", "b"] },
    })
    return poll!
  }
  const unreadIn = async (channel_id: string) => {
    const { id: message_id } = await member.createMessage({ channel_id, content: "to be marked" })
    return { channel_id, message_id }
  }
  return {
    ada,
    lin,
    unread: { one: await unreadIn(handed!.channel.id), several: await unreadIn(kicking!.channel.id) },
    leaving: await lin.signIn(program),
    server: main!,
    channel: main!.channel,
    voice: await owner.createChannel({ server_id: main!.id, name: "talk", type: "voice" }),
    short: (await owner.createChannel({ server_id: main!.id, name: "short" })).id,
    doomed: doomed!,
    left: left!,
    joined: joined!,
    kicking: kicking!,
    handed: handed!,
    open: open!,
    unbanning,
    roles,
    acquaintances: { asked, accepted, left: leftBehind, blocked },
    ending: sessionOf(await lin.signIn(program)),
    confirming: accepted,
    disabling: blocked,
    revoking: leftBehind,
    secondFactors,
    passkeys: {
      authenticator,
      challenge_token: await challenged(),
      answered: await challenged(),
      renamed: (await givePasskey(editing.on(program), editing)).id,
      removed: (await givePasskey(editing.on(program), editing)).id,
    },
    oauth: {
      subject: newcomer,
      back: {
        provider: "google",
        redirect_uri: comingBack,
        code: came.code,
        state: begun.state,
        code_verifier: begun.code_verifier,
      },
    },
    emailLinks: {
      reset: await emailLinkToken(postgres.sql, forgetful, "password_reset"),
      verification: await emailLinkToken(postgres.sql, leftBehind, "verify_email"),
      restoration: await emailLinkToken(postgres.sql, restored, "restore_email"),
    },
    restored,
    forgetful,
    editing,
    notification_id,
    administrator,
    ended: await Person.register(program, `ended_${word}`),
    emojis: { read: await emojiOf("read"), renamed: await emojiOf("renamed"), deleted: await emojiOf("deleted") },
    stickers: { read: await stickerOf("read"), deleted: await stickerOf("deleted") },
    pictured: { shown: kicking!.id, bared: open!.id },
    automodRules: {
      edited: (await owner.createAutomodRule({ server_id: main!.id, ...harmlessRule("edited") })).id,
      deleted: (await owner.createAutomodRule({ server_id: main!.id, ...harmlessRule("deleted") })).id,
    },
    webhooks: {
      edited: await webhookOf("edited"),
      deleted: await webhookOf("deleted"),
      renewed: await webhookOf("renewed"),
      executed: await webhookOf("executed"),
    },
    bots: {
      edited: await botOf("edited"),
      deleted: await botOf("deleted"),
      renewed: await botOf("renewed"),
      pictured: await botOf("pictured"),
      bared,
      added: await botOf("added"),
    },
    upload: (await owner.uploadAttachment({ channel_id: main!.channel.id, file: picture })).id,
    uploadSessions: {
      sending: await uploadSessionOf(owner),
      completed: await sentSessionOf(owner),
      deleted: await sentSessionOf(owner),
    },
    message: await post("to be read"),
    polls: {
      asked: await pollOf(),
      closed: await pollOf(),
      deleted: await pollOf(),
      added: await post("to be asked"),
    },
    edited: await post("to be edited"),
    deleted: await post("to be deleted"),
    praised: await praisedPost(),
    bulk: [await post("to be deleted with others"), await post("the others")],
    word,
    pushed: {
      tested: await pushedAt(editing.on(program), "https://1.1.1.1/tested"),
      deleted: await pushedAt(editing.on(program), "https://1.1.1.1/deleted"),
    },
  }
}

const pushedAt = async (rest: Starling, endpoint: string) =>
  (await rest.createPushSubscription({ ...pushedTo, endpoint })).id

const smallFile = { filename: "note.txt", content_type: "text/plain", total_size: 5 }
const uploadSessionOf = async (rest: Starling) => (await rest.createUploadSession(smallFile)).session_id
const onlyChunk = { chunk_index: "0", file: fileOf(Buffer.from("hello"), "chunk", "") }
async function sentSessionOf(rest: Starling): Promise<string> {
  const session_id = await uploadSessionOf(rest)
  await rest.uploadChunk({ session_id, ...onlyChunk })
  return session_id
}

const comingBack = "https://chat.example/signed-in"
const sessionOf = ({ token }: Pick<Person, "token">): string => token.split(".")[0]!

type Sql = OwnPostgres["sql"]
interface Attempt<Reply = unknown> {
  readonly call: (on: Starling, scene: Scene, signal: AbortSignal) => Promise<Reply>
  /** The caller; nobody where it is left out. */
  readonly as?:
    | "editing"
    | "administrator"
    | "ada"
    | "lin"
    | "leaving"
    | "confirming"
    | "disabling"
    | "revoking"
    | "ended"
  /** Needs neither PostgreSQL nor Redis, so that it is answered whatever happens. */
  readonly isStatic?: true
  /** A search that finds all turns taken is told so with 429 and `Retry-After`. */
  readonly mayBeBusy?: true
  /** Waits for a job worker: where Redis takes the job and not what comes of it, it takes longer to be refused. */
  readonly isEncoded?: true
  /** The number of rows, afterwards, that show that what was granted has happened: one. */
  readonly kept?: (sql: Sql, scene: Scene, reply: Reply) => Promise<readonly unknown[]>
  /** Reads nothing that changes during a round: the answer is always the same. */
  readonly same?: true
}
const attempt = <Reply>(of: Attempt<Reply>): Attempt => of as Attempt

/** Operators have a story of their own. */
type Asked = Exclude<keyof Routes, OperatorRouteName>
/** One valid request for each route of users. */
const attempts: { readonly [Name in Asked]: Attempt } = {
  listAuditLog: attempt({
    as: "ada",
    call: (on, { server }, signal) => on.listAuditLog({ server_id: server.id }, { signal }),
  }),
  getHealth: attempt({ call: (on, _, signal) => on.getHealth({}, { signal }), isStatic: true }),
  getLive: attempt({ call: (on, _, signal) => on.getLive({}, { signal }), isStatic: true }),
  getReady: attempt({ call: (on, _, signal) => on.getReady({}, { signal }) }),
  updatePresence: attempt({
    as: "lin",
    call: (on, _, signal) => on.updatePresence({ status: "idle" }, { signal }),
    kept: (sql, { lin }) => sql`SELECT 1 FROM presences WHERE user_id = ${lin.id} AND status = 'idle'`,
  }),
  getPresence: attempt({
    as: "ada",
    call: (on, { lin }, signal) => on.getPresence({ user_id: lin.id }, { signal }),
  }),
  getVersion: attempt({ call: (on, _, signal) => on.getVersion({}, { signal }), same: true }),
  negotiateVersion: attempt({
    call: (on, _, signal) => on.negotiateVersion({ client_version: "a.1.0-49" }, { signal }),
    same: true,
  }),
  getStatus: attempt({ call: (on, _, signal) => on.getStatus({}, { signal }), isStatic: true }),
  getRoot: attempt({ call: (on, _, signal) => on.getRoot({}, { signal }), isStatic: true, same: true }),
  getApiRoot: attempt({ call: (on, _, signal) => on.getApiRoot({}, { signal }), same: true }),
  getCapabilities: attempt({ call: (on, _, signal) => on.getCapabilities({}, { signal }), same: true }),
  getSecurityLogoutHelp: attempt({ call: (on, _, signal) => on.getSecurityLogoutHelp({}, { signal }), same: true }),
  getAccessBlockedHelp: attempt({ call: (on, _, signal) => on.getAccessBlockedHelp({}, { signal }), same: true }),
  getQrCode: attempt({ call: (on, _, signal) => on.getQrCode({ data: "one" }, { signal }), same: true }),
  getPasswordRequirements: attempt({
    call: (on, _, signal) => on.getPasswordRequirements({}, { signal }),
    same: true,
  }),
  register: attempt({
    call: (on, { word }, signal) =>
      on.register({ username: `new_${word}`, email: `${word}@example.com`, password: "Correct-Horse-9" }, { signal }),
    kept: (sql, _, { user }) => sql`SELECT FROM users WHERE id = ${user!.id}`,
  }),
  login: attempt({
    call: (on, { ada }, signal) => on.login({ username: ada.username, password: ada.password }, { signal }),
    kept: (sql, _, { token }) => sql`SELECT FROM sessions WHERE id = ${token!.split(".")[0]!}`,
  }),
  beginOAuth: attempt({
    call: (on, _, signal) => on.beginOAuth({ provider: "github", redirect_uri: comingBack }, { signal }),
    kept: (sql, _, { state }) => sql`SELECT FROM oauth_states WHERE state_hash = ${hashSecret(state)}`,
  }),
  completeOAuth: attempt({
    call: (on, { oauth }, signal) => on.completeOAuth(oauth.back, { signal }),
    kept: (sql, { oauth }, { user }) =>
      sql`SELECT FROM external_accounts WHERE subject = ${oauth.subject} AND user_id = ${user!.id}`,
  }),
  requestPasswordReset: attempt({
    call: (on, { acquaintances }, signal) => on.requestPasswordReset({ email: acquaintances.asked.email }, { signal }),
    kept: (sql, { acquaintances }) => sql`SELECT FROM mails WHERE user_id = ${acquaintances.asked.id}`,
  }),
  confirmPasswordReset: attempt({
    call: (on, { emailLinks }, signal) =>
      on.confirmPasswordReset({ token: emailLinks.reset, new_password: "Another-Horse-9" }, { signal }),
    kept: (sql, { forgetful }) => sql`SELECT WHERE NOT EXISTS (SELECT FROM sessions WHERE user_id = ${forgetful.id})`,
  }),
  restoreEmail: attempt({
    call: (on, { emailLinks }, signal) => on.restoreEmail({ token: emailLinks.restoration }, { signal }),
    kept: (sql, { restored }) => sql`SELECT FROM users WHERE id = ${restored.id} AND password_hash IS NULL`,
  }),
  resendVerification: attempt({
    call: (on, { acquaintances }, signal) => on.resendVerification({ email: acquaintances.accepted.email }, { signal }),
    kept: (sql, { acquaintances }) => sql`SELECT FROM mails WHERE user_id = ${acquaintances.accepted.id}`,
  }),
  verifyEmail: attempt({
    call: (on, { emailLinks }, signal) => on.verifyEmail({ token: emailLinks.verification }, { signal }),
    kept: (sql, { acquaintances }) => sql`SELECT FROM users WHERE id = ${acquaintances.left.id} AND email_confirmed`,
  }),
  logout: attempt({
    as: "leaving",
    call: (on, _, signal) => on.logout({}, { signal }),
    kept: (sql, { leaving }) =>
      sql`SELECT WHERE NOT EXISTS (SELECT FROM sessions WHERE id = ${leaving.token.split(".")[0]!})`,
  }),
  refresh: attempt({ as: "lin", call: (on, _, signal) => on.refresh({}, { signal }) }),
  listSessions: attempt({ as: "lin", call: (on, _, signal) => on.listSessions({}, { signal }) }),
  revokeSession: attempt({
    as: "lin",
    call: (on, { ending }, signal) => on.revokeSession({ session_id: ending }, { signal }),
    kept: (sql, { ending }) => sql`SELECT WHERE NOT EXISTS (SELECT FROM sessions WHERE id = ${ending})`,
  }),
  revokeAllSessions: attempt({
    as: "revoking",
    call: (on, _, signal) => on.revokeAllSessions({ except_current: false }, { signal }),
    kept: (sql, { revoking }) => sql`SELECT WHERE NOT EXISTS (SELECT FROM sessions WHERE user_id = ${revoking.id})`,
  }),
  completeTwoFactor: attempt({
    call: (on, { secondFactors }, signal) => on.completeTwoFactor(secondFactors.challenge, { signal }),
    kept: (sql, _, { token }) => sql`SELECT FROM sessions WHERE id = ${sessionOf({ token: token! })}`,
  }),
  beginPasskeySignIn: attempt({ call: (on, _, signal) => on.beginPasskeySignIn({}, { signal }) }),
  completePasskeySignIn: attempt({
    // Both steps: a challenge lasts no longer than what Redis remembers.
    call: async (on, { passkeys: { authenticator } }, signal) =>
      on.completePasskeySignIn(authenticator.sign(await on.beginPasskeySignIn({}, { signal })), { signal }),
    kept: (sql, _, { token }) => sql`SELECT FROM sessions WHERE id = ${sessionOf({ token: token! })}`,
  }),
  beginPasskeyFactor: attempt({
    call: (on, { passkeys: { challenge_token } }, signal) => on.beginPasskeyFactor({ challenge_token }, { signal }),
  }),
  completePasskeyFactor: attempt({
    call: async (on, { passkeys: { authenticator, answered: challenge_token } }, signal) => {
      const passkey = authenticator.sign(await on.beginPasskeyFactor({ challenge_token }, { signal }))
      return on.completePasskeyFactor({ challenge_token, passkey }, { signal })
    },
    kept: (sql, _, { token }) => sql`SELECT FROM sessions WHERE id = ${sessionOf({ token: token! })}`,
  }),
  listPasskeys: attempt({ as: "ada", call: (on, _, signal) => on.listPasskeys({}, { signal }), same: true }),
  preparePasskey: attempt({
    as: "ada",
    call: (on, { ada }, signal) => on.preparePasskey({ password: ada.password }, { signal }),
  }),
  addPasskey: attempt({
    as: "editing",
    call: async (on, { editing: { password } }, signal) => {
      const passkey = new Authenticator().create(await on.preparePasskey({ password }, { signal }))
      return on.addPasskey({ name: "New", passkey }, { signal })
    },
    kept: (sql, _, { id }) => sql`SELECT FROM passkeys WHERE id = ${id} AND name = 'New'`,
  }),
  renamePasskey: attempt({
    as: "editing",
    call: (on, { passkeys: { renamed } }, signal) =>
      on.renamePasskey({ passkey_id: renamed, name: "Renamed" }, { signal }),
    kept: (sql, { passkeys: { renamed } }) => sql`SELECT FROM passkeys WHERE id = ${renamed} AND name = 'Renamed'`,
  }),
  removePasskey: attempt({
    as: "editing",
    call: (on, { passkeys: { removed }, editing: { password } }, signal) =>
      on.removePasskey({ passkey_id: removed, password }, { signal }),
    kept: (sql, { passkeys: { removed } }) => sql`SELECT WHERE NOT EXISTS (SELECT FROM passkeys WHERE id = ${removed})`,
  }),
  getTwoFactorStatus: attempt({
    as: "ada",
    call: (on, _, signal) => on.getTwoFactorStatus({}, { signal }),
    same: true,
  }),
  enableTwoFactor: attempt({
    as: "lin",
    call: (on, { lin }, signal) => on.enableTwoFactor({ password: lin.password }, { signal }),
    kept: (sql, { lin }) => sql`SELECT FROM users WHERE id = ${lin.id} AND totp_secret IS NOT NULL`,
  }),
  confirmTwoFactor: attempt({
    as: "confirming",
    call: (on, { secondFactors: { secret } }, signal) =>
      on.confirmTwoFactor({ code: generateSync({ secret }) }, { signal }),
    kept: (sql, { confirming }) => sql`SELECT FROM users WHERE id = ${confirming.id} AND totp_enabled`,
  }),
  disableTwoFactor: attempt({
    as: "disabling",
    call: (on, { disabling, secondFactors: { code } }, signal) =>
      on.disableTwoFactor({ password: disabling.password, code }, { signal }),
    kept: (sql, { disabling }) => sql`SELECT FROM users WHERE id = ${disabling.id} AND NOT totp_enabled`,
  }),
  getMe: attempt({ as: "ada", call: (on, _, signal) => on.getMe({}, { signal }), same: true }),
  editMe: attempt({
    as: "editing",
    call: (on, { word }, signal) => on.editMe({ username: `edited_${word}` }, { signal }),
    kept: (sql, { editing, word }) =>
      sql`SELECT FROM users WHERE id = ${editing.id} AND username = ${`edited_${word}`}`,
  }),
  findUser: attempt({
    as: "ada",
    call: (on, { lin }, signal) => on.findUser({ username: lin.username }, { signal }),
    same: true,
  }),
  getMessagingSettings: attempt({
    as: "ada",
    call: (on, _, signal) => on.getMessagingSettings({}, { signal }),
    same: true,
  }),
  editMessagingSettings: attempt({
    as: "editing",
    call: (on, _, signal) => on.editMessagingSettings({ allow_dms_from: "friends" }, { signal }),
    kept: (sql, { editing }) =>
      sql`SELECT FROM messaging_settings WHERE user_id = ${editing.id} AND allow_dms_from = 'friends'`,
  }),
  listSettings: attempt({ as: "ada", call: (on, _, signal) => on.listSettings({}, { signal }), same: true }),
  getSetting: attempt({ as: "editing", call: (on, _, signal) => on.getSetting({ key: "kept" }, { signal }) }),
  putSetting: attempt({
    as: "editing",
    call: (on, _, signal) => on.putSetting({ key: "theme", value: "dark" }, { signal }),
    kept: (sql, { editing }) => sql`SELECT FROM settings WHERE user_id = ${editing.id} AND key = 'theme'`,
  }),
  putSettings: attempt({
    as: "editing",
    call: (on, _, signal) => on.putSettings({ locale: "de" }, { signal }),
    kept: (sql, { editing }) => sql`SELECT FROM settings WHERE user_id = ${editing.id} AND key = 'locale'`,
  }),
  deleteSetting: attempt({
    as: "editing",
    call: (on, _, signal) => on.deleteSetting({ key: "doomed" }, { signal }),
    kept: (sql, { editing }) =>
      sql`SELECT WHERE NOT EXISTS (SELECT FROM settings WHERE user_id = ${editing.id} AND key = 'doomed')`,
  }),
  getMyFeatures: attempt({ as: "ada", call: (on, _, signal) => on.getMyFeatures({}, { signal }), same: true }),
  getUserFeatures: attempt({
    as: "administrator",
    call: (on, { lin }, signal) => on.getUserFeatures({ user_id: lin.id }, { signal }),
    same: true,
  }),
  editUserFeatures: attempt({
    as: "administrator",
    call: (on, { editing, word }, signal) => on.editUserFeatures({ user_id: editing.id, notes: word }, { signal }),
    kept: (sql, { editing, word }) => sql`SELECT FROM users WHERE id = ${editing.id} AND tier_notes = ${word}`,
  }),
  setTier: attempt({
    as: "administrator",
    call: (on, { editing }, signal) => on.setTier({ user_id: editing.id, tier: "premium" }, { signal }),
    kept: (sql, { editing }) => sql`SELECT FROM users WHERE id = ${editing.id} AND tier = 'premium'`,
  }),
  addBadge: attempt({
    as: "administrator",
    call: (on, { editing }, signal) => on.addBadge({ user_id: editing.id, badge: "verified" }, { signal }),
    kept: (sql, { editing }) => sql`SELECT FROM users WHERE id = ${editing.id} AND 'verified' = ANY(badges)`,
  }),
  removeBadge: attempt({
    as: "administrator",
    call: (on, { editing }, signal) => on.removeBadge({ user_id: editing.id, badge: "partner" }, { signal }),
    kept: (sql, { editing }) => sql`SELECT FROM users WHERE id = ${editing.id} AND NOT 'partner' = ANY(badges)`,
  }),
  listTiers: attempt({ as: "administrator", call: (on, _, signal) => on.listTiers({}, { signal }), same: true }),
  listBadges: attempt({ as: "administrator", call: (on, _, signal) => on.listBadges({}, { signal }), same: true }),
  listNotifications: attempt({ as: "editing", call: (on, _, signal) => on.listNotifications({}, { signal }) }),
  readNotification: attempt({
    as: "editing",
    call: (on, { notification_id }, signal) => on.readNotification({ notification_id }, { signal }),
    kept: (sql, { notification_id }) => sql`SELECT FROM notifications WHERE id = ${notification_id} AND read`,
  }),
  listPushSubscriptions: attempt({ as: "editing", call: (on, _, signal) => on.listPushSubscriptions({}, { signal }) }),
  getPushKey: attempt({ as: "editing", call: (on, _, signal) => on.getPushKey({}, { signal }), same: true }),
  createPushSubscription: attempt({
    as: "editing",
    call: (on, _, signal) => on.createPushSubscription(pushedTo, { signal }),
    kept: (sql, { editing }) =>
      sql`SELECT FROM push_subscriptions WHERE user_id = ${editing.id} AND endpoint = ${pushedTo.endpoint}`,
  }),
  testPushSubscription: attempt({
    as: "editing",
    call: (on, { pushed }, signal) => on.testPushSubscription({ subscription_id: pushed.tested }, { signal }),
  }),
  deletePushSubscription: attempt({
    as: "editing",
    call: (on, { pushed }, signal) => on.deletePushSubscription({ subscription_id: pushed.deleted }, { signal }),
    kept: (sql, { pushed }) =>
      sql`SELECT WHERE NOT EXISTS (SELECT FROM push_subscriptions WHERE id = ${pushed.deleted})`,
  }),
  readAllNotifications: attempt({
    as: "editing",
    call: (on, _, signal) => on.readAllNotifications({}, { signal }),
    kept: (sql, { notification_id }) => sql`SELECT FROM notifications WHERE id = ${notification_id} AND read`,
  }),
  getUser: attempt({
    as: "ada",
    call: (on, { lin }, signal) => on.getUser({ user_id: lin.id }, { signal }),
    same: true,
  }),
  listServers: attempt({ as: "ada", call: (on, _, signal) => on.listServers({}, { signal }) }),
  createServer: attempt({
    as: "ada",
    call: (on, { word }, signal) => on.createServer({ name: word }, { signal }),
    kept: (sql, _, { id }) => sql`SELECT FROM servers WHERE id = ${id}`,
  }),
  getServer: attempt({
    as: "ada",
    call: (on, { joined }, signal) => on.getServer({ server_id: joined.id }, { signal }),
  }),
  editServer: attempt({
    as: "ada",
    call: (on, { server, word }, signal) => on.editServer({ server_id: server.id, description: word }, { signal }),
    kept: (sql, { server, word }) => sql`SELECT FROM servers WHERE id = ${server.id} AND description = ${word}`,
  }),
  listEmojis: attempt({
    as: "ada",
    call: (on, { server }, signal) => on.listEmojis({ server_id: server.id }, { signal }),
  }),
  countEmojis: attempt({
    as: "ada",
    call: (on, { server }, signal) => on.countEmojis({ server_id: server.id }, { signal }),
  }),
  getEmoji: attempt({
    as: "ada",
    call: (on, { server, emojis }, signal) => on.getEmoji({ server_id: server.id, emoji_id: emojis.read }, { signal }),
  }),
  createEmoji: attempt({
    isEncoded: true,
    as: "ada",
    call: (on, { server }, signal) =>
      on.createEmoji({ server_id: server.id, name: "created", image: fileOf(apng()) }, { signal }),
    kept: (sql, { server }, { id }) => sql`SELECT FROM emojis WHERE id = ${id} AND server_id = ${server.id}`,
  }),
  renameEmoji: attempt({
    as: "ada",
    call: (on, { server, emojis }, signal) =>
      on.renameEmoji({ server_id: server.id, emoji_id: emojis.renamed, name: "another" }, { signal }),
    kept: (sql, { emojis }) => sql`SELECT FROM emojis WHERE id = ${emojis.renamed} AND name = 'another'`,
  }),
  deleteEmoji: attempt({
    as: "ada",
    call: (on, { server, emojis }, signal) =>
      on.deleteEmoji({ server_id: server.id, emoji_id: emojis.deleted }, { signal }),
    kept: (sql, { emojis }) => sql`SELECT WHERE NOT EXISTS (SELECT FROM emojis WHERE id = ${emojis.deleted})`,
  }),
  getEmojiPicture: attempt({
    call: (on, { emojis }, signal) => on.getEmojiPicture({ emoji_id: emojis.read }, { signal }),
  }),
  listStickers: attempt({
    as: "ada",
    call: (on, { left }, signal) => on.listStickers({ server_id: left.id }, { signal }),
  }),
  createSticker: attempt({
    isEncoded: true,
    as: "ada",
    call: (on, { server }, signal) =>
      on.createSticker({ server_id: server.id, name: "created", image: fileOf(apng()) }, { signal }),
    kept: (sql, { server }, { id }) => sql`SELECT FROM stickers WHERE id = ${id} AND server_id = ${server.id}`,
  }),
  deleteSticker: attempt({
    as: "ada",
    call: (on, { stickers }, signal) => on.deleteSticker({ sticker_id: stickers.deleted }, { signal }),
    kept: (sql, { stickers }) => sql`SELECT WHERE NOT EXISTS (SELECT FROM stickers WHERE id = ${stickers.deleted})`,
  }),
  sendSticker: attempt({
    as: "ada",
    call: (on, { stickers, message }, signal) =>
      on.sendSticker({ sticker_id: stickers.read, message_id: message.id }, { signal }),
    kept: (sql, { stickers }) => sql`SELECT FROM stickers WHERE id = ${stickers.read} AND uses > 0`,
  }),
  suggestStickers: attempt({
    as: "ada",
    call: (on, { word }, signal) => on.suggestStickers({ content: word }, { signal }),
  }),
  getStickerFile: attempt({
    call: (on, { stickers }, signal) => on.getStickerFile({ sticker_id: stickers.read }, { signal }),
  }),
  putAvatar: attempt({
    isEncoded: true,
    as: "ada",
    call: (on, _, signal) => on.putAvatar({ file: fileOf(apng()) }, { signal }),
    kept: (sql, { ada }) => sql`SELECT FROM user_avatars WHERE user_id = ${ada.id}`,
  }),
  putOwnAvatar: attempt({
    isEncoded: true,
    as: "lin",
    call: (on, _, signal) => on.putOwnAvatar({ file: fileOf(apng()) }, { signal }),
    kept: (sql, { lin }) => sql`SELECT FROM user_avatars WHERE user_id = ${lin.id}`,
  }),
  deleteAvatar: attempt({
    as: "administrator",
    call: (on, _, signal) => on.deleteAvatar({}, { signal }),
    kept: (sql, { administrator }) =>
      sql`SELECT WHERE NOT EXISTS (SELECT FROM user_avatars WHERE user_id = ${administrator.id})`,
  }),
  getAvatar: attempt({
    call: (on, { ada }, signal) => on.getAvatar({ user_id: ada.id }, { signal }),
  }),
  listBots: attempt({ as: "ada", call: (on, _, signal) => on.listBots({}, { signal }) }),
  createBot: attempt({
    as: "ada",
    call: (on, { word }, signal) => on.createBot({ username: `made_${word}` }, { signal }),
    kept: (sql, { ada, word }) =>
      sql`SELECT FROM users u JOIN sessions s ON s.user_id = u.id WHERE u.owner_id = ${ada.id} AND u.username = ${`made_${word}`}`,
  }),
  getOwnBot: attempt({ as: "ada", call: (on, { bots }, signal) => on.getOwnBot({ bot_id: bots.added }, { signal }) }),
  editBot: attempt({
    as: "ada",
    call: (on, { bots }, signal) => on.editBot({ bot_id: bots.edited, public: true }, { signal }),
    kept: (sql, { bots }) => sql`SELECT FROM users WHERE id = ${bots.edited} AND bot_public`,
  }),
  deleteBot: attempt({
    as: "ada",
    call: (on, { bots }, signal) => on.deleteBot({ bot_id: bots.deleted }, { signal }),
    kept: (sql, { bots }) => sql`SELECT FROM users WHERE id = ${bots.deleted} AND deletion_status = 'purged'`,
  }),
  resetBotToken: attempt({
    as: "ada",
    call: (on, { bots }, signal) => on.resetBotToken({ bot_id: bots.renewed }, { signal }),
    kept: (sql, { bots }, { token }) =>
      sql`SELECT FROM sessions WHERE user_id = ${bots.renewed} AND token_hash = ${hashSecret(token.split(".")[2]!)}`,
  }),
  putBotAvatar: attempt({
    isEncoded: true,
    as: "ada",
    call: (on, { bots }, signal) => on.putBotAvatar({ bot_id: bots.pictured, file: fileOf(apng()) }, { signal }),
    kept: (sql, { bots }) => sql`SELECT FROM user_avatars WHERE user_id = ${bots.pictured}`,
  }),
  deleteBotAvatar: attempt({
    as: "ada",
    call: (on, { bots }, signal) => on.deleteBotAvatar({ bot_id: bots.bared }, { signal }),
    kept: (sql, { bots }) => sql`SELECT WHERE NOT EXISTS (SELECT FROM user_avatars WHERE user_id = ${bots.bared})`,
  }),
  getOfferedBot: attempt({
    as: "ada",
    call: (on, { bots }, signal) => on.getOfferedBot({ bot_id: bots.added }, { signal }),
  }),
  addBot: attempt({
    as: "ada",
    call: (on, { server, bots }, signal) =>
      on.addBot({ server_id: server.id, bot_id: bots.added, permissions: ["messages.manage"] }, { signal }),
    kept: (sql, { server, bots }, { role_id }) =>
      sql`SELECT FROM members WHERE server_id = ${server.id} AND user_id = ${bots.added} AND roles = ARRAY[${role_id}::bigint]`,
  }),
  putIcon: attempt({
    isEncoded: true,
    as: "ada",
    call: (on, { server }, signal) => on.putIcon({ server_id: server.id, file: fileOf(apng()) }, { signal }),
    kept: (sql, { server }) => sql`SELECT FROM server_icons WHERE server_id = ${server.id}`,
  }),
  uploadIcon: attempt({
    isEncoded: true,
    as: "ada",
    call: (on, { joined }, signal) => on.uploadIcon({ server_id: joined.id, file: fileOf(apng()) }, { signal }),
    kept: (sql, { joined }) => sql`SELECT FROM server_icons WHERE server_id = ${joined.id}`,
  }),
  deleteIcon: attempt({
    as: "ada",
    call: (on, { pictured }, signal) => on.deleteIcon({ server_id: pictured.bared }, { signal }),
    kept: (sql, { pictured }) =>
      sql`SELECT WHERE NOT EXISTS (SELECT FROM server_icons WHERE server_id = ${pictured.bared})`,
  }),
  getIcon: attempt({
    call: (on, { pictured }, signal) => on.getIcon({ server_id: pictured.shown }, { signal }),
  }),
  getServerPermissions: attempt({
    as: "ada",
    call: (on, { joined }, signal) => on.getServerPermissions({ server_id: joined.id }, { signal }),
  }),
  transferServer: attempt({
    as: "ada",
    call: (on, { handed, ada, lin }, signal) =>
      on.transferServer({ server_id: handed.id, user_id: lin.id, password: ada.password }, { signal }),
    kept: (sql, { handed, lin }) => sql`SELECT FROM servers WHERE id = ${handed.id} AND owner_id = ${lin.id}`,
  }),
  joinServer: attempt({
    as: "lin",
    call: (on, { open }, signal) => on.joinServer({ server_id: open.id }, { signal }),
    kept: (sql, { open, lin }) => sql`SELECT FROM members WHERE server_id = ${open.id} AND user_id = ${lin.id}`,
  }),
  deleteServer: attempt({
    as: "ada",
    call: (on, { doomed }, signal) => on.deleteServer({ server_id: doomed.id }, { signal }),
    kept: (sql, { doomed }) => sql`SELECT WHERE NOT EXISTS (SELECT FROM servers WHERE id = ${doomed.id})`,
  }),
  leaveServer: attempt({
    as: "lin",
    call: (on, { left }, signal) => on.leaveServer({ server_id: left.id }, { signal }),
    kept: (sql, { left, lin }) =>
      sql`SELECT WHERE NOT EXISTS (SELECT FROM members WHERE server_id = ${left.id} AND user_id = ${lin.id})`,
  }),
  listRoles: attempt({
    as: "ada",
    call: (on, { server }, signal) => on.listRoles({ server_id: server.id }, { signal }),
  }),
  createRole: attempt({
    as: "ada",
    call: (on, { server, word }, signal) => on.createRole({ server_id: server.id, name: word }, { signal }),
    kept: (sql, _, { id }) => sql`SELECT FROM roles WHERE id = ${id}`,
  }),
  editRole: attempt({
    as: "ada",
    call: (on, { server, roles, word }, signal) =>
      on.editRole({ server_id: server.id, role_id: roles.edited, name: word }, { signal }),
    kept: (sql, { roles, word }) => sql`SELECT FROM roles WHERE id = ${roles.edited} AND name = ${word}`,
  }),
  deleteRole: attempt({
    as: "ada",
    call: (on, { server, roles }, signal) =>
      on.deleteRole({ server_id: server.id, role_id: roles.deleted }, { signal }),
    kept: (sql, { roles }) => sql`SELECT WHERE NOT EXISTS (SELECT FROM roles WHERE id = ${roles.deleted})`,
  }),
  giveRole: attempt({
    as: "ada",
    call: (on, { ada, server, roles }, signal) =>
      on.giveRole({ server_id: server.id, member_id: ada.id, role_id: roles.given }, { signal }),
    kept: (sql, { ada, server, roles }) =>
      sql`SELECT FROM members WHERE server_id = ${server.id} AND user_id = ${ada.id} AND ${roles.given} = ANY(roles)`,
  }),
  takeRole: attempt({
    as: "ada",
    call: (on, { ada, server, roles }, signal) =>
      on.takeRole({ server_id: server.id, member_id: ada.id, role_id: roles.taken }, { signal }),
    kept: (sql, { ada, server, roles }) =>
      sql`SELECT FROM members WHERE server_id = ${server.id} AND user_id = ${ada.id} AND NOT ${roles.taken} = ANY(roles)`,
  }),
  listAutomodRules: attempt({
    as: "ada",
    call: (on, { server }, signal) => on.listAutomodRules({ server_id: server.id }, { signal }),
  }),
  listAutomodViolations: attempt({
    as: "ada",
    call: (on, { server }, signal) => on.listAutomodViolations({ server_id: server.id }, { signal }),
  }),
  createAutomodRule: attempt({
    as: "ada",
    call: (on, { server, word }, signal) =>
      on.createAutomodRule({ server_id: server.id, ...harmlessRule(word) }, { signal }),
    kept: (sql, _, { id }) => sql`SELECT FROM automod_rules WHERE id = ${id}`,
  }),
  editAutomodRule: attempt({
    as: "ada",
    call: (on, { server, automodRules, word }, signal) =>
      on.editAutomodRule({ server_id: server.id, rule_id: automodRules.edited, name: word }, { signal }),
    kept: (sql, { automodRules, word }) =>
      sql`SELECT FROM automod_rules WHERE id = ${automodRules.edited} AND name = ${word}`,
  }),
  deleteAutomodRule: attempt({
    as: "ada",
    call: (on, { server, automodRules }, signal) =>
      on.deleteAutomodRule({ server_id: server.id, rule_id: automodRules.deleted }, { signal }),
    kept: (sql, { automodRules }) =>
      sql`SELECT WHERE NOT EXISTS (SELECT FROM automod_rules WHERE id = ${automodRules.deleted})`,
  }),
  listMembers: attempt({
    as: "ada",
    call: (on, { server }, signal) => on.listMembers({ server_id: server.id }, { signal }),
  }),
  getMember: attempt({
    as: "ada",
    call: (on, { ada, server }, signal) => on.getMember({ server_id: server.id, member_id: ada.id }, { signal }),
  }),
  editMember: attempt({
    as: "ada",
    call: (on, { ada, left, word }, signal) =>
      on.editMember({ server_id: left.id, member_id: ada.id, nickname: word }, { signal }),
    kept: (sql, { ada, left, word }) =>
      sql`SELECT FROM members WHERE server_id = ${left.id} AND user_id = ${ada.id} AND nickname = ${word}`,
  }),
  editOwnMember: attempt({
    as: "ada",
    call: (on, { server, word }, signal) => on.editOwnMember({ server_id: server.id, nickname: word }, { signal }),
    kept: (sql, { ada, server, word }) =>
      sql`SELECT FROM members WHERE server_id = ${server.id} AND user_id = ${ada.id} AND nickname = ${word}`,
  }),
  kickMember: attempt({
    as: "ada",
    call: (on, { lin, kicking }, signal) => on.kickMember({ server_id: kicking.id, member_id: lin.id }, { signal }),
    kept: (sql, { lin, kicking }) =>
      sql`SELECT WHERE NOT EXISTS (SELECT FROM members WHERE server_id = ${kicking.id} AND user_id = ${lin.id})`,
  }),
  listBans: attempt({
    as: "ada",
    call: (on, { server }, signal) => on.listBans({ server_id: server.id }, { signal }),
  }),
  banUser: attempt({
    as: "ada",
    call: (on, { lin, server }, signal) => on.banUser({ server_id: server.id, user_id: lin.id }, { signal }),
    kept: (sql, { lin, server }) => sql`SELECT FROM bans WHERE server_id = ${server.id} AND user_id = ${lin.id}`,
  }),
  unbanUser: attempt({
    as: "ada",
    call: (on, { lin, unbanning }, signal) => on.unbanUser({ server_id: unbanning.id, user_id: lin.id }, { signal }),
    kept: (sql, { lin, unbanning }) =>
      sql`SELECT WHERE NOT EXISTS (SELECT FROM bans WHERE server_id = ${unbanning.id} AND user_id = ${lin.id})`,
  }),
  listOverrides: attempt({
    as: "ada",
    call: (on, { channel }, signal) => on.listOverrides({ channel_id: channel.id }, { signal }),
  }),
  getOverride: attempt({
    as: "ada",
    call: (on, { channel, server }, signal) =>
      on.getOverride({ channel_id: channel.id, target_id: server.id }, { signal }),
  }),
  setOverride: attempt({
    as: "ada",
    call: (on, { channel, roles }, signal) =>
      on.setOverride(
        { channel_id: channel.id, target_id: roles.given, type: "role", allow: ["messages.send"], deny: [] },
        { signal },
      ),
    kept: (sql, { channel, roles }) =>
      sql`SELECT FROM channel_overrides WHERE channel_id = ${channel.id} AND target_id = ${roles.given}`,
  }),
  deleteOverride: attempt({
    as: "ada",
    call: (on, { channel, roles }, signal) =>
      on.deleteOverride({ channel_id: channel.id, target_id: roles.taken }, { signal }),
    kept: (sql, { channel, roles }) =>
      sql`SELECT WHERE NOT EXISTS (SELECT FROM channel_overrides WHERE channel_id = ${channel.id} AND target_id = ${roles.taken})`,
  }),
  listChannels: attempt({
    as: "ada",
    call: (on, { joined }, signal) => on.listChannels({ server_id: joined.id }, { signal }),
    same: true,
  }),
  createChannel: attempt({
    as: "ada",
    call: (on, { server, word }, signal) => on.createChannel({ server_id: server.id, name: word }, { signal }),
    kept: (sql, _, { id }) => sql`SELECT FROM channels WHERE id = ${id}`,
  }),
  reorderChannels: attempt({
    as: "ada",
    call: (on, { server, voice }, signal) =>
      // Behind the first one, which others read meanwhile.
      on.reorderChannels({ server_id: server.id, channels: [{ id: voice.id, position: 1 }] }, { signal }),
    kept: (sql, { voice }) => sql`SELECT FROM channels WHERE id = ${voice.id} AND position = 1`,
  }),
  editChannel: attempt({
    as: "ada",
    call: (on, { voice, word }, signal) => on.editChannel({ channel_id: voice.id, topic: word }, { signal }),
    kept: (sql, { voice, word }) => sql`SELECT FROM channels WHERE id = ${voice.id} AND topic = ${word}`,
  }),
  deleteChannel: attempt({
    as: "ada",
    call: (on, { short }, signal) => on.deleteChannel({ channel_id: short }, { signal }),
    kept: (sql, { short }) => sql`SELECT WHERE NOT EXISTS (SELECT FROM channels WHERE id = ${short})`,
  }),
  listNotificationSettings: attempt({
    as: "ada",
    call: (on, _, signal) => on.listNotificationSettings({}, { signal }),
  }),
  getServerNotificationSettings: attempt({
    as: "ada",
    call: (on, { server }, signal) => on.getServerNotificationSettings({ server_id: server.id }, { signal }),
  }),
  putServerNotificationSettings: attempt({
    as: "ada",
    call: (on, { server }, signal) =>
      on.putServerNotificationSettings({ server_id: server.id, level: "mentions" }, { signal }),
    kept: (sql, { ada, server }) =>
      sql`SELECT FROM notification_settings WHERE user_id = ${ada.id} AND server_id = ${server.id} AND channel_id = 0`,
  }),
  getChannelNotificationSettings: attempt({
    as: "ada",
    call: (on, { channel }, signal) => on.getChannelNotificationSettings({ channel_id: channel.id }, { signal }),
  }),
  putChannelNotificationSettings: attempt({
    as: "ada",
    call: (on, { channel }, signal) =>
      on.putChannelNotificationSettings({ channel_id: channel.id, muted: true }, { signal }),
    kept: (sql, { ada, channel }) =>
      sql`SELECT FROM notification_settings WHERE user_id = ${ada.id} AND channel_id = ${channel.id} AND muted`,
  }),
  getChannel: attempt({
    as: "ada",
    call: (on, { channel }, signal) => on.getChannel({ channel_id: channel.id }, { signal }),
    same: true,
  }),
  uploadAttachment: attempt({
    as: "ada",
    call: (on, { channel }, signal) =>
      on.uploadAttachment({ channel_id: channel.id, file: fileOf(apng()) }, { signal }),
    kept: (sql, _, { id }) => sql`SELECT FROM uploads WHERE file = ${id}`,
  }),
  getAttachment: attempt({
    as: "ada",
    call: (on, { upload }, signal) => on.getAttachment({ filename: upload }, { signal }),
  }),
  createUploadSession: attempt({
    as: "ada",
    call: (on, _, signal) => on.createUploadSession(smallFile, { signal }),
    kept: (sql, _, { session_id }) => sql`SELECT FROM upload_sessions WHERE id = ${session_id}`,
  }),
  uploadChunk: attempt({
    as: "ada",
    call: (on, { uploadSessions: { sending } }, signal) =>
      on.uploadChunk({ session_id: sending, ...onlyChunk }, { signal }),
    kept: (sql, { uploadSessions: { sending } }) => sql`SELECT FROM upload_chunks WHERE session_id = ${sending}`,
  }),
  completeUpload: attempt({
    as: "ada",
    call: (on, { uploadSessions: { completed } }, signal) => on.completeUpload({ session_id: completed }, { signal }),
    kept: (sql, _, { id }) => sql`SELECT FROM uploads WHERE file = ${id}`,
  }),
  deleteUploadSession: attempt({
    as: "ada",
    call: (on, { uploadSessions: { deleted } }, signal) => on.deleteUploadSession({ session_id: deleted }, { signal }),
  }),
  listUploadSessions: attempt({ as: "ada", call: (on, _, signal) => on.listUploadSessions({}, { signal }) }),
  getCompressionStatus: attempt({
    as: "ada",
    call: (on, _, signal) => on.getCompressionStatus({}, { signal }),
    same: true,
  }),
  getHashStatus: attempt({
    as: "ada",
    call: (on, _, signal) => on.getHashStatus({ hash_value: "0".repeat(64) }, { signal }),
    same: true,
  }),
  recordResponseTimes: attempt({
    as: "ada",
    call: (on, _, signal) => on.recordResponseTimes({ entries: [] }, { signal }),
  }),
  recordTelemetry: attempt({ call: (on, _, signal) => on.recordTelemetry({ entries: [] }, { signal }) }),
  reportCspViolation: attempt({ call: (on, _, signal) => on.reportCspViolation({}, { signal }) }),
  reportFile: attempt({
    as: "ada",
    call: (on, _, signal) => on.reportFile({ hash_value: "0".repeat(64), reason: "spam" }, { signal }),
    kept: (sql, _, { report_id }) => sql`SELECT FROM hash_reports WHERE id = ${report_id}`,
  }),
  reportMessage: attempt({
    as: "ada",
    call: (on, { channel, message }, signal) =>
      on.reportMessage({ channel_id: channel.id, message_id: message.id, reason: "spam" }, { signal }),
    kept: (sql, _, { report_id }) => sql`SELECT FROM message_reports WHERE id = ${report_id}`,
  }),
  reportUser: attempt({
    as: "ada",
    call: (on, { lin }, signal) => on.reportUser({ user_id: lin.id, reason: "spam" }, { signal }),
    kept: (sql, _, { report_id }) => sql`SELECT FROM user_reports WHERE id = ${report_id}`,
  }),
  // An account sends little of it.
  sendFeedback: attempt({
    as: "editing",
    call: (on, { word }, signal) => on.sendFeedback({ content: `All is well: ${word}` }, { signal }),
    kept: (sql, _, { id }) => sql`SELECT FROM feedback WHERE id = ${id}`,
  }),
  getFeedbackStatus: attempt({ as: "ada", call: (on, _, signal) => on.getFeedbackStatus({}, { signal }) }),
  startTyping: attempt({
    as: "ada",
    call: (on, { channel }, signal) => on.startTyping({ channel_id: channel.id }, { signal }),
  }),
  createInvite: attempt({
    as: "ada",
    call: (on, { channel }, signal) => on.createInvite({ channel_id: channel.id }, { signal }),
    kept: (sql, _, { code }) => sql`SELECT FROM invites WHERE code = ${code}`,
  }),
  getInvite: attempt({
    as: "ada",
    call: (on, { joined }, signal) => on.getInvite({ invite_code: joined.code }, { signal }),
  }),
  listInvites: attempt({
    as: "ada",
    call: (on, { joined }, signal) => on.listInvites({ server_id: joined.id }, { signal }),
  }),
  deleteInvite: attempt({
    as: "ada",
    call: (on, { kicking }, signal) => on.deleteInvite({ invite_code: kicking.code }, { signal }),
    kept: (sql, { kicking }) => sql`SELECT WHERE NOT EXISTS (SELECT FROM invites WHERE code = ${kicking.code})`,
  }),
  joinByInvite: attempt({
    as: "lin",
    call: (on, { joined }, signal) => on.joinByInvite({ invite_code: joined.code }, { signal }),
    kept: (sql, { joined, lin }) => sql`SELECT FROM members WHERE server_id = ${joined.id} AND user_id = ${lin.id}`,
  }),
  createMessage: attempt({
    as: "ada",
    call: (on, { channel, word }, signal) =>
      on.createMessage({ channel_id: channel.id, content: word, nonce: word }, { signal }),
    kept: (sql, { channel, word }, { id }) =>
      sql`SELECT FROM messages WHERE channel_id = ${channel.id} AND id = ${id} AND content = ${word}`,
  }),
  listMessages: attempt({
    as: "ada",
    call: (on, { channel, message }, signal) =>
      on.listMessages({ channel_id: channel.id, before: String(BigInt(message.id) + 1n) }, { signal }),
    same: true,
  }),
  getMessage: attempt({
    as: "ada",
    call: (on, { channel, message }, signal) =>
      on.getMessage({ channel_id: channel.id, message_id: message.id }, { signal }),
    same: true,
  }),
  ackMessages: attempt({
    as: "ada",
    call: (on, { unread }, signal) => on.ackMessages(unread.one, { signal }),
    kept: (sql, { ada, unread: { one } }) =>
      sql`SELECT FROM read_states WHERE channel_id = ${one.channel_id} AND user_id = ${ada.id} AND message_id = ${one.message_id}`,
  }),
  ackChannels: attempt({
    as: "ada",
    call: (on, { unread: { several } }, signal) =>
      on.ackChannels({ [several.channel_id]: several.message_id }, { signal }),
    kept: (sql, { ada, unread: { several } }) =>
      sql`SELECT FROM read_states WHERE channel_id = ${several.channel_id} AND user_id = ${ada.id} AND message_id = ${several.message_id}`,
  }),
  getUnread: attempt({
    as: "ada",
    call: (on, { channel }, signal) => on.getUnread({ channel_id: channel.id }, { signal }),
  }),
  listUnread: attempt({ as: "ada", call: (on, _, signal) => on.listUnread({}, { signal }) }),
  createPoll: attempt({
    as: "ada",
    call: (on, { polls: { added } }, signal) =>
      on.createPoll({ message_id: added.id, question: "?", options: ["a", "b"] }, { signal }),
    kept: (sql, { polls: { added } }) => sql`SELECT FROM polls WHERE message_id = ${added.id}`,
  }),
  getPoll: attempt({
    as: "ada",
    call: (on, { polls: { asked } }, signal) => on.getPoll({ poll_id: asked.id }, { signal }),
  }),
  getPollResults: attempt({
    as: "ada",
    call: (on, { polls: { asked } }, signal) => on.getPollResults({ poll_id: asked.id }, { signal }),
  }),
  votePoll: attempt({
    as: "ada",
    call: (on, { polls: { asked } }, signal) =>
      on.votePoll({ poll_id: asked.id, option_ids: [asked.options[1]!.id] }, { signal }),
    kept: (sql, { ada, polls: { asked } }) =>
      sql`SELECT FROM poll_votes WHERE poll_id = ${asked.id} AND user_id = ${ada.id}`,
  }),
  closePoll: attempt({
    as: "ada",
    call: (on, { polls: { closed } }, signal) => on.closePoll({ poll_id: closed.id }, { signal }),
    kept: (sql, { polls: { closed } }) =>
      sql`SELECT FROM messages WHERE id = ${closed.message_id} AND poll->>'ended_at' IS NOT NULL`,
  }),
  deletePoll: attempt({
    as: "ada",
    call: (on, { polls: { deleted } }, signal) => on.deletePoll({ poll_id: deleted.id }, { signal }),
    kept: (sql, { polls: { deleted } }) =>
      sql`SELECT WHERE NOT EXISTS (SELECT FROM messages WHERE id = ${deleted.message_id} AND poll IS NOT NULL)`,
  }),
  editMessage: attempt({
    as: "ada",
    call: (on, { channel, edited, word }, signal) =>
      on.editMessage({ channel_id: channel.id, message_id: edited.id, content: word }, { signal }),
    kept: (sql, { channel, edited, word }) =>
      sql`SELECT FROM messages WHERE channel_id = ${channel.id} AND id = ${edited.id} AND content = ${word}`,
  }),
  deleteMessage: attempt({
    as: "ada",
    call: (on, { channel, deleted }, signal) =>
      on.deleteMessage({ channel_id: channel.id, message_id: deleted.id }, { signal }),
    kept: (sql, { channel, deleted }) =>
      sql`SELECT WHERE NOT EXISTS (SELECT FROM messages WHERE channel_id = ${channel.id} AND id = ${deleted.id} AND NOT deleted)`,
  }),
  bulkDeleteMessages: attempt({
    as: "ada",
    call: (on, { channel, bulk }, signal) =>
      on.bulkDeleteMessages({ channel_id: channel.id, messages: bulk.map(({ id }) => id) }, { signal }),
    kept: (sql, { channel, bulk }) =>
      sql`SELECT WHERE NOT EXISTS (SELECT FROM messages WHERE channel_id = ${channel.id} AND id = ANY(${bulk.map(({ id }) => id)}::bigint[]) AND NOT deleted)`,
  }),
  addReaction: attempt({
    as: "ada",
    call: (on, { channel, edited }, signal) =>
      on.addReaction({ channel_id: channel.id, message_id: edited.id, emoji: "🔥" }, { signal }),
    kept: (sql, { channel, edited, ada }) =>
      sql`SELECT FROM reactors WHERE channel_id = ${channel.id} AND message_id = ${edited.id} AND emoji = '🔥' AND user_id = ${ada.id}`,
  }),
  removeReaction: attempt({
    as: "ada",
    call: (on, { channel, praised }, signal) =>
      on.removeReaction({ channel_id: channel.id, message_id: praised.id, emoji: "👍" }, { signal }),
    kept: (sql, { channel, praised }) =>
      sql`SELECT FROM messages m WHERE channel_id = ${channel.id} AND id = ${praised.id} AND reactions IS NULL
        AND NOT EXISTS (SELECT FROM reactors r WHERE r.channel_id = m.channel_id AND r.message_id = m.id)`,
  }),
  listReactions: attempt({
    as: "ada",
    call: (on, { channel, message }, signal) =>
      on.listReactions({ channel_id: channel.id, message_id: message.id }, { signal }),
    same: true,
  }),
  listReactors: attempt({
    as: "ada",
    call: (on, { channel, message }, signal) =>
      on.listReactors({ channel_id: channel.id, message_id: message.id, emoji: "👍" }, { signal }),
    same: true,
  }),
  listPins: attempt({
    as: "ada",
    call: (on, { channel }, signal) => on.listPins({ channel_id: channel.id }, { signal }),
  }),
  searchChannel: attempt({
    as: "ada",
    call: (on, { channel }, signal) => on.searchChannel({ channel_id: channel.id, content: "e" }, { signal }),
    mayBeBusy: true,
  }),
  searchMessages: attempt({
    as: "ada",
    call: (on, _, signal) => on.searchMessages({ query: "word" }, { signal }),
    mayBeBusy: true,
  }),
  searchUsers: attempt({
    as: "ada",
    call: (on, { lin }, signal) => on.searchUsers({ query: lin.username }, { signal }),
    mayBeBusy: true,
    same: true,
  }),
  searchServers: attempt({
    as: "ada",
    call: (on, _, signal) => on.searchServers({ query: "garden" }, { signal }),
    mayBeBusy: true,
    same: true,
  }),
  pinMessage: attempt({
    as: "ada",
    call: (on, { channel, edited }, signal) =>
      on.pinMessage({ channel_id: channel.id, message_id: edited.id }, { signal }),
    kept: (sql, { channel, edited }) =>
      sql`SELECT FROM messages WHERE channel_id = ${channel.id} AND id = ${edited.id} AND pinned_at IS NOT NULL`,
  }),
  unpinMessage: attempt({
    as: "ada",
    call: (on, { channel, praised }, signal) =>
      on.unpinMessage({ channel_id: channel.id, message_id: praised.id }, { signal }),
    kept: (sql, { channel, praised }) =>
      sql`SELECT FROM messages WHERE channel_id = ${channel.id} AND id = ${praised.id} AND pinned_at IS NULL`,
  }),
  createWebhook: attempt({
    as: "ada",
    call: (on, { channel, word }, signal) => on.createWebhook({ channel_id: channel.id, name: word }, { signal }),
    kept: (sql, _, { id }) => sql`SELECT FROM webhooks WHERE id = ${id}`,
  }),
  getWebhook: attempt({
    as: "ada",
    call: (on, { webhooks }, signal) => on.getWebhook({ webhook_id: webhooks.executed.id }, { signal }),
    same: true,
  }),
  editWebhook: attempt({
    as: "ada",
    call: (on, { webhooks, word }, signal) =>
      on.editWebhook({ webhook_id: webhooks.edited.id, name: word }, { signal }),
    kept: (sql, { webhooks, word }) => sql`SELECT FROM webhooks WHERE id = ${webhooks.edited.id} AND name = ${word}`,
  }),
  deleteWebhook: attempt({
    as: "ada",
    call: (on, { webhooks }, signal) => on.deleteWebhook({ webhook_id: webhooks.deleted.id }, { signal }),
    kept: (sql, { webhooks }) => sql`SELECT WHERE NOT EXISTS (SELECT FROM webhooks WHERE id = ${webhooks.deleted.id})`,
  }),
  regenerateWebhookToken: attempt({
    as: "ada",
    call: (on, { webhooks }, signal) => on.regenerateWebhookToken({ webhook_id: webhooks.renewed.id }, { signal }),
    kept: (sql, { webhooks }, { token }) =>
      sql`SELECT FROM webhooks WHERE id = ${webhooks.renewed.id} AND token_hash = ${hashSecret(token!.split(".")[2]!)}`,
  }),
  listServerWebhooks: attempt({
    as: "ada",
    call: (on, { server }, signal) => on.listServerWebhooks({ server_id: server.id }, { signal }),
  }),
  listChannelWebhooks: attempt({
    as: "ada",
    call: (on, { channel }, signal) => on.listChannelWebhooks({ channel_id: channel.id }, { signal }),
  }),
  executeWebhook: attempt({
    call: (on, { webhooks: { executed }, word }, signal) =>
      on.executeWebhook(
        { webhook_id: executed.id, token: executed.token!, content: `by a webhook ${word}` },
        { signal, idempotencyKey: word },
      ),
    kept: (sql, { channel, webhooks, word }) => sql`
      SELECT FROM messages
      WHERE channel_id = ${channel.id} AND author_id = ${webhooks.executed.id} AND content = ${`by a webhook ${word}`}`,
  }),
  getIceServers: attempt({ as: "ada", call: (on, _, signal) => on.getIceServers({}, { signal }), same: true }),
  getVoiceInfo: attempt({
    as: "ada",
    call: (on, { voice }, signal) => on.getVoiceInfo({ channel_id: voice.id }, { signal }),
  }),
  deleteAccount: attempt({
    as: "ended",
    call: (on, { ended: { password } }, signal) => on.deleteAccount({ password }, { signal }),
    kept: (sql, { ended }) => sql`SELECT FROM users WHERE id = ${ended.id} AND deletion_status = 'frozen'`,
  }),
  requestExport: attempt({
    as: "administrator",
    call: (on, _, signal) => on.requestExport({}, { signal }),
    kept: (sql, { administrator }) => sql`SELECT FROM exports WHERE user_id = ${administrator.id}`,
  }),
  getExport: attempt({ as: "editing", call: (on, _, signal) => on.getExport({}, { signal }), same: true }),
  getExportPart: attempt({
    as: "editing",
    call: (on, _, signal) => on.getExportPart({ part: "1" }, { signal }),
    same: true,
  }),
  listRelationships: attempt({
    as: "lin",
    call: (on, _, signal) => on.listRelationships({}, { signal }),
    same: true,
  }),
  listDirectChannels: attempt({
    as: "lin",
    call: (on, _, signal) => on.listDirectChannels({}, { signal }),
  }),
  openDirectChannel: attempt({
    as: "ada",
    call: (on, { acquaintances: { asked } }, signal) => on.openDirectChannel({ recipient_id: asked.id }, { signal }),
    kept: (sql, { ada, acquaintances: { asked } }) => sql`
      SELECT FROM direct_channels WHERE user_id IN (${ada.id}, ${asked.id}) AND other_id IN (${ada.id}, ${asked.id})`,
  }),
  getNotes: attempt({
    as: "lin",
    call: (on, _, signal) => on.getNotes({}, { signal }),
    kept: (sql, { lin }) => sql`SELECT FROM direct_channels WHERE user_id = ${lin.id} AND channel_type = 'notes'`,
  }),
  requestFriend: attempt({
    as: "ada",
    call: (on, { acquaintances }, signal) => on.requestFriend({ user_id: acquaintances.asked.id }, { signal }),
    kept: (sql, { ada, acquaintances: { asked } }) => bothSides(sql, ada, asked, "pending_outgoing"),
  }),
  acceptFriend: attempt({
    as: "ada",
    call: (on, { acquaintances }, signal) => on.acceptFriend({ user_id: acquaintances.accepted.id }, { signal }),
    kept: (sql, { ada, acquaintances: { accepted } }) => bothSides(sql, ada, accepted, "friend"),
  }),
  deleteRelationship: attempt({
    as: "ada",
    call: (on, { acquaintances }, signal) => on.deleteRelationship({ user_id: acquaintances.left.id }, { signal }),
    kept: (sql, { ada, acquaintances: { left } }) => sql`
      SELECT WHERE NOT EXISTS (SELECT FROM relationships WHERE user_id IN (${ada.id}, ${left.id}) AND other_id IN (${ada.id}, ${left.id}))`,
  }),
  blockUser: attempt({
    as: "ada",
    call: (on, { acquaintances }, signal) => on.blockUser({ user_id: acquaintances.blocked.id }, { signal }),
    kept: (sql, { ada, acquaintances: { blocked } }) => sql`
      SELECT FROM relationships WHERE user_id = ${ada.id} AND other_id = ${blocked.id} AND status = 'blocked'`,
  }),
}
/** One row if each side has what belongs to this on the first one's. */
const bothSides = (sql: Sql, { id }: Person, other: Person, status: "pending_outgoing" | "friend") => sql`
  SELECT FROM relationships a JOIN relationships b ON b.user_id = a.other_id AND b.other_id = a.user_id
  WHERE a.user_id = ${id} AND a.other_id = ${other.id} AND a.status = ${status}
    AND b.status = ${status === "friend" ? "friend" : "pending_incoming"}`
const names = Object.keys(routes).filter(name => !(name in operatorRoutes)) as Asked[]
/** What can be asked again and again without changing anything that is looked at later. */
const repeatable = names.filter(name => attempts[name].same || attempts[name].isStatic)

interface Outcome {
  readonly name: Asked
  /** 200, or that of the refusal; "hangs", or whatever else became of it. */
  readonly status: number | string
  readonly milliseconds: number
  readonly reply?: unknown
}

const clientFor = (world: Ground, scene: Scene, name: Asked): Starling => {
  const { as } = attempts[name]
  return as ? scene[as].on(world.program) : clientAt(world.program)
}

/**
 * Every request once, with nothing wrong anywhere.
 * @param through what a caller's client is replaced by
 * @returns the requests that were refused, each with its reason
 */
export async function refusedOf(ground: Ground, through: (client: Starling) => Starling): Promise<string[]> {
  const [ada, lin] = [await Person.register(ground.program, "ada_1"), await Person.register(ground.program, "lin_1")]
  const scene = await prepare(ground, ada, lin)
  const refused: string[] = []
  const left = [...names]
  // A few at a time: nothing here is about how long a busy machine takes.
  const next = async (): Promise<void> => {
    for (let name = left.shift(); name !== undefined; name = left.shift()) {
      const client = through(clientFor(ground, scene, name))
      const failure = await attempts[name].call(client, scene, AbortSignal.timeout(60_000)).then(
        () => undefined,
        (error: Error) => error,
      )
      if (failure) refused.push(`${name}: ${failure.message}`)
    }
  }
  await Promise.all(Array.from({ length: 8 }, next))
  return refused
}

async function ask(world: World, scene: Scene, name: Asked): Promise<Outcome> {
  const startedAt = performance.now()
  const since = () => performance.now() - startedAt
  try {
    const signal = AbortSignal.timeout(attempts[name].isEncoded ? encodedWithinMs + 1_000 : hangsAfterMs)
    const reply = await attempts[name].call(clientFor(world, scene, name), scene, signal)
    return { name, status: 200, milliseconds: since(), reply }
  } catch (error) {
    // The client has held the refusal against the contract: a 503 is typed and has its Retry-After.
    if (error instanceof ApiError) return { name, status: error.status, milliseconds: since() }
    const isLate = error instanceof Error && error.name === "TimeoutError"
    return { name, status: isLate ? "hangs" : String((error as Error).cause ?? error), milliseconds: since() }
  }
}

const askAll = (world: World, scene: Scene, which: readonly Asked[]) =>
  Promise.all(which.map(name => ask(world, scene, name)))

async function statusOf({ program }: World, path: string): Promise<number> {
  const answer = await fetch(program.url + path, {
    headers: { connection: "close" },
    signal: AbortSignal.timeout(hangsAfterMs),
  })
  await answer.arrayBuffer()
  return answer.status
}

export async function start(small = 0, objects?: OwnObjectStore): Promise<World> {
  const [postgres, redis, provider] = await Promise.all([
    ownPostgres({ small }),
    ownRedis(),
    OAuthProviderServer.start([comingBack]),
  ])
  const linkTo = async (name: string, url: string) => {
    const { hostname: host, port } = new URL(url)
    return openLink(name, () => ({ host, port: Number(port) }))
  }
  const links = {
    postgres: await linkTo("postgres", postgres.url),
    redis: await linkTo("redis", redis.url),
    ...(objects && { objects: await linkTo("objects", `http://127.0.0.1:${objects.port}`) }),
  }
  const through = (url: string, { port }: Link) => Object.assign(new URL(url), { port: String(port) }).href
  const program = await startProcesses({
    WORKERS: "2",
    LOG_LEVEL: "info",
    DATABASE_URL: through(postgres.url, links.postgres),
    REDIS_URL: through(redis.url, links.redis),
    STARLING_SESSIONS_PER_USER: "1000",
    STARLING_OAUTH_REDIRECT_URIS: comingBack,
    STARLING_PASSKEY_ORIGINS: "http://localhost:8000",
    ...(objects && { FILES_URL: objects.url("files", links.objects!.port) }),
    ...provider.config,
  }).catch(async (error: unknown) => {
    await endServices({ postgres, redis, objects, links, provider })
    throw error
  })
  return { program, postgres, redis, objects, links, provider }
}

/** A world for all tests of a file. */
export function ownWorld(small = 0): () => World {
  let world: World | undefined
  beforeAll(async () => {
    world = await start(small)
  }, 90_000)
  afterAll(() => end(world), 60_000)
  return () => world!
}

export async function end(world: World | undefined): Promise<void> {
  if (!world) return
  await world.program.stop()
  await endServices(world)
}

async function endServices({ provider, links, objects, redis, postgres }: Omit<World, "program">): Promise<void> {
  await provider.close()
  for (const link of Object.values(links)) await link.close()
  await objects?.close()
  await redis.close()
  await postgres.close()
}

/**
 * How often in a row everything has to be granted. Each time so much is asked at once that it goes to both workers: one that
 * is back is not both.
 */
const timesInARow = 2

/** @returns when everything was granted again, in milliseconds since the fault was over */
async function healed(world: World, scene: Scene, bound: Bound): Promise<number> {
  const since = performance.now()
  const listener = scene.ada.gateway(world.program)
  let well: { since: number; times: number } | undefined
  for (;;) {
    const startedAt = performance.now()
    const left = (await askAll(world, scene, [...repeatable, "getReady", "createMessage", "login"]))
      .filter(({ status }) => status !== 200)
      .map(({ name, status }) => `${name}: ${status}`)
    listener.close()
    await listener.connect().catch(error => left.push(String(error)))
    if (left.length === 0) well = { since: well?.since ?? startedAt - since, times: (well?.times ?? 0) + 1 }
    else {
      well = undefined
      if (performance.now() - since > bound(healedWithinMs)) throw new Error(`not healed: ${left.join(", ")}`)
    }
    if (well?.times === timesInARow) {
      listener.close()
      return well.since
    }
    await sleep(100)
  }
}

interface LogLine {
  readonly msg: string
  readonly worker?: string
  readonly pid?: number
  readonly checks?: Record<string, string>
}

/** Of the log, which is all that stderr has. */
const linesOf = (program: Processes): LogLine[] =>
  program
    .stderr()
    .split("\n")
    .slice(0, -1)
    .map(line => JSON.parse(line) as LogLine)

/** Until each worker that lives is ready, as its last line says: on a busy machine one may be late for a while with any check. */
async function allReady({ program }: World): Promise<void> {
  const areReady = async () => {
    const unready = new Set<number | undefined>()
    for (const { msg, pid } of linesOf(program))
      if (msg === "worker not ready") unready.add(pid)
      else if (msg === "worker ready again") unready.delete(pid)
    return (await program.workers()).every(({ pid }) => !unready.has(pid))
  }
  await until("those that live are ready", areReady, { timeoutMs: 20_000, everyMs: 100 })
}

/** Each change of a worker's readiness is one line with its reason, and Node.js has nothing to warn of. */
async function expectReadinessSaid(world: World, { serves, forgets }: Fault, saidBefore: number): Promise<void> {
  const sayings = () => linesOf(world.program).slice(saidBefore)
  expect(sayings().filter(({ msg }) => msg === "warning of Node.js")).toEqual([])
  await allReady(world)
  // Workers that replace themselves may end unready; those that live say it before the next fault begins.
  if (serves || forgets) return
  const said = sayings()
  const changes = ["web-0", "web-1"].map(name =>
    said.filter(({ msg, worker }) => worker === name && /^worker (?:not ready|ready again)$/.test(msg)),
  )
  expect(changes.flat().length).toBeGreaterThan(0)
  for (const each of changes) {
    // Nobody has replaced itself.
    expect(new Set(each.map(({ pid }) => pid)).size).toBeLessThan(2)
    for (const [i, { msg, checks = {} }] of each.entries()) {
      expect(msg).toBe(i % 2 === 0 ? "worker not ready" : "worker ready again")
      if (i % 2 === 0) expect(Object.values(checks).filter(why => why !== "").length).toBeGreaterThan(0)
    }
  }
}

let faultsSuffered = 0

const classOf = (name: Asked) =>
  attempts[name].isStatic ? "static" : attempts[name].kept || name === "startTyping" ? "write" : "read"

/**
 * One fault from its begin to its end: every reply is a success that is kept or a typed refusal in time, connections live,
 * and all heals by itself.
 * @returns what happened, in a line
 */
export async function suffer(world: World, fault: Fault): Promise<string> {
  const { program, postgres } = world
  const bound = machineBounds()
  const [ada, lin] = [await Person.register(program, `ada_${++words}`), await Person.register(program, `lin_${words}`)]
  const scene = await prepared(world, ada, lin)
  await allReady(world)
  const saidBefore = linesOf(program).length
  const right = new Map<Asked, unknown>()
  for (const name of names.filter(name => attempts[name].same)) {
    const outcome = await ask(world, scene, name)
    expect(outcome).toMatchObject({ name, status: 200 })
    right.set(name, outcome.reply)
  }
  // What changes something is asked for once in every fault: while it begins or when it is there, the other way in the next.
  const phase = ++faultsSuffered % 2
  const early = names.filter((name, i) => i % 2 === phase || repeatable.includes(name))
  const late = names.filter((name, i) => i % 2 !== phase || repeatable.includes(name))
  const listeners: Listener[] = [await ada.listen(program), await lin.listen(program)]
  const pulses: string[] = []
  const pulse = setInterval(() => {
    for (const listener of listeners)
      if (listener.state === "live") listener.heartbeatNow().catch((error: unknown) => pulses.push(String(error)))
  }, 500)
  const outcomes: Outcome[] = []
  let isOver = false
  try {
    await fault.begin(world)
    outcomes.push(...(await askAll(world, scene, early)))
    if (!fault.serves) await until("not ready", async () => (await statusOf(world, "/readyz")) === 503, { everyMs: 50 })
    expect(await statusOf(world, "/livez")).toBe(200)
    const identifiedAt = performance.now()
    const latecomer = lin.gateway(program)
    let identifiedWithin = Infinity
    const [round, identified] = await Promise.all([
      askAll(world, scene, late),
      latecomer
        .connect()
        .then(
          () => "READY",
          (error: Error & { code?: number }) => error.code ?? error.message,
        )
        .finally(() => {
          identifiedWithin = performance.now() - identifiedAt
        }),
    ])
    latecomer.close()
    outcomes.push(...round)
    // What a process ended with says more than what its clients saw of it.
    expect(linesOf(program).filter(({ msg }) => msg === "uncaught error")).toEqual([])
    expect(identified).toBeOneOf(["READY", 1013])
    expect(identifiedWithin).toBeLessThan(bound(hangsAfterMs))

    // Nobody who was there before has lost a connection, and every heartbeat was answered.
    if (!fault.forgets) expect(listeners.map(({ state }) => state)).toEqual(["live", "live"])

    await fault.end(world)
    isOver = true
    const healing = await healed(world, scene, bound)
    await expectReadinessSaid(world, fault, saidBefore)

    const wrong = outcomes.filter(
      ({ name, status, milliseconds }) =>
        !(
          status === 200 ||
          (status === 503 && !attempts[name].isStatic) ||
          (status === 429 && attempts[name].mayBeBusy === true)
        ) || milliseconds > bound(attempts[name].isEncoded ? encodedWithinMs : answeredWithinMs),
    )
    expect(wrong.map(({ name, status, milliseconds }) => `${name}: ${status} after ${milliseconds} ms`)).toEqual([])
    // The fault was really felt.
    expect(outcomes.filter(({ status }) => status === 503).length).toBeGreaterThan(0)

    for (const { name, status, reply } of outcomes) {
      if (status !== 200) continue
      const { kept, same } = attempts[name]
      if (same) expect({ name, reply }).toEqual({ name, reply: right.get(name) })
      if (kept) expect({ name, rows: (await kept(postgres.sql, scene, reply)).length }).toEqual({ name, rows: 1 })
    }
    // What was refused may have happened or not, but it happens once however often it is sent.
    await ada.on(program).createMessage({ channel_id: scene.channel.id, content: scene.word, nonce: scene.word })
    const rows =
      await postgres.sql`SELECT FROM messages WHERE channel_id = ${scene.channel.id} AND content = ${scene.word} AND nonce IS NOT NULL`
    expect(rows).toHaveLength(1)
    if (!fault.forgets) {
      expect(pulses).toEqual([])
      await heardAll(world, scene, listeners[0]!)
    }
    return summary(fault, outcomes, identified, healing)
  } finally {
    if (!isOver) await fault.end(world)
    clearInterval(pulse)
    for (const person of [ada, lin]) for (const client of person.clients.splice(0)) client.close()
  }
}

/** Everybody who listened all the while has been sent every message once and in order. */
async function heardAll({ postgres }: World, { channel, bulk }: Scene, listener: Listener): Promise<void> {
  const heard: string[] = []
  // After the last that was sent before anybody listened.
  const rows = await postgres.sql<{ id: string }[]>`
    SELECT id::text FROM messages WHERE channel_id = ${channel.id} AND id > ${bulk.at(-1)!.id} ORDER BY id`
  await until("every message was heard", () => {
    heard.push(...listener.rest().flatMap(event => (event.name === "MESSAGE_CREATE" ? [event.data.id] : [])))
    return heard.length >= rows.length
  })
  expect(heard.toSorted()).toEqual(rows.map(row => row.id).toSorted())
}

function summary(fault: Fault, outcomes: readonly Outcome[], identified: number | string, healing: number): string {
  const cells = (["static", "read", "write"] as const).map(kind => {
    const some = outcomes.filter(({ name }) => classOf(name) === kind)
    const count = (status: number) => some.filter(outcome => outcome.status === status).length
    const slowest = Math.max(...some.map(({ milliseconds }) => milliseconds)) / 1_000
    return `${kind} ${count(200)} granted, ${count(503)} refused, slowest ${slowest.toFixed(1)} s`
  })
  return `${fault.name}: ${cells.join("; ")}; IDENTIFY ${identified}; healed in ${(healing / 1_000).toFixed(1)} s`
}
