import { clusterConfig } from "../cluster.config.ts"
import { resourceLimits } from "../src/contract/contract.ts"
import { refused, type LimitNote, type LimitNotes } from "../src/contract/core/limit-notes.ts"
import { limits } from "../src/contract/core/limits.ts"

const cut = (unit: string, beyond: string): LimitNote => ({ unit, beyond })
const chosen = (unit: string): LimitNote => ({ unit, beyond: "the value where the client names none" })

/** Of each limit that several resources share; the others stand beside their resource. */
const notes: LimitNotes<typeof limits> = {
  messageCharacters: refused("characters"),
  nonceCharacters: refused("characters"),
  memberQuery: refused("characters"),
  memberIdsPerRequest: refused("ids"),
  channelsPerAck: refused("channels"),
  readersNamed: cut("names", "those who have read less far are counted, but not named"),
  pageSize: refused("items"),
  defaultPageSize: chosen("items"),
  searchPage: chosen("messages"),
  searchQuery: refused("characters"),
  userQuery: refused("characters, at least"),
  usersFound: cut("users", "further users are not found"),
  serverName: refused("characters"),
  serverDescription: refused("characters"),
  serverCategory: refused("characters"),
  serversPerUser: refused("servers", "too_many_servers"),
  channelName: refused("characters"),
  channelTopic: refused("characters"),
  channelPosition: refused("position"),
  slowmodeSeconds: refused("seconds"),
  username: refused("characters"),
  channelsPerServer: refused("channels", "channel_limit"),
  rolesPerServer: refused("roles", "role_limit"),
  overridesPerChannel: refused("overrides", "override_limit"),
  roleName: refused("characters"),
  banReason: refused("characters"),
  bansPage: refused("bans"),
  nickname: refused("characters"),
  timeoutSeconds: refused("seconds"),
  timeoutReason: refused("characters"),
  membersPage: refused("members"),
  invitesPerServer: refused("invites", "invite_limit"),
  endedInvitesKept: cut("invites", "those that ended first are deleted"),
  inviteAge: refused("seconds"),
  inviteUses: refused("uses"),
  membersPerServer: refused("members", "member_limit"),
  inviteDefaultAge: chosen("seconds"),
  usersInVoiceChannel: refused("users"),
  bitrate: refused("bits per second"),
  voiceMembersPerServer: cut("users", "nobody else joins a call of the server"),
  sdpCharacters: refused("characters"),
  candidateCharacters: refused("characters"),
  friendRequestMessage: refused("characters"),
  directsListed: cut("conversations", "those with older messages are not listed"),
  relationshipsOfAStatus: refused("users", "relationship_limit"),
  settingKeyCharacters: refused("characters"),
  settingValueCharacters: refused("characters"),
  settingsPerUser: refused("settings", "setting_limit"),
  notificationsKept: cut("notifications", "the oldest are deleted"),
  notificationSettings: refused("settings", "notification_settings_limit"),
  tierNotes: refused("characters"),
  badgesShown: cut("badges", "further badges are not shown"),
  urlCharacters: refused("characters"),
  webhookName: refused("characters"),
  webhookMessageCharacters: refused("characters"),
  webhookUsername: refused("characters"),
  webhooksPerChannel: refused("webhooks", "webhook_limit"),
  webhooksPerServer: refused("webhooks", "webhook_limit"),
  embedsPerMessage: refused("embeds", "too_many_embeds"),
  embed: refused("characters, items or bytes of JSON"),
  attachmentsPerMessage: refused("files", "too_many_attachments"),
  filename: cut("characters", "shortened before its extension"),
  attachmentBytes: refused("bytes", "file_over_limit"),
  reactionsPerMessage: refused("different emojis", "reaction_limit"),
  emojiCharacters: refused("characters", "invalid_emoji"),
  messagesPerDeletion: refused("messages"),
  mentionsPerMessage: cut("users and roles", "further mentions are text"),
  previewCharacters: cut("characters", "shortened"),
  botsPerOwner: cut("bots", "the operator's command refuses"),
  emojiBytes: refused("bytes", "file_too_large"),
  emojiSide: refused("pixels of a side", "picture_too_large"),
  emojisPerServer: refused("emojis, static and animated each", "emoji_limit"),
  stickerBytes: refused("bytes", "file_too_large"),
  stickerSide: refused("pixels of a side", "picture_too_large"),
  stickerName: refused("characters"),
  tagsPerSticker: refused("tags"),
  stickerTag: refused("characters"),
  stickersPerPack: cut("stickers", "a new pack begins"),
  packsPerServer: refused("packs", "sticker_limit"),
  stickersLookedUp: cut("stickers of each server", "less used stickers are not suggested"),
  wordsLookedUp: cut("words", "further words suggest nothing"),
  charactersLookedUp: cut("characters at the end of a text", "the text before suggests nothing by name"),
  iconBytes: refused("bytes", "file_too_large"),
  avatarBytes: refused("bytes", "file_too_large"),
  avatarSide: refused("pixels of a side", "picture_too_large"),
  automod: cut(
    "items, characters or seconds",
    "a rule beyond it is refused (`automod_limit`, `validation_failed`); records beyond it are deleted or shortened",
  ),
}

/** The bounds of `cluster.config.ts`: those that count or weigh something. */
const isBound = (path: string) => /^(bus|actors|log|gateway|http)\./.test(path)

/** Every number below an object, with the path to it. */
function numbersIn(value: unknown, path: string): (readonly [path: string, value: number])[] {
  if (typeof value === "number") return [[path, value]]
  if (typeof value !== "object" || value === null) return []
  return Object.entries(value).flatMap(([key, inner]) => numbersIn(inner, path === "" ? key : `${path}.${key}`))
}

const shown = (value: number) => value.toLocaleString("en")

/** Rows of name, value, unit and what happens beyond it. */
export const limitRows = (): string[][] =>
  [{ limits, limitNotes: notes }, ...resourceLimits].flatMap(declared => {
    const values: Readonly<Record<string, unknown>> = declared.limits
    return Object.entries<LimitNote>(declared.limitNotes).flatMap(([name, { unit, beyond }]) =>
      numbersIn(values[name], name).map(([path, value]) => [path, shown(value), unit, beyond]),
    )
  })

export const boundRows = (): string[][] =>
  numbersIn(clusterConfig, "")
    .filter(([path]) => isBound(path))
    .map(([path, value]) => [path, shown(value)])
