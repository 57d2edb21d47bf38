import type { Snowflake } from "../../../contract/core/fields.ts"
import { limits } from "../../../contract/core/limits.ts"
import { shardOf } from "../../../domain/core/snowflake.ts"
import type { OutboundRequests } from "../../../integrations/outbound-requests.ts"
import { createPictures } from "../../../integrations/pictures.ts"
import { insertAuditEntry } from "../../../storage/communities/audit-log.ts"
import type { Blobs } from "../../../storage/core/blobs.ts"
import type { NewMember } from "../../../storage/imports.ts"
import type { ImportSteps, Storage } from "../../../storage/storage.ts"
import type { Archive } from "./archive.ts"
import {
  addChannels,
  addDirects,
  addEmoji,
  addPrivateRoles,
  addRoles,
  addServers,
  directRows,
  privateRolesOf,
} from "./communities.ts"
import { fileKeeper } from "./files.ts"
import { NewIds } from "./ids.ts"
import { stepsOf, type Importing } from "./importing.ts"
import { MessageWriter } from "./messages.ts"
import { addUsers } from "./people.ts"
import type { ForeignItem, Outline, Source } from "./records.ts"
import type { Report } from "./report.ts"
import { ImportState, roleKey } from "./state.ts"
import { Refusal } from "../saying.ts"

/** Users that are made in one transaction. */
const usersPerStep = 500

export interface ImportOptions {
  readonly storage: Pick<Storage, "files" | "uploads" | "fileBlocks">
  readonly steps: ImportSteps
  readonly blobs: Blobs
  readonly archive: Archive
  readonly source: Source
  readonly format: string
  readonly report: Report
  readonly refusesName: (name: string) => boolean
  /** The account that owns what is imported; undefined: the one whom the export names. */
  readonly owner: Snowflake | undefined
  readonly outbound: OutboundRequests | undefined
  /** Whether more of the same is to come: nobody sees it until then. */
  readonly isKeptOpen: boolean
  /** Called after each item. */
  readonly progress: () => void
}

/** What would come, without writing anything. */
export async function look(
  { source, report, progress }: Pick<ImportOptions, "source" | "report" | "progress">,
  archive: Archive,
): Promise<void> {
  const outline = await source.outline()
  requireFitting(outline)
  report.count("servers", outline.servers.length)
  report.count("users", outline.users.filter(({ isBot }) => !isBot).length)
  report.count("channels", outline.channels.length)
  report.count("direct conversations", outline.directs.length)
  report.count("emoji", outline.emojis.length)
  for await (const item of source.items()) {
    progress()
    if ("user" in item) report.count(item.user.isBot ? "bots" : "users")
    else if ("emoji" in item) report.count("emoji")
    else {
      const { files, reactions, isPinned } = item.message
      report.count("messages")
      report.count("pins", Number(isPinned))
      report.count(
        "reactions",
        reactions.reduce((sum, { users }) => sum + users.length, 0),
      )
      report.count("files", files.filter(({ path }) => path !== null).length)
      report.skip("files that are not in the archive", undefined, files.filter(({ path }) => path === null).length)
      for (const { path } of files)
        if (path !== null && (archive.sizeOf(path) ?? 0) > limits.attachmentBytes)
          report.skip("files that are too large", path)
    }
  }
}

/**
 * Brings an export in, beside servers that run. All that is written is new, and belongs to servers and
 * conversations in which nobody is until the last transaction: no home that runs holds any of it in
 * memory. Whatever was written is noted with it (IMP1), so that an import that was interrupted goes on.
 * @returns the ids of the servers, or undefined where all of it was there before
 */
export async function importExport(options: ImportOptions): Promise<readonly Snowflake[] | undefined> {
  const { steps, source, format, report, storage, blobs, archive, outbound, progress } = options
  const outline = await source.outline()
  requireFitting(outline)
  if (options.owner === undefined) requireOwners(outline)
  const { id, finished_at } = await steps.step(step => step.begin(format, source.origin))
  if (finished_at !== null) return undefined
  const nowS = () => Math.floor(Date.now() / 1000)
  const importing: Importing = {
    id,
    state: new ImportState(),
    report,
    ids: new NewIds(Date.now),
    files: fileKeeper({ storage, blobs, archive, outbound, report, nowS, pictures: createPictures() }),
    refusesName: options.refusesName,
    owner: options.owner,
    nowS,
    step: stepsOf(steps, id),
  }
  await readKnown(importing)
  await writeOutline(importing, outline)
  const messages = new MessageWriter(importing)
  for await (const item of source.items()) {
    await writeItem(importing, item, messages)
    progress()
  }
  await messages.flush()
  if (!options.isKeptOpen) await finish(importing, outline)
  return [...importing.state.servers.values()]
}

async function readKnown({ id, state, step }: Importing): Promise<void> {
  state.learn(await step(one => one.items(id)))
  for (let after = ""; ;) {
    const users = await step(one => one.users(id, after))
    for (const { foreign_id, user_id } of users) state.users.set(foreign_id, user_id)
    const last = users.at(-1)
    if (!last) return
    after = last.foreign_id
  }
}

async function writeOutline(importing: Importing, outline: Outline): Promise<void> {
  const { users, channels, directs, emojis, servers } = outline
  for (let at = 0; at < users.length; at += usersPerStep) await addUsers(importing, users.slice(at, at + usersPerStep))
  await addServers(importing, outline)
  await addRoles(importing, users)
  await addPrivateRoles(importing, channels)
  await addChannels(importing, channels)
  if (directs.length > 0) await addDirects(importing, directs)
  for (const emoji of emojis) if (servers[0]) await addEmoji(importing, emoji, servers[0].id)
  const targets = new Map([...importing.state.channels.values()].map(target => [target.id, target]))
  for (const { channel_id, count } of await importing.step(step => step.pinned([...targets.keys()])))
    targets.get(channel_id)!.pins = count
}

async function writeItem(importing: Importing, item: ForeignItem, messages: MessageWriter): Promise<void> {
  if ("message" in item) return messages.add(item)
  if ("emoji" in item) return addEmoji(importing, item.emoji, item.server)
  await addUsers(importing, [item.user])
  await addRoles(importing, [item.user])
}

/** From here on people see it. One transaction, so that nobody sees a part. */
async function finish(importing: Importing, outline: Outline): Promise<void> {
  const { id, state, report, ids, nowS } = importing
  const servers = [...state.servers]
  const now = nowS()
  const sinceIds = new Map(servers.map(([, own]) => [own, ids.next(shardOf(own))]))
  const privates = privateRolesOf(outline, importing)
  const memberOf = (
    server_id: Snowflake,
    user_id: Snowflake,
    nickname: string | null,
    roles: readonly Snowflake[],
  ): NewMember => ({
    server_id,
    user_id,
    joined_at: now,
    nickname,
    roles,
    // Nothing of what was said before is unread.
    since_id: sinceIds.get(server_id)!,
  })
  await importing.step(async step => {
    for (let after = ""; ;) {
      const users = await step.users(id, after)
      const last = users.at(-1)
      if (!last) break
      after = last.foreign_id
      const members = users.flatMap(({ foreign_id, user_id, nickname, roles }) =>
        Object.entries(roles).flatMap(([server, own]) => {
          const server_id = state.servers.get(server)
          if (server_id === undefined) return []
          const given = own.flatMap(role => state.roles.get(roleKey(server, role)) ?? [])
          return [memberOf(server_id, user_id, nickname, [...given, ...(privates.get(foreign_id) ?? [])])]
        }),
      )
      await step.addMembers(members)
      report.count("members", members.length)
    }
    await step.addMembers(
      [...state.owners].map(([server, user]) => memberOf(state.servers.get(server)!, user, null, [])),
    )
    await step.countMembers(servers.map(([, own]) => own))
    await step.write(directRows(importing, outline.directs))
    await step.write(
      servers.map(([server, own]) =>
        insertAuditEntry({
          server_id: own,
          id: ids.next(shardOf(own)),
          user_id: state.owners.get(server)!,
          action: "SERVER_CREATE",
          target_type: "server",
          target_id: own,
          target_name: outline.servers.find(one => one.id === server)?.name ?? null,
          changes: {},
          reason: "Imported by an operator",
          created_at: now,
        }),
      ),
    )
    await step.finish(id, now)
  })
}

function requireOwners({ servers, users }: Outline): void {
  for (const { id, name } of servers)
    if (!users.some(({ owns }) => owns.has(id)))
      throw new Refusal(`the export does not say who owns ${name}: name an account with --owner`)
}

/** A server has so many members; more of them are not brought in. */
function requireFitting(outline: Outline): void {
  for (const { id, name } of outline.servers) {
    const members = outline.users.filter(({ servers }) => servers.has(id)).length
    if (members > limits.membersPerServer)
      throw new Refusal(`${name} has ${members} members: a server has at most ${limits.membersPerServer}`)
  }
}
