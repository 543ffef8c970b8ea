import { sql } from "kysely";
import type { Adventure } from "../../evaluation/adventures/adventure.ts";
import type { Work } from "../../kernel/work.ts";
import type { Definition } from "../definitions/definition.ts";
import { draftOf } from "../definitions/drafts.ts";

export type AdventureStats = {
  adventureKey: string;
  /** Players who have joined. */
  players: number;
  /** How many are in each state. */
  states: Record<string, number>;
  premium: number;
  /** Mean of whole points; null without players. */
  averagePoints: number | null;
  /** How many have done each item of the draft, and reached each tier. */
  items: { questKey: string; done: number }[];
  tiers: { tier: number; reached: number }[];
};

type Row = { state: string; n: string | number; premium: string | number; points: string | number };

const countStates = async ({ db }: Work, { projectId, key }: Definition): Promise<Row[]> =>
  (
    await sql<Row>`
      select state, count(*) as n, count(premium_at) as premium, sum(floor(points)) as points
      from player_adventures
      where project_id = ${projectId} and adventure_key = ${key} and started_at is not null
      group by state`.execute(db)
  ).rows;

/** Counts the names in a part of the players' documents. */
const countNames = async (
  { db }: Work,
  { projectId, key }: Definition,
  part: "items" | "tiers",
): Promise<Map<string, number>> => {
  const { rows } = await sql<{ name: string; n: string | number }>`
    select d.name, count(*) as n
    from player_adventures a cross join lateral jsonb_object_keys(a.doc -> ${part}) as d(name)
    where a.project_id = ${projectId} and a.adventure_key = ${key} group by d.name`.execute(db);
  return new Map(rows.map(({ name, n }) => [name, Number(n)]));
};

/** Counts how far players have come with an adventure. */
export const readAdventureStats = async (work: Work, found: Definition): Promise<AdventureStats> => {
  const states = await countStates(work, found);
  const [items, tiers] = [await countNames(work, found, "items"), await countNames(work, found, "tiers")];
  const total = (field: "n" | "premium" | "points") =>
    states.reduce((sum, row) => sum + Number(row[field]), 0);
  const players = total("n");
  const document = draftOf(found) as unknown as Adventure;
  return {
    adventureKey: found.key,
    players,
    states: Object.fromEntries(states.map(({ state, n }) => [state, Number(n)])),
    premium: total("premium"),
    averagePoints: players === 0 ? null : Math.round(total("points") / players),
    items: document.items.map(({ questKey }) => ({ questKey, done: items.get(questKey) ?? 0 })),
    tiers: document.tiers.map(({ tier }) => ({ tier, reached: tiers.get(String(tier)) ?? 0 })),
  };
};
