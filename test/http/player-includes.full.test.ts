import assert from "node:assert/strict";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { startApp } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import { type AdventureGame, anAdventureGame, counting } from "../support/quests/quest-game.ts";

const INCLUDES = "badges,streaks,segments,boosts,quests,adventures,identities,metrics,ranks";
const count = (eventType: string) => ({ eventTypes: [eventType], aggregate: "count" });
const aSeasonOfBoosts = {
  startsAt: new Date(Date.now() - 3_600_000).toISOString(),
  expiresAt: new Date(Date.now() + 3_600_000).toISOString(),
};
/** A seed for each history. */
const SEEDS = [1, 2, 3, 4, 5, 6, 7, 8];

/** Numbers that a seed decides. */
const numbersOf = (seed: number) => {
  let state = seed;
  return (below: number): number => {
    state = (state * 48_271) % 2_147_483_647;
    return state % below;
  };
};

describe("a player with everything that can be included", () => {
  let game: AdventureGame;
  before(async () => {
    game = await anAdventureGame(await startApp());
    const make = (path: string, body: Json) => game.make(path, body);
    await make("/currencies", { key: "coins", name: "Coins" });
    for (const key of ["b-hand", "b_old", "b2"]) await make("/badges", { key, name: key });
    const tiers = [
      { tier: 1, threshold: 2 },
      { tier: 2, threshold: 4 },
    ];
    await make("/badges", { key: "b-count", name: "Counts", progressMetric: count("one.done"), tiers });
    const qualify = { parts: [{ metric: count("one.done") }] };
    await make("/streaks", { key: "daily", name: "Daily", qualify });
    for (const [key, value] of [
      ["s-low", 1],
      ["s_any", 0],
      ["s1", 2],
    ] as const) {
      const definition = { all: [{ type: "player_property", field: "level", op: "gte", value }] };
      await make("/segments", { key, name: key, kind: "DYNAMIC", definition });
    }
    await make("/boosts", { key: "all-xp", name: "All", factor: 2, applies: "xp", ...aSeasonOfBoosts });
    await make("/leaderboards", { key: "xp", name: "XP", metric: { source: "XP" } });
    await game.quests("one", "two");
    await game.publish({ key: "long", steps: [counting("do", "two.done", 9)], rewards: { xp: 5 } });
    await game.publishAdventure({
      key: "season",
      items: [
        { questKey: "one", order: 1, points: 10 },
        { questKey: "two", order: 2, points: 10, unlock: { mode: "AFTER_PREVIOUS" } },
      ],
    });
  });

  const list = async (player: string, what: string): Promise<Json[]> =>
    must(await game.api.get(`/api/v1/players/${player}/${what}`, { key: game.tenant.key }), 200).data;
  const read = async (player: string, include = ""): Promise<Json> =>
    must(await game.api.get(`/api/v1/players/${player}?include=${include}`, { key: game.tenant.key }), 200);

  /** Something that happens to a player. */
  const happen = async (player: string, next: (below: number) => number): Promise<void> => {
    const on = (path: string, body: Json = {}) => game.post(`/players/${player}/${path}`, body);
    const things = [
      () => game.send("one.done"),
      () => game.send("two.done"),
      () => on("xp", { amount: 50 * (1 + next(20)) }),
      () => on(`badges/${["b-hand", "b_old", "b2"][next(3)]}`),
      () => on("balances/coins/grant", { amount: 1 + next(9) }),
      () => on("identities", { provider: `p${next(3)}`, externalId: `${player}-${next(2)}` }),
      () => on("boosts", { boostKey: "own", factor: 3, applies: "xp", durationSeconds: 600 + next(600) }),
    ];
    await things[next(things.length)]!();
  };

  for (const seed of SEEDS)
    it(`has what the single resources show, whatever has happened: ${seed}`, async () => {
      const player: string = await game.newPlayer();
      const next = numbersOf(seed);
      for (let n = next(10); n >= 0; n--) await happen(player, next);
      const all = await read(player, INCLUDES);
      const badges = [...(await list(player, "badges?state=HELD&limit=100"))];
      badges.push(...(await list(player, "badges?state=IN_PROGRESS&limit=100")));
      const expected: Json = {
        ...(await read(player)),
        badges,
        streaks: await list(player, "streaks"),
        segments: (await list(player, "segments")).map(({ key, segmentKey }) => key ?? segmentKey).toSorted(),
        boosts: await list(player, "boosts"),
        adventures: await list(player, "adventures"),
        identities: await list(player, "identities"),
        metrics: await list(player, "metrics?limit=100"),
      };
      for (const [name, value] of Object.entries(expected)) assert.deepEqual(all[name], value, name);
      // Each alone is what it is among others.
      for (const name of INCLUDES.split(","))
        assert.deepEqual((await read(player, name))[name], all[name], name);
      // Quests begin when they are listed, and not when they are included.
      assert.deepEqual(
        (all["quests"] as Json[]).map(({ questKey, key }) => questKey ?? key),
        (await list(player, "quests")).map(({ questKey, key }) => questKey ?? key),
      );
    });
});
