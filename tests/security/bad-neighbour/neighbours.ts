/** Tenants at their worst, each within the limits of its accounts, its webhooks, its server and its addresses. */
import { limits } from "../../../src/contract/core/limits.ts"
import { fattestEmbeds, type Account } from "../../kit/neighbour-scene.ts"
import type { Acts } from "./acts.ts"

export type Neighbour = (acts: Acts) => Promise<void>

const api = "/api/v1"
const costlyPatterns = ["(?:a?){70}z9", "(?:[a-z]?[a-z]?){35}\\dz"]
const upgrade = (address: string) =>
  `GET /gateway HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: ${address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n` +
  `Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n`
const headersOf = ({ token, address }: Account) =>
  `Host: x\r\nAuthorization: Bearer ${token}\r\nX-Forwarded-For: ${address}\r\n`

/** Frames of a client; the mask is zero. */
function frame(opcode: number, payload: Buffer, { isLast = true, announced = payload.length } = {}): Buffer {
  const head = Buffer.alloc(14)
  head[0] = opcode | (isLast ? 0x80 : 0)
  head[1] = 0x80 | 127
  head.writeBigUInt64BE(BigInt(announced), 2)
  return Buffer.concat([head, payload])
}

/** The costliest patterns of auto-moderation, and the longest messages to them. */
async function patterns(acts: Acts): Promise<void> {
  const { club } = acts.scene
  const [owner] = acts.take("administrators", 1)
  for (const pattern of costlyPatterns) {
    const body = {
      name: pattern,
      rule_type: "regex",
      config: { patterns: [{ pattern }] },
      actions: [{ action_type: "log_only" }],
    }
    const { status, text } = await acts.ask(owner!, "POST", `${api}/servers/${club.id}/automod/rules`, body)
    if (status > 201) throw new Error(`no rule: ${status} ${text}`)
  }
  const members = acts.take("members", 6)
  const message = { content: "a".repeat(limits.messageCharacters), embeds: fattestEmbeds() }
  await acts.begin()
  await acts.again(24, n => {
    const by = members[n % members.length]!
    return acts.ask(by, "POST", `${api}/channels/${club.channels[4 + (n % 4)]}/messages`, message)
  })
  for (const rule of await rulesOf(acts, owner!))
    await acts.ask(owner!, "DELETE", `${api}/servers/${club.id}/automod/rules/${rule}`)
}

async function rulesOf(acts: Acts, owner: Account): Promise<string[]> {
  const { text } = await acts.ask(owner, "GET", `${api}/servers/${acts.scene.club.id}/automod/rules`)
  return [...text.matchAll(/"id":"(\d+)","server_id"/g)].map(([, id]) => id!)
}

/** The fattest messages that webhooks may send, to sessions of which many resume from the beginning again and again. */
async function fatWebhooks(acts: Acts): Promise<void> {
  const { webhooks } = acts.scene.club
  const message = { content: "ü".repeat(limits.webhookMessageCharacters), embeds: fattestEmbeds() }
  const accounts = acts.take("members", 24)
  const sessions = await Promise.all(
    accounts.map(async by => {
      const session = await acts.identify(by)
      const { s: seq, d } = JSON.parse(session.first ?? "{}") as { s: number; d: { session_id: string } }
      session.close()
      return { by, id: d.session_id, seq }
    }),
  )
  await acts.begin()
  await Promise.all([
    acts.again(webhooks.length, n => {
      const { id, secret } = webhooks[n % webhooks.length]!
      return acts.ask({ address: `10.9.0.${n % webhooks.length}` }, "POST", `${api}/webhooks/${id}/${secret}`, message)
    }),
    acts.again(sessions.length, async n => {
      const { by, id, seq } = sessions[n % sessions.length]!
      const frame = { op: 6, d: { token: by.token, session_id: id, seq } }
      const session = await acts.gateway(by, frame, ['"RESUMED"', '"op":9'])
      await acts.wait(500)
      session.close()
    }),
  ])
}

/** Who views channels changes all the time in the largest legal server, with members connected. */
async function toggles(acts: Acts): Promise<void> {
  const { large } = acts.scene
  const administrators = acts.take("administrators", 12)
  await Promise.all(acts.take("members", 80).map(by => acts.identify(by)))
  await acts.begin()
  await acts.again(administrators.length, n => {
    const by = administrators[n % administrators.length]!
    const isOn = Math.floor(n / administrators.length) % 2 === 0
    if (n % 3 === 0) {
      const permissions = { "channels.view": isOn, "messages.read": true, "messages.send": true }
      return acts.ask(by, "PATCH", `${api}/servers/${large.id}/roles/${large.id}`, { permissions })
    }
    const [channel, role] = [large.channels[n % large.channels.length], large.roles[1 + (n % (large.roles.length - 1))]]
    const body = { type: "role", allow: isOn ? ["channels.view"] : [], deny: isOn ? [] : ["channels.view"] }
    return acts.ask(by, "PUT", `${api}/channels/${channel}/permissions/${role}`, body)
  })
}

/** Sessions of members of the largest legal server begin and end. */
async function identifies(acts: Acts): Promise<void> {
  const members = acts.take("members", 50)
  await acts.begin()
  await acts.again(members.length * 2, async n => {
    const session = await acts.identify(members[n % members.length]!)
    session.close()
    if (session.closedWith !== undefined) await acts.wait(100)
  })
}

/** Heavy pages, documents and scripts are asked for and not read. */
async function idleReaders(acts: Acts): Promise<void> {
  const members = acts.take("members", 20)
  const history = `${api}/channels/${acts.scene.club.heavyChannel}/messages?limit=100`
  const docs = await acts.ask({}, "GET", "/docs")
  const script = /src="(\/docs\/assets\/[^"]+)"/.exec(docs.text)?.[1] ?? "/docs"
  const wanted = [history, script, "/openapi.json", history]
  await acts.begin()
  await acts.again(400, async n => {
    const socket = acts.socket()
    socket.pause()
    socket.write(`GET ${wanted[n % wanted.length]} HTTP/1.1\r\n${headersOf(members[n % members.length]!)}\r\n`)
    acts.count("asked")
    await acts.wait(2_000 + (n % 7) * 300)
    socket.destroy()
  })
}

/** Heavy pages are asked for and read, as fast as they come. */
async function heavyPages(acts: Acts): Promise<void> {
  const members = acts.take("members", 16)
  const history = `${api}/channels/${acts.scene.club.heavyChannel}/messages?limit=100`
  await acts.begin()
  await acts.again(members.length * 2, n => acts.ask(members[n % members.length]!, "GET", history))
}

/** Uploads that begin and then stall. */
async function stalledUploads(acts: Acts): Promise<void> {
  const members = acts.take("members", 24)
  const form =
    `--x\r\nContent-Disposition: form-data; name="file"; filename="a.bin"\r\nContent-Type: application/octet-stream\r\n\r\n` +
    "\u0001".repeat(300_000)
  await acts.begin()
  await acts.again(members.length * 4, async n => {
    const socket = acts.socket()
    const by = members[n % members.length]!
    socket.write(
      `POST ${api}/channels/${acts.scene.club.channels[0]}/attachments HTTP/1.1\r\n${headersOf(by)}` +
        `Content-Type: multipart/form-data; boundary=x\r\nContent-Length: 20000000\r\n\r\n${form}`,
    )
    socket.once("data", (piece: Buffer) => acts.count(piece.toString("latin1", 9, 12))).resume()
    acts.count("begun")
    await acts.wait(3_000)
    socket.destroy()
  })
}

/** Headers and bodies that come byte by byte. */
async function slowloris(acts: Acts): Promise<void> {
  const members = acts.take("members", 50)
  const body = JSON.stringify({ content: "slow ".repeat(50) })
  await acts.begin()
  await acts.again(500, async n => {
    const socket = acts.socket()
    const by = members[n % members.length]!
    const head =
      `POST ${api}/channels/${acts.scene.club.channels[0]}/messages HTTP/1.1\r\n${headersOf(by)}` +
      `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`
    const whole = n % 2 === 0 ? head + body : body
    if (n % 2 === 1) socket.write(head)
    acts.count("begun")
    for (let at = 0; at < whole.length && !socket.destroyed && !acts.signal.aborted; at++) {
      socket.write(whole[at]!)
      await acts.wait(200)
    }
    socket.destroy()
  })
}

/** Reactions, typing, presence and questions for all members of a server with 1,000, from many sessions of its members. */
async function storms(acts: Acts): Promise<void> {
  const { club } = acts.scene
  const members = acts.take("members", 40)
  const sessions = await Promise.all(members.flatMap(by => [acts.identify(by), acts.identify(by)]))
  const statuses = ["online", "idle", "dnd", "invisible"]
  const place = `${api}/channels/${club.channels[0]}`
  await acts.begin()
  // Each connection has so many frames a minute: some go at once, the others evenly.
  for (const session of sessions) for (let at = 0; at < 20; at++) session.say(allMembers(club.id))
  await Promise.all([
    acts.again(1, async n => {
      for (const [at, session] of sessions.entries())
        session.say(at % 2 === 0 ? { op: 3, d: { status: statuses[n % statuses.length] } } : allMembers(club.id))
      acts.count("frames")
      await acts.wait(1_000)
    }),
    acts.again(members.length, n => {
      const by = members[n % members.length]!
      const message = club.messages[n % club.messages.length]
      if (n % 3 === 0) return acts.ask(by, "POST", `${place}/typing`)
      const emoji = encodeURIComponent(["👍", "🎉", "🔥"][n % 3]!)
      return acts.ask(by, n % 2 === 0 ? "PUT" : "DELETE", `${place}/messages/${message}/reactions/${emoji}`)
    }),
  ])
}
const allMembers = (guild_id: string) => ({ op: 8, d: { guild_id, query: "", limit: 0, presences: true } })

/** Searches for what every message has, for phrases, and for a letter in a long channel. */
async function searches(acts: Acts): Promise<void> {
  const { club } = acts.scene
  const members = acts.take("members", 16)
  const wanted = [
    `${api}/channels/${club.longChannel}/messages/search?content=e`,
    `${api}/channels/${club.longChannel}/messages/search?content=zzzz`,
    `${api}/search/messages?query=fox&server_id=${club.id}`,
    `${api}/search/messages?query=${encodeURIComponent('"jumps over nobody"')}`,
    `${api}/search/messages?query=${encodeURIComponent("quick -brown fox -jumps the")}`,
    `${api}/search/users?query=me`,
  ]
  await acts.begin()
  await acts.again(members.length * 2, n => acts.ask(members[n % members.length]!, "GET", wanted[n % wanted.length]!))
}

/** Large frames, frames that never end and fragments without end before anybody has identified. */
async function frames(acts: Acts): Promise<void> {
  const large = Buffer.alloc(65_000, "a")
  await acts.begin()
  await acts.again(240, async n => {
    const socket = acts.socket()
    socket.on("data", () => {})
    socket.write(upgrade(`10.20.${n % 5}.${n % 200}`))
    acts.count("opened")
    await acts.wait(100)
    for (let round = 0; round < 20 && !socket.destroyed && !acts.signal.aborted; round++) {
      if (n % 3 === 0) socket.write(frame(round === 0 ? 1 : 0, large.subarray(0, 3_000), { isLast: false }))
      else if (n % 3 === 1) socket.write(round === 0 ? frame(1, large, { announced: 65_530 }) : "a")
      else socket.write(frame(1, large))
      await acts.wait(250)
    }
    socket.destroy()
  })
}

/** Bodies with as many mistakes as fit. */
async function mistakes(acts: Acts): Promise<void> {
  const { club, large } = acts.scene
  const accounts = [...acts.take("administrators", 6), ...acts.take("members", 12)]
  const permissions = Object.fromEntries(Array.from({ length: 20_000 }, (_, at) => [`k${at}`, 1]))
  const fewer = Object.fromEntries(Array.from({ length: 9_000 }, (_, at) => [`k${at}`, 1]))
  const embeds = Array.from({ length: 9_000 }, () => 1)
  const bodies = [{ permissions }, { permissions: fewer }].map(body => JSON.stringify(body))
  const message = JSON.stringify({ embeds, attachments: embeds.slice(0, 900) })
  const deep = `${"[".repeat(100_000)}${"]".repeat(100_000)}`
  await acts.begin()
  await acts.again(accounts.length, n => {
    const by = accounts[n % accounts.length]!
    if (n % 4 < 2) return acts.ask(by, "PATCH", `${api}/servers/${large.id}/roles/${large.roles[5]}`, bodies[n % 2])
    return acts.ask(by, "POST", `${api}/channels/${club.channels[1]}/messages`, n % 4 === 2 ? message : deep)
  })
}

/** Sign-ins, tokens and sessions that fail, from many addresses. */
async function failedLogins(acts: Acts): Promise<void> {
  await acts.begin()
  await acts.again(60, async n => {
    const by = { address: `10.30.${(n >> 8) & 255}.${n & 255}`, token: `${n}.${"x".repeat(43)}` }
    if (n % 3 === 0) {
      const body = { username: `member_${n % 150}`, password: `Wrong-Password-${n}` }
      return acts.ask({ address: by.address }, "POST", `${api}/auth/login`, body)
    }
    if (n % 3 === 1) return acts.ask(by, "GET", `${api}/users/@me`)
    const session = await acts.gateway(by, { op: 2, d: { token: by.token } }, ['"READY"'])
    session.close()
  })
}

export const neighbours: Readonly<Record<string, Neighbour>> = {
  "costly patterns": patterns,
  "fat webhooks, resumes": fatWebhooks,
  "changes of who views": toggles,
  "identifies into a large server": identifies,
  "readers that do not read": idleReaders,
  "heavy pages": heavyPages,
  "uploads that stall": stalledUploads,
  slowloris,
  "reactions, typing, presence, members": storms,
  searches,
  "frames before identify": frames,
  "bodies full of mistakes": mistakes,
  "failing sign-ins": failedLogins,
}
