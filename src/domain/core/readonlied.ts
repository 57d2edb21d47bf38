/** State as a turn sees it: to be read only. Changes go through `apply`. */
export type Readonlied<T> = T extends (...args: never[]) => unknown
  ? T
  : T extends ReadonlyMap<infer K, infer V>
    ? ReadonlyMap<K, Readonlied<V>>
    : T extends ReadonlySet<infer V>
      ? ReadonlySet<V>
      : T extends object
        ? { readonly [K in keyof T]: Readonlied<T[K]> }
        : T
