/**
 * People register, one makes a server, the others join, and all of them post messages and read the
 * history.
 *
 * Needs k6 (https://k6.io) and a server without limits:
 *
 *   RATE_LIMITS=off npm start
 *   k6 run load-tests/messages.js
 *   k6 run -e URL=http://127.0.0.1:8000 -e USERS=50 -e SECONDS=60 load-tests/messages.js
 *
 * It ends by itself after SECONDS, and fails when a threshold is crossed.
 */
import { check, fail, group } from "k6"
import exec from "k6/execution"
import http from "k6/http"

const url = __ENV.URL || "http://127.0.0.1:8000"
const users = Number(__ENV.USERS || 20)
const seconds = Number(__ENV.SECONDS || 30)
const api = `${url}/api/v1`

export const options = {
  scenarios: {
    conversation: { executor: "constant-vus", vus: users, duration: `${seconds}s`, gracefulStop: "5s" },
  },
  // A password hash takes the server some 50 ms of a core.
  setupTimeout: "120s",
  thresholds: {
    checks: ["rate==1"],
    http_req_failed: ["rate==0"],
    "http_req_duration{name:post}": ["p(95)<250", "p(99)<1000"],
    "http_req_duration{name:page}": ["p(95)<250", "p(99)<1000"],
  },
}

const as = (token, name) => ({
  headers: { "Content-Type": "application/json", ...(token && { Authorization: `Bearer ${token}` }) },
  tags: { name },
})

/** The body of an answer that has to be 200: without it there is nothing to measure. */
function must(reply, what) {
  if (reply.status === 429) fail(`${what}: the server limits its callers; start it with RATE_LIMITS=off`)
  if (reply.status !== 200) fail(`${what}: ${reply.status} ${reply.body}`)
  return reply.json()
}

/** Ids are too long for a number. */
const isBelow = (a, b) => (a.length === b.length ? a < b : a.length < b.length)

export function setup() {
  const run = Date.now().toString(36)
  const tokens = Array.from({ length: users }, (_, i) => {
    const username = `k6_${run}_${i}`
    const body = { username, email: `${username}@example.com`, password: `Load-7-${run}-${i}` }
    return must(http.post(`${api}/auth/register`, JSON.stringify(body), as(undefined, "register")), "register").token
  })

  const owner = tokens[0]
  const server = must(http.post(`${api}/servers`, JSON.stringify({ name: `k6 ${run}` }), as(owner, "server")), "server")
  const channels = must(http.get(`${api}/servers/${server.id}/channels`, as(owner, "channels")), "channels")
  const channel = channels[0].id
  const forever = JSON.stringify({ max_age: 0, max_uses: 0 })
  const invite = must(http.post(`${api}/channels/${channel}/invites`, forever, as(owner, "invite")), "invite")
  for (const token of tokens.slice(1)) {
    must(http.post(`${api}/channels/invites/${invite.code}`, "{}", as(token, "join")), "join")
  }
  return { run, channel, tokens }
}

export default function converse({ run, channel, tokens }) {
  const token = tokens[(exec.vu.idInTest - 1) % tokens.length]
  const messages = `${api}/channels/${channel}/messages`
  const nonce = `${run}-${exec.vu.idInTest}-${exec.vu.iterationInScenario}`

  group("post", () => {
    const content = `message ${exec.vu.iterationInScenario} of ${exec.vu.idInTest}`
    const reply = http.post(messages, JSON.stringify({ content, nonce }), as(token, "post"))
    check(reply, {
      "a post is accepted": r => r.status === 200,
      "and comes back as it was sent": r => r.json("content") === content && r.json("nonce") === nonce,
    })
  })
  group("read", () => {
    const reply = http.get(`${messages}?limit=50`, as(token, "page"))
    check(reply, {
      "a page is answered": r => r.status === 200,
      "newest first": r => {
        const ids = r.json().map(({ id }) => id)
        return ids.length > 0 && ids.every((id, i) => i === 0 || isBelow(id, ids[i - 1]))
      },
    })
  })
}
