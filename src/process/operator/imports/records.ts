/** What exports say, in words that are the same for all of them. Ids are the export's own. */

export interface ForeignRole {
  readonly id: string
  readonly name: string
  /** `#rrggbb` */
  readonly color: string | null
  readonly position: number
}

export interface ForeignUser {
  readonly id: string
  /** What the account is called; becomes a username as far as one may be so. */
  readonly name: string
  /** What others saw. */
  readonly shownName: string | null
  readonly email: string | null
  readonly isBot: boolean
  /** By server that the user is in, their roles there. */
  readonly servers: ReadonlyMap<string, readonly ForeignRole[]>
  /** Of which server they are the owner. */
  readonly owns: ReadonlySet<string>
}

export interface ForeignServer {
  readonly id: string
  readonly name: string
  readonly description: string | null
}

export interface ForeignChannel {
  readonly id: string
  readonly server: string
  readonly name: string
  readonly topic: string | null
  readonly category: string | null
  readonly createdMs: number | null
  /** Null: for every member; else for these users, and for administrators. */
  readonly only: readonly string[] | null
  /** Those that come last are the first that are left out where there are too many. */
  readonly isArchived: boolean
}

/** A conversation of two, or of one with themselves. */
export interface ForeignDirect {
  readonly id: string
  readonly users: readonly [string] | readonly [string, string]
}

export interface ForeignFile {
  readonly id: string
  readonly name: string
  readonly type: string
  /** Where it is in the archive. */
  readonly path: string | null
  /** Where it is else. */
  readonly url: string | null
}

export interface ForeignEmoji {
  readonly id: string
  readonly name: string
  readonly isAnimated: boolean
  readonly file: ForeignFile
}

export interface ForeignReaction {
  /** The emoji as a text. */
  readonly text: string
  /** Of one of the export's own emoji. */
  readonly custom: string | null
  readonly users: readonly string[]
  readonly atMs: number | null
}

/** What texts name, as it is called here. */
export interface Names {
  user(id: string): string | undefined
  channel(id: string): string | undefined
  role(id: string): string | undefined
  /** By name. */
  emoji(name: string): string | undefined
}

export interface ForeignMessage {
  readonly id: string
  readonly channel: string
  /** A user, or what has only a name. */
  readonly author: { readonly user: string } | { readonly webhook: string }
  /** Unix milliseconds. */
  readonly atMs: number
  readonly editedMs: number | null
  /** In our Markdown, with our ids. */
  text(names: Names): string
  readonly replyTo: string | null
  readonly isPinned: boolean
  readonly files: readonly ForeignFile[]
  readonly reactions: readonly ForeignReaction[]
}

export interface Outline {
  readonly servers: readonly ForeignServer[]
  readonly users: readonly ForeignUser[]
  readonly channels: readonly ForeignChannel[]
  readonly directs: readonly ForeignDirect[]
  readonly emojis: readonly ForeignEmoji[]
}

/** What comes after the outline, in the order of the export. Users and emoji come before what names them. */
export type ForeignItem =
  /** `bytes`: what is held of the export with it. */
  | { readonly message: ForeignMessage; readonly at: string; readonly bytes: number }
  | { readonly user: ForeignUser }
  | { readonly emoji: ForeignEmoji; readonly server: string }

export interface Source {
  /** What tells the export's origin from others of its product. */
  readonly origin: string
  outline(): Promise<Outline>
  items(): AsyncIterable<ForeignItem>
}

/** What the operator asked for. */
export interface SourceOptions {
  readonly hasPrivate: boolean
  readonly hasDirects: boolean
  /** Channels that are for the owner only, by id or name. */
  readonly hidden: ReadonlySet<string>
  readonly name: string | undefined
  readonly origin: string | undefined
}

/** The category of conversations of more than two. */
export const groupCategory = "Group messages"
