/**
 * Access that is taken away and given back while messages flow: kicks, bans, overrides, roles, and
 * an owner who is one no longer.
 */
import { setTimeout as sleep } from "node:timers/promises"
import type { Action } from "./history.ts"
import type { Community, Person, Population, Watched } from "./people.ts"
import type { Rest } from "./rest.ts"

export const barriers = ["kick", "ban", "member override", "role override", "role", "owner"] as const
type Barrier = (typeof barriers)[number]

interface Surroundings {
  population: Population
  rest: Rest
  url: () => string
  /** A message that must be refused. */
  send: (person: Person, community: Community) => Promise<unknown>
  isOver: () => boolean
}

interface Request {
  method: "PUT" | "DELETE" | "POST"
  path: string
  body?: object
}

/** Longer than most faults. */
const tries = 40
const view = ["channels.view"]

export class Moderation {
  readonly #surroundings: Surroundings
  readonly #busy = new Set<string>()

  constructor(surroundings: Surroundings) {
    this.#surroundings = surroundings
  }

  /** One after the other in each server: what is true of access is known at every moment. */
  async perform(choice: number): Promise<void> {
    const { population } = this.#surroundings
    const watched = population.watched[choice % population.watched.length]!
    const { server } = watched.community
    if (this.#busy.has(server)) return
    this.#busy.add(server)
    try {
      await this.#bar(watched, barriers[(choice >> 3) % barriers.length]!, 200 + (choice % 600))
    } finally {
      this.#busy.delete(server)
    }
  }

  async #bar(watched: Watched, how: Barrier, holdMs: number): Promise<void> {
    if (how === "kick" || how === "ban") await this.#remove(watched, how, holdMs)
    else await this.#hide(watched, how, holdMs)
  }

  async #remove({ subject, owner, community }: Watched, how: "kick" | "ban", holdMs: number): Promise<void> {
    const { server, invite } = community
    const action = { do: "remove", server, from: subject.name, how } as const
    const members = `/servers/${server}/members/${subject.id}`
    const bans = `/servers/${server}/bans/${subject.id}`
    if (how === "kick") await this.#insist(owner, action, { method: "DELETE", path: members })
    else await this.#insist(owner, action, { method: "PUT", path: bans, body: {} })
    await this.#refused(subject, community, holdMs)
    const unban = { do: "manage", channel: community.channel, from: subject.name } as const
    if (how === "ban") await this.#insist(owner, unban, { method: "DELETE", path: bans })
    const join: Request = { method: "POST", path: `/channels/invites/${invite}` }
    await this.#insist(subject, { do: "join", server }, join)
  }

  async #hide(
    { subject, owner, community, crew, muted }: Watched,
    how: Exclude<Barrier, "kick" | "ban">,
    holdMs: number,
  ): Promise<void> {
    const { server, channel } = community
    const hide = { do: "hide", channel, from: subject.name, how } as const
    const show = { ...hide, do: "show" } as const
    const manage = { do: "manage", channel, from: subject.name } as const
    const ownOverride: Request = { method: "DELETE", path: `/channels/${channel}/permissions/${subject.id}` }
    const override = (target: string, type: "member" | "role", sees: boolean): Request => ({
      method: "PUT",
      path: `/channels/${channel}/permissions/${target}`,
      body: { type, allow: sees ? view : [], deny: sees ? [] : view },
    })
    const role = (id: string, held: boolean): Request => ({
      method: held ? "PUT" : "DELETE",
      path: `/servers/${server}/members/${subject.id}/roles/${id}`,
    })
    const transfer = (to: Person, by: Person): Request => ({
      method: "PUT",
      path: `/servers/${server}/owner`,
      body: { user_id: to.id, password: by.password },
    })
    const asOwner = (action: Action, request: Request) => this.#insist(owner, action, request)
    switch (how) {
      case "member override":
        await asOwner(hide, override(subject.id, "member", false))
        await this.#refused(subject, community, holdMs)
        return asOwner(show, override(subject.id, "member", true))
      case "role override":
        // An override of the member itself would outweigh it.
        await asOwner(manage, ownOverride)
        await asOwner(manage, role(crew, true))
        await asOwner(hide, override(crew, "role", false))
        await this.#refused(subject, community, holdMs)
        return asOwner(show, override(crew, "role", true))
      case "role":
        await asOwner(manage, ownOverride)
        await asOwner(manage, role(crew, false))
        await asOwner(hide, role(muted, true))
        await this.#refused(subject, community, holdMs)
        return asOwner(show, role(muted, false))
      case "owner":
        await asOwner(hide, override(subject.id, "member", false))
        await asOwner(show, transfer(subject, owner))
        await sleep(holdMs)
        await this.#insist(subject, hide, transfer(owner, subject))
        await this.#refused(subject, community, holdMs)
        return asOwner(show, override(subject.id, "member", true))
    }
  }

  async #refused(subject: Person, community: Community, holdMs: number): Promise<void> {
    await sleep(holdMs)
    await this.#surroundings.send(subject, community)
  }

  /** Until it is answered. */
  async #insist({ name, login, token }: Person, action: Action, { method, path, body }: Request): Promise<void> {
    const { rest, url, isOver } = this.#surroundings
    for (let attempt = 0; attempt < tries; attempt++) {
      const { outcome } = await rest.call({
        client: name,
        session: login,
        token,
        action,
        method,
        url: `${url()}/api/v1${path}`,
        ...(body && { body }),
        fresh: true,
      })
      if (outcome !== "maybe" || isOver()) return
      await sleep(300)
    }
  }
}
