import { expect, test } from "vitest"
import type { JobsEntry, Stored } from "../history.ts"
import { Story } from "./history-of.ts"
import { jobs } from "./jobs.ts"

const message: Stored = { id: "1", author: "ada", content: "m1 <@7>" }
const mention = { do: "send", channel: "c", server: "s", body: "m1 <@7>", nonce: "m1", mentions: "7" } as const
const nothing: Omit<JobsEntry, "at"> = {
  type: "jobs",
  waited: false,
  users: [{ client: "eve", user: "7" }],
  notified: [],
  owedMentions: [],
  invites: [],
  mails: [],
}
const notified = (times = 1) => [{ user: "7", message: "1", times }]
/** A mention of Eve, who listens, and what was found in the end. */
const mentioned = (told: number, found: Partial<JobsEntry>) => {
  const story = new Story().ready().done(mention, { messages: [message] })
  for (let n = 0; n < told; n++) story.tell("NOTIFICATION_CREATE", "1")
  return story
    .add({ ...nothing, ...found })
    .wait(1_100)
    .say("end").history
}
const found = (history: Story["history"]) => jobs(history).map(({ what }) => what)

test("P15: a mention that is notified and told once is as promised", () => {
  expect(found(mentioned(1, { notified: notified() }))).toEqual([])
})

test("P15: a notification that neither exists nor is owed is found", () => {
  expect(found(mentioned(0, {}))).toEqual(["the mention in m1 <@7> (1) was acknowledged and its notification is lost"])
})

test("P15: what is still owed is no loss, unless every job had its time", () => {
  expect(found(mentioned(0, { owedMentions: ["1"] }))).toEqual([])
  expect(found(mentioned(0, { owedMentions: ["1"], waited: true }))).toEqual([
    "the mention in m1 <@7> (1) was never notified",
  ])
})

test("P15: a notification that is there twice, told twice or not told is found", () => {
  expect(found(mentioned(1, { notified: notified(2) }))).toEqual(["7 1 was notified 2 times"])
  expect(found(mentioned(2, { notified: notified() }))).toEqual([
    "session eve/1 of eve's was told NOTIFICATION_CREATE 1 twice",
  ])
  expect(found(mentioned(0, { notified: notified() }))).toEqual(["session eve/1 was not told of its notification of 1"])
})

test("P15: who came after the first attempt at a message need not be told of it", () => {
  const late = (first: Partial<typeof mention>) =>
    new Story()
      .done({ ...mention, ...first }, { type: "maybe", status: 0 })
      .ready()
      .done(mention, { messages: [message] })
      .add({ ...nothing, notified: notified() })
      .wait(1_100)
      .say("end").history
  expect(found(late({}))).toEqual([])
  const toBeTold = ["session eve/1 was not told of its notification of 1"]
  expect(found(late({ nonce: "another" as "m1" }))).toEqual(toBeTold)
})

test("P15: an invite that is lost, is never ended or ends twice is found", () => {
  const invited = (more: Partial<JobsEntry>, ends = 1) => {
    const story = new Story()
    const op = story.invoke({ do: "invite", server: "s" })
    story.add({ type: "ok", op, status: 200, code: "abc" })
    for (let n = 0; n < ends; n++) story.tell("INVITE_DELETE", "abc")
    return story.add({ ...nothing, ...more }).history
  }
  const ended = [{ code: "abc", ended: true }]
  const open = [{ code: "abc", ended: false }]
  expect(found(invited({ invites: ended }))).toEqual([])
  expect(found(invited({ invites: open }, 0))).toEqual([])
  expect(found(invited({ invites: open, waited: true }, 0))).toEqual(["the invite abc was never ended"])
  expect(found(invited({}, 0))).toEqual(["the invite abc was acknowledged and is lost"])
  expect(found(invited({ invites: ended }, 2))).toEqual(["session eve/1 of eve's was told INVITE_DELETE abc twice"])
})

test("P15: a mail that counts as sent and did not arrive, is not noted or never goes out is found", () => {
  const asked = (sent: number, owed: number, arrived: number, waited = false) =>
    found(
      new Story()
        .done({ do: "mail", address: "a@b.c" })
        .add({ ...nothing, waited, mails: [{ address: "a@b.c", sent, owed, arrived }] }).history,
    )
  expect(asked(1, 0, 1)).toEqual([])
  expect(asked(1, 0, 2)).toEqual([]) // nobody lived to note the first
  expect(asked(0, 1, 0)).toEqual([])
  expect(asked(0, 1, 0, true)).toEqual(["1 mails to a@b.c were never sent"])
  expect(asked(1, 0, 0)).toEqual(["1 mails to a@b.c count as sent, and 0 arrived"])
  expect(asked(0, 0, 0)).toEqual(["1 mails to a@b.c were acknowledged, and 0 are noted"])
})
