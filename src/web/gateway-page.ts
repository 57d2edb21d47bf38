import type { AsyncApiDocument, AsyncApiMessage } from "../apidocs/asyncapi.ts"
import { fieldsOf, type Schema, type Writing } from "../contract/core/field-list.ts"

/**
 * The gateway's description as a page that needs no script: what `/asyncapi.json` says, for people.
 */

export const escaped = (text: string) =>
  text.replace(/[&<>"]/g, character => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[character]!)

const writing: Writing = {
  code: text => `<code>${escaped(text)}</code>`,
  link: name => `<a href="#type-${escaped(name)}">${escaped(name)}</a>`,
}
const { code } = writing

/** Prose of the contract: text in which backticks mark code and single asterisks mark a term. */
const prose = (text: string) =>
  escaped(text)
    .replace(/`([^`]+)`/g, "<code>$1</code>")
    .replace(/\*([^*]+)\*/g, "<em>$1</em>")

const paragraphs = (text: string) =>
  text
    .split("\n\n")
    .map(part => `<p>${prose(part)}</p>`)
    .join("\n")

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const row = (cells: readonly string[], tag: string) =>
    `<tr>${cells.map(cell => `<${tag}>${cell}</${tag}>`).join("")}</tr>`
  return `<div class="scroll"><table><thead>${row(head, "th")}</thead><tbody>
${rows.map(cells => row(cells, "td")).join("\n")}
</tbody></table></div>`
}

function fieldTable(schema: Schema): string {
  if (schema.$ref !== undefined) return `<p>Its data is a ${writing.link(schema.$ref.split("/").at(-1)!)}.</p>`
  const fields = fieldsOf(schema, writing)
  if (fields.length === 0) return ""
  return table(
    ["Field", "Type", "About"],
    fields.map(({ path, type, isRequired, description = "" }) => [
      code(path),
      type,
      [isRequired ? "" : '<span class="faint">may be missing</span>', prose(description)].filter(Boolean).join(" "),
    ]),
  )
}

const badge = (text: string, kind = "") => `<span class="badge ${kind}">${escaped(text)}</span>`

function badges(message: AsyncApiMessage): string {
  const { "x-intent": intent, "x-delivery": delivery } = message
  if (delivery === undefined) {
    return [
      badge(`op ${message["x-op"]}`),
      ...(message["x-before-identify"] === true ? [badge("before IDENTIFY too")] : []),
    ].join(" ")
  }
  const shown = (one: string | null, where = "") =>
    one === null ? badge(`always sent${where}`) : badge(`${one}${where}`, "intent")
  const lets =
    intent === null || intent === undefined || intent.server === intent.dm
      ? [shown(intent?.server ?? null)]
      : [shown(intent.server, " in servers"), shown(intent.dm, " elsewhere")]
  return [badge(delivery, delivery), ...lets].join(" ")
}

function messageSection(key: string, message: AsyncApiMessage): string {
  const { d } = (message.payload as { properties: { d: Schema } }).properties
  const example = JSON.stringify(message.examples[0]!.payload, null, 2)
  return `<details id="${escaped(key)}">
<summary><b>${escaped(message.name)}</b> ${badges(message)}<span class="about">${prose(message.summary)}</span></summary>
${d.description === undefined ? "" : `<p>${prose(d.description)}</p>`}
${fieldTable(d)}
<pre><code>${escaped(example)}</code></pre>
</details>`
}

const intentsTable = ({ bits }: AsyncApiDocument["x-intents"], chosen: number) =>
  table(
    ["Intent", "Bit", "Value", "By default", "Events"],
    bits.map(({ name, bit, value, events }) => [
      code(name),
      String(bit),
      String(value),
      (chosen & value) === 0 ? "" : "yes",
      events.map(event => `<a href="#event.${event}">${code(event)}</a>`).join(" "),
    ]),
  )

/** `document` is the AsyncAPI one; `styles` is where its style sheet is. */
export function gatewayPage(document: AsyncApiDocument, styles: string, hasRedoc: boolean): string {
  const messages = Object.entries(document.components.messages)
  const sections = (kind: string) =>
    messages
      .filter(([key]) => key.startsWith(kind))
      .map(([key, message]) => messageSection(key, message))
      .join("\n")
  const listed = (kind: string) =>
    messages
      .filter(([key]) => key.startsWith(kind))
      .map(([key, { name }]) => `<li><a href="#${escaped(key)}">${escaped(name)}</a></li>`)
      .join("")
  const types = Object.entries(document.components.schemas) as [string, Schema & { example?: unknown }][]
  const { title, version, description } = document.info
  const intents = document["x-intents"]
  const places = Object.values(document.servers).map(({ host, protocol, variables }) => {
    const shown = host.replace("{host}", variables?.["host"]?.default ?? host)
    return `${protocol}://${shown}${document.channels.gateway.address}`
  })

  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escaped(title)}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="${styles}">
</head>
<body>
<header><b>${escaped(title)}</b> <span class="faint">${escaped(version)}</span>
<nav><a href="/docs">REST</a>${hasRedoc ? ' <a href="/redoc">REST reference</a>' : ""} <a href="/asyncapi.json">asyncapi.json</a></nav></header>
<div class="columns">
<nav class="contents" aria-label="Contents">
<a href="#about">About</a>
<a href="#connecting">Connecting</a>
<a href="#client">Sent by clients</a><ul>${listed("client.")}</ul>
<a href="#server">Sent by the server</a><ul>${listed("server.")}</ul>
<a href="#events">Events</a><ul>${listed("event.")}</ul>
<a href="#intents">Intents</a>
<a href="#closes">Close codes</a>
<a href="#types">Types</a>
</nav>
<main>
<h1 id="about">${escaped(title)}</h1>
${paragraphs(description)}

<h2 id="connecting">Connecting</h2>
<ol>
<li>Open ${places.map(code).join(" or ")}. Tokens never stand in the address.</li>
<li>The server says <a href="#server.HELLO">HELLO</a>. Send a <a href="#client.HEARTBEAT">HEARTBEAT</a> after a random part of its interval, then once per interval. When one is not answered before the next is due, the connection is dead.</li>
<li>Send <a href="#client.IDENTIFY">IDENTIFY</a> with the token and the <a href="#intents">intents</a> you want. <a href="#event.READY">READY</a> comes first; keep its ${code("session_id")}.</li>
<li>Apply each event, then remember its ${code("s")}. It rises, with gaps; several events may share one.</li>
<li>When the connection ends, look at the <a href="#closes">close code</a>: connect again after a wait with jitter and send <a href="#client.RESUME">RESUME</a>, or begin anew with IDENTIFY.</li>
</ol>

<h2 id="client">Sent by clients</h2>
${sections("client.")}

<h2 id="server">Sent by the server</h2>
${sections("server.")}

<h2 id="events">Events</h2>
<p>Op 0, with the name in ${code("t")}.</p>
${sections("event.")}

<h2 id="intents">Intents</h2>
<p>A sum of the values of what you want to receive. Left out it is ${intents.default}; all of them are ${intents.all}. Above ${intents.largest} the connection closes with 4013.</p>
${intentsTable(intents, intents.default)}

<h2 id="closes">Close codes</h2>
<p>After a code with “resume” connect again and RESUME; after the others IDENTIFY, once you know what was wrong.</p>
${table(
  ["Code", "Reason", "Then", "Why"],
  document["x-close-codes"].map(({ code, reason, resume, summary }) => [
    String(code),
    escaped(reason),
    resume ? badge("resume", "stored") : badge("do not resume", "ephemeral"),
    prose(summary),
  ]),
)}

<h2 id="types">Types</h2>
${types
  .map(
    ([name, schema]) =>
      `<details id="type-${escaped(name)}"><summary><b>${escaped(name)}</b><span class="about">${prose(schema.description ?? "")}</span></summary>
${fieldTable(schema)}</details>`,
  )
  .join("\n")}
</main>
</div>
</body>
</html>
`
}

export const gatewayStyle = `
:root {
  color-scheme: light dark;
  --paper: light-dark(#ffffff, #14171c); --ink: light-dark(#1d2129, #dde1e8); --faint: light-dark(#667085, #8b94a3);
  --line: light-dark(#e4e7ec, #2a303a); --shade: light-dark(#f6f7f9, #1b1f26); --link: light-dark(#1a5fb4, #7cb4ff);
  --good: light-dark(#0b6e3b, #6fd29b); --warm: light-dark(#9a5b00, #f0b65c); --cool: light-dark(#5b3fb0, #b7a2ff);
}
* { box-sizing: border-box }
html { scroll-padding-top: 4rem }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, sans-serif }
a { color: var(--link); text-decoration: none }
a:hover { text-decoration: underline }
header { position: sticky; top: 0; z-index: 1; display: flex; gap: .75rem; align-items: baseline; padding: .8rem 1.5rem;
  background: var(--paper); border-bottom: 1px solid var(--line) }
header nav { margin-left: auto; display: flex; flex-wrap: wrap; gap: 1.25rem }
.columns { display: grid; grid-template-columns: 17rem minmax(0, 52rem); gap: 2.5rem; padding: 0 1.5rem }
.contents { position: sticky; top: 3.2rem; align-self: start; max-height: calc(100vh - 3.2rem); overflow: auto; padding: 1.2rem 0; font-size: .9rem }
.contents > a { display: block; padding: .25rem 0; font-weight: 600; color: var(--ink) }
.contents ul { list-style: none; margin: 0 0 .5rem; padding: 0 0 0 .8rem; font: .8rem/1.6 ui-monospace, monospace }
.contents li { margin: 0 }
main { padding: 1.5rem 0 6rem }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 1rem }
h2 { margin: 3rem 0 1rem; padding-bottom: .3rem; border-bottom: 1px solid var(--line) }
code, pre { font: .86em/1.5 ui-monospace, monospace }
code { background: var(--shade); border-radius: 4px; padding: .1em .3em }
pre { background: var(--shade); border: 1px solid var(--line); border-radius: 8px; padding: .9rem 1rem; overflow: auto; max-height: 28rem }
pre code { padding: 0; background: none }
li { margin: .4rem 0 }
details { border: 1px solid var(--line); border-radius: 8px; margin: .5rem 0; padding: 0 1rem }
details[open] { padding-bottom: .6rem }
details:target { border-color: var(--link) }
summary { cursor: pointer; padding: .6rem 0 }
summary b { font: 600 .9rem ui-monospace, monospace }
.about { display: block; color: var(--faint); font-size: .9rem; padding-left: 1.05rem }
.faint { color: var(--faint) }
.badge { font-size: .72rem; padding: .1rem .5rem; border: 1px solid var(--line); border-radius: 99px; color: var(--faint); white-space: nowrap }
.badge.stored { color: var(--good); border-color: currentColor }
.badge.ephemeral { color: var(--warm); border-color: currentColor }
.badge.intent { color: var(--cool); border-color: currentColor }
.scroll { overflow-x: auto }
table { border-collapse: collapse; width: 100%; font-size: .9rem }
th, td { text-align: left; vertical-align: top; padding: .4rem .7rem .4rem 0; border-bottom: 1px solid var(--line) }
th { color: var(--faint); font-weight: 600 }
td code { white-space: nowrap }
@media (max-width: 60rem) {
  .columns { display: block }
  .contents { display: none }
}
@media print { .contents, header nav { display: none } details { break-inside: avoid } }
`
