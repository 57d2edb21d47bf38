import { expect, test } from "vitest"
import { routes } from "../contract.ts"
import { aliases, permissionNames, permissionOf, permissions, type Permission } from "./permissions.ts"
import type { Needed, Route } from "./registry.ts"

test("there are 34 permissions, of which a new server grants ten to everybody", () => {
  expect(permissionNames).toHaveLength(34)
  expect(permissionNames.filter(name => permissions[name].granted).toSorted()).toEqual([
    "channels.view",
    "events.view",
    "invites.create",
    "messages.add_reactions",
    "messages.attach_files",
    "messages.embed_links",
    "messages.read",
    "messages.send",
    "voice.connect",
    "voice.speak",
  ])
})

test("a name means itself, another name of it, or nothing: there are no wildcards", () => {
  for (const name of permissionNames) expect(permissionOf(name)).toBe(name)
  for (const [alias, name] of aliases) expect(permissionOf(alias)).toBe(name)
  for (const name of ["*", "messages.*", "server.view", "no.such", "", "constructor", "__proto__", "Administrator"])
    expect(permissionOf(name), name).toBeUndefined()
})

const either = (...names: [Permission, ...Permission[]]) => names

/**
 * Which routes of servers take what; the rest of those that name a server or a channel is for
 * members.
 */
const asked: readonly [Needed, ...(keyof typeof routes)[]][] = [
  ["owner", "deleteServer", "transferServer"],
  [either("server.manage"), "editServer", "putIcon", "uploadIcon", "deleteIcon"],
  [either("channels.manage"), "createChannel", "editChannel", "deleteChannel", "reorderChannels"],
  [
    either("roles.manage"),
    "createRole",
    "editRole",
    "deleteRole",
    "listOverrides",
    "getOverride",
    "setOverride",
    "deleteOverride",
  ],
  [either("members.manage_roles", "roles.manage"), "giveRole", "takeRole"],
  [either("members.kick"), "kickMember"],
  [either("members.ban"), "banUser", "unbanUser"],
  [either("members.ban", "bans.view"), "listBans"],
  [either("invites.create"), "createInvite"],
  [either("invites.manage", "server.manage"), "listInvites"],
  [either("server.view_audit_log"), "listAuditLog"],
  [either("server.manage"), "addBot"],
  [either("webhooks.manage"), "createWebhook", "getWebhook", "editWebhook", "deleteWebhook", "regenerateWebhookToken"],
  [either("webhooks.manage"), "listServerWebhooks", "listChannelWebhooks"],
  [either("emojis.manage", "server.manage"), "createEmoji", "renameEmoji", "deleteEmoji"],
  [either("emojis.manage", "server.manage"), "createSticker", "deleteSticker"],
  [either("server.automod"), "listAutomodRules", "createAutomodRule", "editAutomodRule", "deleteAutomodRule"],
  [either("server.automod"), "listAutomodViolations"],
  [either("messages.send"), "createMessage", "editMessage"],
  [either("messages.attach_files"), "uploadAttachment"],
  [either("messages.read"), "listMessages", "getMessage", "listReactions", "listReactors", "listPins", "searchChannel"],
  [either("messages.read"), "ackMessages", "getUnread"],
  [either("messages.add_reactions"), "addReaction"],
  [either("messages.manage"), "pinMessage", "unpinMessage", "bulkDeleteMessages"],
  // Who may delete another's message is said in the channel.
  [either("channels.view"), "getChannel", "startTyping", "deleteMessage", "removeReaction", "getVoiceInfo"],
  [either("channels.view"), "getChannelNotificationSettings", "putChannelNotificationSettings"],
]

test("every route of a server asks for what it is meant to ask for", () => {
  const wanted = new Map<string, Needed>(asked.flatMap(([needed, ...names]) => names.map(name => [name, needed])))
  for (const [name, { permission }] of Object.entries<Route>(routes)) {
    if (permission === undefined) expect(wanted.get(name), name).toBeUndefined()
    else expect([name, permission]).toEqual([name, wanted.get(name) ?? "member"])
  }
  // Open to users who are not in the server, or with a rule of their own.
  const open = Object.entries<Route>(routes).flatMap(([name, { path, auth, permission }]) =>
    auth === "user" && permission === undefined && /:(server_id|channel_id|invite_code)/.test(path) ? [name] : [],
  )
  expect(open.toSorted()).toEqual(["deleteInvite", "getInvite", "joinByInvite", "joinServer"])
})
