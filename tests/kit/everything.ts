import { randomBytes } from "node:crypto"
import { mkdir, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { userActor } from "../../src/actors/user.ts"
import { hashSecret, newSecret } from "../../src/cluster/tokens.ts"
import { newAccount } from "../../src/domain/accounts/accounts.ts"
import type { Cluster, Worker } from "./cluster.ts"
import { clientAt, type Person, type Starling } from "./person.ts"
import { fileOf } from "./pictures.ts"
import { plantedId, plantServer } from "./seeds.ts"
import { expect } from "./test.ts"
import { refusal } from "./conformance.ts"

export interface Everything {
  readonly bot: { readonly id: string; readonly token: string }
  /** Of Lin's, with the subject as its member. */
  readonly server: { readonly id: string; readonly channel: string; readonly message: string }
  /** Lin's as well: the subject is banned from it. */
  readonly barred: string
}

/** A bot with its token. */
export async function botOf(cluster: Cluster, at: Worker, owner: Person): Promise<Everything["bot"]> {
  const { user } = await at.node.create(userActor, {
    type: "register",
    user: newAccount({
      username: cluster.newName("robot"),
      email: null,
      password_hash: null,
      created_at: Math.floor(Date.now() / 1000),
      bot: true,
      owner_id: owner.id,
    }),
    session: null,
  })
  const secret = randomBytes(48).toString("base64url")
  await at.node.ask(userActor, user.id, { type: "issueBotToken", token_hash: hashSecret(secret) })
  return { id: user.id, token: `bot.${user.id}.${secret}` }
}

/**
 * Gives a person something in every table that holds anything about people: over REST where that is quick, else as rows.
 * Others have the same beside it, so that taking too much is seen. Their name and address are nowhere but where the
 * server itself puts them.
 */
export async function everythingOf(cluster: Cluster, at: Worker, ada: Person, lin: Person): Promise<Everything> {
  const { sql } = cluster
  const now = Math.floor(Date.now() / 1000)
  const [adas, lins] = [ada.on(at), lin.on(at)]
  const { id: server } = await lins.createServer({ name: "Lin's" })
  const [channel] = await lins.listChannels({ server_id: server })
  const { code } = await lins.createInvite({ channel_id: channel!.id })
  await adas.joinByInvite({ invite_code: code })
  await adas.createInvite({ channel_id: channel!.id })
  const file = fileOf(Buffer.from("A file"), "file.txt", "text/plain")
  const fileBy = async (rest: Starling) => ({ id: (await rest.uploadAttachment({ channel_id: channel!.id, file })).id })
  const message = await adas.createMessage({
    channel_id: channel!.id,
    content: "What Ada wrote",
    attachments: [await fileBy(adas)],
    nonce: "n1",
  })
  await lins.createMessage({
    channel_id: channel!.id,
    content: "What Lin wrote",
    attachments: [await fileBy(lins)],
  })
  for (const rest of [adas, lins])
    await rest.addReaction({ channel_id: channel!.id, message_id: message.id, emoji: "👍" })
  await lins.setOverride({
    channel_id: channel!.id,
    target_id: ada.id,
    type: "member",
    allow: [],
    deny: ["voice.speak"],
  })
  await adas.openDirectChannel({ recipient_id: lin.id })
  for (const rest of [adas, lins]) await rest.getNotes()
  const { server_id: barred } = await plantServer(cluster, { owner: lin })
  await lins.banUser({ server_id: barred, user_id: ada.id, reason: "Too loud" })

  const [friend, blocked, blocker, asked] = [
    lin,
    await cluster.person("blocked", at),
    await cluster.person("blocker", at),
    await cluster.person("asked", at),
  ]
  await adas.requestFriend({ user_id: friend.id, message: "It is me" })
  await lins.acceptFriend({ user_id: ada.id })
  await adas.blockUser({ user_id: blocked.id })
  await blocker.on(at).blockUser({ user_id: ada.id })
  for (const rest of [adas, lins]) await rest.requestFriend({ user_id: asked.id })
  for (const rest of [adas, lins]) await rest.updatePresence({ status: "dnd", custom_status: "At work" })
  expect(await refusal(clientAt(at).login({ username: ada.username, password: "Wrong-Horse-99" }))).toBe(
    "invalid_credentials",
  )
  for (const [person, title, sender] of [
    [ada, "Lin", lin],
    [lin, ada.username, ada],
    [lin, "You", lin],
  ] as const)
    await sql`
      INSERT INTO notifications (id, user_id, type, title, content, sender_id, created_at)
      VALUES (${plantedId()}, ${person.id}, 'mention', ${title}, 'Hello', ${sender.id}, ${now})`
  const bot = await botOf(cluster, at, ada)

  for (const person of [ada, lin]) {
    const { id } = person
    await mkdir(join(cluster.dataDir, "files", "users", id), { recursive: true })
    await writeFile(join(cluster.dataDir, "files", "users", id, "ef".repeat(16)), "A face")
    await sql`
      INSERT INTO user_avatars (user_id, file, content_type, hash, size)
      VALUES (${id}, ${"ef".repeat(16)}, 'image/png', ${hashSecret(id)}, 6)`
    await sql`
      INSERT INTO push_subscriptions (id, user_id, session_id, endpoint, p256dh, auth, directs, mentions, hides_content, created_at)
      SELECT ${plantedId()}, ${id}, id, ${`https://push.example.com/${id}`}, 'key', 'secret', true, true, false, ${now} FROM sessions
      WHERE user_id = ${id} LIMIT 1`
    await sql`
      WITH i AS (INSERT INTO imports (format, origin) VALUES ('slack', ${`workspace ${id}`}) RETURNING id)
      INSERT INTO import_users (import_id, foreign_id, user_id, nickname, roles) SELECT id, ${`U${id}`}, ${id}, 'Formerly', '{}' FROM i`
    await sql`INSERT INTO settings (user_id, key, value, created_at, updated_at) VALUES (${id}, 'theme', 'dark', ${now}, ${now})`
    await sql`
      INSERT INTO messaging_settings (user_id, read_receipts_enabled, typing_indicators_enabled, compact_messages_enabled,
        allow_dms_from, auto_create_dms) VALUES (${id}, false, true, true, 'friends', true)`
    await sql`
      INSERT INTO one_time_tokens (id, user_id, kind, token_hash, email, expires_at)
      VALUES (${plantedId()}, ${id}, 'verify_email', ${hashSecret(newSecret())}, ${person.email}, ${now + 3600})`
    await sql`INSERT INTO mails (user_id, kind, number, asked_at, sent_at) VALUES (${id}, 'password_reset', 9, ${now}, ${now})`
    await sql`
      INSERT INTO external_accounts (provider, issuer, subject, user_id, linked_at)
      VALUES ('google', 'https://accounts.google.com', ${`subject of ${id}`}, ${id}, ${now})`
    await sql`
      INSERT INTO passkeys (id, user_id, credential_id, public_key, counter, transports, name, synced, created_at)
      VALUES (${plantedId()}, ${id}, ${`credential of ${id}`}, 'AAAA', 0, '{internal}', 'Laptop', true, ${now})`
    await sql`INSERT INTO voice_usage (user_id, day, seconds) VALUES (${id}, ${Math.floor(now / 86_400) - 1}, 60)`
    await sql`
      INSERT INTO voice_calls (user_id, server_id, channel_id, voice_session_id, began_at)
      VALUES (${id}, ${server}, ${channel!.id}, 'over', ${now * 1000})`
    await sql`
      INSERT INTO voice_states (server_id, user_id, channel_id, voice_session_id, worker, gateway_session_id, self_mute,
        self_deaf, self_video, self_stream, suppress, joined_at)
      VALUES (${server}, ${id}, ${channel!.id}, 'over', ${at.id}, 'gone', false, false, false, false, false, ${now * 1000})`
    await sql`
      INSERT INTO bans (server_id, user_id, reason, banned_by, banned_at)
      VALUES (${server}, ${plantedId()}, 'Spam', ${id}, ${now})`
    await sql`
      INSERT INTO address_blocks (address, reason, blocked_at, blocked_by) VALUES (${`192.0.2.${person === ada ? 1 : 2}`}, 'Spam', ${now}, ${id})`
    await sql`INSERT INTO poll_votes (poll_id, user_id, option_ids) VALUES (${plantedId()}, ${id}, '{1}')`
    await sql`
      INSERT INTO read_states (channel_id, user_id, since_id, message_id, visible_id)
      VALUES (${channel!.id}, ${id}, 0, ${message.id}, ${message.id})`
    await sql`
      INSERT INTO deliveries (home_id, user_id, message_id) VALUES (${server}, ${id}, ${message.id})
      ON CONFLICT (home_id, user_id) DO UPDATE SET message_id = excluded.message_id`
    await sql`
      INSERT INTO message_tallies (channel_id, author_id, upto_id, count) VALUES (${channel!.id}, ${id}, ${message.id}, 1)`
    await sql`
      INSERT INTO left_timeouts (server_id, user_id, timeout_until, timeout_reason) VALUES (${server}, ${id}, ${now + 600}, 'Too loud')`
    await sql`
      INSERT INTO message_deletions (server_id, user_id, after_id, before_id) VALUES (${server}, ${id}, 1, 9223372036854775807)`
    await sql`
      INSERT INTO notification_settings (user_id, server_id, channel_id, level, muted) VALUES (${id}, ${server}, 0, 'mentions', false)`
    await sql`
      INSERT INTO webhooks (id, server_id, channel_id, creator_id, holder_id, name, token_hash, created_at)
      VALUES (${plantedId()}, ${server}, ${channel!.id}, ${id}, ${id}, 'Herald', ${hashSecret(newSecret())}, ${now})`
    await sql`
      INSERT INTO emojis (id, server_id, name, animated, file, content_type, hash, size, created_by, created_at)
      VALUES (${plantedId()}, ${server}, ${`gull_${id.slice(-4)}`}, false, ${"ab".repeat(16)}, 'image/png', ${hashSecret(id)}, 9, ${id}, ${now * 1000})`
    const pack = plantedId()
    await sql`INSERT INTO sticker_packs (id, server_id, name) VALUES (${pack}, ${server}, 'Boats')`
    await sql`
      INSERT INTO stickers (id, pack_id, server_id, name, format, tags, file, content_type, hash, size, created_by, created_at)
      VALUES (${plantedId()}, ${pack}, ${server}, 'boat', 'png', '{sea}', ${"cd".repeat(16)}, 'image/png', ${hashSecret(id)}, 9, ${id}, ${now})`
    const rule = plantedId()
    await sql`
      INSERT INTO automod_rules (id, server_id, name, rule_type, config, actions, applied_roles, exempt_roles, exempt_channels, priority,
        check_all, enabled, created_at, updated_at, created_by, updated_by)
      VALUES (${rule}, ${server}, 'Words', 'keyword', '{"keywords":[]}', '[]', '{}', '{}', '{}', 0, false, false, ${now}, ${now}, ${id}, ${id})`
    await sql`
      INSERT INTO automod_violations (server_id, id, user_id, channel_id, rule_id, rule_type, matched_content, severity, actions_taken,
        metadata, created_at)
      VALUES (${server}, ${plantedId()}, ${id}, ${channel!.id}, ${rule}, 'keyword', 'bad', 'low', '{}', '{}', ${now})`
    const session = `session of ${id}`
    await sql`
      INSERT INTO upload_sessions (id, user_id, filename, content_type, total_size, total_chunks, day, created_at, expires_at)
      VALUES (${session}, ${id}, 'film.mp4', 'video/mp4', 9, 1, ${Math.floor(now / 86_400)}, ${now}, ${now + 3600})`
    await sql`INSERT INTO upload_chunks (session_id, number, blob) VALUES (${session}, 0, ${randomBytes(16).toString("hex")})`
    await sql`
      INSERT INTO blocked_hashes (hash_value, hash_type, phash_threshold, reason, blocked_at, blocked_by, auto_blocked)
      VALUES (${hashSecret(`file of ${id}`)}, 'sha256', 0, 'Spam', ${now}, ${id}, false)`
    await sql`INSERT INTO blocked_uploaders (user_id, reason, blocked_at, blocked_by) VALUES (${id}, 'Spam', ${now}, ${plantedId()})`
    await sql`
      INSERT INTO hash_reports (id, hash_value, reporter_id, reason, reported_at, uploader_id, block_uploader, counts)
      VALUES (${plantedId()}, ${hashSecret("a file")}, ${id}, 'Too loud', ${now}, ${plantedId()}, false, true)`
    await sql`UPDATE users SET last_login = ${now - 600} WHERE id = ${id}`
    await sql`INSERT INTO user_notes (user_id, notes, updated_at, updated_by) VALUES (${id}, 'Was warned once', ${now}, 1)`
    await sql`
      INSERT INTO message_reports (id, message_id, channel_id, server_id, reporter_id, reported_user_id, reason, category, message_content, reported_at)
      VALUES (${plantedId()}, ${message.id}, ${channel!.id}, ${server}, ${id}, ${plantedId()}, 'Spam', 'spam', 'What somebody wrote', ${now})`
    await sql`
      INSERT INTO user_reports (id, reported_user_id, reporter_id, reason, category, evidence_message_ids, reported_at)
      VALUES (${plantedId()}, ${plantedId()}, ${id}, 'Rude', 'harassment', ${[plantedId()]}::bigint[], ${now})`
    await sql`INSERT INTO feedback (id, user_id, content, created_at) VALUES (${plantedId()}, ${id}, 'All is well here', ${now})`
    await sql`INSERT INTO operator_requests (kind, user_id, message, done_at) VALUES ('forceLogout', ${id}, 'Sorry', now())`
    await sql`
      INSERT INTO operator_commands (user_id, command, input, done_at, answer)
      VALUES (${id}, 'forceRename', '{"reason":null}', now(), '{}'),
        (${id}, 'createBot', ${JSON.stringify({ name: "robot", token_hash: `hash of a token of ${id}` })}, now(), '{}')`
  }
  return { bot, server: { id: server, channel: channel!.id, message: message.id }, barred }
}
