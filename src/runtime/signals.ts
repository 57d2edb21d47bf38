import { append } from "../std/multi-map.ts"

type Listener = (...about: unknown[]) => void

/** What happens, by name, with what listeners are given. They are told in the order in which they began to listen, and throw nothing. */
export class Signals<Events extends { readonly [Name in keyof Events]: readonly unknown[] }> {
  readonly #listeners = new Map<keyof Events, Listener[]>()

  on<Name extends keyof Events>(name: Name, listener: (...about: Events[Name]) => void): void {
    append(this.#listeners, name, listener as unknown as Listener)
  }

  emit<Name extends keyof Events>(name: Name, ...about: Events[Name]): void {
    for (const listener of this.#listeners.get(name) ?? []) listener(...about)
  }
}
