/** What people read: plain lines on stdout, beside the log. */
export const say = (line: string) => console.log(`starling: ${line}`)
