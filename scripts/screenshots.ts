/**
 * `npm run docs:screenshots`: starts a server of its own, fills it with a small community, and takes
 * the pictures of the page at /app that the documents show. Build first. Each picture is a WebP of at
 * most `maxBytes`; the times in them are those of the run.
 */
import { stat, writeFile } from "node:fs/promises"
import { fileURLToPath } from "node:url"
import type { Browser, Page } from "playwright-core"
import sharp from "sharp"
import { createClient, type Client } from "../client/client.ts"
import { startOwnServer } from "../demo/own-server.ts"
import { startBrowser } from "../tests/kit/browser.ts"

const folder = fileURLToPath(new URL("../docs/pictures/", import.meta.url))
const maxBytes = 60_000
const password = "Correct-Horse-7-Battery"

interface Person {
  readonly id: string
  readonly token: string
  readonly on: Client
}

interface Community {
  readonly url: string
  readonly ada: Person
  readonly server: string
  readonly general: string
  readonly direct: string
  readonly role: string
  readonly brook: string
}

async function register(url: string, username: string): Promise<Person> {
  const anonymous = createClient({ baseUrl: url })
  const reply = await anonymous.register({ username, email: `${username}@example.org`, password })
  const token = reply.token!
  const on = createClient({ baseUrl: url, token })
  return { id: (await on.getMe()).id, token, on }
}

/** A picture of its own, of a few soft colours. */
const scenery = (hue: number, width: number, height: number) =>
  sharp(
    Buffer.from(`<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}">
      <rect width="100%" height="100%" fill="hsl(${hue} 60% 78%)"/>
      <circle cx="72%" cy="28%" r="${height / 8}" fill="hsl(${hue + 40} 80% 88%)"/>
      <path d="M0 ${height * 0.7} Q ${width * 0.3} ${height * 0.4} ${width * 0.6} ${height * 0.7} T ${width} ${height * 0.6} V ${height} H0z" fill="hsl(${hue + 20} 45% 52%)"/>
      <path d="M0 ${height * 0.85} Q ${width * 0.4} ${height * 0.65} ${width} ${height * 0.85} V ${height} H0z" fill="hsl(${hue + 30} 50% 36%)"/>
    </svg>`),
  )
    .png()
    .toBuffer()

const bird = (hue: number, side: number) =>
  sharp(
    Buffer.from(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100 100" width="${side}" height="${side}">
      <path d="M12 62 Q30 20 66 34 L92 30 L74 46 Q74 84 34 82z" fill="hsl(${hue} 55% 45%)"/>
      <path d="M30 62 Q46 40 60 56 Q52 74 34 74z" fill="hsl(${hue} 60% 65%)"/>
      <circle cx="64" cy="42" r="4" fill="#fff"/><circle cx="65" cy="42" r="2" fill="#111"/>
    </svg>`),
  )
    .png()
    .toBuffer()

const fileOf = (bytes: Buffer, filename: string) => ({ bytes: new Uint8Array(bytes), filename, type: "image/png" })

async function settle(url: string): Promise<Community> {
  const [ada, brook, cleo, dara] = [
    await register(url, "ada"),
    await register(url, "brook"),
    await register(url, "cleo"),
    await register(url, "dara"),
  ]
  for (const [i, { on }] of [ada, brook, cleo, dara].entries())
    await on.putAvatar({ file: fileOf(await bird(40 + i * 85, 256), "bird.png") })
  const { id: server_id } = await ada.on.createServer({ name: "Bird Observatory" })
  const [first] = await ada.on.listChannels({ server_id })
  const general = first!.id
  const field = await ada.on.createChannel({ server_id, name: "Field work", type: "category" })
  const walks = await ada.on.createChannel({ server_id, name: "morning-walks", category_id: field.id })
  await ada.on.createChannel({ server_id, name: "equipment", category_id: field.id })
  await ada.on.createChannel({ server_id, name: "Hide", type: "voice", category_id: field.id })
  await ada.on.editChannel({ channel_id: general, topic: "What was seen, where and when" })
  const { code } = await ada.on.createInvite({ channel_id: general })
  for (const { on } of [brook, cleo, dara]) await on.joinByInvite({ invite_code: code })
  const role = await ada.on.createRole({
    server_id,
    name: "Ringers",
    color: "#2f7d5b",
    hoist: true,
    permissions: { "messages.manage": true },
  })
  await ada.on.giveRole({ server_id, member_id: brook.id, role_id: role.id })
  for (const [i, name] of ["Good morning", "Hello there", "Seen it", "Well spotted", "Off to bed"].entries())
    await ada.on.createSticker({ server_id, name, image: fileOf(await bird(i * 70, 320), "sticker.png"), tags: "bird" })
  await talk({ ada, brook, cleo, dara, server_id, general })
  await brook.on.createMessage({ channel_id: walks.id, content: `<@${ada.id}> half past five at the gate?` })
  await ada.on.requestFriend({ user_id: brook.id })
  await brook.on.acceptFriend({ user_id: ada.id })
  await cleo.on.requestFriend({ user_id: ada.id })
  const { id: direct } = await brook.on.openDirectChannel({ recipient_id: ada.id })
  await brook.on.createMessage({ channel_id: direct, content: "Could you bring the second telescope tomorrow?" })
  return { url, ada, server: server_id, general, direct, role: role.id, brook: brook.id }
}

interface Talk {
  readonly ada: Person
  readonly brook: Person
  readonly cleo: Person
  readonly dara: Person
  readonly server_id: string
  readonly general: string
}

async function talk({ ada, brook, cleo, dara, server_id, general: channel_id }: Talk): Promise<void> {
  const say = ({ on }: Person, content: string, rest: object = {}) => on.createMessage({ channel_id, content, ...rest })
  await say(dara, "Water level is down again, the **mud flats** should be good from Thursday on.")
  const seen = await say(brook, "Three avocets and a spoonbill at the north pond this morning 🎉")
  for (const { on } of [ada, cleo, dara]) await on.addReaction({ channel_id, message_id: seen.id, emoji: "🎉" })
  await cleo.on.addReaction({ channel_id, message_id: seen.id, emoji: "👀" })
  await say(cleo, "A spoonbill, really? That would be the first since 2019.", { reply_to_id: seen.id })
  const attachments: { id: string }[] = []
  for (const [i, name] of ["north pond.png", "reeds.png", "dunes.png", "evening.png"].entries()) {
    const file = fileOf(await scenery([200, 20, 120, 260][i]!, 900, i === 1 ? 1_200 : 640), name)
    attachments.push({ id: (await brook.on.uploadAttachment({ channel_id, file })).id })
  }
  await say(brook, "See for yourself, in order of the walk:", { attachments })
  const [pack] = await ada.on.listStickers({ server_id })
  const spotted = pack!.stickers.find(({ name }) => name === "Well spotted")!
  await say(ada, `<sticker:Well_spotted:${spotted.id}>`)
  const poll = { question: "When do we count?", options: ["Saturday at six", "Sunday at six", "Both"] }
  const asked = await say(ada, "When do we count?", { poll })
  for (const [i, { on }] of [ada, brook, cleo].entries())
    await on.votePoll({ poll_id: asked.poll!.id, option_ids: [asked.poll!.options[i === 1 ? 2 : 0]!.id] })
  await say(dara, "Both. I bring coffee ☕")
}

interface View {
  readonly name: string
  readonly scheme: "light" | "dark"
  readonly isNarrow?: boolean
  /** After the `#`. */
  readonly at: (of: Community) => string
  readonly act?: (page: Page, of: Community) => Promise<unknown>
}

const channel = ({ server, general }: Community) => `/servers/${server}/${general}`
const named = (page: Page, name: string) => page.getByRole("button", { name, exact: true })

const views: readonly View[] = [
  { name: "chat", scheme: "light", at: channel },
  { name: "chat-dark", scheme: "dark", at: channel },
  { name: "chat-narrow", scheme: "dark", isNarrow: true, at: channel },
  {
    name: "pictures",
    scheme: "dark",
    at: channel,
    act: async page => {
      await page.getByRole("link", { name: "north pond.png" }).click()
      await page.getByText("1 of 4").waitFor()
    },
  },
  {
    name: "stickers",
    scheme: "light",
    at: channel,
    act: async page => {
      await named(page, "Send a sticker").click()
      await page.getByLabel("Name or word").waitFor()
    },
  },
  { name: "friends", scheme: "light", at: () => "/" },
  { name: "direct", scheme: "dark", at: ({ direct }) => `/dms/${direct}` },
  { name: "roles", scheme: "light", at: ({ server, role }) => `/servers/${server}/settings/roles/${role}` },
  {
    name: "permissions",
    scheme: "dark",
    at: ({ server, general }) => `/servers/${server}/settings/channels/${general}`,
    act: async page => {
      const section = page.locator("section", { has: page.getByRole("heading", { name: "What a member can do here" }) })
      await section.getByLabel("Member", { exact: true }).fill("brook")
      await section.getByRole("list").getByRole("button").click()
      await section.locator("[data-permission]").first().waitFor()
      await section.evaluate(one => one.scrollIntoView())
    },
  },
  { name: "settings", scheme: "light", at: () => "/settings/security" },
]

async function take(browser: Browser, of: Community, { name, scheme, isNarrow, at, act }: View): Promise<number> {
  const context = await browser.newContext({
    viewport: isNarrow ? { width: 390, height: 780 } : { width: 1200, height: 760 },
    colorScheme: scheme,
    reducedMotion: "reduce",
    locale: "en-GB",
  })
  try {
    await context.addInitScript(`localStorage.setItem("starling.app.token", ${JSON.stringify(of.ada.token)})`)
    const page = await context.newPage()
    page.setDefaultTimeout(30_000)
    await page.goto(`${of.url}/app#${at(of)}`)
    await page.locator(".dot.live").waitFor({ state: "attached" })
    await page.locator("main .loading").first().waitFor({ state: "detached" })
    await act?.(page, of)
    await page.waitForLoadState("networkidle")
    const shot = await page.screenshot({ animations: "disabled" })
    const small = await sharp(shot).webp({ quality: 82, effort: 6, smartSubsample: true }).toBuffer()
    if (small.length > maxBytes) throw new Error(`${name}.webp has ${small.length} bytes, more than ${maxBytes}`)
    await writeFile(`${folder}${name}.webp`, small)
    return small.length
  } finally {
    await context.close()
  }
}

await stat(folder)
const browser = await startBrowser()
if (typeof browser === "string") throw new Error(browser)
const server = await startOwnServer()
try {
  const community = await settle(server.url)
  let total = 0
  for (const view of views) {
    const bytes = await take(browser, community, view)
    total += bytes
    process.stdout.write(`${view.name}.webp`.padEnd(22) + `${bytes} bytes\n`)
  }
  process.stdout.write(`${total} bytes in all\n`)
} finally {
  await server.stop()
  await browser.close()
}
