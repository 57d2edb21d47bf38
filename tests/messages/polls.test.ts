/** Polls: who may begin, see, answer, close and delete one, what is counted, and how they end. */
import { channelActor } from "../../src/actors/channel.ts"
import { openJobQueue } from "../../src/cluster/job-queue.ts"
import { openRedis } from "../../src/cluster/redis.ts"
import { expirePoll as job } from "../../src/contract/core/jobs.ts"
import { limits } from "../../src/contract/messages/polls.ts"
import type { Message } from "../../src/contract/messages/messages.ts"
import type { Poll } from "../../src/contract/messages/polls.ts"
import { messagesStorage } from "../../src/storage/messages/messages.ts"
import { pollsStorage } from "../../src/storage/messages/polls.ts"
import { expirePoll } from "../../src/workers/expire-poll.ts"
import type { JobTools } from "../../src/workers/processor.ts"
import { purgePoll } from "../../src/workers/purge-poll.ts"
import type { Worker } from "../kit/cluster.ts"
import { refusal } from "../kit/conformance.ts"
import { plantedId, plantServer, sharedServer, dmBetween } from "../kit/seeds.ts"
import { shardOf } from "../../src/domain/core/snowflake.ts"
import { expect, test, type SharedCluster } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const tea = { question: "Tea?", options: ["Yes", "No", "Later"] }
const optionsOf = ({ options }: Pick<Poll, "options">) => options.map(({ id }) => id) as [string, string, string]
const countsOf = (message: Pick<Message, "poll_results">) =>
  message.poll_results!.options.map(({ vote_count }) => vote_count)

const outcome = (call: Promise<unknown>): Promise<string> =>
  call.then(
    () => "done",
    () => refusal(call),
  )

/** What jobs have at hand, without a job worker. */
const toolsOf = (shared: SharedCluster, { node }: Worker) =>
  ({
    ask: node.ask,
    storage: { polls: pollsStorage(shared.sql), messages: messagesStorage(shared.sql) },
    signal: new AbortController().signal,
  }) as unknown as JobTools

/** A poll in the tables, in the time of which a home has never been awake. */
async function plantPoll(
  { sql }: SharedCluster,
  { server_id, channel_id, author }: { server_id: string; channel_id: string; author: string },
  ends_at: number,
) {
  const shard = shardOf(server_id)
  const [message_id, id, ...options] = Array.from({ length: 4 }, () => plantedId(shard)) as [
    string,
    string,
    ...string[],
  ]
  const poll = {
    id,
    question: "Tea?",
    created_by: author,
    created_at: 1_704_153_600,
    ends_at,
    ended_at: null,
    allow_multiple_choice: false,
    results_visibility: "after_end",
    options: options.map(option => ({ id: option, text: "x", vote_count: 0 })),
    total_votes: 0,
  }
  await sql`
    INSERT INTO messages (channel_id, id, server_id, author_id, poll)
    VALUES (${channel_id}, ${message_id}, ${server_id}, ${author}, ${JSON.stringify(poll)}::text::json)`
  await sql`INSERT INTO polls (id, channel_id, message_id, ends_at) VALUES (${id}, ${channel_id}, ${message_id}, ${ends_at})`
  return { poll_id: id, message_id, options }
}

test("a poll comes with a message, is the message's own everywhere, and a second vote replaces the first", async ({
  shared,
}) => {
  const { east, west } = shared
  const { ada, lin, channel } = await shared.seed(sharedServer)
  const [adas, lins, away] = [await ada.listen(east), await lin.listen(west), await lin.listen(east)]
  const sent = await ada.on(east).createMessage({ channel_id: channel.id, poll: { ...tea, duration_hours: 1 } })
  const poll = sent.poll!
  expect(sent).toMatchObject({ content: null, metadata: { poll_id: poll.id } })
  expect(poll).toMatchObject({
    message_id: sent.id,
    question: "Tea?",
    created_by: ada.id,
    is_ended: false,
    ended_at: null,
    ends_at: poll.created_at + 3600,
    total_votes: 0,
    allow_multiple_choice: false,
    results_visibility: "always",
  })
  expect(poll.options.map(({ text, position, poll_id, vote_count }) => [text, position, poll_id, vote_count])).toEqual(
    tea.options.map((text, position) => [text, position, poll.id, null]),
  )
  for (const inbox of [adas, lins, away]) expect((await inbox.next("MESSAGE_CREATE")).poll).toEqual(poll)
  const poll_id = poll.id
  for (const rest of [ada.on(west), lin.on(east)]) {
    expect(await rest.getPoll({ poll_id })).toEqual(poll)
    expect(await rest.getPollResults({ poll_id })).toMatchObject({ poll, total_votes: 0, user_voted: false })
  }
  away.drop()

  const [yes, no, later] = optionsOf(poll)
  const voted = await lin.on(west).votePoll({ poll_id, option_ids: [yes] })
  expect(voted).toMatchObject({ total_votes: 1, user_voted: true, user_votes: [yes] })
  expect(voted.options.map(({ vote_count }) => vote_count)).toEqual([1, 0, 0])
  for (const inbox of [adas, lins]) {
    const told = await inbox.next("MESSAGE_UPDATE")
    expect(told).toMatchObject({ id: sent.id, poll_results: { total_votes: 1, user_voted: false, user_votes: [] } })
    expect(countsOf(told)).toEqual([1, 0, 0])
  }
  // The same again is no news; another one is instead of the first.
  expect(await lin.on(east).votePoll({ poll_id, option_ids: [yes, yes] })).toEqual(voted)
  await lin.on(east).votePoll({ poll_id, option_ids: [no] })
  await ada.on(east).votePoll({ poll_id, option_ids: [later] })
  for (const counts of [
    [0, 1, 0],
    [0, 1, 1],
  ])
    expect(countsOf(await lins.next("MESSAGE_UPDATE"))).toEqual(counts)
  for (const [person, votes] of [
    [ada, [later]],
    [lin, [no]],
  ] as const) {
    const results = await person.on(west).getPollResults({ poll_id })
    expect(results).toMatchObject({ total_votes: 2, user_votes: votes })
    const message = await person.on(east).getMessage({ channel_id: channel.id, message_id: sent.id })
    expect(message.poll_results).toEqual(results)
    expect((await person.on(west).listMessages({ channel_id: channel.id }))[0]).toEqual(message)
  }
  // Editing the text leaves it alone.
  const edited = await ada.on(west).editMessage({ channel_id: channel.id, message_id: sent.id, content: "So?" })
  expect(edited).toMatchObject({ content: "So?", poll: { id: poll_id }, poll_results: { user_votes: [later] } })
  expect((await lins.next("MESSAGE_UPDATE")).poll_results!.total_votes).toBe(2)
  await away.reconnect(west.url)
  await shared.settle()
  const replayed = away.rest().filter(({ name }) => name === "MESSAGE_UPDATE")
  expect(replayed.map(({ data }) => countsOf(data as Message))).toEqual([
    [1, 0, 0],
    [0, 1, 0],
    [0, 1, 1],
    [0, 1, 1],
  ])
  expect(lins.rest()).toEqual([])
})

test("a poll is added to an own message that has none, and to no other", async ({ shared }) => {
  const { east, west } = shared
  const { ada, lin, server, channel } = await shared.seed(sharedServer)
  const channel_id = channel.id
  const eve = (await shared.person("eve")).on(west)
  const [rest, member] = [ada.on(east), lin.on(west)]
  const own = await member.createMessage({ channel_id, content: "Tea?" })
  const inbox = await ada.listen(west)
  const poll = await member.createPoll({ message_id: own.id, ...tea, results_visibility: "after_vote" })
  expect(poll).toMatchObject({ message_id: own.id, created_by: lin.id, ends_at: null })
  expect(await inbox.next("MESSAGE_UPDATE")).toMatchObject({ id: own.id, content: "Tea?", edited_at: null, poll })
  expect(await refusal(member.createPoll({ message_id: own.id, ...tea }))).toBe("poll_exists")
  const other = await rest.createMessage({ channel_id, content: "mine" })
  expect(await refusal(member.createPoll({ message_id: other.id, ...tea }))).toBe("not_author")
  for (const message_id of ["1", poll.id, channel_id, server.id])
    expect(await refusal(member.createPoll({ message_id, ...tea }))).toBe("message_not_found")
  expect(await refusal(eve.createPoll({ message_id: own.id, ...tea }))).toBe("message_not_found")
  const answers = await Promise.allSettled(
    [east, west, east].map(place => ada.on(place).createPoll({ message_id: other.id, ...tea })),
  )
  expect(answers.filter(({ status }) => status === "fulfilled")).toHaveLength(1)

  // Who may not write may not ask either; who may not see it knows of nothing.
  const silent = { channel_id, target_id: lin.id, type: "member" as const, allow: [] }
  const next = await member.createMessage({ channel_id, content: "and now?" })
  await rest.setOverride({ ...silent, deny: ["messages.send"] })
  expect(await refusal(member.createPoll({ message_id: next.id, ...tea }))).toBe("permission_denied")
  await rest.setOverride({ ...silent, deny: ["channels.view"] })
  expect(await refusal(member.createPoll({ message_id: next.id, ...tea }))).toBe("message_not_found")
  await rest.deleteOverride({ channel_id, target_id: lin.id })
  await rest.editMember({ server_id: server.id, member_id: lin.id, timeout_seconds: 60 })
  expect(await refusal(member.createPoll({ message_id: next.id, ...tea }))).toBe("timed_out")
  // To vote is no more than to read.
  expect(await member.votePoll({ poll_id: poll.id, option_ids: [poll.options[0]!.id] })).toMatchObject({
    total_votes: 1,
  })
  await rest.editMember({ server_id: server.id, member_id: lin.id, timeout_seconds: 0 })

  await rest.createAutomodRule({
    server_id: server.id,
    name: "Words",
    rule_type: "keyword",
    config: { keywords: ["unspeakable"] },
    actions: [{ action_type: "delete_message" }],
  })
  const bad = { ...tea, options: ["Yes", "unspeakable"] }
  expect(await refusal(member.createPoll({ message_id: next.id, ...bad }))).toBe("message_blocked")
  expect(await refusal(member.createMessage({ channel_id, content: "so", poll: bad }))).toBe("message_blocked")
  expect(await member.getMessage({ channel_id, message_id: next.id })).toMatchObject({
    content: "and now?",
    poll: null,
  })
})

test("a poll beyond the bounds is refused, and one at the bounds is not", async ({ shared }) => {
  const { ada, channel } = await shared.seed(sharedServer)
  const rest = ada.on(shared.west)
  const channel_id = channel.id
  const { id: message_id } = await rest.createMessage({ channel_id, content: "x" })
  const wide = "🫖".repeat(limits.pollQuestion)
  for (const wrong of [
    { question: "" },
    { question: " \n" },
    { question: "\u200b \u{e0100}" },
    { options: ["a", "\u3164"] },
    { question: `${wide}x` },
    { options: [] },
    { options: ["one"] },
    { options: Array.from({ length: 11 }, () => "x") },
    { options: ["a", ""] },
    { options: ["a", "x".repeat(101)] },
    { options: "ab" },
    { options: ["a", 1] },
    { duration_hours: 0 },
    { duration_hours: 169 },
    { duration_hours: 1.5 },
    { allow_multiple_choice: "yes" },
    { results_visibility: "never" },
    { question: undefined },
  ]) {
    const poll = { ...tea, ...wrong } as typeof tea
    expect(await refusal(rest.createPoll({ message_id, ...poll }))).toBe("validation_failed")
    expect(await refusal(rest.createMessage({ channel_id, content: "x", poll }))).toBe("validation_failed")
  }
  expect(await refusal(rest.createPoll({ ...tea } as never))).toBe("validation_failed")
  expect(await refusal(rest.createPoll({ message_id: "x", ...tea }))).toBe("validation_failed")
  const most = { question: wide, options: Array.from({ length: 10 }, () => "🫖".repeat(100)), duration_hours: 168 }
  const poll = await rest.createPoll({ message_id, ...most })
  expect([poll.question, poll.options.map(({ text }) => text)]).toEqual([wide, most.options])
  for (const poll_id of ["x", "-1", "9223372036854775808"]) {
    expect(await refusal(rest.getPoll({ poll_id }))).toBe("invalid_poll_id")
    expect(await refusal(rest.votePoll({ poll_id, option_ids: [] }))).toBe("invalid_poll_id")
    for (const call of [rest.getPollResults, rest.closePoll, rest.deletePoll])
      expect(await refusal(call({ poll_id }))).toBe("invalid_poll_id")
  }
})

test("a vote is for options of the poll, for one of them unless several are allowed", async ({ shared }) => {
  const { ada, lin, channel } = await shared.seed(sharedServer)
  const [rest, member] = [ada.on(shared.east), lin.on(shared.west)]
  const ask = async (more: object) =>
    (await rest.createMessage({ channel_id: channel.id, poll: { ...tea, ...more } })).poll!
  const [single, several] = [
    await ask({}),
    await ask({ allow_multiple_choice: true, results_visibility: "after_vote" }),
  ]
  const [a, b] = optionsOf(single)
  const [c, , e] = optionsOf(several)
  const vote = (poll: Poll, ...option_ids: unknown[]) => refusal(member.votePoll({ poll_id: poll.id, option_ids }))
  expect(await vote(single)).toBe("empty_vote")
  expect(await vote(single, a, b)).toBe("single_choice")
  for (const foreign of [c, single.id, "1"]) expect(await vote(single, foreign)).toBe("unknown_option")
  expect(await vote(several, c, a)).toBe("unknown_option")
  for (const wrong of ["x", "", -1, 1.5, null, {}, "9223372036854775808"])
    expect(await vote(single, wrong)).toBe("validation_failed")
  expect(await vote(several, ...Array.from({ length: 11 }, () => c))).toBe("validation_failed")
  expect(await refusal(member.votePoll({ poll_id: single.id } as never))).toBe("validation_failed")
  expect((await member.getPollResults({ poll_id: single.id })).total_votes).toBe(0)

  // Only who has voted sees what the others did.
  const hidden = (results: { options: { vote_count: number | null }[] }) => results.options.map(o => o.vote_count)
  expect(hidden(await member.votePoll({ poll_id: several.id, option_ids: [e, c] }))).toEqual([1, 0, 1])
  expect((await member.getPollResults({ poll_id: several.id })).user_votes).toEqual([c, e])
  expect(await rest.getPollResults({ poll_id: several.id })).toMatchObject({ total_votes: 1, user_voted: false })
  expect(hidden(await rest.getPollResults({ poll_id: several.id }))).toEqual([null, null, null])
  const [seen] = await rest.listMessages({ channel_id: channel.id, limit: "1" })
  expect(countsOf(seen!)).toEqual([null, null, null])
  expect(countsOf((await member.listMessages({ channel_id: channel.id, limit: "1" }))[0]!)).toEqual([1, 0, 1])
  // Its end changes nothing of that.
  const inbox = await lin.listen(shared.east)
  await rest.closePoll({ poll_id: several.id })
  expect(countsOf(await inbox.next("MESSAGE_UPDATE"))).toEqual([null, null, null])
  expect(hidden(await rest.getPollResults({ poll_id: several.id }))).toEqual([null, null, null])
  expect(hidden(await member.getPollResults({ poll_id: several.id }))).toEqual([1, 0, 1])
})

test("only who may read the message knows of its poll, in servers and in DMs", async ({ shared }) => {
  const { east, west } = shared
  const { ada, lin, channel } = await shared.seed(sharedServer)
  const channel_id = channel.id
  const eve = await shared.person("eve")
  const { poll } = await ada.on(east).createMessage({ channel_id, poll: tea })
  const dm = await dmBetween(ada, lin, east)
  const private_ = await ada.on(west).createMessage({ channel_id: dm, poll: tea })
  const knows = async (person: typeof ada, poll_id: string) => {
    const rest = person.on(west)
    const option_ids = [poll!.options[0]!.id]
    const codes = new Set<string>()
    const calls = [
      () => rest.getPoll({ poll_id }),
      () => rest.getPollResults({ poll_id }),
      () => rest.votePoll({ poll_id, option_ids }),
      () => rest.closePoll({ poll_id }),
      () => rest.deletePoll({ poll_id }),
    ]
    for (const call of calls) codes.add(await outcome(call()))
    return [...codes].join()
  }
  expect(await knows(eve, poll!.id)).toBe("poll_not_found")
  expect(await knows(eve, private_.poll!.id)).toBe("poll_not_found")
  expect(await knows(ada, "1")).toBe("poll_not_found")
  expect(await knows(lin, poll!.id)).toBe("done,not_poll_creator")
  for (const deny of [["channels.view"], ["messages.read"]] as const) {
    await ada.on(east).setOverride({ channel_id, target_id: lin.id, type: "member", allow: [], deny: [...deny] })
    expect(await knows(lin, poll!.id)).toBe("poll_not_found")
  }
  const [yes] = optionsOf(private_.poll!)
  const inbox = await ada.listen(east)
  expect(await lin.on(west).votePoll({ poll_id: private_.poll!.id, option_ids: [yes] })).toMatchObject({
    total_votes: 1,
  })
  expect(await inbox.next("MESSAGE_UPDATE")).toMatchObject({ server_id: null, poll_results: { total_votes: 1 } })
  const later = await ada.on(west).createMessage({ channel_id: dm, content: "later" })
  expect(await ada.on(east).createPoll({ message_id: later.id, ...tea })).toMatchObject({ message_id: later.id })
  // Who has blocked the other is asked nothing more.
  const last = await ada.on(west).createMessage({ channel_id: dm, content: "last" })
  await lin.on(east).blockUser({ user_id: ada.id })
  expect(await refusal(ada.on(west).createPoll({ message_id: last.id, ...tea }))).toBe("cannot_message")
})

test("its creator ends it, once; after the answer no vote counts, however many come at once", async ({ shared }) => {
  const { east, west } = shared
  const [ada, lin] = await Promise.all([shared.person("ada"), shared.person("lin")])
  const people = await Promise.all(Array.from({ length: 4 }, () => shared.person("voter")))
  const { channel_id } = await plantServer(shared, { owner: ada, members: [lin, ...people] })
  const inbox = await lin.listen(west)
  for (let round = 0; round < 3; round++) {
    const { poll } = await lin.on(east).createMessage({ channel_id, poll: { ...tea, results_visibility: "after_end" } })
    const poll_id = poll!.id
    const ids = optionsOf(poll!)
    expect(await refusal(ada.on(east).closePoll({ poll_id }))).toBe("not_poll_creator")
    // Some are answered before the end comes, some are on their way with it.
    const [early, ...others] = people
    const vote = (person: typeof lin, at: Worker, i: number) =>
      outcome(person.on(at).votePoll({ poll_id, option_ids: [ids[(i + round) % 3]!] }))
    expect(await vote(early!, west, 2)).toBe("done")
    const [closed, voted] = await Promise.all([
      Promise.all([east, west].map(at => outcome(lin.on(at).closePoll({ poll_id })))),
      Promise.all(others.map((person, i) => Promise.all([east, west].map(at => vote(person, at, i))))),
    ])
    expect(closed.toSorted()).toEqual(["done", "poll_ended"])
    for (const answer of voted.flat()) expect(["done", "poll_ended"]).toContain(answer)
    const results = await lin.on(east).getPollResults({ poll_id })
    expect(results.poll).toMatchObject({ is_ended: true, ended_at: expect.any(Number) })
    const counted = [early!, ...others.filter((_, i) => voted[i]!.includes("done"))]
    expect(results.total_votes).toBe(counted.length)
    expect(results.options.reduce((sum, { vote_count }) => sum + vote_count!, 0)).toBe(counted.length)
    const rows = await shared.sql`SELECT user_id FROM poll_votes WHERE poll_id = ${poll_id}`
    expect(new Set(rows.map(row => row["user_id"] as string))).toEqual(new Set(counted.map(({ id }) => id)))
    await shared.settle()
    const told = inbox
      .rest()
      .filter(({ name }) => name === "MESSAGE_UPDATE")
      .map(({ data }) => data as Message)
    expect(told.filter(message => message.poll!.is_ended)).toHaveLength(1)
    expect(countsOf(told.at(-1)!)).toEqual(results.options.map(({ vote_count }) => vote_count))
    for (const one of told.slice(0, -1)) expect(countsOf(one)).toEqual([null, null, null])
  }
})

test("P15: a poll ends at its time, once, however often and late its job runs, and takes no vote before that", async ({
  shared,
}) => {
  const { east, west } = shared
  const [ada, lin] = await Promise.all([shared.person("ada"), shared.person("lin")])
  const place = await plantServer(shared, { owner: ada, members: [lin] })
  const { channel_id } = place
  const now = Math.floor(Date.now() / 1000)
  const over = await plantPoll(shared, { ...place, author: ada.id }, now - 5)
  const going = await plantPoll(shared, { ...place, author: ada.id }, now + 3_600)
  const inbox = await lin.listen(west)
  const vote = { poll_id: over.poll_id, option_ids: [over.options[0]!] }
  expect(await refusal(lin.on(east).votePoll(vote))).toBe("poll_ended")
  expect(await refusal(ada.on(east).closePoll({ poll_id: over.poll_id }))).toBe("poll_ended")
  expect(await lin.on(east).getPoll({ poll_id: over.poll_id })).toMatchObject({ is_ended: true, ended_at: now - 5 })
  expect((await pollsStorage(shared.sql).due(now, 100)).map(({ poll_id }) => poll_id)).toContain(over.poll_id)
  await Promise.all([east, west, east].map(worker => expirePoll(toolsOf(shared, worker), { ...over, channel_id })))
  // Not yet: it is tried again.
  await expect(expirePoll(toolsOf(shared, west), { ...going, channel_id })).rejects.toThrow(
    "Service temporarily unavailable",
  )
  expect(await inbox.next("MESSAGE_UPDATE")).toMatchObject({
    id: over.message_id,
    poll: { is_ended: true, ended_at: now - 5 },
  })
  expect(await lin.on(west).votePoll({ poll_id: going.poll_id, option_ids: [going.options[1]!] })).toMatchObject({
    total_votes: 1,
  })
  expect((await inbox.next("MESSAGE_UPDATE")).id).toBe(going.message_id)
  await shared.settle()
  expect(inbox.rest()).toEqual([])
  const due = (await pollsStorage(shared.sql).due(now + 9_999, 100)).map(({ poll_id }) => poll_id)
  expect([due.includes(over.poll_id), due.includes(going.poll_id)]).toEqual([false, true])
  // A job whose poll went with its channel leaves nothing to be found again.
  await ada.on(east).deleteChannel({ channel_id })
  await expirePoll(toolsOf(shared, east), { ...going, channel_id })
  expect((await pollsStorage(shared.sql).due(now + 9_999, 100)).map(({ poll_id }) => poll_id)).not.toContain(
    going.poll_id,
  )
  expect(await refusal(lin.on(west).getPoll({ poll_id: going.poll_id }))).toBe("poll_not_found")
  await expect(
    east.node.ask(channelActor, channel_id, { type: "expirePoll", author: undefined, ...going }),
  ).rejects.toThrow("Channel not found")
})

test("a deleted poll leaves what its message says besides, and with a deleted message its poll goes; the votes go by jobs", async ({
  shared,
}) => {
  const { east, west } = shared
  const { ada, lin, channel } = await shared.seed(sharedServer)
  const channel_id = channel.id
  const inbox = await lin.listen(east)
  const begin = async (author = ada, more = {}) => {
    const sent = await author.on(west).createMessage({ channel_id, poll: tea, nonce: shared.newName("n"), ...more })
    await lin.on(east).votePoll({ poll_id: sent.poll!.id, option_ids: [optionsOf(sent.poll!)[1]] })
    for (const name of ["MESSAGE_CREATE", "MESSAGE_UPDATE"] as const) await inbox.next(name)
    return { message_id: sent.id, poll_id: sent.poll!.id }
  }
  const left = async (ids: string[]) => {
    const polls = await shared.sql`SELECT id FROM polls WHERE id = ANY(${ids}::bigint[])`
    const votes = await shared.sql`SELECT poll_id FROM poll_votes WHERE poll_id = ANY(${ids}::bigint[])`
    return polls.length + votes.length
  }
  const kept = await begin()
  const first = await begin(ada, { content: "So?" })
  expect(await refusal(lin.on(east).deletePoll({ poll_id: first.poll_id }))).toBe("not_poll_creator")
  expect(await ada.on(east).deletePoll({ poll_id: first.poll_id })).toEqual({ success: true })
  expect(await inbox.next("MESSAGE_UPDATE")).toMatchObject({
    id: first.message_id,
    poll: null,
    poll_results: null,
    metadata: null,
  })
  const bare = await lin.on(west).getMessage({ channel_id, message_id: first.message_id })
  expect(bare).toMatchObject({ content: "So?", poll: null, poll_results: null })
  expect(await refusal(ada.on(west).deletePoll({ poll_id: first.poll_id }))).toBe("poll_not_found")
  // Another one may take its place.
  const again = await ada.on(west).createPoll({ message_id: first.message_id, ...tea })
  expect((await inbox.next("MESSAGE_UPDATE")).poll!.id).toBe(again.id)

  // Where the poll was all of it, nothing is left.
  const only = await begin()
  const ids = { channel_id, message_id: only.message_id }
  await ada.on(east).pinMessage(ids)
  await inbox.next("MESSAGE_UPDATE")
  expect(await ada.on(west).deletePoll({ poll_id: only.poll_id })).toEqual({ success: true })
  expect(await inbox.next("MESSAGE_DELETE")).toMatchObject({ id: only.message_id, channel_id })
  expect(await refusal(lin.on(west).getMessage(ids))).toBe("message_not_found")
  expect(await lin.on(east).listPins({ channel_id })).toEqual([])
  expect((await shared.sql`SELECT FROM pins WHERE message_id = ${only.message_id}`).length).toBe(0)

  const [alone, together, banned] = [await begin(), [await begin(), await begin()], await begin(lin)]
  await ada.on(west).deleteMessage({ channel_id, message_id: alone.message_id })
  await ada.on(west).bulkDeleteMessages({ channel_id, messages: together.map(({ message_id }) => message_id) })
  await west.node.ask(channelActor, channel_id, {
    type: "deleteMessagesOf",
    author: lin.id,
    message_ids: [banned.message_id],
  })
  const gone = [first, only, alone, ...together, banned].map(({ poll_id }) => poll_id)
  for (const poll_id of gone) expect(await refusal(ada.on(east).getPollResults({ poll_id }))).toBe("poll_not_found")
  const found = await pollsStorage(shared.sql).gone(1_000)
  for (const poll_id of gone) expect(found).toContain(poll_id)
  for (const poll_id of [...gone, kept.poll_id]) await purgePoll(toolsOf(shared, east), { poll_id })
  expect(await left(gone)).toBe(0)
  expect(await left([kept.poll_id])).toBe(2)
  // With the channel all of it.
  await ada.on(east).deleteChannel({ channel_id })
  expect(await refusal(ada.on(east).getPoll({ poll_id: kept.poll_id }))).toBe("poll_not_found")
  await messagesStorage(shared.sql).purge([channel_id], 1_000)
  expect(await pollsStorage(shared.sql).gone(1_000)).toEqual(expect.arrayContaining([kept.poll_id, again.id]))
})

test("a message has one poll, which the table knows, and may have another once that is gone", async ({ shared }) => {
  const message_id = plantedId()
  const insert = (gone: boolean) =>
    shared.sql`INSERT INTO polls (id, channel_id, message_id, gone) VALUES (${plantedId()}, 7, ${message_id}, ${gone})`
  for (const gone of [true, true, false]) await insert(gone)
  await expect(insert(false)).rejects.toThrow("polls_message")
  await shared.sql`DELETE FROM polls WHERE channel_id = 7`
})

test(
  "P15: the job worker ends what is over, and deletes what is gone, also where no job says so",
  { timeout: 60_000 },
  async ({ shared }) => {
    const ada = await shared.person("ada")
    const place = await plantServer(shared, { owner: ada })
    const now = Math.floor(Date.now() / 1000)
    const over = await plantPoll(shared, { ...place, author: ada.id }, now - 300)
    const [gone] = [plantedId()]
    await shared.sql`INSERT INTO polls (id, channel_id, message_id, gone) VALUES (${gone}, 1, 1, true)`
    await shared.sql`
    INSERT INTO poll_votes (poll_id, user_id, option_ids) SELECT ${gone}, i, '{1}' FROM generate_series(1, 5001) AS i`
    const rest = ada.on(shared.west)
    const inbox = await ada.listen(shared.east)
    const sent = await rest.createMessage({ channel_id: place.channel_id, poll: tea })
    await rest.deletePoll({ poll_id: sent.poll!.id })
    await shared.bootJobWorker()
    const isEnded = async ({ poll_id }: { poll_id: string }) => {
      const rows = await shared.sql`SELECT FROM polls WHERE id = ${poll_id} AND ends_at IS NULL`
      return rows.length > 0
    }
    // Its job comes early, as from a clock that is ahead; a sweep would be later by a minute.
    const ends = Math.floor(Date.now() / 1000) + 2
    const soon = await plantPoll(shared, { ...place, author: ada.id }, ends)
    const { poll_id, message_id } = soon
    const redis = openRedis(shared.redisUrl, "putting jobs", () => {})
    await redis.connect()
    const queue = openJobQueue(redis, shared.redisPrefix, Date.now)
    const call = { poll_id, message_id, channel_id: place.channel_id }
    await queue.add(job.at(call, { key: `poll:${poll_id}`, runAtMs: ends * 1000 - 700 }))
    await queue.close()
    redis.disconnect()
    await until("its job has ended it", () => isEnded(soon), { timeoutMs: 10_000 })
    expect(Date.now()).toBeGreaterThanOrEqual(ends * 1000)
    await until("the sweep has ended the other", () => isEnded(over), { timeoutMs: 20_000 })
    await until(
      "nothing is left of those that are gone",
      async () => {
        const votes = await shared.sql`SELECT FROM poll_votes WHERE poll_id = ${gone} LIMIT 1`
        const polls = await shared.sql`SELECT FROM polls WHERE id = ANY(${[gone, sent.poll!.id]}::bigint[])`
        return votes.length + polls.length === 0
      },
      { timeoutMs: 20_000 },
    )
    expect(await rest.getPoll({ poll_id: over.poll_id })).toMatchObject({ is_ended: true, ended_at: now - 300 })
    expect(await rest.getPoll({ poll_id })).toMatchObject({ is_ended: true, ended_at: ends })
    await shared.settle()
    const told = inbox.rest().filter(({ name }) => name === "MESSAGE_UPDATE")
    const ended = told.map(({ data }) => data as Message).filter(({ poll }) => poll?.is_ended)
    expect(ended.map(({ id }) => id).toSorted()).toEqual([over.message_id, message_id].toSorted())
  },
)
