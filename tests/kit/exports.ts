import { mkdir, writeFile } from "node:fs/promises"
import { dirname, join } from "node:path"
import { crc32, deflateRawSync } from "node:zlib"
import { png } from "./pictures.ts"

/** Exports of other products, as docs/operate/import.md says that they are written. */

/** A file of an archive, and what its headers say of it that is not so. */
export interface Packed {
  readonly name: string | Buffer
  readonly content: Buffer | string | object
  readonly saysBytes?: number
}

/** A zip archive. */
export function zipOfFiles(files: readonly Packed[]): Buffer {
  const [locals, centrals]: [Buffer[], Buffer[]] = [[], []]
  let at = 0
  for (const { name, content, saysBytes } of files) {
    const bytes = bytesOf(content)
    const packed = deflateRawSync(bytes)
    const nameBytes = Buffer.from(name as string)
    const head = Buffer.alloc(26)
    head.writeUInt16LE(20, 0)
    head.writeUInt16LE(0x0800, 2)
    head.writeUInt16LE(8, 4)
    head.writeUInt16LE(0x21, 8)
    head.writeUInt32LE(crc32(bytes), 10)
    head.writeUInt32LE(packed.length, 14)
    head.writeUInt32LE(saysBytes ?? bytes.length, 18)
    head.writeUInt16LE(nameBytes.length, 22)
    const local = Buffer.concat([Buffer.from("PK\u0003\u0004", "latin1"), head, nameBytes, packed])
    const place = Buffer.alloc(14)
    place.writeUInt32LE(at, 10)
    centrals.push(Buffer.concat([Buffer.from("PK\u0001\u0002\u0014\u0000", "latin1"), head, place, nameBytes]))
    locals.push(local)
    at += local.length
  }
  const central = Buffer.concat(centrals)
  const end = Buffer.alloc(18)
  end.writeUInt16LE(files.length, 4)
  end.writeUInt16LE(files.length, 6)
  end.writeUInt32LE(central.length, 8)
  end.writeUInt32LE(at, 12)
  return Buffer.concat([...locals, central, Buffer.from("PK\u0005\u0006", "latin1"), end])
}

const bytesOf = (content: Packed["content"]): Buffer =>
  Buffer.isBuffer(content)
    ? content
    : Buffer.from(typeof content === "string" ? content : JSON.stringify(content, null, 1))

export async function writeFolder(folder: string, files: readonly (Packed & { name: string })[]): Promise<void> {
  for (const { name, content } of files) {
    await mkdir(join(folder, dirname(name)), { recursive: true })
    await writeFile(join(folder, name), bytesOf(content))
  }
}

/** Always the same for the same seed (mulberry32). */
export function chances(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
}

const secondsAt = (iso: string) => Date.parse(iso) / 1000
const slackUser = (id: string, name: string, more: object = {}) => ({
  id,
  team_id: "T024BE7LD",
  name,
  deleted: false,
  real_name: name.toUpperCase(),
  is_admin: false,
  is_owner: false,
  is_primary_owner: false,
  is_bot: false,
  profile: { real_name: name.toUpperCase(), display_name: `${name} ✨`, email: `${name}@guillemot.example` },
  ...more,
})
const slackChannel = (id: string, name: string, members: string[], more: object = {}) => ({
  id,
  name,
  created: secondsAt("2016-03-01T12:00:00Z"),
  creator: "U1",
  is_archived: false,
  is_general: false,
  members,
  pins: [],
  topic: { value: `About ${name}`, creator: "U1", last_set: 0 },
  purpose: { value: "", creator: "", last_set: 0 },
  ...more,
})
export const said = (ts: string, user: string, text: string, more: object = {}) => ({
  type: "message",
  user,
  text,
  ts,
  ...more,
})

export const slackRoot = "1457000000.000002"
export const attachedFile = Buffer.from("tide tables, 2016\n".repeat(200))
const longText = Array.from({ length: 900 }, (_, i) => `line ${i} of it`).join("\n")
export { longText as slackLongText }

/** A workspace with everything that an export of one can have. `more`: messages of #general beside it. */
export async function slackFiles(more: readonly object[] = []): Promise<(Packed & { name: string })[]> {
  const picture = await png(40)
  const upload = (id: string, name: string, mimetype: string) => ({
    id,
    name,
    mimetype,
    size: 1,
    mode: "hosted",
    url_private_download: `http://127.0.0.1:9/${id}/${name}?t=xoxe-1`,
  })
  return [
    {
      name: "users.json",
      content: [
        slackUser("U1", "ada", { is_admin: true, is_owner: true, is_primary_owner: true }),
        slackUser("U2", "lin.chen", { is_admin: true }),
        slackUser("U3", "gone", { deleted: true }),
        slackUser("U4", "deploybot", { is_bot: true }),
        slackUser("U5", "mei"),
      ],
    },
    {
      name: "channels.json",
      content: [
        slackChannel("C1", "general", ["U1", "U2", "U5"], {
          is_general: true,
          pins: [{ id: slackRoot, type: "C", created: 1457000100, user: "U1", owner: "U1" }],
        }),
        slackChannel("C2", "old-news", ["U1"], { is_archived: true }),
      ],
    },
    { name: "groups.json", content: [slackChannel("G1", "secret", ["U1", "U2"])] },
    { name: "dms.json", content: [{ id: "D1", created: 1457000000, members: ["U1", "U2"] }] },
    { name: "mpims.json", content: [slackChannel("G2", "mpdm-ada--lin--mei-1", ["U1", "U2", "U5"])] },
    {
      name: "general/2016-03-03.json",
      content: [
        said("1456999990.000001", "U1", "<@U1> has joined the channel", { subtype: "channel_join" }),
        said(
          slackRoot,
          "U1",
          "Hello *all* of <@U2> &amp; <#C2|old-news>, see <https://tide.example/a_b_c|the table> :tada:",
          {
            thread_ts: slackRoot,
            reply_count: 2,
            edited: { user: "U1", ts: "1457000050.000000" },
            reactions: [
              { name: "+1", users: ["U2", "U5"], count: 2 },
              { name: "gull", users: ["U1"], count: 1 },
            ],
          },
        ),
        said("1457000000.000003", "U3", "Said before I left"),
        said("1457000010.000100", "U2", "a reply", { thread_ts: slackRoot, parent_user_id: "U1" }),
        said("1457000020.000100", "U2", "", {
          files: [
            upload("F1", "tides.txt", "text/plain"),
            upload("F2", "gull.png", "image/png"),
            upload("F3", "elsewhere.pdf", "application/pdf"),
            { id: "F4", mode: "tombstone" },
          ],
        }),
        said("1457000030.000100", "U4", "deployed `main` & <https://ci.example|build 7>", {
          bot_id: "B1",
          username: "CI",
        }),
        {
          type: "message",
          subtype: "bot_message",
          bot_id: "B2",
          username: "Weather",
          ts: "1457000031.000100",
          text: "Storm",
          attachments: [{ title: "Bight", title_link: "https://wx.example", text: "9 bft", fallback: "wx" }],
        },
        said("1457000040.000100", "U5", longText),
        ...more,
      ],
    },
    {
      name: "general/2025-01-05.json",
      content: [said("1736073600.250000", "U5", "a reply of years later", { thread_ts: slackRoot })],
    },
    {
      name: "old-news/2016-03-04.json",
      content:
        '[\n{"type":"message","user":"U1","text":"before","ts":"1457050000.000000"},\n{"type":"message", broken},\n{"type":"message","user":"U1","text":"after","ts":"1457050001.000000"}\n]',
    },
    { name: "secret/2016-03-04.json", content: [said("1457060000.000000", "U2", "only for two")] },
    {
      name: "D1/2016-03-05.json",
      content: [said("1457100000.000000", "U1", "psst"), said("1457100001.000000", "U2", "yes?")],
    },
    { name: "mpdm-ada--lin--mei-1/2016-03-05.json", content: [said("1457110000.000000", "U5", "we three")] },
    { name: "integration_logs.json", content: [] },
    { name: "__uploads/F1/tides.txt", content: attachedFile },
    { name: "__uploads/F2/gull.png", content: picture },
  ]
}

/** So many messages of #general, by seed: threads, reactions, several of one millisecond. */
export function slackCrowd(count: number, seed: number): object[] {
  const chance = chances(seed)
  const roots: string[] = []
  let ms = Date.parse("2019-06-01T08:00:00Z")
  return Array.from({ length: count }, (_, i) => {
    ms += chance() < 0.2 ? 0 : Math.floor(chance() * 400_000)
    const ts = `${Math.floor(ms / 1000)}.${String((ms % 1000) * 1000 + (i % 1000)).padStart(6, "0")}`
    const isReply = roots.length > 0 && chance() < 0.3
    if (!isReply && chance() < 0.2) roots.push(ts)
    return said(ts, ["U1", "U2", "U3", "U5"][Math.floor(chance() * 4)]!, `message ${i} of *${seed}* :wave:`, {
      ...(isReply && { thread_ts: roots[Math.floor(chance() * roots.length)] }),
      ...(chance() < 0.1 && { reactions: [{ name: "eyes", users: ["U1", "U5"], count: 2 }] }),
    })
  })
}

/** A bulk export with one team. */
export async function mattermostFiles(): Promise<(Packed & { name: string })[]> {
  const at = Date.parse("2021-04-05T06:07:08.900Z")
  const member = (roles: string, channels: string[]) => [
    { name: "skerry", roles, channels: channels.map(name => ({ name, roles: "channel_user" })) },
  ]
  const user = (username: string, teams: object, more = {}) => ({
    type: "user",
    user: {
      username,
      email: `${username}@skerry.example`,
      auth_service: "",
      nickname: "",
      first_name: username,
      last_name: "Reef",
      roles: "system_user",
      teams,
      ...more,
    },
  })
  const channel = (name: string, type: string) => ({
    type: "channel",
    channel: { team: "skerry", name, display_name: name.toUpperCase(), type, header: `On ${name}`, purpose: "" },
  })
  const lines = [
    { type: "version", version: 1, info: { generator: "mattermost-server", version: "9.5.0", created: "2024-02-01" } },
    { type: "emoji", emoji: { name: "limpet", image: "emoji/limpet/image" } },
    { type: "team", team: { name: "skerry", display_name: "Skerry", type: "I", description: "Rocks" } },
    channel("harbour", "O"),
    channel("crew", "P"),
    user("olu", member("team_user team_admin", ["harbour", "crew"])),
    user("tova", member("team_user", ["harbour"])),
    user("left", member("team_user", ["harbour"]), { delete_at: at }),
    {
      type: "post",
      post: {
        team: "skerry", channel: "harbour", user: "olu", type: "", message: "Hi @tova, see ~harbour. **Bold** :limpet: `@tova`", props: {},
        create_at: at, edit_at: at + 60_000, is_pinned: true,
        reactions: [{ user: "tova", create_at: at + 5_000, emoji_name: "limpet" }, { user: "olu", create_at: at + 6_000, emoji_name: "heart" }],
        replies: [{ user: "tova", type: "", message: "hello", create_at: at + 1_000, edit_at: 0, reactions: [], attachments: [{ path: "20210405/reef.dat" }] }],
        attachments: [],
      },
    },
    { type: "post", post: { team: "skerry", channel: "harbour", user: "left", type: "", message: "first of all", create_at: at - 1_000, edit_at: 0 } },
    { type: "post", post: { team: "skerry", channel: "harbour", user: "tova", type: "system_join_channel", message: "tova joined", create_at: at - 500 } },
    { type: "post", post: { team: "skerry", channel: "crew", user: "olu", type: "", message: "crew only", create_at: at } },
    { type: "direct_channel", direct_channel: { members: ["olu", "tova"], header: "" } },
    { type: "direct_post", direct_post: { channel_members: ["olu", "tova"], user: "tova", type: "", message: "just us", create_at: at, edit_at: 0 } },
  ] // prettier-ignore
  return [
    {
      name: "import.jsonl",
      content: lines.map(line => JSON.stringify(line)).join("\n") + '\n{"type":"post","post":{\n',
    },
    { name: "data/20210405/reef.dat", content: Buffer.from("reef") },
    { name: "data/emoji/limpet/image", content: await png(16) },
  ]
}

/** Two channels and a thread of a guild, with media, as DiscordChatExporter writes them. */
export async function discordFiles(): Promise<(Packed & { name: string })[]> {
  const guild = { id: "700000000000000001", name: "Lighthouse", iconUrl: "https://cdn.discord.example/i.png" }
  const role = { id: "700000000000000077", name: "Keepers", color: "#22AA55", position: 3 }
  const person = (id: string, name: string, nickname: string, roles: object[] = []) => ({
    id, name, discriminator: "0000", nickname, color: null, isBot: false, roles, avatarUrl: `https://cdn.discord.example/${id}.png`,
  }) // prettier-ignore
  const [ines, bo] = [person("800000000000000001", "ines", "Ines K", [role]), person("800000000000000002", "bo", "Bo")]
  const message = (id: string, author: object, content: string, timestamp: string, more: object = {}) => ({
    id, type: "Default", timestamp, timestampEdited: null, callEndedTimestamp: null, isPinned: false, content, author,
    attachments: [], embeds: [], stickers: [], reactions: [], mentions: [], inlineEmojis: [], ...more,
  }) // prettier-ignore
  const file = (name: string, channel: object, messages: object[]) => ({
    name,
    content: {
      guild,
      channel: { categoryId: "700000000000000009", category: "Watch", topic: null, ...channel },
      dateRange: { after: null, before: null },
      exportedAt: "2025-02-01T00:00:00+00:00",
      messages,
      messageCount: messages.length,
    },
  })
  const media = "Lighthouse - Watch - lamp.json_Files"
  const wick = {
    id: "700000000000000055",
    name: "wick",
    code: "wick",
    isAnimated: false,
    imageUrl: `${media}/wick-1A2B3.png`,
  }
  return [
    file(
      "Lighthouse - Watch - lamp.json",
      { id: "700000000000000010", type: "GuildTextChat", name: "lamp", topic: "The lamp" },
      [
        message(
          "900000000000000001",
          ines,
          "Lit, @Bo <#700000000000000011> <:wick:700000000000000055>",
          "2018-11-05T18:00:00.123+00:00",
          {
            isPinned: true,
            timestampEdited: "2018-11-05T18:05:00+00:00",
            mentions: [bo],
            inlineEmojis: [wick],
            attachments: [{ id: "1", url: `${media}/log book-9Z.txt`, fileName: "log book.txt", fileSizeBytes: 3 }],
            reactions: [
              {
                emoji: { id: "", name: "🔥", code: "fire", isAnimated: false, imageUrl: "https://x.example/f.svg" },
                count: 1,
                users: [bo],
              },
              { emoji: wick, count: 2, users: [ines, bo] },
            ],
          },
        ),
        message("900000000000000002", ines, "Ines K pinned a message.", "2018-11-05T18:01:00+00:00", {
          type: "ChannelPinnedMessage",
        }),
        message("900000000000000003", bo, "aye", "2018-11-05T18:02:00+00:00", {
          type: "Reply",
          reference: { messageId: "900000000000000001", channelId: "700000000000000010", guildId: guild.id },
        }),
        message(
          "900000000000000004",
          { ...person("800000000000000009", "Fog", "Fog"), isBot: true },
          "",
          "2018-11-05T18:03:00+00:00",
          {
            embeds: [{ title: "Fog", url: "https://fog.example", description: "200 m", fields: [] }],
          },
        ),
      ],
    ),
    file("Lighthouse - Watch - stores.json", { id: "700000000000000011", type: "GuildTextChat", name: "stores" }, [
      message("900000000000000011", bo, "oil: 3", "2018-11-06T08:00:00+00:00"),
    ]),
    file(
      "Lighthouse - lamp - trimming.json",
      {
        id: "900000000000000003",
        type: "GuildPublicThread",
        name: "trimming",
        categoryId: "700000000000000010",
        category: "lamp",
      },
      [
        message("900000000000000021", ines, "how short?", "2018-11-07T08:00:00+00:00"),
        message("900000000000000022", bo, "short", "2018-11-07T08:01:00+00:00"),
      ],
    ),
    { name: `${media}/log book-9Z.txt`, content: Buffer.from("log") },
    { name: `${media}/wick-1A2B3.png`, content: await png(20) },
  ]
}
