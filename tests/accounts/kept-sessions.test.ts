/** Workers keep sessions in memory; a logout or a change is there for all of them when it is answered. */
import { sharedServer } from "../kit/seeds.ts"
import { expect, test } from "../kit/test.ts"

test("TOK5, P12: in hundreds of races no request that begins after a logout was answered is accepted anywhere", async ({
  shared,
}) => {
  const { lin } = await shared.seed(sharedServer)
  const places = [shared.east, shared.west]
  const rounds = 200
  const accepted: number[] = []
  const race = async (n: number) => {
    const session = await lin.signIn(places[n % 2]!)
    const isAccepted = (place: (typeof places)[number]) =>
      session
        .on(place)
        .getMe()
        .then(
          () => true,
          () => false,
        )
    // Kept there; or about to be, when the logout comes.
    await Promise.all(places.slice(n % 3 === 0 ? 1 : 0).map(isAccepted))
    const racing = places.map(isAccepted)
    await session.on(places[(n >> 1) % 2]!).logout()
    const after = await Promise.all(places.map(isAccepted))
    await Promise.all(racing)
    if (after.includes(true)) accepted.push(n)
  }
  for (let n = 0; n < rounds; n += 4) await Promise.all([0, 1, 2, 3].map(i => race(n + i)))
  expect(accepted).toEqual([])
})

test("TOK5: a new name is in every worker's answer once it was confirmed", async ({ shared }) => {
  const { lin } = await shared.seed(sharedServer)
  const places = [shared.east, shared.west]
  for (let n = 0; n < 20; n++) {
    await Promise.all(places.map(place => lin.on(place).getMe()))
    const username = `${lin.username.slice(0, 12)}_${n}`
    await lin.on(places[n % 2]!).editMe({ username })
    for (const place of places) expect((await lin.on(place).getMe()).username).toBe(username)
  }
})
