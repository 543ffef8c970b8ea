import { sql } from "kysely";
import { type Definition, definitionKind } from "../definitions/definitions.ts";
import { DOCUMENT, DRAFT_ORDERS, type DraftList, draftOf } from "../definitions/drafts.ts";
import { checkNamed, isActiveKey, namesOfAudience, type Reference } from "../definitions/references.ts";
import { checkCircle, questsIn, readGoals } from "../quests/circles.ts";
import { checkBundles } from "../rewards/references.ts";
import {
  Adventure,
  ADVENTURES_MAX,
  adventureShape,
  whatCannotEnd,
} from "../../evaluation/adventures/adventure.ts";
import { invalid } from "../../kernel/errors.ts";
import type { Work } from "../../kernel/work.ts";

type Row = { state: string; n: number; premium: number; points: number };

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
  const { rows } = await sql<{ name: string; n: number }>`
    select d.name, count(*) as n
    from player_adventures a cross join lateral jsonb_object_keys(a.doc -> ${part}) as d(name)
    where a.project_id = ${projectId} and a.adventure_key = ${key} group by d.name`.execute(db);
  return new Map(rows.map(({ name, n }) => [name, n]));
};

/** Counts how far players who have joined have come with an adventure, by the items and tiers of the draft. */
export const readAdventureStats = async (work: Work, found: Definition) => {
  const states = await countStates(work, found);
  const [items, tiers] = [await countNames(work, found, "items"), await countNames(work, found, "tiers")];
  const total = (field: "n" | "premium" | "points") => states.reduce((sum, row) => sum + row[field], 0);
  const players = total("n");
  const document = draftOf(found) as unknown as Adventure;
  return {
    adventureKey: found.key,
    players,
    states: Object.fromEntries(states.map(({ state, n }) => [state, n])),
    premium: total("premium"),
    averagePoints: players === 0 ? null : Math.round(total("points") / players),
    items: document.items.map(({ questKey }) => ({ questKey, done: items.get(questKey) ?? 0 })),
    tiers: document.tiers.map(({ tier }) => ({ tier, reached: tiers.get(String(tier)) ?? 0 })),
  };
};

/** Returns the definitions that an adventure names outside its rewards. */
const namesOf = ({ audience, items, premiumPrice: price }: Adventure): Reference[] => [
  ...items.map(({ questKey: key }, i) => ({ kind: "quest", key, field: `items.${i}.questKey` })),
  ...namesOfAudience(audience),
  ...(price ? [{ kind: "currency", key: price.currencyKey, field: "premiumPrice.currencyKey" }] : []),
];

/** Refuses unknown names, what cannot end, and quests and adventures that wait for one another. */
const check = async (work: Work, projectId: string, adventure: Adventure): Promise<void> => {
  const goals = await readGoals(work, projectId);
  const quests = questsIn(goals);
  await checkNamed(namesOf(adventure), (name) =>
    name.kind === "quest" ? quests.has(name.key) : isActiveKey(work, projectId, name),
  );
  const repeats = (key: string): boolean => quests.get(key)?.repeat.mode !== "NONE";
  const [problem] = whatCannotEnd(adventure, repeats);
  if (problem) throw invalid(problem.path.join("."), problem.message, "ADVENTURE_CANNOT_END");
  const nowMs = work.now.getTime();
  await checkCircle(goals, { kind: "adventure", definition: adventure }, { field: "items", nowMs });
  const { key, rewards, tiers } = adventure;
  const bundles = [
    { bundle: rewards, field: "rewards" },
    ...tiers.flatMap(({ free, premium }, i) => [
      ...(free ? [{ bundle: free, field: `tiers.${i}.free` }] : []),
      ...(premium ? [{ bundle: premium, field: `tiers.${i}.premium` }] : []),
    ]),
  ];
  await checkBundles(work, projectId, { kind: "adventure", key, bundles });
};

export const adventureKind = definitionKind<Adventure>({
  kind: "adventure",
  plural: "adventures",
  tag: "Adventures",
  schema: Adventure,
  shape: adventureShape,
  max: ADVENTURES_MAX,
  hasDrafts: true,
  check,
});

const by = { ...DRAFT_ORDERS, startsAt: sql`(${DOCUMENT} ->> 'startsAt')::timestamptz` };

type Filters = {
  season?: string | undefined;
  /** Those of which this quest is an item. */
  questKey?: string | undefined;
};

const hasItem = (questKey: string) => sql`${DOCUMENT} @> ${JSON.stringify({ items: [{ questKey }] })}::jsonb`;

/** How adventures are listed. */
export const adventureList: DraftList<keyof typeof by, Filters> = {
  kind: "adventure",
  orders: { by, usual: "asc" },
  span: { from: "startsAt", until: "endsAt" },
  where: ({ season, questKey }) => [
    season === undefined ? undefined : sql`${DOCUMENT} ->> 'season' = ${season}`,
    questKey === undefined ? undefined : hasItem(questKey),
  ],
};
