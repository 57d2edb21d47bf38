/**
 * The page to chat, as the server serves it and in a real browser: from the first visit to two people
 * who talk, with what a browser objects to, and what axe does.
 */
import { readFile } from "node:fs/promises"
import { createRequire } from "node:module"
import { gzipSync } from "node:zlib"
import { generateSync } from "otplib"
import type { Page, WebSocketRoute } from "playwright-core"
import { opcodes } from "../../client/contract.ts"
import { browserForFile } from "../kit/browser.ts"
import { refusal } from "../kit/conformance.ts"
import { send } from "../kit/exchange.ts"
import { clientAt } from "../kit/person.ts"
import { png } from "../kit/pictures.ts"
import { dmBetween, sharedServer } from "../kit/seeds.ts"
import { expect, testWith } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const test = testWith({ encodes: true, jobWorkers: 1 })

const visitor = browserForFile()

const axe = createRequire(import.meta.url).resolve("axe-core/axe.min.js")

/** What axe objects to. */
async function objections(page: Page): Promise<string[]> {
  // The policy of the page forbids scripts of others; the check comes in beside it.
  await page.evaluate(await readFile(axe, "utf8"))
  return page.evaluate(`axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) =>
    violations.map(({ id, nodes }) => id + ": " + nodes.slice(0, 3).map(({ html }) => html.slice(0, 160)).join(" | ")))`)
}

/** Words that stand in two lines. */
const brokenWords = (page: Page, selector: string): Promise<string[]> =>
  page.evaluate(`(() => {
    const broken = []
    for (const root of document.querySelectorAll(${JSON.stringify(selector)})) {
      const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT)
      for (let node = walker.nextNode(); node; node = walker.nextNode())
        for (const { 0: word, index } of node.data.matchAll(/\\p{L}+/gu)) {
          const range = new Range()
          range.setStart(node, index)
          range.setEnd(node, index + word.length)
          if (new Set([...range.getClientRects()].map(({ top }) => top)).size > 1) broken.push(word)
        }
    }
    return broken
  })()`)

const password = "Correct-Horse-9"
const post = async (page: Page, text: string) => {
  await page.getByRole("textbox", { name: /^Message / }).fill(text)
  await page.keyboard.press("Enter")
}

/** What is in the conversation, sent and there. */
const message = (page: Page, text: string) => page.locator(".message[id]", { hasText: text })

/** What is offered for it. */
const actions = async (page: Page, text: string) => {
  await message(page, text).hover()
  return message(page, text)
    .getByRole("toolbar")
    .getByRole("button")
    .evaluateAll(buttons => buttons.map(one => one.ariaLabel))
}

test("the document has a policy without exceptions, its files are small, and a browser that asks for / is led there", async ({
  shared,
}) => {
  const { status, text, headers } = await send(shared.east, "/app")
  expect(status).toBe(200)
  const nonce = /<script nonce="([^"]+)"/.exec(text)![1]!
  const policy = headers.get("content-security-policy")!
  expect(policy).toContain(`script-src 'self' 'nonce-${nonce}'`)
  expect(policy).toContain("trusted-types starling-worker")
  expect(policy).toContain("worker-src 'self'")
  expect(policy).not.toMatch(/unsafe|\*/)
  expect(text).not.toMatch(/https?:|style=| on\w+=/)
  const files = [...text.matchAll(/(?:src|href)="(\/app\/assets\/[^"]+)"/g)].map(([, file]) => file!)
  expect(files.length).toBeGreaterThanOrEqual(2)
  let bytes = gzipSync(text).length
  for (const file of files) {
    const answer = await send(shared.west, file)
    expect([file, answer.status]).toEqual([file, 200])
    expect(answer.headers.get("cache-control")).toBe("public, max-age=31536000, immutable")
    expect(answer.text).not.toContain("_zod")
    bytes += gzipSync(answer.text).length
  }
  expect(bytes).toBeLessThan(150_000)

  const led = await send(shared.east, "/", { headers: { accept: "text/html,*/*" } })
  expect([led.status, led.headers.get("location")]).toEqual([307, "/app"])
  expect((await send(shared.east, "/")).headers.get("content-type")).toContain("application/json")
})

test("a newcomer's first minutes: an account, a server, an invite; somebody follows it, and the two talk", async ({
  shared,
  skip,
}) => {
  const { page: ada, noise } = await visitor(skip)
  await ada.goto(`${shared.east.url}/app`)
  await ada.getByRole("button", { name: "Make an account" }).click()
  expect(await objections(ada)).toEqual([])
  const adaName = shared.newName("ada")
  await ada.getByLabel("Name", { exact: true }).fill(adaName)
  await ada.getByLabel("E-mail address").fill(`${adaName}@example.com`)
  await ada.getByLabel("Password").fill(password)
  await ada.getByRole("button", { name: "Make an account" }).click()
  await ada.getByText("Begin here").waitFor()
  expect(await objections(ada)).toEqual([])
  await ada.getByLabel("Name of the new server").fill("The Rookery")
  await ada.getByRole("button", { name: "Make a server" }).last().click()
  // The link to it is there at once; a longer one takes a moment more.
  await ada.getByText("Your server is ready.").waitFor()
  const link = await ada.getByLabel("Link").inputValue()
  expect(link).toMatch(/\/invite\/\w+$/)
  expect(await objections(ada)).toEqual([])
  await ada.getByRole("button", { name: "Done" }).click()
  await ada.getByRole("heading", { name: /^#/ }).waitFor()
  await post(ada, "Hello, **nobody** yet")
  await ada.locator(".message:not(.pending) strong", { hasText: "nobody" }).waitFor()
  await ada.getByRole("button", { name: "Invite people" }).click()
  await ada.getByLabel("How long it is valid").selectOption("Without end")
  await ada.getByRole("button", { name: "Make a link" }).click()
  expect(await ada.getByLabel("Link").inputValue()).not.toBe(link)
  await ada.getByRole("button", { name: "Done" }).click()

  const { page: lin, noise: linNoise } = await visitor(skip, { colorScheme: "dark" })
  await lin.goto(link.replace(new URL(link).origin, shared.west.url))
  await lin.getByText("You are invited to a server").waitFor()
  await lin.getByRole("button", { name: "Make an account" }).click()
  const linName = shared.newName("lin")
  await lin.getByLabel("Name", { exact: true }).fill(linName)
  await lin.getByLabel("E-mail address").fill(`${linName}@example.com`)
  await lin.getByLabel("Password").fill(password)
  await lin.getByRole("button", { name: "Make an account" }).click()
  await lin.getByRole("heading", { name: "The Rookery" }).waitFor()
  await lin.getByRole("button", { name: "Join" }).click()
  await lin.locator(".message strong", { hasText: "nobody" }).waitFor()
  await post(lin, `Hello <@${await ownId(ada)}>, I am here`)
  await message(ada, "I am here").waitFor()
  await lin.locator(`.message[id]:has-text("I am here") + .seen`, { hasText: `Seen by ${adaName}` }).waitFor()

  // Reactions, an edit with ↑, a reply, a picture that is dropped, a deletion.
  const said = message(ada, "I am here")
  await said.hover()
  await said.getByRole("button", { name: "React", exact: true }).click()
  await ada.getByRole("button", { name: "tada party" }).click()
  await lin.getByRole("button", { name: "🎉: 1 reaction" }).click()
  await ada.getByRole("button", { name: "🎉: 2 reactions" }).waitFor()
  // One that is not on the board is written.
  await said.hover()
  await said.getByRole("button", { name: "React", exact: true }).click()
  await ada.getByLabel("Another emoji").fill("🦜")
  await ada.getByLabel("Another emoji").press("Enter")
  await lin.getByRole("button", { name: "🦜: 1 reaction" }).waitFor()
  const field = lin.getByRole("textbox", { name: /^Message / })
  await field.press("ArrowUp")
  await lin.getByLabel("Edit the message").fill("I am here, and awake")
  await lin.getByLabel("Edit the message").press("Enter")
  await message(ada, "I am here, and awake").waitFor()

  // Who moderates nothing is offered none of it; what is pinned is listed for both and leads to its place.
  expect(await actions(lin, "nobody")).toEqual(["React", "Reply", "Report"])
  expect(await actions(lin, "I am here, and awake")).toEqual(["React", "Reply", "Edit", "Delete"])
  await lin.getByRole("button", { name: "Pinned messages" }).click()
  await lin.getByText("Nothing is pinned here.").waitFor()
  expect(await actions(ada, "I am here, and awake")).toEqual(["React", "Reply", "Pin", "Report", "Delete"])
  await said.getByRole("button", { name: "Pin", exact: true }).click()
  await lin.locator(".hits button", { hasText: "and awake" }).waitFor()
  expect(await objections(lin)).toEqual([])
  await lin.locator(".hits button").click()
  await lin.locator(".message.marked", { hasText: "and awake" }).waitFor()

  await said.hover()
  await said.getByRole("button", { name: "Reply" }).click()
  await post(ada, "Good morning")
  await lin.locator(".reply-line", { hasText: "and awake" }).waitFor()
  // What is hidden stays so where a message is quoted.
  await post(lin, "||hidden||")
  await lin.locator(".message[id]", { hasText: "hidden" }).hover()
  await lin.locator(".message[id]", { hasText: "hidden" }).getByRole("button", { name: "Reply" }).click()
  await post(lin, "Quite")
  await lin.locator(".reply-line", { hasText: "▒▒▒" }).waitFor()
  const picture = Buffer.from(await png(320, 200))
  const birds = ["gull.png", "tern.png", "auk.png"]
  // One is chosen, one pasted, one dropped.
  const chosen = { name: birds[0]!, mimeType: "image/png", buffer: picture }
  await lin.locator("input[type=file]").setInputFiles(chosen)
  for (const [i, kind] of ["paste", "drop"].entries())
    await lin.evaluate(`(() => {
      const data = new DataTransfer()
      const bytes = Uint8Array.from(atob("${picture.toString("base64")}"), one => one.charCodeAt(0))
      data.items.add(new File([bytes], "${birds[i + 1]}", { type: "image/png" }))
      const rest = { bubbles: true, cancelable: true }
      document.querySelector(".composer textarea").dispatchEvent("${kind}" === "paste"
        ? new ClipboardEvent("paste", { clipboardData: data, ...rest })
        : new DragEvent("drop", { dataTransfer: data, ...rest }))
    })()`)
  await lin.locator(".chosen li", { hasText: "auk.png" }).waitFor()
  await until("all are there", async () => (await lin.locator(".chosen progress").count()) === 0)
  await lin.getByRole("button", { name: "Send", exact: true }).click()

  // Several pictures are a grid of squares, whatever they are; each is shown alone, by keyboard as well.
  await ada.locator(".gallery").getByRole("img", { name: "gull.png" }).waitFor()
  await until("there are thumbnails", async () => (await ada.locator(".gallery img[src*='256']").count()) === 3)
  const boxes = await ada
    .locator(".gallery img")
    .evaluateAll(all => all.map(one => [one.clientWidth, one.clientHeight]))
  expect(boxes.every(([width, height]) => width! > 80 && width === height)).toBe(true)
  const viewer = ada.getByRole("dialog")
  await ada.getByRole("link", { name: "tern.png" }).click()
  await viewer.getByRole("heading", { name: "tern.png" }).waitFor()
  const shown = () =>
    viewer.evaluate(one => [one.querySelector("img")!.alt, one.querySelector("[role=status]")!.textContent])
  expect(await shown()).toEqual(["tern.png", "2 of 3"])
  expect(await objections(ada)).toEqual([])
  await ada.keyboard.press("ArrowRight")
  await viewer.getByText("3 of 3").waitFor()
  await viewer.getByRole("img").click()
  await ada.keyboard.press("ArrowRight")
  await viewer.getByText("1 of 3").waitFor()
  expect(await shown()).toEqual(["gull.png", "1 of 3"])
  await viewer.getByRole("button", { name: "Picture before" }).click()
  await viewer.getByText("3 of 3").waitFor()
  const original = viewer.getByRole("link", { name: "Original in a new tab" })
  expect(await original.getAttribute("target")).toBe("_blank")
  expect(
    (await fetch(new URL((await original.getAttribute("href"))!, shared.east.url))).headers.get("content-type"),
  ).toBe("image/png")
  await ada.keyboard.press("Escape")
  await viewer.waitFor({ state: "detached" })
  expect(await ada.evaluate("document.activeElement.title")).toBe("tern.png")
  const morning = message(ada, "Good morning")
  await morning.hover()
  await morning.getByRole("button", { name: "Delete" }).click()
  await ada.getByRole("dialog").getByRole("button", { name: "Delete" }).click()
  await until("it is gone for both", async () => (await message(lin, "Good morning").count()) === 0)

  // A poll, which its author ends; what a channel notifies of; one's own status; a report.
  await ada.getByRole("button", { name: "Make a poll" }).click()
  await ada.getByLabel("Question").fill("Tea or coffee?")
  await ada.getByLabel("Option 1").fill("Tea")
  await ada.getByLabel("Option 2").fill("Coffee")
  await ada.getByRole("button", { name: "Another option" }).click()
  expect(await objections(ada)).toEqual([])
  await ada.getByRole("dialog").getByRole("button", { name: "Send" }).click()
  const poll = lin.getByRole("group", { name: "Tea or coffee?" })
  await poll.getByLabel("Coffee").check()
  await lin.getByRole("button", { name: "Vote", exact: true }).click()
  await ada.getByText("1 vote", { exact: true }).waitFor()
  expect(await lin.getByRole("button", { name: "End the poll" }).count()).toBe(0)
  await ada.getByRole("button", { name: "End the poll" }).click()
  await ada.getByRole("dialog").getByRole("button", { name: "End the poll" }).click()
  await lin.getByText("1 vote · ended").waitFor()
  await lin.getByRole("button", { name: /^Notifications of #/ }).click()
  await lin.getByLabel("What notifies you").selectOption("Mentions only")
  await lin.getByLabel("Mute", { exact: true }).selectOption("For 8 hours")
  await lin.getByRole("button", { name: "Save" }).click()
  await lin.getByRole("button", { name: /^Notifications of #.*: muted/ }).waitFor()
  await lin.locator(".channel", { hasText: "Muted" }).waitFor()
  await lin.getByRole("button", { name: "Your status" }).click()
  await lin.getByLabel("Others see you as").selectOption("do not disturb")
  await lin.getByLabel("What you are up to").fill("Nesting")
  await lin.getByRole("button", { name: "Save" }).click()
  await ada.locator(".members .presence.dnd[title='do not disturb Nesting']").waitFor()
  await message(lin, "nobody").hover()
  await message(lin, "nobody").getByRole("button", { name: "Report" }).click()
  await lin.getByRole("dialog").getByLabel("Reason").fill("Nobody is not a name")
  expect(await objections(lin)).toEqual([])
  await lin.getByRole("dialog").getByRole("button", { name: "Report" }).click()
  await lin.getByText("The operators will look at it.").waitFor()

  expect(await objections(ada)).toEqual([])
  expect(await objections(lin)).toEqual([])
  expect([...noise, ...linNoise]).toEqual([])

  // What was asked for was made, and no other. Slow mode says how long it lasts, and holds nothing up.
  const [, server_id, channel_id] = /#\/servers\/(\d+)\/(\d+)/.exec(ada.url()) as unknown as [string, string, string]
  const token = await ada.evaluate<string>("localStorage.getItem('starling.app.token')")
  const owner = clientAt(shared.east, token)
  const invites = await owner.listInvites({ server_id })
  expect(invites.map(({ max_age }) => max_age).toSorted((one, other) => one - other)).toEqual([0, 7 * 86_400])
  await owner.editChannel({ channel_id, slowmode_seconds: 3_600 })
  const failed = (text: string) => lin.locator(".message.failed", { hasText: text })
  for (const text of ["too soon", "this too"]) {
    await post(lin, text)
    await failed(text)
      .getByText(/You may try again in 59 min/)
      .waitFor()
  }
  await owner.editChannel({ channel_id, slowmode_seconds: 0 })
  await failed("too soon").getByRole("button", { name: "Try again" }).click()
  await message(ada, "too soon").waitFor()

  // Who decides about a member is asked first, and says why.
  const agree = async (does: string, reason: string) => {
    const dialog = ada.getByRole("dialog").last()
    await dialog.getByLabel("Reason").fill(reason)
    await dialog.getByRole("button", { name: does, exact: true }).click()
  }
  await ada.locator(".members button", { hasText: linName }).click()
  await ada.getByText("Nesting", { exact: true }).waitFor()
  await ada.getByLabel("Time out").selectOption("1 hour")
  await agree("Time out", "Too early")
  await ada.getByRole("button", { name: "End the time-out" }).click()
  await ada.getByText("It is over.").waitFor()
  expect(await objections(ada)).toEqual([])
  await ada.getByRole("button", { name: "Ban", exact: true }).click()
  await agree("Ban", "Woke everybody")
  await lin.getByText("You are not in this server.").waitFor()
  const log = await owner.listAuditLog({ server_id })
  expect(log.filter(({ reason }) => reason).map(({ action, reason }) => [action, reason])).toEqual([
    ["MEMBER_BAN", "Woke everybody"],
    ["MEMBER_UPDATE", "Too early"],
  ])
  if (process.env["SHOTS"]) {
    await ada.screenshot({ path: `${process.env["SHOTS"]}/ada.png` })
    await lin.screenshot({ path: `${process.env["SHOTS"]}/lin.png` })
  }
})

/** A browser in which somebody is signed in already. */
async function signedIn(
  skip: (why: string) => never,
  { url }: { url: string },
  { token }: { token: string },
  hash: string,
  options?: Parameters<typeof visitor>[1],
) {
  const one = await visitor(skip, options)
  await one.context.addInitScript(`if (!sessionStorage.getItem("begun")) {
    sessionStorage.setItem("begun", "yes")
    localStorage.setItem("starling.app.token", ${JSON.stringify(token)})
  }`)
  await one.page.goto(`${url}/app${hash}`)
  return one
}

/** Names and texts that would be markup, script or a way out, if something took them for that. */
const payloads = [
  "<img src=x onerror=alert(1)>",
  "<script>alert(2)</script>",
  "[x](javascript:alert(3))",
  '"><svg onload=alert(4)>',
  "<@1><@&2><#3><:x:4> javascript:alert(5)",
  "`</code><b>6</b>`",
]

test("no text, name, file name or embed becomes markup, and nothing runs", async ({ shared, skip }) => {
  const { ada, lin, server, channel } = await shared.seed(sharedServer)
  const rest = lin.on(shared.west)
  await ada
    .on(shared.east)
    .editServer({ server_id: server.id, name: payloads[0]!.slice(0, 100), description: payloads[1]! })
  await ada.on(shared.east).editChannel({ channel_id: channel.id, topic: payloads[3]! })
  await rest.editOwnMember({ server_id: server.id, nickname: "<b>x</b><i onclick=1>" })
  for (const content of payloads) await rest.createMessage({ channel_id: channel.id, content })
  const embeds = [
    {
      title: payloads[0]!,
      description: payloads[2]!,
      url: "https://example.com/",
      author: { name: payloads[1]! },
      image: { url: "https://example.com/x.png?<script>" },
      footer: { text: payloads[0]! },
      fields: [{ name: payloads[3]!, value: payloads[1]! }],
    },
  ]
  await rest.createMessage({ channel_id: channel.id, content: "embedded", embeds })
  const file = { bytes: new TextEncoder().encode("x"), filename: "<img src=x onerror=alert(7)>.txt", type: "text/html" }
  const { id } = await rest.uploadAttachment({ channel_id: channel.id, file })
  const owner = ada.on(shared.east)
  const [server_id, channel_id] = [server.id, channel.id]
  const role = await owner.createRole({ server_id, name: payloads[0]!, hoist: true })
  await owner.giveRole({ server_id, member_id: lin.id, role_id: role.id })
  await rest.updatePresence({ status: "online", custom_status: payloads[1]!, custom_emoji: payloads[3]! })
  const { token, id: webhook_id } = await owner.createWebhook({ channel_id, name: payloads[3]! })
  await owner.executeWebhook({ webhook_id, token: token!, content: payloads[0]!, username: payloads[1]! })
  const poll = { question: payloads[1]!, options: [payloads[0]!, payloads[3]!] }
  const asked = await rest.createMessage({ channel_id, content: "", poll })
  await owner.pinMessage({ channel_id, message_id: asked.id })
  await rest.createMessage({ channel_id, content: payloads[2]!, reply_to_id: asked.id })
  const eve = await shared.person("eve")
  const { code } = await owner.createInvite({ channel_id })
  await eve.on(shared.west).joinByInvite({ invite_code: code })
  await owner.banUser({ server_id, user_id: eve.id, reason: payloads[1]! })
  await eve.on(shared.west).requestFriend({ user_id: ada.id, message: payloads[0]! })
  const dms = [await dmBetween(ada, lin, shared.west), await dmBetween(ada, eve, shared.west)]
  await rest.createMessage({ channel_id, content: "attached", attachments: [{ id }] })
  const { page, noise } = await signedIn(skip, shared.east, ada, `#/servers/${server.id}/${channel.id}`)
  const dialogs: string[] = []
  page.on("dialog", dialog => {
    dialogs.push(dialog.message())
    dialog.dismiss().catch(() => {})
  })
  await message(page, "attached").waitFor()
  for (const text of payloads.slice(0, 4))
    expect(await page.locator(".message .rich", { hasText: text }).count()).toBeGreaterThan(0)
  expect(
    await page
      .locator(
        ".message script, .message svg:not(.icon), .message [onerror], .message [onclick], .rich img:not(.emoji)",
      )
      .count(),
  ).toBe(0)
  expect(await page.locator("a[href^='javascript' i]").count()).toBe(0)
  // Pictures from elsewhere come when they are asked for: nobody learns who reads a message.
  await page.getByRole("button", { name: "Show the picture from example.com" }).waitFor()
  expect(await page.locator("img[src*='example.com']").count()).toBe(0)

  // So it is wherever else these words stand.
  const injected = `body script, iframe, [onerror], [onload], [onclick], svg:not(.icon), a[href^="javascript" i]`
  const stands = async (hash: string, text: string, open?: () => Promise<unknown>) => {
    await page.evaluate(`location.hash = ${JSON.stringify(hash)}`)
    await open?.()
    await page.getByText(text, { exact: false }).first().waitFor()
    expect([hash, await page.locator(injected).count()]).toEqual([hash, 0])
    if (open) await page.keyboard.press("Escape")
  }
  const here = `#/servers/${server.id}`
  const [bold, script] = [payloads[0]!, payloads[1]!]
  await stands(`${here}/${channel.id}`, script, () => page.getByRole("button", { name: "Pinned messages" }).click())
  await stands(`${here}/${channel.id}`, script, () => page.locator(".members button", { hasText: "<b>x</b>" }).click())
  await stands(`${here}/settings/roles/${role.id}`, bold)
  await stands(`${here}/settings/webhooks`, payloads[3]!)
  await stands(`${here}/settings/bans`, script)
  await stands(`${here}/settings/log`, script)
  await stands("#/", bold)
  // Of DMs the one in which somebody wrote last comes first.
  const listed = () =>
    page
      .locator(".channel-list a[href*='/dms/']")
      .evaluateAll(links => links.map(one => one.getAttribute("href")!.split("/").at(-1)))
  await until("both are listed", async () => (await listed()).length === 2)
  await lin.on(shared.west).createMessage({ channel_id: dms[0]!, content: bold })
  await until("Lin's is first", async () => (await listed()).join() === dms.join())
  await eve.on(shared.west).createMessage({ channel_id: dms[1]!, content: bold })
  await until("Eve's is first", async () => (await listed()).join() === dms.toReversed().join())
  expect(dialogs).toEqual([])
  // An emoji that is not there is a picture that cannot be shown: the browser says so, and nothing else.
  expect(noise.filter(line => !/404/.test(line))).toEqual([])
})

test("a long history: what is muted is quiet at once, it opens at the first unread, goes back without a jump, stays small, and a hit of a search leads into it", async ({
  shared,
  skip,
}) => {
  const { ada, lin, server, channel } = await shared.seed(sharedServer)
  const rest = ada.on(shared.west)
  const total = 460
  for (let i = 0; i < total; i += 20)
    await Promise.all(
      Array.from({ length: 20 }, (_, k) =>
        rest.createMessage({ channel_id: channel.id, content: `line ${i + k}${i + k === 15 ? " needle" : ""}` }),
      ),
    )
  await lin.on(shared.west).ackMessages({ channel_id: channel.id })
  for (let i = 0; i < 5; i++) await rest.createMessage({ channel_id: channel.id, content: `new ${i}` })
  // What was muted before the page was opened is known to it; of that only mentions are marked.
  const theirs = lin.on(shared.west)
  const newChannel = (name: string) => rest.createChannel({ server_id: server.id, name })
  const [aside, calling, loud] = [await newChannel("aside"), await newChannel("calling"), await newChannel("loud")]
  await rest.createMessage({ channel_id: calling.id, content: `<@${lin.id}> psst` })
  const mentions = async () => (await theirs.getUnread({ channel_id: calling.id })).mention_count
  await until("the mention is counted", async () => (await mentions()) === 1)
  for (const { id } of [aside, calling]) await theirs.putChannelNotificationSettings({ channel_id: id, muted: true })
  for (const { id } of [aside, calling, loud]) await rest.createMessage({ channel_id: id, content: "psst" })
  const { page } = await signedIn(skip, shared.east, lin, `#/servers/${server.id}/${channel.id}`)
  const inList = (name: string) => page.locator(".channel-list a", { hasText: name })
  await page.locator(".channel.unread", { hasText: "loud" }).waitFor()
  await page.locator(".channel.muted", { hasText: "aside" }).waitFor()
  expect(await inList("aside").getAttribute("class")).toBe("channel muted")
  expect(await objections(page)).toEqual([])
  expect(await inList("calling").getAttribute("class")).toBe("channel unread muted")
  expect(await inList("calling").locator(".mark").innerText()).toBe("1")
  const tile = page.locator(".rail li", { hasText: "Shared" })
  expect(await tile.getAttribute("class")).toBe("has-unread")
  await theirs.putServerNotificationSettings({ server_id: server.id, muted: true })
  await page.locator(".rail li.has-unread.muted", { hasText: "Shared" }).waitFor()
  await theirs.ackMessages({ channel_id: calling.id })
  await until("nothing there is marked", async () => (await tile.getAttribute("class"))?.trim() === "muted")
  await page.locator(".channel.unread", { hasText: "loud" }).waitFor()
  expect(await objections(page)).toEqual([])
  await page.locator("#unread").waitFor()
  expect(await page.locator("#unread + .message").innerText()).toContain("new 0")
  await until(
    "what was seen is read",
    async () => (await lin.on(shared.west).getUnread({ channel_id: channel.id })).unread_count === 0,
    {
      timeoutMs: 20_000,
    },
  )

  // So it does where that is further back than a page; who comes back to it finds it as they left it.
  for (let i = 0; i < 80; i += 20)
    await Promise.all(
      Array.from({ length: 20 }, (_, k) => rest.createMessage({ channel_id: loud.id, content: `far ${i + k}` })),
    )
  const there = `#/servers/${server.id}/${loud.id}`
  await until("it is counted", async () => (await theirs.getUnread({ channel_id: loud.id })).unread_count === 81)
  await page.locator(".channel.unread", { hasText: "loud" }).waitFor()
  await page.waitForTimeout(2_500)
  const topRow = () =>
    page.evaluate<[string, number]>(`(() => {
      const top = document.querySelector(".scroller").getBoundingClientRect().top
      const row = [...document.querySelectorAll(".message[id]")].find(one => one.getBoundingClientRect().bottom > top + 1)
      return [row.id, Math.round(row.getBoundingClientRect().top)]
    })()`)
  await page.evaluate(`location.hash = "${there}"`)
  await page.locator("#unread + .message", { hasText: "psst" }).waitFor()
  expect(await page.locator("#unread").evaluate(line => line.getBoundingClientRect().top)).toBeGreaterThan(0)
  await page.evaluate(`document.querySelector(".scroller").scrollTop += 333`)
  const left = await topRow()
  expect(left[0]).toMatch(/^message-/)
  await page.evaluate(`location.hash = "#/servers/${server.id}/${channel.id}"`)
  await message(page, "new 4").waitFor()
  await page.evaluate(`location.hash = "${there}"`)
  await page.locator(`#${left[0]}`).waitFor()
  // It comes to rest there.
  await until("it is as it was left", async () => (await topRow()).join() === left.join())
  await page.waitForTimeout(300)
  expect(await topRow()).toEqual(left)
  await page.locator(".scroller").press("e")
  await message(page, "far 79").waitFor()
  await page.evaluate(`location.hash = "#/servers/${server.id}/${channel.id}"`)
  await message(page, "new 4").waitFor()

  // What is offered for the last message is not cut off.
  await message(page, "new 4").hover()
  await message(page, "new 4").getByRole("button", { name: "React", exact: true }).click()
  const [board, around] = [
    await page.getByRole("dialog", { name: "Choose an emoji" }).boundingBox(),
    await page.locator(".scroller").boundingBox(),
  ]
  expect(board!.y + board!.height).toBeLessThanOrEqual(around!.y + around!.height)
  await page.keyboard.press("Escape")

  let rounds = 0
  while ((await page.getByText("This is where it begins.").count()) === 0) {
    expect(++rounds).toBeLessThan(60)
    const first = await page.locator(".message[id]").first().getAttribute("id")
    await page.evaluate(`document.querySelector(".scroller").scrollTop = 300`)
    const before = await topRow()
    await until(
      "there is more above",
      async () =>
        (await page.locator(".message[id]").first().getAttribute("id")) !== first ||
        (await page.getByText("This is where it begins.").count()) === 1,
    )
    // Who reads a line finds it in the same place when others come in above.
    const [id, top] = await topRow()
    if (id === before[0]) expect(Math.abs(top - before[1])).toBeLessThan(40)
    expect(await page.locator(".message[id]").count()).toBeLessThanOrEqual(360)
  }
  await page.getByRole("button", { name: /Go to the newest/ }).click()
  await message(page, "new 4").waitFor()

  await page.keyboard.press("Escape")
  await page.getByRole("button", { name: "Search messages" }).click()
  await page.getByLabel("Words").fill("needle")
  await until(
    "the search knows it",
    async () => {
      await page.getByRole("dialog").getByRole("button", { name: "Search" }).click()
      await page.waitForTimeout(500)
      return (await page.locator(".hits li").count()) > 0
    },
    { timeoutMs: 60_000 },
  )
  await page.locator(".hits button").first().click()
  const found = page.locator(".message.marked", { hasText: "needle" })
  await found.waitFor()

  // Among older messages, too, reactions come as they are made, one's own as well.
  const channel_id = channel.id
  const needle = (await found.getAttribute("id"))!.replace("message-", "")
  await rest.addReaction({ channel_id, message_id: needle, emoji: "🎉" })
  await page.getByRole("button", { name: "🎉: 1 reaction" }).click()
  await page.getByRole("button", { name: "🎉: 2 reactions", pressed: true }).waitFor()
  await page.getByRole("button", { name: "🎉: 2 reactions" }).click()
  await page.getByRole("button", { name: "🎉: 1 reaction", pressed: false }).waitFor()
  // What the channel denies is said where one would write, as soon as it is so.
  const everyone = { channel_id, target_id: server.id, type: "role" as const, allow: [] }
  const field = page.getByRole("textbox", { name: /^Message / })
  await rest.setOverride({ ...everyone, deny: ["messages.send"] })
  await page.getByText("You may not write in this channel.").waitFor()
  expect([await field.count(), await actions(page, "needle")]).toEqual([0, ["React", "Report"]])
  await rest.setOverride({ ...everyone, deny: [] })
  await field.waitFor()
  await rest.deleteMessage({ channel_id, message_id: needle })
  await until("it is gone", async () => (await message(page, "needle").count()) === 0)
  await page.evaluate(`dispatchEvent(new HashChangeEvent("hashchange"))`)
  await page.getByText("This message is not there any more.").waitFor()

  // What happened to older messages of a DM while the connection was away, and could not resume.
  const dm = await dmBetween(ada, lin, shared.west)
  const { id: oldest } = await rest.createMessage({ channel_id: dm, content: "the oldest" })
  for (let i = 0; i < 180; i += 20)
    await Promise.all(
      Array.from({ length: 20 }, (_, k) => rest.createMessage({ channel_id: dm, content: `word ${i + k}` })),
    )
  const sockets: WebSocketRoute[] = []
  let isCut = false
  const frameOf = (op: number, d: unknown) => JSON.stringify({ op, d })
  await page.routeWebSocket(/\/gateway/, socket => {
    const [isFirst, server] = [sockets.push(socket) === 1, socket.connectToServer()]
    server.onMessage(frame => {
      if (!isFirst || !isCut) socket.send(frame)
    })
    socket.onMessage(frame => {
      if (!isFirst && (JSON.parse(String(frame)) as { op: number }).op === opcodes.RESUME)
        socket.send(frameOf(opcodes.INVALID_SESSION, false))
      else server.send(frame)
    })
  })
  await page.evaluate(`location.hash = "#/dms/${dm}/${oldest}"`)
  await page.reload()
  await page.locator(".message.marked", { hasText: "the oldest" }).waitFor()
  const toNewest = page.getByRole("button", { name: /Go to the newest/ })
  await toNewest.waitFor()
  isCut = true
  await rest.addReaction({ channel_id: dm, message_id: oldest, emoji: "🎉" })
  sockets[0]!.send(frameOf(opcodes.RECONNECT, null))
  await message(page, "the oldest").getByRole("button", { name: "🎉: 1 reaction" }).waitFor()
  expect([await toNewest.count(), sockets.length]).toEqual([1, 2])
  await lin.on(shared.west).blockUser({ user_id: ada.id })
  await page.getByText(`You have blocked ${ada.username}.`).waitFor()

  // Where the connection does not come back, the page says so, and can still be read.
  await page.evaluate(`location.hash = "#/servers/${server.id}/${channel.id}"`)
  await field.waitFor()
  /** One's name has one dot: what others see of one, or that the page is not current. */
  const dots = () =>
    page.evaluate(`[...document.querySelectorAll(".own-line :is(.dot, .presence)")]
      .filter(one => one.checkVisibility() && getComputedStyle(one).clipPath === "none").map(one => one.className)`)
  await page.locator(".own-line .presence.online").waitFor()
  expect(await dots()).toEqual(["presence online"])
  await sockets.at(-1)!.close({ code: 4003, reason: "IP Blocked" })
  await page.getByText("Your address is blocked on this server.").waitFor()
  expect(await page.locator(".dot.closed").innerText()).toBe("Read only: not connected")
  expect(await dots()).toEqual(["dot closed"])
  await message(page, "new 4").waitFor()
  expect(await field.count()).toBe(0)
})

test("a session that is ended elsewhere leads to the sign-in, which says why", async ({ shared, skip }) => {
  const { ada, server, channel } = await shared.seed(sharedServer)
  const { page, noise } = await signedIn(skip, shared.east, ada, `#/servers/${server.id}/${channel.id}`)
  await page.getByRole("textbox", { name: /^Message / }).waitFor()
  await page.getByRole("textbox", { name: /^Message / }).fill("half a thought")
  const drafts = () => page.evaluate("Object.keys(sessionStorage).filter(key => key.includes('draft')).length")
  expect(await drafts()).toBe(1)
  await ada.on(shared.west).revokeAllSessions({ except_current: false })
  await page.getByText("You were signed out").waitFor()
  expect(await drafts()).toBe(0)
  expect(await page.evaluate("localStorage.getItem('starling.app.token')")).toBeNull()
  await page.getByLabel("Name or e-mail address").fill(ada.username)
  await page.getByLabel("Password").fill("not it")
  await page.getByRole("button", { name: "Sign in", exact: true }).click()
  await page.getByRole("alert").waitFor()
  await page.getByLabel("Password").fill(ada.password)
  await page.getByRole("button", { name: "Sign in", exact: true }).click()
  await page.getByRole("link", { name: "Shared" }).click()
  await page.getByRole("textbox", { name: /^Message / }).waitFor()
  await page.getByRole("link", { name: "Settings", exact: true }).click()
  await page.getByRole("link", { name: "Sessions" }).click()
  await page.getByText("this one").waitFor()
  expect(await objections(page)).toEqual([])
  expect(noise.filter(line => !/40[01]/.test(line))).toEqual([])
})

test("somebody changes their name and picture, adds a second factor and signs in with it, takes their data with them, and deletes their account", async ({
  shared,
  skip,
}) => {
  const { lin } = await shared.seed(sharedServer)
  const { page, noise } = await signedIn(skip, shared.east, lin, "#/settings/account")
  const button = (name: string) => page.getByRole("button", { name, exact: true })
  const part = (name: string) => page.evaluate(`location.hash = "#/settings/${name}"`)
  const name = shared.newName("linnet")
  await page.getByLabel("Name", { exact: true }).fill(name)
  await button("Save").click()
  await page.locator(".own-line b", { hasText: name }).waitFor()
  const before = await page.getByAltText("Your picture").getAttribute("src")
  const picture = { name: "me.png", mimeType: "image/png", buffer: Buffer.from(await png(64, 64)) }
  await page.locator("input[type=file]").setInputFiles(picture)
  await page.getByText("Your picture is changed.").waitFor()
  await until("it is shown", async () => (await page.getByAltText("Your picture").getAttribute("src")) !== before)

  await part("security")
  await page.getByLabel("Your password").fill(lin.password)
  await button("Set it up").click()
  await page.locator(".codes code").first().waitFor()
  const codes = await page.locator(".codes code").allInnerTexts()
  const secret = (await page.locator(".secret code").innerText()).replaceAll(" ", "")
  expect(await objections(page)).toEqual([])
  await page.getByLabel("Code", { exact: true }).fill(generateSync({ secret }))
  await button("Turn it on").click()
  await page.getByText("The second factor is on.").waitFor()
  // A new address takes a code then, too.
  await part("account")
  await page.getByLabel("E-mail address").fill(`${name}@example.com`)
  await page.getByLabel("Code of your second factor").fill(codes[0]!)
  await page.getByLabel("Your password").fill(lin.password)
  await button("Save").click()
  await page.getByText("Saved.").last().waitFor()

  await button("Sign out").click()
  const enter = async () => {
    await page.getByLabel("Name or e-mail address").fill(name)
    await page.getByLabel("Password", { exact: true }).fill(lin.password)
    await button("Sign in").click()
  }
  await enter()
  await page.getByRole("heading", { name: "Second factor" }).waitFor()
  await page.getByLabel("Code").fill(codes[1]!)
  await button("Sign in").click()
  await page.getByRole("link", { name: "Shared" }).waitFor()

  await part("privacy")
  const download = page.waitForEvent("download", { timeout: 60_000 })
  await button("Export it").click()
  expect(await readFile(await (await download).path(), "utf8")).toContain(name)
  await button("Delete my account").click()
  const dialog = page.getByRole("dialog")
  await dialog.getByLabel("Code of your second factor").fill(codes[2]!)
  await dialog.getByLabel("Your password").fill("not it")
  expect(await dialog.getByRole("button", { name: "Delete my account" }).isDisabled()).toBe(true)
  await dialog.getByLabel(`Type ${name} to go on`).fill(name)
  await dialog.getByRole("button", { name: "Delete my account" }).click()
  await dialog.getByRole("alert").filter({ hasText: "Incorrect password" }).waitFor()
  expect(await objections(page)).toEqual([])
  await dialog.getByLabel("Your password").fill(lin.password)
  await dialog.getByRole("button", { name: "Delete my account" }).click()
  await page.getByText("You were signed out").waitFor()
  await enter()
  await page.getByRole("alert").filter({ hasText: "Account scheduled for deletion" }).waitFor()
  expect(noise.filter(line => !/40[0134]/.test(line))).toEqual([])
})

/** What is wider than what it stands in: nothing has to be scrolled sideways but code. */
const tooWide = `[...document.querySelectorAll("html, .app, .lists, .sidebar, .channel-list, main, .page, .scroller, .message, .message header, .embed, .members, dialog")]
  .filter(one => one.clientWidth > 0 && one.scrollWidth > one.clientWidth + 1)
  .map(one => one.tagName + "." + one.className + ": " + one.scrollWidth + " in " + one.clientWidth)`

test("everything is done with the keyboard alone, new messages are read aloud without a flood, and the focus comes back", async ({
  shared,
  skip,
}) => {
  const { ada, lin, server, channel } = await shared.seed(sharedServer)
  for (const content of ["one", "two", "three"])
    await lin.on(shared.west).createMessage({ channel_id: channel.id, content })
  const { page, noise } = await signedIn(skip, shared.east, ada, `#/servers/${server.id}/${channel.id}`, {
    viewport: { width: 900, height: 700 },
  })
  const press = async (...keys: string[]) => {
    for (const key of keys) await page.keyboard.press(key)
  }
  /** What has the focus, and whether one sees it. */
  const focus = () =>
    page.evaluate<string>(`(() => {
      const { activeElement: one } = document
      const isSeen = one.checkVisibility({ visibilityProperty: true, contentVisibilityAuto: true })
      const words = one.getAttribute("aria-label") ?? one.innerText
      return (isSeen ? "" : "unseen ") + one.tagName.toLowerCase() + " " + (one.matches(".message") ? one.querySelector(".rich").innerText : words)
    })()`)
  await message(page, "three").waitFor()
  await press("?")
  await page.getByRole("dialog", { name: "Keys" }).waitFor()
  expect(await page.getByRole("dialog").innerText()).toMatch(/Next message[^]*Ctrl\s+k/)
  await press("Escape")
  await press("r")
  expect(await focus()).toMatch(/^textarea Message #/)
  await page.keyboard.type("mine")
  await press("Enter")
  await message(page, "mine").waitFor()
  await press("Escape")
  expect(await focus()).toBe("article mine")
  await press("ArrowUp", "k", "Enter")
  expect(await focus()).toBe("button React")
  await press("Enter", "ArrowRight", "Enter")
  expect(await focus()).toBe("button React")
  await message(page, "two").getByRole("button", { name: "👎: 1 reaction" }).waitFor()
  await press("Escape")
  expect(await focus()).toBe("article two")
  await press("r")
  expect(await focus()).toMatch(/^textarea Message #/)
  await page.keyboard.type("an answer")
  await press("Enter")
  await page.locator(".reply-line", { hasText: "two" }).waitFor()
  // What had the focus is gone: what is around it has it.
  await press("Escape", "Enter", "ArrowLeft")
  expect(await focus()).toBe("button Delete")
  await press("Enter")
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).waitFor()
  expect(await focus()).toBe("button Cancel")
  await press("Tab", "Enter")
  await until("it is deleted", async () => (await message(page, "an answer").count()) === 0)
  await until("the dialog is closed", async () => (await page.getByRole("dialog").count()) === 0)
  expect(await focus()).toBe("div Messages")
  await press("ArrowUp")
  expect(await focus()).toBe("article mine")
  // The members are beside the messages, or behind a button; a dialog leads back to who was chosen.
  await page.getByRole("button", { name: "Members" }).focus()
  await press("Enter")
  await page.locator(".members button:focus").waitFor()
  const who = await focus()
  await press("Enter")
  await page.getByRole("dialog").waitFor()
  await press("Escape")
  expect(await focus()).toBe(who)
  await press("Escape")
  expect(await focus()).toBe("button Members")
  await press("Control+k")
  await page.keyboard.type("settings")
  await press("Enter")
  await page.getByRole("heading", { name: "Settings" }).waitFor()
  await page.goBack()
  await message(page, "mine").waitFor()

  await page.evaluate(`window.spoken = []
    new MutationObserver(() => spoken.push(document.querySelector("p.unseen[role=status]").textContent))
      .observe(document.querySelector("p.unseen[role=status]"), { childList: true, characterData: true, subtree: true })`)
  await Promise.all(
    Array.from({ length: 30 }, (_, i) =>
      lin.on(shared.west).createMessage({ channel_id: channel.id, content: `burst ${i}` }),
    ),
  )
  const heard = async () => (await page.evaluate<string[]>("spoken")).filter(text => text !== "")
  const count = (text: string) => Number(/^(\d+) new messages/.exec(text)?.[1] ?? 1)
  await until("all are spoken of", async () => (await heard()).reduce((sum, text) => sum + count(text), 0) === 30)
  expect((await heard()).length).toBeLessThan(15)
  expect((await heard()).at(-1)).toMatch(/burst \d+$/)
  expect(noise).toEqual([])
})

test("ten views in two themes, three widths and both directions: nothing is wider than its place, and axe objects to none, dark and wide, light and narrow", async ({
  shared,
  skip,
}) => {
  const { ada, lin, server, channel } = await shared.seed(sharedServer)
  await lin.on(shared.west).editOwnMember({ server_id: server.id, nickname: "A_nickname_without_a_gap_in_it" })
  await lin.on(shared.west).createMessage({
    channel_id: channel.id,
    embeds: [{ title: "Build", image: { url: "https://a-long-name-of-a-host.example.com/x.png" } }],
    content: "# Title\n> quoted\n- one\n- two\n`code` and **bold** https://example.com",
  })
  await ada.on(shared.west).createMessage({
    channel_id: channel.id,
    content: "Where?",
    poll: { question: "Where?", options: ["Here", "There"] },
  })
  await lin.on(shared.west).requestFriend({ user_id: ada.id })
  const here = `#/servers/${server.id}`
  const views = [
    "#/",
    `${here}/${channel.id}`,
    `${here}/settings/overview`,
    `${here}/settings/channels`,
    `${here}/settings/invites`,
    `${here}/settings/bans`,
    `${here}/settings/log`,
    "#/settings/account",
    "#/settings/security",
    "#/settings/privacy",
  ]
  for (const colorScheme of ["light", "dark"] as const) {
    const { page, noise } = await signedIn(skip, shared.east, ada, "#/", { colorScheme })
    for (const width of [320, 768, 1280]) {
      await page.setViewportSize({ width, height: 720 })
      const isTurned = colorScheme === "dark" && width < 1280
      for (const view of views) {
        await page.evaluate(`location.hash = ${JSON.stringify(view)}`)
        await page.waitForTimeout(80)
        await page.locator("main .loading").first().waitFor({ state: "detached" })
        // What is narrower than this is read from right to left once.
        await page.evaluate(`document.documentElement.dir = "${isTurned ? "rtl" : "ltr"}"`)
        if (width === 320 && view === views[1])
          expect(await page.locator(".composer textarea").evaluate(one => one.clientWidth)).toBeGreaterThan(200)
        expect([colorScheme, width, view, await page.evaluate(tooWide)]).toEqual([colorScheme, width, view, []])
        if (width === (colorScheme === "dark" ? 1280 : 320))
          expect([view, width, await objections(page)]).toEqual([view, width, []])
        if (process.env["SHOTS"])
          await page.screenshot({ path: `${process.env["SHOTS"]}/${colorScheme}-${width}-${views.indexOf(view)}.png` })
      }
    }
    // A wall of pixels; and what a reader's own colours, and more contrast, leave of it.
    await page.setViewportSize({ width: 3840, height: 1080 })
    await page.evaluate(`location.hash = ${JSON.stringify(views[1])}`)
    await message(page, "quoted").waitFor()
    expect([colorScheme, await page.evaluate(tooWide), await objections(page)]).toEqual([colorScheme, [], []])
    for (const media of [{ forcedColors: "active" }, { forcedColors: "none", contrast: "more" }] as const) {
      await page.emulateMedia({ colorScheme, ...media })
      const outline = () =>
        page.evaluate(`getComputedStyle(document.querySelector(".app .channel.current")).outlineStyle`)
      expect([media, await outline(), await objections(page)]).toEqual([media, "solid", []])
    }
    expect(noise).toEqual([])
  }
})

test("a reader whose browser prefers German gets German, their own times, and the choice of another language", async ({
  shared,
  skip,
}) => {
  const { ada, lin, server, channel } = await shared.seed(sharedServer)
  await ada.on(shared.west).createMessage({ channel_id: channel.id, content: "Moin" })
  const { page, context, noise } = await visitor(skip, { locale: "de-AT", timezoneId: "Pacific/Kiritimati" })
  await context.grantPermissions(["notifications"])
  await context.addInitScript(`localStorage.setItem("starling.notifications", '{"isOn":true}')`)
  const asked: string[] = []
  page.on("request", request => asked.push(request.url()))
  const speaks = () => page.evaluate("document.documentElement.lang")
  await page.goto(`${shared.east.url}/app`)
  await page.getByLabel("Name oder E-Mail-Adresse").fill(ada.username)
  expect(await speaks()).toBe("de-AT")
  await page.getByLabel("Passwort").fill("not it")
  await page.getByRole("button", { name: "Anmelden", exact: true }).click()
  await page.getByRole("alert").filter({ hasText: "Name oder Passwort stimmt nicht" }).waitFor()
  await page.getByLabel("Passwort").fill(ada.password)
  await page.getByRole("button", { name: "Anmelden", exact: true }).click()
  await page.getByRole("link", { name: "Shared" }).click()
  await message(page, "Moin").waitFor()
  const { dateTime, title } = await page.evaluate<{ dateTime: string; title: string }>(
    `(({ dateTime, title }) => ({ dateTime, title }))(document.querySelector(".message time"))`,
  )
  const there = { timeZone: "Pacific/Kiritimati", dateStyle: "full", timeStyle: "medium" } as const
  expect(title).toBe(new Intl.DateTimeFormat("de-AT", there).format(new Date(dateTime)))
  expect(await objections(page)).toEqual([])

  // So is a mention that comes while nobody looks.
  await page.evaluate("navigator.serviceWorker.ready.then(() => {})")
  await page.evaluate(`Object.defineProperty(document, "hidden", { configurable: true, get: () => true })`)
  await lin.on(shared.west).createMessage({ channel_id: channel.id, content: `<@${ada.id}> Servus` })
  const mentions = () =>
    page.evaluate<string[]>(`navigator.serviceWorker.getRegistration("/app").then(one => one.getNotifications())
      .then(all => all.map(one => one.title))`)
  await until("the mention is shown", async () => (await mentions()).length > 0)
  expect(await mentions()).toEqual([`${lin.username} hat dich in #${channel.name} erwähnt`])
  await page.evaluate("delete document.hidden")

  // What is written stays while the language changes; it is kept on this device.
  await page.getByRole("textbox", { name: /^Nachricht an / }).fill("half a sentence")
  await page.getByRole("link", { name: "Einstellungen", exact: true }).click()
  await page.getByRole("link", { name: "Darstellung" }).click()
  await page.getByLabel("Sprache").selectOption("English")
  await page.getByRole("heading", { name: "Look" }).waitFor()
  expect(await speaks()).toBe("en-GB")
  await page.evaluate(`location.hash = "#/servers/${server.id}/${channel.id}"`)
  expect(await page.getByRole("textbox", { name: /^Message / }).inputValue()).toBe("half a sentence")
  const again = await context.newPage()
  again.on("request", request => asked.push(request.url()))
  const before = asked.length
  await again.goto(`${shared.east.url}/app#/servers/${server.id}/${channel.id}`)
  await again.getByRole("textbox", { name: /^Message / }).waitFor()
  // Texts of a language are loaded by who reads it only.
  const german = asked.slice(0, before).filter(url => !asked.slice(before).includes(url) && url.endsWith(".js"))
  expect(german).toHaveLength(1)
  expect(noise.filter(line => !/401/.test(line))).toEqual([])
})

test("somebody makes a bot and sees its token once; who follows its link adds it to their server, with what they choose", async ({
  shared,
  skip,
}) => {
  const { ada, lin, server } = await shared.seed(sharedServer)
  const { page, noise } = await signedIn(skip, shared.east, lin, "#/settings/bots")
  const button = (on: Page, name: string) => on.getByRole("button", { name, exact: true })
  const name = shared.newName("robot")
  await page.getByText("You have no bots.").waitFor()
  await page.getByLabel("Name", { exact: true }).fill(name)
  await button(page, "Make it").click()
  const token = page.getByLabel("Token", { exact: true })
  const first = await token.inputValue()
  expect(await clientAt(shared.west, first).getMe()).toMatchObject({ username: name, bot: true })
  expect(await objections(page)).toEqual([])
  await button(page, "I have kept it").click()
  expect(await token.count()).toBe(0)

  await button(page, "New token").click()
  await page.getByRole("dialog").getByRole("button", { name: "Give a new one" }).click()
  await token.waitFor()
  expect(await refusal(clientAt(shared.west, first).getMe())).toBe("revoked_token")
  const { id } = await clientAt(shared.east, await token.inputValue()).getMe()
  await page.getByText("What it asks for in a server").click()
  for (const asked of ["Manage messages", "Ban"]) await page.getByLabel(asked, { exact: true }).check()
  await page.getByLabel("Others may add it to their servers").check()
  await button(page, "Save").click()
  await page.getByText("Saved.").waitFor()
  await page.getByRole("link", { name: "Add it to a server" }).click()
  await page.getByText("You manage no server").waitFor()

  const { page: manager, noise: managerNoise } = await signedIn(skip, shared.west, ada, `#/bots/${id}`)
  await manager.getByText(`A bot of ${lin.username}.`).waitFor()
  await manager.getByLabel("Ban", { exact: true }).uncheck()
  expect(await objections(manager)).toEqual([])
  await button(manager, "Add it").click()
  await manager.locator(".members li", { hasText: name }).getByText("Bot", { exact: true }).waitFor()
  const roles = await ada.on(shared.east).listRoles({ server_id: server.id })
  const { permissions } = roles.find(role => role.name === name)!
  expect([permissions["messages.manage"], permissions["members.ban"]]).toEqual([true, false])

  await page.evaluate(`location.hash = "#/settings/bots"`)
  await button(page, "Delete it").click()
  await page.getByLabel(`Type ${name} to go on`).fill(name)
  await page.getByRole("dialog").getByRole("button", { name: "Delete it" }).click()
  await page.getByText("You have no bots.").waitFor()
  await until("it has left", async () => (await manager.locator(".members li", { hasText: "Bot" }).count()) === 0)
  expect([...noise, ...managerNoise]).toEqual([])
})

test("an owner decides: a role, what a channel denies, who can do what and why; a webhook, an emoji, a rule, the audit log, and the end", async ({
  shared,
  skip,
}) => {
  const { ada, lin, server, channel } = await shared.seed(sharedServer)
  const [owner, member] = [ada.on(shared.west), lin.on(shared.west)]
  const server_id = server.id
  const channel_id = channel.id
  const { page, noise } = await signedIn(skip, shared.east, ada, `#/servers/${server_id}/settings/roles`, {
    // What appears slowly is faint for a while, to which axe objects.
    reducedMotion: "reduce",
  })
  const button = (name: string | RegExp) => page.getByRole("button", { name, exact: typeof name === "string" })
  const part = async (...path: string[]) => {
    await page.evaluate(`location.hash = ${JSON.stringify(`#/servers/${server_id}/settings/${path.join("/")}`)}`)
    await page.locator("main .loading").first().waitFor({ state: "detached" })
  }
  /** Narrow and wide, nothing is cut off, and axe objects to nothing. */
  const check = async () => {
    await page.setViewportSize({ width: 320, height: 800 })
    const wide = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
    expect([page.url().split("#")[1], wide, await objections(page)]).toEqual([page.url().split("#")[1], 0, []])
    expect(await brokenWords(page, ".why")).toEqual([])
    const cutOff = await page.evaluate(`[...document.querySelectorAll("main :is(button, input, select, textarea)")]
      .filter(one => one.checkVisibility() && one.getBoundingClientRect().right > innerWidth)
      .map(one => one.outerHTML.slice(0, 80))`)
    expect(cutOff).toEqual([])
    if (process.env["SHOTS"]) await page.screenshot({ path: `${process.env["SHOTS"]}/settings-${++shots}.png` })
    await page.setViewportSize({ width: 1280, height: 860 })
    if (process.env["SHOTS"]) await page.screenshot({ path: `${process.env["SHOTS"]}/settings-${shots}-wide.png` })
  }
  let shots = 0

  // A role, with its colour and a permission; another comes by an event, and moves by keyboard.
  await page.getByLabel("Name of the new role").fill("Quiet")
  await button("Make a role").click()
  await page.getByLabel("Colour").fill("#336699")
  await page.getByLabel("List its members apart from the others").check()
  await page.getByLabel("Manage messages").check()
  await button("Save").click()
  await page.getByText("Saved.").waitFor()
  const [quiet] = await owner.listRoles({ server_id })
  expect(quiet).toMatchObject({ name: "Quiet", color: "#336699", hoist: true, mentionable: false })
  expect(quiet!.permissions).toMatchObject({ "messages.manage": true, "roles.manage": false })
  await page.getByLabel("Give it to").fill(lin.username.slice(0, -1))
  await page.getByRole("list", { name: "Give it to" }).getByRole("button").click()
  await button(`Take Quiet from ${lin.username}`).waitFor()
  expect((await member.getMember({ server_id, member_id: lin.id })).roles).toContain(quiet!.id)
  await check()
  await part("roles")
  const helpers = await owner.createRole({ server_id, name: "Helpers", permissions: { "roles.manage": true } })
  await button("Move Helpers down").focus()
  await page.keyboard.press("Enter")
  const names = async () => (await owner.listRoles({ server_id })).map(({ name }) => name)
  await until("it moved", async () => (await names()).join() === "Quiet,Helpers,@everyone")
  await until(
    "it shows so",
    async () => (await page.locator(".order a").allInnerTexts()).join() === (await names()).join(),
  )
  expect(await page.evaluate("document.activeElement.ariaLabel")).toBe("Move Helpers down")
  await check()

  // What a channel denies; what it means for Lin is what the server tells Lin, and what it does.
  await part("channels", channel_id)
  await page.getByText("Add a role or a member").click()
  await page.getByLabel("Role", { exact: true }).selectOption("Quiet")
  await page.getByRole("radiogroup", { name: "Send messages" }).getByLabel("Deny").check()
  await button("Save").last().click()
  await page.getByText("Saved.").first().waitFor()
  const can = page.locator("section", { has: page.getByRole("heading", { name: "What a member can do here" }) })
  await can.getByLabel("Member", { exact: true }).fill(lin.username)
  await can.getByRole("list").getByRole("button").click()
  const row = (permission: string) => can.locator(`[data-permission="${permission}"]`)
  await row("messages.send").getByText("This channel denies it to the role Quiet.").waitFor()
  expect(await row("messages.send").innerText()).toContain("Before that: The role @everyone grants it.")
  expect(await row("messages.read").innerText()).toMatch(/yes\s+The role @everyone grants it\./)
  expect(await row("messages.manage").innerText()).toMatch(/yes\s+The role Quiet grants it\./)
  expect(await row("webhooks.manage").innerText()).toMatch(/no\s+No role grants it\./)
  const agrees = async () => {
    const said = await member.getServerPermissions({ server_id, channel_id })
    const shown = await can
      .locator("[data-permission]")
      .evaluateAll(rows => rows.map(one => [one.dataset["permission"]!, one.querySelector(".badge.good") !== null]))
    expect(shown.length).toBeGreaterThan(15)
    for (const [permission, isHeld] of shown)
      expect([permission, said[permission as "messages.send"]]).toEqual([permission, isHeld])
  }
  await agrees()
  await member.listMessages({ channel_id })
  await expect(member.createMessage({ channel_id, content: "hush" })).rejects.toMatchObject({ status: 403 })
  await check()
  // Somebody else allows it to Lin while the page is open.
  await owner.setOverride({ channel_id, target_id: lin.id, type: "member", allow: ["messages.send"], deny: [] })
  await row("messages.send").getByText(`This channel allows it to ${lin.username}.`).waitFor()
  await agrees()
  await member.createMessage({ channel_id, content: "not hushed" })
  await page.getByLabel("Slow mode", { exact: true }).selectOption("5 s")
  await button("Save").first().click()
  await until("slow mode is on", async () => (await owner.getChannel({ channel_id })).slowmode_seconds === 5)
  await owner.editChannel({ channel_id, slowmode_seconds: 0 })

  // A webhook posts to the address that is shown once.
  await part("webhooks")
  await page.getByLabel("Name", { exact: true }).fill("Builds")
  await button("Make a webhook").click()
  const address = await page.getByLabel("Address", { exact: true }).inputValue()
  expect(await page.locator("dialog pre").innerText()).toContain(address)
  expect(await objections(page)).toEqual([])
  const posted = await fetch(shared.west.url + new URL(address).pathname, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ content: "Build 512 is green" }),
  })
  expect(posted.status).toBe(200)
  await button("Done").click()
  await button("Change Builds").waitFor()
  await check()

  // An emoji: what the server objects to is said at the field; then it is there, and is used.
  await part("emoji")
  await page.getByLabel("Picture", { exact: true }).setInputFiles({
    name: "Gull.png",
    mimeType: "image/png",
    buffer: Buffer.from(await png(64, 64)),
  })
  expect(await page.getByLabel("Name of the emoji").inputValue()).toBe("gull")
  await page.getByLabel("Name of the emoji").fill("no gull")
  await button("Add the emoji").click()
  await page.locator(".field", { hasText: "Name of the emoji" }).getByRole("alert").waitFor()
  expect(await page.getByLabel("Name of the emoji").getAttribute("aria-invalid")).toBe("true")
  await page.getByLabel("Name of the emoji").fill("gull")
  await button("Add the emoji").click()
  await page.getByRole("img", { name: ":gull:" }).waitFor()
  await page.getByText("1 of 50 still ones").waitFor()
  await check()
  await page.evaluate(`location.hash = "#/servers/${server_id}/${channel_id}"`)
  await message(page, "Build 512 is green").waitFor()
  // It goes where the cursor is; what was completed is kept; a file that was refused stays, with why.
  const field = page.getByRole("textbox", { name: /^Message / })
  await field.fill("ab")
  await field.press("ArrowLeft")
  await button("Add an emoji").click()
  await button(":gull:").click()
  expect(await field.inputValue()).toMatch(/^a<:gull:\d+>b$/)
  await field.fill("")
  await field.pressSequentially(":gul")
  await field.press("Enter")
  await part("emoji")
  await page.evaluate(`location.hash = "#/servers/${server_id}/${channel_id}"`)
  expect(await field.inputValue()).toMatch(/^<:gull:\d+> $/)
  const broken = { name: "gull.png", mimeType: "image/png", buffer: Buffer.from("no picture") }
  await page.locator("input[type=file]").setInputFiles(broken)
  const refused = page.locator(".chosen li").getByRole("alert")
  await refused.waitFor()
  await field.press("Enter")
  await page.locator(".message[id] .rich").getByRole("img", { name: ":gull:" }).waitFor()
  expect(await refused.count()).toBe(1)

  // Stickers: made here, found by a word, sent with the keyboard alone, shown for what they are, and counted.
  await part("emoji")
  for (const name of ["Sitting gull", "Flying gull"]) {
    await page.getByLabel("Picture of the sticker").setInputFiles({
      name: "sticker.png",
      mimeType: "image/png",
      buffer: Buffer.from(await png(200, 120)),
    })
    await page.getByLabel("Name of the sticker").fill(name)
    await page.getByLabel("Words by which it is suggested").fill("seaside")
    await button("Add the sticker").click()
    await page.getByRole("button", { name: `Delete ${name}` }).waitFor()
  }
  const suggested = async () => (await member.suggestStickers({ content: "seaside", server_id })).map(one => one.name)
  await page.evaluate(`location.hash = "#/servers/${server_id}/${channel_id}"`)
  await button("Send a sticker").click()
  const board = page.getByRole("dialog", { name: "Send a sticker" })
  await board.getByLabel("Name or word").fill("sea")
  await until("both are found", async () => (await board.getByRole("listitem").count()) === 2)
  expect(await objections(page)).toEqual([])
  await board.getByLabel("Name or word").press("Tab")
  await page.keyboard.press("ArrowRight")
  const chosen = await page.evaluate<string>("document.activeElement.ariaLabel")
  await page.keyboard.press("Enter")
  const sent = page.locator(".message[id]").getByRole("img", { name: `Sticker: ${chosen}` })
  await sent.waitFor()
  expect(await sent.evaluate(one => [one.clientWidth, one.clientHeight])).toEqual([160, 160])
  expect(await objections(page)).toEqual([])
  await until("it is counted", async () => (await suggested())[0] === chosen)
  await owner.deleteSticker({
    sticker_id: (await owner.listStickers({ server_id }))[0]!.stickers.find(one => one.name !== chosen)!.id,
  })
  await until("one is left", async () => (await suggested()).length === 1)

  // A rule of auto-moderation refuses.
  await part("automod")
  await button("Make a rule").click()
  await page.getByLabel("Name", { exact: true }).fill("No gulls")
  await page.getByLabel("Words and phrases").fill("gulls\nterns")
  expect(await objections(page)).toEqual([])
  await button("Save").click()
  await page.getByText("in force", { exact: true }).waitFor()
  await expect(member.createMessage({ channel_id, content: "two terns" })).rejects.toMatchObject({
    status: 400,
    code: "MESSAGE_BLOCKED",
  })
  await button("Read again").click()
  await page.locator("q", { hasText: "terns" }).waitFor()
  await check()

  // The audit log in sentences; one kind of them.
  await part("log")
  await page.getByText("made the webhook Builds").waitFor()
  await page.getByLabel("What was done").selectOption("Changed the role …")
  await page.getByText("changed the role Quiet").first().waitFor()
  await until("others are gone", async () => (await page.getByText("made the webhook Builds").count()) === 0)
  await check()

  // Lin sees what members see, and with a role that manages roles why not more.
  const { page: theirs } = await signedIn(skip, shared.east, lin, `#/servers/${server_id}/settings/overview`)
  const links = theirs.getByRole("navigation", { name: "About this server" }).getByRole("link")
  await until("their parts are there", async () => (await links.count()) > 0)
  expect(await links.allInnerTexts()).toEqual(["Overview", "Leave or delete"])
  await owner.takeRole({ server_id, member_id: lin.id, role_id: quiet!.id })
  await owner.giveRole({ server_id, member_id: lin.id, role_id: helpers.id })
  await links.filter({ hasText: "Roles" }).click()
  await theirs.getByRole("link", { name: "Quiet" }).click()
  await theirs.getByText("It ranks at or above Helpers, your highest role").waitFor()
  expect(await theirs.getByLabel("Name", { exact: true }).isDisabled()).toBe(true)
  await theirs.evaluate(`location.hash = "#/servers/${server_id}/settings/roles/${server_id}"`)
  const ban = theirs.getByRole("checkbox", { name: "Ban", exact: true })
  await theirs.locator(".check", { has: ban }).getByText("You do not have it").waitFor()
  expect(await ban.isDisabled()).toBe(true)

  // The end of it takes its name.
  await part("danger")
  await button("Delete the server").click()
  const dialog = page.getByRole("dialog")
  expect(await dialog.getByRole("button", { name: "Delete the server" }).isDisabled()).toBe(true)
  await dialog.getByRole("textbox").fill(server.name)
  expect(await objections(page)).toEqual([])
  await dialog.getByRole("button", { name: "Delete the server" }).click()
  await theirs.getByText("You are not in this server.").waitFor()
  await expect(owner.getServer({ server_id })).rejects.toMatchObject({ status: 404 })
  expect(noise.filter(line => !/400/.test(line))).toEqual([])
})

/** Of who is signed in there. */
const ownId = (page: Page): Promise<string> =>
  page.evaluate(`fetch("/api/v1/users/@me", { headers: { authorization: "Bearer " + localStorage.getItem("starling.app.token") } })
    .then(answer => answer.json()).then(({ id }) => id)`)
