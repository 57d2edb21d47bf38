type Listener = (...about: unknown[]) => void

/** What happens, by name, with what listeners are given. They are told in the order in which they began to listen, and throw nothing. */
export class Signals<Events extends { readonly [Name in keyof Events]: readonly unknown[] }> {
  readonly #listeners = new Map<keyof Events, Listener[]>()

  on<Name extends keyof Events>(name: Name, listener: (...about: Events[Name]) => void): void {
    const known = this.#listeners.get(name)
    if (known) known.push(listener as unknown as Listener)
    else this.#listeners.set(name, [listener as unknown as Listener])
  }

  emit<Name extends keyof Events>(name: Name, ...about: Events[Name]): void {
    for (const listener of this.#listeners.get(name) ?? []) listener(...about)
  }
}
