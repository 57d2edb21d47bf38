/**
 * The same text, of characters below U+0080, in memory of its own. What is cut out of a longer text
 * keeps all of that in V8's memory for as long as it is kept itself.
 */
export const ownText = (text: string): string => Buffer.from(text, "latin1").toString("latin1")
