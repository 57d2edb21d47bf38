/**
 * `npm run docs:screenshots`: starts a server of its own, fills it with a small community, and takes
 * the pictures of the page at /app that the documents show. Build first. Each picture is a WebP of
 * at most `maxBytes`; the times in them are those of the run. Two more, one for each theme, show ten
 * views in three widths, small.
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

type Scheme = "light" | "dark"
interface View {
  readonly name: string
  readonly scheme: Scheme
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

/** Ten views that show something else each. */
const overview: readonly View[] = [
  ...views.filter(({ name }) => !["chat-dark", "chat-narrow"].includes(name)),
  {
    name: "palette",
    scheme: "light",
    at: channel,
    act: async page => {
      await page.keyboard.press("Control+k")
      await page.getByRole("combobox").fill("o")
    },
  },
  { name: "log", scheme: "light", at: ({ server }) => `/servers/${server}/settings/log` },
]
const sizes = [
  { width: 320, height: 700 },
  { width: 768, height: 700 },
  { width: 1280, height: 700 },
]
const scale = 0.22
const gapPx = 12

/** All of them in three widths, in one picture. */
async function takeOverview(browser: Browser, of: Community, scheme: Scheme): Promise<number> {
  const columns = 2
  const widths = sizes.map(({ width }) => Math.round(width * scale))
  const cell = {
    width: widths.reduce((sum, width) => sum + width + gapPx, gapPx),
    height: Math.round(sizes[0]!.height * scale) + 2 * gapPx,
  }
  const laid: { input: Buffer; left: number; top: number }[] = []
  for (const [i, view] of overview.entries()) {
    let left = (i % columns) * cell.width + gapPx
    for (const [k, size] of sizes.entries()) {
      const shot = await shoot(browser, of, view, { scheme, ...size })
      const input = await sharp(shot).resize({ width: widths[k]!, kernel: "lanczos3" }).toBuffer()
      laid.push({ input, left, top: Math.floor(i / columns) * cell.height + gapPx })
      left += widths[k]! + gapPx
    }
  }
  const sheet = sharp({
    create: {
      width: columns * cell.width,
      height: Math.ceil(overview.length / columns) * cell.height,
      channels: 3,
      background: scheme === "dark" ? "#3a4350" : "#c9d0da",
    },
  }).composite(laid)
  return keep(`views-${scheme}`, await sheet.webp({ quality: 80, effort: 6, smartSubsample: true }).toBuffer(), 150_000)
}

async function keep(name: string, bytes: Buffer, most: number): Promise<number> {
  if (bytes.length > most) throw new Error(`${name}.webp has ${bytes.length} bytes, more than ${most}`)
  await writeFile(`${folder}${name}.webp`, bytes)
  process.stdout.write(`${name}.webp`.padEnd(22) + `${bytes.length} bytes\n`)
  return bytes.length
}

async function take(browser: Browser, of: Community, view: View): Promise<number> {
  const { name, scheme, isNarrow } = view
  const size = isNarrow ? { width: 390, height: 780 } : { width: 1200, height: 760 }
  const shot = await shoot(browser, of, view, { scheme, ...size })
  return keep(name, await sharp(shot).webp({ quality: 82, effort: 6, smartSubsample: true }).toBuffer(), maxBytes)
}

interface Looks {
  readonly scheme: Scheme
  readonly width: number
  readonly height: number
}

async function shoot(browser: Browser, of: Community, { at, act }: View, { scheme, ...viewport }: Looks) {
  const context = await browser.newContext({
    viewport,
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
    return await page.screenshot({ animations: "disabled" })
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
  for (const view of views) total += await take(browser, community, view)
  for (const scheme of ["light", "dark"] as const) total += await takeOverview(browser, community, scheme)
  process.stdout.write(`${total} bytes in all\n`)
} finally {
  await server.stop()
  await browser.close()
}
