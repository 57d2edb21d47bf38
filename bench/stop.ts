/** What ends the benchmark with a sentence and without a stack. */
export class Stop extends Error {}
