import type { Metric, Registry } from "prom-client"

/**
 * What metrics are made of. prom-client's own instruments hash a label object at every call, and
 * its cached children still do; these are plain numbers that turn into samples when somebody
 * scrapes, and register with its Registry.
 */
type Label = string | number

interface Sample {
  value: number
  labels: Record<string, Label>
  metricName?: string
}

/**
 * One metric of one process, as `registry.getMetricsAsJSON()` gives it and as it crosses the IPC
 * channel.
 */
export interface MetricJson {
  name: string
  help: string
  type: "counter" | "gauge" | "histogram"
  aggregator: "sum"
  values: Sample[]
}

interface Cell {
  write(name: string, labels: Record<string, Label>, into: Sample[]): void
}

export class Counter implements Cell {
  #value = 0
  #read: (() => number) | undefined

  inc(n = 1) {
    // A counter never falls, and one NaN would stay in the cluster's totals for ever.
    if (n > 0) this.#value += n
  }

  /** Takes the value from elsewhere at every scrape; it must not fall. */
  from(read: () => number) {
    this.#read = read
  }

  write(_name: string, labels: Record<string, Label>, into: Sample[]) {
    into.push({ value: this.#read ? this.#read() : this.#value, labels })
  }
}

class Gauge implements Cell {
  #value = 0
  #read: (() => number) | undefined

  set(value: number) {
    this.#value = value
  }

  inc(n = 1) {
    this.#value += n
  }

  dec(n = 1) {
    this.#value -= n
  }

  /**
   * Takes the value from elsewhere at every scrape: `gauge.from(() => homes.size)` costs nothing in
   * between.
   */
  from(read: () => number) {
    this.#read = read
  }

  write(_name: string, labels: Record<string, Label>, into: Sample[]) {
    into.push({ value: this.#read ? this.#read() : this.#value, labels })
  }
}

export class Histogram implements Cell {
  readonly #bounds: readonly number[]
  readonly #counts: Float64Array
  #sum = 0

  /** `bounds` rise; a value above the last is counted under +Inf. */
  constructor(bounds: readonly number[]) {
    this.#bounds = bounds
    this.#counts = new Float64Array(bounds.length + 1)
  }

  get count(): number {
    return this.#counts.reduce((sum, count) => sum + count, 0)
  }

  get sum(): number {
    return this.#sum
  }

  observe(value: number) {
    if (!(value >= 0)) return
    let at = 0
    while (at < this.#bounds.length && value > this.#bounds[at]!) at++
    this.#counts[at]! += 1
    this.#sum += value
  }

  write(name: string, labels: Record<string, Label>, into: Sample[]) {
    let count = 0
    for (const [at, bound] of this.#bounds.entries()) {
      count += this.#counts[at]!
      into.push({ value: count, labels: { ...labels, le: bound }, metricName: `${name}_bucket` })
    }
    count += this.#counts[this.#bounds.length]!
    into.push({ value: count, labels: { ...labels, le: "+Inf" }, metricName: `${name}_bucket` })
    into.push({ value: this.#sum, labels, metricName: `${name}_sum` })
    into.push({ value: count, labels, metricName: `${name}_count` })
  }
}

interface Branch<Child> {
  child?: Child
  readonly branches: Map<Label, Branch<Child>>
}

interface Bounds {
  /** Children at most; whatever comes later is counted under "other". */
  most: number
  /**
   * The values the first label may take; any other is counted under "other". For values that a
   * client chooses.
   */
  only?: Iterable<Label>
}

/**
 * One metric with labels whose values are not all known beforehand. A child appears in the output
 * once it was asked for.
 */
class Family<Labels extends readonly Label[], Child extends Cell> implements Cell {
  readonly #names: readonly string[]
  readonly #make: () => Child
  readonly #most: number
  readonly #only: ReadonlySet<Label> | undefined
  readonly #root: Branch<Child> = { branches: new Map() }
  readonly #children: { child: Child; labels: Record<string, Label> }[] = []
  #other: Child | undefined

  constructor(names: readonly string[], make: () => Child, bounds: Bounds) {
    this.#names = names
    this.#make = make
    this.#most = bounds.most
    this.#only = bounds.only && new Set(bounds.only)
  }

  /** The child for these labels: a Map look-up per label. Hot code asks once and keeps it. */
  of(...labels: Labels): Child {
    let branch: Branch<Child> | undefined = this.#root
    for (const label of labels) branch = branch?.branches.get(label)
    return branch?.child ?? this.#grow(labels)
  }

  write(name: string, labels: Record<string, Label>, into: Sample[]) {
    for (const one of this.#children) one.child.write(name, { ...labels, ...one.labels }, into)
  }

  #grow(labels: Labels): Child {
    if (this.#children.length >= this.#most || (this.#only && !this.#only.has(labels[0]!))) {
      this.#other ??= this.#keep(this.#names.map(() => "other"))
      return this.#other
    }
    let branch = this.#root
    for (const label of labels) {
      let next = branch.branches.get(label)
      if (!next) branch.branches.set(label, (next = { branches: new Map() }))
      branch = next
    }
    return (branch.child = this.#keep(labels))
  }

  #keep(labels: readonly Label[]): Child {
    const child = this.#make()
    this.#children.push({ child, labels: Object.fromEntries(this.#names.map((name, at) => [name, labels[at]!])) })
    return child
  }
}

/**
 * Everything a process counts, now. (prom-client types the kind of a metric as an enum that it
 * never uses.)
 */
export const snapshot = async (registry: Registry) => (await registry.getMetricsAsJSON()) as unknown as MetricJson[]

/** What is known of a metric before anything is counted. */
export interface MetricAbout {
  readonly name: string
  readonly help: string
  readonly type: MetricJson["type"]
  readonly labels: readonly string[]
}

/** All that was declared, in its order. */
export const aboutMetrics = (registry: Registry): MetricAbout[] =>
  (registry.getMetricsAsArray() as unknown as MetricAbout[]).map(({ name, help, type, labels }) => ({
    name,
    help,
    type,
    labels,
  }))

/** The words in which metrics.ts declares what a process counts. */
export function declareIn(registry: Registry) {
  function register<C extends Cell>({ type, name, help, labels }: MetricAbout, cell: C): C {
    if (registry.getSingleMetric(name)) throw new Error(`Metric ${name} is declared twice`)
    const get = async (): Promise<MetricJson> => {
      const values: Sample[] = []
      cell.write(name, {}, values)
      return { name, help, type, aggregator: "sum", values }
    }
    // The registry asks nothing of a metric but its name and `get`; prom-client's
    // AggregatorRegistry relies on the same.
    registry.registerMetric({ name, help, type, labels, get } as unknown as Metric)
    return cell
  }

  /**
   * A label whose values are all known: one child each, present from the start, reached as a
   * property.
   */
  function fixed<V extends string, C extends Cell>(
    type: "counter" | "gauge",
    name: string,
    help: string,
    label: string,
    values: readonly V[],
    make: () => C,
  ): Record<V, C> {
    const children = Object.fromEntries(values.map(value => [value, make()])) as Record<V, C>
    register(
      { type, name, help, labels: [label] },
      {
        write(name, labels, into) {
          for (const value of values) children[value].write(name, { ...labels, [label]: value }, into)
        },
      },
    )
    return children
  }

  return {
    counter: (name: string, help: string) => register({ type: "counter", name, help, labels: [] }, new Counter()),
    counters: <V extends string>(name: string, help: string, label: string, values: readonly V[]) =>
      fixed("counter", name, help, label, values, () => new Counter()),
    counterFamily: <L extends readonly Label[]>(
      name: string,
      help: string,
      labels: readonly string[],
      bounds: Bounds,
    ) => register({ type: "counter", name, help, labels }, new Family<L, Counter>(labels, () => new Counter(), bounds)),

    /** What does not change: it is in the labels, the value is 1. */
    info: (name: string, help: string, facts: Record<string, string>) =>
      register(
        { type: "gauge", name, help, labels: Object.keys(facts) },
        {
          write(_name, labels, into) {
            into.push({ value: 1, labels: { ...labels, ...facts } })
          },
        },
      ),

    gauge: (name: string, help: string) => register({ type: "gauge", name, help, labels: [] }, new Gauge()),
    gauges: <V extends string>(name: string, help: string, label: string, values: readonly V[]) =>
      fixed("gauge", name, help, label, values, () => new Gauge()),

    histogram: (name: string, help: string, buckets: readonly number[]) =>
      register({ type: "histogram", name, help, labels: [] }, new Histogram(buckets)),
    histogramFamily: <L extends readonly Label[]>(
      name: string,
      help: string,
      labels: readonly string[],
      buckets: readonly number[],
      bounds: Bounds,
    ) =>
      register(
        { type: "histogram", name, help, labels },
        new Family<L, Histogram>(labels, () => new Histogram(buckets), bounds),
      ),
  }
}
