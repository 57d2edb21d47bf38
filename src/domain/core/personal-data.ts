/**
 * What is held about a person. Each storage file declares what its tables hold, beside the
 * statements that write them: what an export gives, what it leaves out and why, and what becomes of
 * it when the account is purged. storage/personal-data.ts collects the declarations.
 */
export interface PersonalTable {
  /** Where the name here is another than the table's. */
  readonly table?: string
  /**
   * Rows in which any of these columns is the user. `names`: rows under the user's id or one of
   * their names, see failed-logins.ts.
   */
  readonly userColumns: readonly string[] | "names"
  /** Unique, with types: rows are read in its order. */
  readonly key: Readonly<Record<string, "bigint" | "integer" | "text" | "inet">>
  /** Columns that an export gives. */
  readonly given: readonly string[]
  /** What an export gives in place of values that say nothing to a person. */
  readonly givenAs?: Readonly<Record<string, (value: unknown) => unknown>>
  /** Columns that it does not give. */
  readonly leftOut?: Readonly<Record<string, string>>
  /** Keys that it does not give of columns that hold JSON. */
  readonly leftOutOf?: Readonly<Record<string, Readonly<Record<string, string>>>>
  /** Columns that name the user in rows of others. An export does not give what those rows hold. */
  readonly othersRows?: Readonly<Record<string, string>>
  /**
   * `erased`: rows that name the user in any of `userColumns` or `othersRows` are deleted.
   * `ended`: they are deleted as well, by commands of the homes that decide about them, so that
   * others are told, or together with the files that they name. `kept`: they stay and say no more
   * of the user than the id of a stub. `stub`: the account itself, of which only that is left.
   */
  readonly atPurge: "erased" | "ended" | "kept" | "stub"
}

export type NamedTable = PersonalTable & { readonly table: string }

/** A table that holds nothing about a person, and columns of it that look as if they did. */
export interface OtherTable {
  readonly why: string
  readonly columns?: Readonly<Record<string, string>>
}

/** What one storage file declares about its tables, in the order in which an export gives them. */
export interface PersonalData {
  readonly personal?: Readonly<Record<string, PersonalTable>>
  readonly others?: Readonly<Record<string, OtherTable>>
}

/** Reasons for columns that several tables leave out. */
export const nameOfFile = "What the file is kept under; its picture is at the address of its id"
export const secretReason = "Secret that proves who somebody is: worth something to a thief only"
export const encodedReason = "Whether the picture was encoded again since it was uploaded"
