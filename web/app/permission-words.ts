import type { ServerPermissions } from "../../client/contract.ts"
import { t } from "../kit/text.ts"

/** A permission by its own name; the others are aliases. */
export type PermissionName = Exclude<
  keyof ServerPermissions,
  "server.view" | "channel.create" | "message.send" | "message.manage"
>

export interface PermissionWords {
  readonly title: string
  /** What for, in a sentence. */
  readonly about: string
  /** Whether a channel can say something else than the server. */
  readonly isOfChannels: boolean
}

type Words = readonly [title: string, about: string]
const ofServer = ([title, about]: Words): PermissionWords => ({ title, about, isOfChannels: false })
const ofChannels = ([title, about]: Words): PermissionWords => ({ title, about, isOfChannels: true })

/** Every permission in words, in the groups in which they are shown. */
const groups = () =>
  [
    {
      title: t("Server"),
      permissions: {
        "server.manage": ofServer([
          t("Manage the server"),
          t("Change its name, description and icon; manage emoji, stickers and invites."),
        ]),
        "roles.manage": ofChannels([
          t("Manage roles"),
          t("Make, change, move, give and delete roles below one's own; change what channels allow and deny."),
        ]),
        "channels.manage": ofChannels([
          t("Manage channels"),
          t("Make, change, move and delete channels; write without slow mode."),
        ]),
        "emojis.manage": ofServer([t("Manage emoji"), t("Add, rename and delete emoji and stickers.")]),
        "webhooks.manage": ofChannels([t("Manage webhooks"), t("Make, change and delete webhooks.")]),
        "server.automod": ofServer([
          t("Manage auto-moderation"),
          t("Change the rules that messages are checked against, and see who broke them."),
        ]),
        "server.view_audit_log": ofServer([t("View the audit log"), t("See who changed what in this server.")]),
        administrator: ofServer([
          t("Administrator"),
          t("Everything, in every channel, whatever a channel denies. Give it to very few."),
        ]),
      },
    },
    {
      title: t("Members"),
      permissions: {
        "invites.create": ofChannels([t("Invite people"), t("Make links that lead into this server.")]),
        "invites.manage": ofServer([t("Manage invites"), t("See all invites, and end them.")]),
        "members.kick": ofServer([t("Remove and time out"), t("Members who rank lower.")]),
        "members.ban": ofServer([t("Ban"), t("Members who rank lower, and anybody outside; lift bans.")]),
        "bans.view": ofServer([t("View bans"), t("See who is banned, and why.")]),
        "members.manage_roles": ofServer([t("Give and take roles"), t("Those below one's own.")]),
        "members.manage_nicknames": ofServer([t("Change nicknames"), t("Those of members who rank lower.")]),
      },
    },
    {
      title: t("Text"),
      permissions: {
        "channels.view": ofChannels([
          t("View channels"),
          t("Without it a channel is hidden, and nothing else in it counts."),
        ]),
        "messages.read": ofChannels([t("Read messages"), t("Also the older ones.")]),
        "messages.send": ofChannels([t("Send messages"), t("And edit one's own.")]),
        "messages.embed_links": ofChannels([t("Send embeds"), t("Bots may without it.")]),
        "messages.attach_files": ofChannels([t("Attach files"), t("Pictures, recordings and other files.")]),
        "messages.add_reactions": ofChannels([t("React"), t("Put emoji under messages.")]),
        "messages.use_external_emojis": ofChannels([
          t("React with emoji of other servers"),
          t("Of those that the member is in."),
        ]),
        "messages.mention_everyone": ofChannels([
          t("Mention everyone"),
          t("Notify all with @everyone, those who are there with @here, and the members of any role."),
        ]),
        "messages.manage": ofChannels([
          t("Manage messages"),
          t("Delete those of others, pin, and write without slow mode."),
        ]),
        "messages.bypass_slowmode": ofChannels([t("No slow mode"), t("Write as often as one likes.")]),
      },
    },
    {
      title: t("Voice"),
      permissions: {
        "voice.connect": ofChannels([t("Join voice channels"), t("And hear who speaks there.")]),
        "voice.speak": ofChannels([t("Speak"), t("Without it one only listens.")]),
        "voice.mute_members": ofChannels([t("Mute others"), t("Kept for apps; the server itself does not check it.")]),
        "voice.deafen_members": ofChannels([
          t("Deafen others"),
          t("Kept for apps; the server itself does not check it."),
        ]),
        "voice.move_members": ofChannels([t("Join full voice channels"), t("Whatever their limit.")]),
      },
    },
    {
      title: t("For apps"),
      permissions: {
        "events.view": ofServer([t("View events"), t("Kept for apps; the server itself does not check it.")]),
        "events.manage": ofServer([t("Manage events"), t("Kept for apps; the server itself does not check it.")]),
        "templates.manage": ofServer([t("Manage templates"), t("Kept for apps; the server itself does not check it.")]),
        "onboarding.manage": ofServer([
          t("Manage the welcome screen"),
          t("Kept for apps; the server itself does not check it."),
        ]),
      },
    },
  ] as const

type KeysOf<T> = T extends unknown ? keyof T : never
type ListedName = KeysOf<ReturnType<typeof groups>[number]["permissions"]>
/** A compile error where a permission of the contract stands in no group. */
const isComplete: PermissionName extends ListedName ? true : never = true

export interface PermissionGroup {
  readonly title: string
  readonly permissions: readonly (readonly [name: PermissionName, words: PermissionWords])[]
}

/** `ofChannels`: only what a channel can allow or deny. */
export const permissionGroups = ({ ofChannels: isOnlyOfChannels = false } = {}): PermissionGroup[] =>
  (isComplete ? groups() : [])
    .map(({ title, permissions }) => ({
      title,
      permissions: (Object.entries(permissions) as [PermissionName, PermissionWords][]).filter(
        ([, { isOfChannels }]) => isOfChannels || !isOnlyOfChannels,
      ),
    }))
    .filter(({ permissions }) => permissions.length > 0)

export const titleOf = (name: string): string =>
  permissionGroups()
    .flatMap(({ permissions }) => permissions)
    .find(([one]) => one === name)?.[1].title ?? name
