/**
 * A knip reporter that says how many files were looked at; knip's own reporters keep that to
 * themselves.
 */
export default ({ counters }) => console.log(`knip looked at ${counters.processed} files`)
