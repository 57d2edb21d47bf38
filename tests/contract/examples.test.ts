/**
 * The examples of the documentation are sent as they stand there, to a real server, and granted. Only what a server
 * alone can name (ids, tokens, codes: `sample` of src/contract/core/examples.ts) is replaced by what it has named.
 */
import { randomBytes } from "node:crypto"
import { generateSync } from "otplib"
import { onTestFinished } from "vitest"
import { operatorRoutes, routes, type OperatorRouteName } from "../../src/contract/contract.ts"
import { sample } from "../../src/contract/core/examples.ts"
import type { Route } from "../../src/contract/core/registry.ts"
import { operator as commandLine } from "../../src/process/operator/operator.ts"
import { refusedOf } from "../kit/dependencies.ts"
import { OAuthProviderServer } from "../kit/oauth-provider.ts"
import { attentive, operatorOf } from "../kit/operator.ts"
import { clientAt, type Endpoint, type Starling } from "../kit/person.ts"
import { fileOf } from "../kit/pictures.ts"
import { cheapHashes } from "../kit/processes.ts"
import { sharedServer } from "../kit/seeds.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"

type Input = Record<string, unknown>

const samples: ReadonlySet<unknown> = new Set(Object.values(sample))
const isSample = (value: unknown): boolean =>
  typeof value === "object" && value !== null ? Object.values(value).some(isSample) : samples.has(value)

const sent = new Set<string>()

/** The route's example, with what `real` has in place of its samples; parameters and files are those of `real`. */
function exampleWith(name: string, real: Input): Input {
  const { body, example, params, query, form }: Route = routes[name as keyof typeof routes]
  if (body === undefined) return real
  const whole = example as Input
  sent.add(name)
  // A map by id has its samples for keys.
  if (Object.keys(whole).some(isSample)) return real
  const stays = new Set([...Object.keys(params?.shape ?? {}), ...Object.keys(query?.shape ?? {}), form?.file?.name])
  return {
    ...Object.fromEntries(Object.entries(real).filter(([key]) => stays.has(key))),
    ...Object.fromEntries(Object.entries(whole).map(([key, value]) => [key, isSample(value) ? real[key] : value])),
  }
}

type Method = (input?: Input, options?: object) => Promise<unknown>
const withExamples = (client: Starling): Starling =>
  new Proxy(client, {
    get:
      (target, name: string) =>
      (input: Input = {}, options?: object) =>
        (target as unknown as Record<string, Method>)[name]!(exampleWith(name, input), options),
  })

const withBody = Object.entries<Route>(routes).flatMap(([name, { body }]) => (body === undefined ? [] : [name]))
const isOfOperators = (name: string): name is OperatorRouteName => name in operatorRoutes

test("every example of a request of users is granted", async ({ cluster }) => {
  const provider = await OAuthProviderServer.start(["https://chat.example/signed-in"])
  onTestFinished(() => provider.close())
  const [program] = await cluster.boot(1, {
    config: {
      STARLING_SESSIONS_PER_USER: "1000",
      STARLING_OAUTH_REDIRECT_URIS: "https://chat.example/signed-in",
      ...provider.config,
    },
  })
  await cluster.bootJobWorker()
  const refused = await refusedOf({ program: program!, postgres: { sql: cluster.sql }, provider }, withExamples)
  expect(refused).toEqual([])
  expect(withBody.filter(name => !isOfOperators(name) && !sent.has(name))).toEqual([])
})

/** An operator with an authenticator app, through the command line and the first sign-in. */
async function signedUp(at: Endpoint, databaseUrl: string) {
  const { out } = await commandLine(["create", "grace_1"], { DATABASE_URL: databaseUrl, ...cheapHashes })
  const account = { username: "grace_1", password: out.split("\n").at(-1)! }
  const begun = await clientAt(at).operatorLogin(account)
  const seconds = () => Math.floor(Date.now() / 1000)
  await until("a step has time left", () => seconds() % 30 < 25, { everyMs: 100 })
  const done = await clientAt(at).verifyOperatorOtp({
    admin_id: begun.admin_id!,
    code: generateSync({ secret: begun.otp_secret!, epoch: seconds() }),
    is_setup: true,
    challenge_token: begun.challenge_token!,
  })
  return { ...account, codes: done.backup_codes! }
}

test("every example of a request of operators is granted", async ({ cluster }) => {
  const [east] = await cluster.boot(1, { topology: attentive, config: { AUTOMOD_PRIVATE_ADDRESSES: "on" } })
  const { ada, lin, server, channel } = await cluster.seed(sharedServer)
  const user = ada.on(east!)
  const bytes = randomBytes(100)
  const file = await user.uploadAttachment({ channel_id: channel.id, file: fileOf(bytes, "note.dat", "") })
  const { id: message_id } = await user.createMessage({ channel_id: channel.id, attachments: [file] })
  const { id: ticket_id } = await user.sendFeedback({ content: "All is well here" })
  const member = lin.on(east!)
  const reports = {
    hash: await member.reportFile({ hash_value: file.hash!, reason: "Stolen", message_id }),
    message: await member.reportMessage({ channel_id: channel.id, message_id, reason: "Rude" }),
    user: await member.reportUser({ user_id: ada.id, reason: "Rude" }),
  }
  const { codes, ...account } = await signedUp(east!, cluster.databaseUrl)

  const nobody = withExamples(clientAt(east!))
  const begun = await nobody.operatorLogin(account)
  const { admin_id, challenge_token } = begun
  const { token } = await nobody.verifyOperatorOtp({
    admin_id: admin_id!,
    challenge_token: challenge_token!,
    code: codes[0]!,
  })
  const rest = withExamples(clientAt(east!, token!))
  // Of bodies only what stands for samples counts.
  const ask = rest as unknown as { readonly [Name in OperatorRouteName]: (input: Input) => Promise<Input> }

  await ask.setTicketStatus({ ticket_id })
  await ask.addTicketNote({ ticket_id })
  await ask.reviewHashReport({ report_id: reports.hash.report_id })
  await ask.reviewMessageReport({ report_id: reports.message.report_id })
  await ask.reviewUserReport({ report_id: reports.user.report_id })
  await ask.blockHash({ hash_value: file.hash })
  await ask.blockUploader({ user_id: lin.id })
  await ask.setUserNotes({ user_id: lin.id })
  await ask.forceUsernameChange({ user_id: lin.id })
  await ask.forceLogout({ user_id: lin.id })
  await ask.lockUser({ user_id: lin.id })
  await ask.unlockUser({ user_id: lin.id })
  await ask.blockAddress({})
  await ask.banUsername({})
  const rule = await ask.createOperatorAutomodRule({ server_id: server.id })
  await ask.editOperatorAutomodRule({ rule_id: rule["id"] })
  await ask.testAutomodRule({})
  await ask.setAutomodSettings({ ai: { custom: { endpoint_url: "http://127.0.0.1:9/" } } })
  const { access_token } = (await ask.createAccessToken({})) as { access_token: { id: string } }
  await ask.editAccessToken({ token_id: access_token.id })
  await ask.addAccessTokenScope({ token_id: access_token.id })
  await ask.rotateAccessToken({ token_id: access_token.id })
  const { password: current_password } = account
  await ask.beginOperatorOtp({ current_password })
  const { backup_codes } = (await ask.renewOperatorBackupCodes({ current_password })) as { backup_codes: string[] }
  await ask.disableOperatorOtp({ current_password, code: backup_codes[0] })
  await ask.changeOperatorPassword({ current_password })
  await ask.putServerState({})
  await operatorOf(cluster).setState({ state: "running" })
  expect(withBody.filter(name => isOfOperators(name) && !sent.has(name))).toEqual([])
})
