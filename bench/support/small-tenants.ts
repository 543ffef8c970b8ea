import { MONTH, QUESTIONS } from "./analytics-questions.ts";
import { askOf } from "./ask-analytics.ts";
import type { Site } from "./setup.ts";
import { rounded, type Spread, spread, spreadText, table } from "./stats.ts";

/** How many events the small tenants have, of those that the large one has. */
export const SHARES = [0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 0.0005, 0.0002, 0.0001] as const;
/** What the overview of a small tenant may take, in ms. */
const GOAL_MS = 50;
/** How often each is asked. */
const TIMES = 20;

const OVERVIEW = { path: "overview", query: { ...MONTH, compare: "previous_period" } };

export type SmallTenant = { site: Site; events: number };
type Measured = { events: number; alone: Spread; beside: Spread };

/** Asks the large tenant one question after the other until it is to stop. */
const keepAsking = (large: Site): (() => Promise<number>) => {
  let [isOver, asked] = [false, 0];
  const asking = (async () => {
    while (!isOver)
      for (const question of Object.values(QUESTIONS)) {
        if (isOver) break;
        await askOf(large, question);
        asked++;
      }
  })();
  return async () => {
    isOver = true;
    await asking;
    return asked;
  };
};

const overviewsOf = async (site: Site): Promise<Spread> => {
  const times: number[] = [];
  for (let n = 0; n < TIMES; n++) times.push((await askOf(site, OVERVIEW)).ms);
  return spread(times);
};

/** Asks for the overviews of small tenants: while nobody else asks, and while the large one does. */
export const measureSmallTenants = async (
  large: Site,
  small: readonly SmallTenant[],
): Promise<Measured[]> => {
  const alone: Spread[] = [];
  for (const { site } of small) alone.push(await overviewsOf(site));
  const stop = keepAsking(large);
  const beside: Spread[] = [];
  for (const { site } of small) beside.push(await overviewsOf(site));
  console.log(`the large tenant has asked ${await stop()} questions meanwhile`);
  return small.map(({ events }, i) => ({ events, alone: alone[i]!, beside: beside[i]! }));
};

export const showSmallTenants = (measured: readonly Measured[]): void => {
  const heads = ["events of the tenant", "overview ms", "while the large one asks", `goal: ${GOAL_MS} ms`];
  const lines = measured.map(({ events, alone, beside }) => [
    rounded(events),
    spreadText(alone),
    spreadText(beside),
    Math.max(alone.median, beside.median) <= GOAL_MS ? "met" : "MISSED",
  ]);
  console.log(`\n${table(heads, lines)}\n`);
};
