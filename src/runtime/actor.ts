import type { ErrorCode } from "../contract/core/errors.ts"
import type { Snowflake } from "../contract/core/fields.ts"
import type { Dispatch, JobRequest, MessageRefs } from "../contract/core/registry.ts"
import type { Audience } from "../domain/core/audience.ts"
import type { Control } from "../domain/core/control.ts"
import type { Readonlied } from "../domain/core/readonlied.ts"
import type { Write } from "../storage/core/write.ts"
import type { Need } from "./facts.ts"

/**
 * The unit of placement, order and failure: a server with its channels, or a user. `Source` is what
 * its loader reads from; see `HostedApplication.source`.
 */
export interface HomeKind<Home, Source = unknown> {
  readonly name: string
  readonly load: (id: Snowflake, source: Source) => Promise<Home | undefined>
}

/** Tells cross homes: at least once on the wire, once in effect. Nothing is answered. */
export interface Tell {
  readonly kind: "tell"
  readonly actor: string
  readonly id: Snowflake
  readonly command: string
  readonly input: unknown
  /** Of what passes: it is told at most once, without a row. */
  readonly isEphemeral?: true
  /** The messages that the event that it passes on is about. */
  readonly about?: MessageRefs
}

/** A control entry for the workers interested in this home and, beside them, for those named in `also`. */
export interface ControlEntry {
  readonly kind: "control"
  readonly audience: Audience
  readonly control: Control
}
export const control = (audience: Audience, entry: Control): ControlEntry => ({
  kind: "control",
  audience,
  control: entry,
})

/**
 * Sessions whose tokens no worker may accept any longer once the turn is answered; the same holds for
 * those of turns before it that wait still, so naming none waits for those alone.
 */
export interface Revocation {
  readonly kind: "revoke"
  readonly sessions: readonly Snowflake[]
}
export const revoke = (...sessions: Snowflake[]): Revocation => ({ kind: "revoke", sessions })

/** Sessions about which REST and gateway knew something that is no longer so: they look again. */
export interface Renewal {
  readonly kind: "renew"
  readonly sessions: readonly Snowflake[]
}
export const renew = (...sessions: Snowflake[]): Renewal => ({ kind: "renew", sessions })

export type Publication = Dispatch<Audience> | ControlEntry | Tell | JobRequest | Revocation | Renewal

/** For an extension of the runtime, named here: see `EffectExtension`. */
export interface AfterCommit {
  readonly extension: string
  readonly value: unknown
}

/** What a turn decides. The keys stand in the order in which things happen. */
export interface Effects<Home, Reply> {
  /** Changes what only memory holds and may be lost with the home, like who is typing. */
  readonly remember?: (draft: Home) => void
  /** Changes memory now, so that the next turn in the home sees it. */
  readonly apply?: (draft: Home) => void
  /** Rows, committed together with whatever else is waiting. */
  readonly write?: readonly Write[]
  /** Events, control entries, tells and jobs: in the same commit, sent after it. */
  readonly publish?: readonly Publication[]
  /** What extensions of the runtime do once that is committed. */
  readonly after?: readonly AfterCommit[]
  /** Of a command that was asked, not told: the answer waits until whatever this home has told these before has arrived, and stands in the logs of their listeners. */
  readonly settled?: readonly Snowflake[]
  /** Workers that take this home's events from this turn on. */
  readonly interest?: readonly string[]
  /** To the caller, after all of the above. */
  readonly reply: Reply
  /**
   * The reply in short, where there is one: what the outbox keeps for a request of another worker that is repeated to the
   * next owner. Nobody but who asked is ever given it, so they say first that they understand it.
   */
  readonly keptReply?: Reply | undefined
}

/**
 * Instead of effects: a turn that needs to know what takes too long to find out within a turn. A lookup of the runtime's
 * user finds it out, other turns of the home go on meanwhile, and the turn is taken again with the answer.
 */
export interface LookUpFirst {
  /** Named here: see `Lookup`. */
  readonly lookUp: string
  readonly question: unknown
}

/**
 * Instead of effects: a turn that finds that it takes facts that it did not need before. They are not known yet; they are
 * loaded, and the turn is taken again.
 */
export interface LoadFirst<Home> {
  readonly load: readonly Need<Home>[]
}

/** When a turn happens, and where the ids of what it makes come from. */
export interface Moment {
  /** Unix milliseconds. Held still within the turn. */
  readonly now: number
  /** The next id of the home's shard. */
  readonly newId: () => Snowflake
}

/** A turn under way. What it was given to write counts only if it does not refuse. */
export interface Turn extends Moment {
  /** Adds a row to what the turn writes, behind the rows of its effects: a record of what it did. */
  readonly write: (row: Write) => void
}

export interface TurnContext<Home, State> extends Turn {
  /** The actor's own part of its home. */
  readonly state: Readonlied<State>
  readonly home: Readonlied<Home>
  /** Where anybody who is told may read a file of a message, for a day from now. */
  readonly linkTo: (file: string) => string
  /** The answer to the question of the turn before, which asked for a lookup. */
  readonly answer?: unknown
}

/** A command: loads what it `needs`, then decides in one synchronous turn that awaits nothing. */
export interface Command<Home, State, Input, Reply> {
  readonly needs?: (
    input: Input,
    context: {
      readonly id: Snowflake
      readonly state: Readonlied<State>
      readonly home: Readonlied<Home>
      /** The database refused the command once: what could explain that has to be loaded. */
      readonly suspect: boolean
    },
  ) => readonly Need<Home>[]
  /** A tell that is for the home's listeners and for what the home remembers: without listeners it is done without waking the home. */
  readonly forListeners?: boolean
  readonly turn: (
    context: TurnContext<Home, State>,
    input: Input,
  ) => Effects<Home, Reply> | LookUpFirst | LoadFirst<Home>
}

/** A command that makes its home. Its id is made before the turn. */
export interface Creation<Home, Input, Reply> {
  readonly create: (
    context: Turn & { readonly id: Snowflake },
    input: Input,
  ) => Omit<Effects<Home, Reply>, "apply"> & { readonly home: Home }
}

export interface ActorKind<Home, State, Commands, Source = unknown> {
  readonly kind: string
  readonly home: HomeKind<Home, Source>
  /** The home that an actor's id lives in; absent: the id is the home's own. */
  readonly homeOf?: (id: Snowflake, source: Source) => Promise<Snowflake | undefined>
  readonly find: (home: Home, id: Snowflake) => State | undefined
  /** The refusal when there is no such actor. */
  readonly missing: ErrorCode
  readonly commands: {
    readonly [K in keyof Commands]: Commands[K] extends (input: infer Input) => infer Reply
      ? Command<Home, State, Input, Reply> | Creation<Home, Input, Reply>
      : never
  }
}

export const defineActor = <Home, State, Commands extends object, Source = unknown>(
  actor: ActorKind<Home, State, Commands, Source>,
): ActorKind<Home, State, Commands, Source> => actor

/** What is asked of an actor: the command's name with its input. */
type InputOf<F> = F extends (input: infer Input) => unknown ? Input : never
type OutputOf<F> = F extends (input: never) => infer Output ? Output : never
export type Asked<Commands, K extends keyof Commands> = { readonly type: K } & InputOf<Commands[K]>
export type Answer<Commands, K extends keyof Commands> = OutputOf<Commands[K]>

export interface AskOptions {
  /** The same id asked again is answered with the first answer. Made up when absent. */
  readonly requestId?: string
  /** Milliseconds until the asker gives up with 503. */
  readonly timeoutMs?: number
}

/** How actors are reached, wherever they live. */
export interface Ask {
  <Home, State, Commands extends object, K extends keyof Commands & string>(
    actor: ActorKind<Home, State, Commands, never>,
    id: Snowflake,
    command: Asked<Commands, K>,
    options?: AskOptions,
  ): Promise<Answer<Commands, K>>
}

/** How a new home is made: on a random shard, by a command that creates. */
export interface Create {
  <Home, State, Commands extends object, K extends keyof Commands & string>(
    actor: ActorKind<Home, State, Commands, never>,
    command: Asked<Commands, K>,
    options?: AskOptions,
  ): Promise<Answer<Commands, K>>
}

export const tell = <Home, State, Commands extends object, K extends keyof Commands & string>(
  actor: Pick<ActorKind<Home, State, Commands>, "kind">,
  id: Snowflake,
  { type, ...input }: Asked<Commands, K>,
): Tell => ({ kind: "tell", actor: actor.kind, id, command: type, input })
