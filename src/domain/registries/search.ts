import { type RawBuilder, sql } from "kysely";
import { containing } from "../kernel/db.ts";
import type { Work } from "../kernel/work.ts";

/** Kinds of what is found, in the order of the answer, with the operation that lists them. */
export const SEARCHED = {
  player: "listPlayers",
  rule: "listRules",
  quest: "listQuests",
  adventure: "listAdventures",
  badge: "listBadges",
  currency: "listCurrencies",
  streak: "listStreaks",
  leaderboard: "listLeaderboards",
  reward: "listRewards",
  boost: "listBoosts",
  segment: "listSegments",
  webhook: "listWebhooks",
} as const;
export type SearchedKind = keyof typeof SEARCHED;
export const SEARCHED_KINDS = Object.keys(SEARCHED) as [SearchedKind, ...SearchedKind[]];

/** Maximum number of things of one kind that are found. */
export const FOUND_MAX = 5;

/** `key`: the external id of a player; null of a webhook. */
export type Found = { kind: SearchedKind; id: string; key: string | null; name: string | null };

type Sql = RawBuilder<unknown>;

/** The ways in which a name may be written whose beginning is typed without regard to its case. */
const spellings = (text: string): string[] => {
  const lower = text.toLowerCase();
  const titled = lower.replaceAll(/(^|\s)\S/gu, (first) => first.toUpperCase());
  const capital = lower.replace(/^\S/u, (first) => first.toUpperCase());
  return [...new Set([text, lower, capital, titled])];
};

/** Greater than what any text goes on with. */
const LAST = "\u{10FFFF}";

/**
 * Finds players by the beginning of a column. The operators are those of its index that row-level security
 * lets through: `like` and `lower` would read all players of the project.
 */
const playersBy = (projectId: string, column: Sql, text: string): Sql => sql`
  (select 'player' as kind, id, external_user_id as key, display_name as name from players
  where project_id = ${projectId} and ${column} ~>=~ ${text} and ${column} ~<~ ${text + LAST}
    and status not in ('MERGED', 'ERASED') and deleted_at is null
  order by ${column} using ~<~ limit ${FOUND_MAX})`;

type Place = { projectId: string; tenantId: string };
type Asked = { text: string; kinds: ReadonlySet<SearchedKind> };

const definedIn = (projectId: string, table: Sql, { kind, like }: { kind: Sql; like: Sql }): Sql => sql`
  (select ${kind} as kind, id, key, name from ${table}
  where project_id = ${projectId} and status <> 'ARCHIVED' and (name ilike ${like} or key ilike ${like}))`;

const queriesOf = ({ projectId, tenantId }: Place, { text, kinds }: Asked): Sql[] => {
  const like = sql`${containing(text)}`;
  const queries: Sql[] = [definedIn(projectId, sql`definitions`, { kind: sql`kind`, like })];
  for (const [kind, table] of [
    ["rule", "rules"],
    ["leaderboard", "leaderboards"],
  ] as const)
    if (kinds.has(kind)) queries.push(definedIn(projectId, sql.table(table), { kind: sql.lit(kind), like }));
  if (kinds.has("player"))
    for (const spelling of spellings(text))
      for (const column of [sql`external_user_id`, sql`display_name`])
        queries.push(playersBy(projectId, column, spelling));
  if (kinds.has("webhook"))
    queries.push(sql`
      (select 'webhook' as kind, id, null as key, coalesce(description, url) as name from webhooks
      where tenant_id = ${tenantId} and (project_id is null or project_id = ${projectId})
        and deleted_at is null and (url ilike ${like} or description ilike ${like}))`);
  return queries;
};

/**
 * Finds what a project has by its name or key: definitions and webhooks by any part, those that begin with it
 * first; players by the beginning alone.
 * @param asked only `kinds` are found
 */
export const search = async ({ db }: Work, place: Place, asked: Asked): Promise<Found[]> => {
  const begins = sql`${containing(asked.text).slice(1)}`;
  const order = JSON.stringify(SEARCHED_KINDS.filter((kind) => asked.kinds.has(kind)));
  const { rows } = await sql<Found>`
    with found as (${sql.join(queriesOf(place, asked), sql` union `)}),
    kinds as (select kind, no from json_array_elements_text(${order}::json) with ordinality as k(kind, no)),
    ranked as (
      select *, row_number() over (partition by kind
        order by (name ilike ${begins} or key ilike ${begins}) is not true, name, key, id) as place
      from found join kinds using (kind))
    select kind, id, key, name from ranked where place <= ${FOUND_MAX} order by no, place`.execute(db);
  return rows;
};
