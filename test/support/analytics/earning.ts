import fc from "fast-check";
import type { TestApp } from "../app/app.ts";
import { eventually } from "../eventually.ts";
import { must } from "../http/client.ts";
import { aChange, apply, START_MS } from "./changes.ts";
import type { Asker } from "./questions.ts";

const HOUR_MS = 3_600_000;
const USERS = ["a", "b", "c", "d", "e", "f"];

const anEarning = fc.record({
  user: fc.constantFrom(...USERS),
  hour: fc.oneof(
    fc.double({ min: -45 * 24, max: 10 * 24, noNaN: true }),
    // Several at one time, at the edges of quarters of an hour.
    fc.integer({ min: 0, max: 40 }).map((quarter) => quarter / 4),
  ),
  /** XP of each: some are a level or more. */
  points: fc.constantFrom<number>(1, 7, 150, 20_000),
});

/** What else happens: events that bring gains, gains that no event brings, and reverts of the former. */
export const anEconomyChange = fc.oneof(
  { weight: 5, arbitrary: fc.array(anEarning, { minLength: 1, maxLength: 8 }).map((earn) => ({ earn })) },
  { weight: 1, arbitrary: fc.constantFrom(...USERS).map((give) => ({ give })) },
  { weight: 3, arbitrary: fc.nat({ max: 200 }).map((undo) => ({ undo })) },
  { weight: 2, arbitrary: fc.constant({ rollUp: true as const }) },
  { weight: 4, arbitrary: aChange },
);
export type EconomyChange = typeof anEconomyChange extends fc.Arbitrary<infer T> ? T : never;

/** Gives the project a currency, a badge and a rule: `earned` brings XP, coins, and the badge once. */
export const openEconomy = async (api: TestApp, { tenant: { key } }: Asker): Promise<void> => {
  const make = async (path: string, body: object) =>
    must(await api.post(`/api/v1/${path}`, body, { key }), 201);
  await make("currencies", { key: "coins", name: "Coins" });
  await make("badges", { key: "first", name: "First" });
  const rule = await make("rules", {
    key: "earned",
    name: "Earned",
    triggers: [{ kind: "EVENT", eventTypes: ["earned"] }],
    actions: [
      { type: "grant_xp", amount: { $ref: "event.properties.points" } },
      { type: "adjust_currency", currencyKey: "coins", amount: 3 },
      { type: "update_badge", badgeKey: "first", operation: "AWARD" },
    ],
  });
  must(await api.post(`/api/v1/rules/${rule.id}/publish`, {}, { key }), 200);
};

/** Reverts an event, unless it is reverted already or nobody's any more, and waits until that is done. */
export const revertEarned = async (api: TestApp, { tenant: { key } }: Asker, id: string): Promise<void> => {
  const answer = await api.post(`/api/v1/events/${id}/revert`, { reason: "test" }, { key });
  if (answer.status >= 300) return;
  await eventually(
    async () => must(await api.get(`/api/v1/events/${id}`, { key }), 200).status === "REVERTED",
  );
};

/** Makes a change of a project with an economy. */
export const applyInEconomy = async (api: TestApp, asker: Asker, change: EconomyChange): Promise<void> => {
  const { key } = asker.tenant;
  if ("earn" in change)
    for (const { user, hour, points } of change.earn) {
      const timestamp = new Date(Math.floor(START_MS + hour * HOUR_MS)).toISOString();
      const event = { externalUserId: user, eventType: "earned", timestamp, properties: { points } };
      must(await api.post("/api/v1/events?wait=true", event, { key }), 200);
    }
  else if ("give" in change) {
    // Of a player who was never seen, or is not any more, there is nothing to give to.
    await api.post(`/api/v1/players/ext:${change.give}/xp`, { amount: 9 }, { key });
    await api.post(`/api/v1/players/ext:${change.give}/badges/first`, {}, { key });
  } else if ("undo" in change) {
    const { data } = must(await api.get("/api/v1/events?limit=100&eventType=earned", { key }), 200);
    const ids = data.map(({ id }: { id: string }) => id).toSorted();
    if (ids.length > 0) await revertEarned(api, asker, ids[change.undo % ids.length]);
  } else await apply(api, asker, change);
};
