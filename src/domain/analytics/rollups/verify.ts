import { sql } from "kysely";
import { pagesIn } from "../../kernel/cursor.ts";
import { inSlices, type Steps } from "../../kernel/slices.ts";
import type { Work } from "../../kernel/work.ts";
import { verifyDays } from "./closed-days.ts";
import { type Difference, verifyGains } from "./roll-up-gains.ts";
import { CHUNK_BITS, DAY_MS, eachQuarter, eachTime, QUARTER_MS, readFirsts } from "./documents.ts";

export type Verification = {
  /** Events up to the watermark, and documents. */
  events: number;
  documents: number;
  differences: Difference[];
};

/** Documents of the first page: nobody knows how large they are. */
const FIRST_DOCUMENTS = 10;
/** Differences that are told; of more, only that there are. */
const DIFFERENCES_MAX = 100;

/** What is compared of a document: sums that no other events have but by chance. */
type Sums = { events: number; times: number; players: number; quarters: number };

type EventRow = { day: number; type: string } & Sums;

const keyOf = (day: number, type: string): string => `${day} ${type}`;

/** One number for all players that merges made one: that of the target, or the lowest where it has none. */
const PERSONS = (projectId: string) => sql`
  select p.id, n.no as own, coalesce(t.no, min(n.no) over (partition by coalesce(p.merged_into, p.id))) as no
  from players p
  left join analytics_players n on n.project_id = p.project_id and n.player_id = p.id
  left join analytics_players t on t.project_id = p.project_id and t.player_id = coalesce(p.merged_into, p.id)
  where p.project_id = ${projectId}::uuid`;

/** The events that the rollups should hold, by the numbers of persons. */
const EVENTS = (projectId: string) => sql`
  select n.no, floor(ms / ${sql.lit(DAY_MS)})::int as day, x.event_type as type,
    ms - floor(ms / ${sql.lit(DAY_MS)}) * ${sql.lit(DAY_MS)} as ms, ms as at
  from (
    select e.event_type, p.id as player_id, round(extract(epoch from e.occurred_at) * 1000)::float8 as ms
    from analytics_rollups w
    join tracked_events e on e.project_id = w.project_id and e.id <= w.watermark
    join players p on p.project_id = e.project_id and p.external_user_id = e.external_user_id
    where w.project_id = ${projectId}::uuid and not starts_with(e.event_type, 'system.')
      and not exists (select 1 from analytics_unknown u
        where u.project_id = e.project_id and u.event_id = e.id)
      and (not exists (select 1 from event_results r where r.project_id = e.project_id and r.event_id = e.id
          and r.status in ('REJECTED', 'REVERTED'))
        or exists (select 1 from uncounted_events u
          where u.project_id = e.project_id and u.event_id = e.id))) x
  join (${PERSONS(projectId)}) n on n.id = x.player_id`;

type Row = { chunk: number; day: number; event_type: string; document: Uint8Array };

function* addSums(sums: Sums, { chunk, event_type: type, document }: Row, persons: Persons): Steps<void> {
  const first = chunk << CHUNK_BITS;
  const personOf = (player: number): number => persons.get(first + player) ?? first + player;
  if (type === "")
    eachQuarter(document, (player, quarter, count) => {
      sums.events += count;
      sums.players += personOf(player) * count;
      sums.quarters += quarter * count;
    });
  else
    eachTime(document, (player, ms) => {
      sums.events++;
      sums.times += ms;
      sums.players += personOf(player);
      sums.quarters += Math.floor(ms / QUARTER_MS);
    });
  yield;
}

/** The numbers of persons, by the other numbers that they have. */
type Persons = ReadonlyMap<number, number>;

const readPersons = async ({ db }: Work, projectId: string): Promise<Persons> => {
  const { rows } = await sql<{ own: number; no: number }>`
    select own, no from (${PERSONS(projectId)}) x where own <> no`.execute(db);
  return new Map(rows.map(({ own, no }) => [own, no]));
};

const noSums = (): Sums => ({ events: 0, times: 0, players: 0, quarters: 0 });

const readExpected = async ({ db }: Work, projectId: string): Promise<Map<string, EventRow>> => {
  const { rows } = await sql<EventRow>`
    select day, type, count(*)::float8 as events, sum(ms)::float8 as times,
      coalesce(sum(no), 0)::float8 as players, sum(floor(ms / ${sql.lit(QUARTER_MS)}))::float8 as quarters
    from (${EVENTS(projectId)}) x group by 1, 2`.execute(db);
  const expected = new Map<string, EventRow>();
  for (const row of rows) {
    expected.set(keyOf(row.day, row.type), row);
    // Activity is of all types, and has no times.
    const key = keyOf(row.day, "");
    const all = expected.get(key) ?? { day: row.day, type: "", ...noSums() };
    all.events += row.events;
    all.players += row.players;
    all.quarters += row.quarters;
    expected.set(key, all);
  }
  return expected;
};

const verifyFirsts = async (work: Work, projectId: string, persons: Persons): Promise<Difference[]> => {
  const { rows } = await sql<{ no: number; first: number }>`
    select no, min(at)::float8 as first from (${EVENTS(projectId)}) x group by no`.execute(work.db);
  const stored = await sql<{ chunk: number; firsts: Uint8Array }>`
    select chunk, firsts from analytics_firsts where project_id = ${projectId}::uuid`.execute(work.db);
  const found = new Map<number, number>();
  for (const { chunk, firsts } of stored.rows)
    for (const [player, ms] of readFirsts(firsts).entries()) {
      const own = (chunk << CHUNK_BITS) + player;
      const person = persons.get(own) ?? own;
      if (!Number.isNaN(ms)) found.set(person, Math.min(ms, found.get(person) ?? Infinity));
    }
  const isRight = rows.length === found.size && rows.every(({ no, first }) => found.get(no) === first);
  return isRight ? [] : [{ day: null, eventType: "", what: "first events of players" }];
};

const NAMES: Readonly<Record<keyof Sums, string>> = {
  events: "number of events",
  times: "times",
  players: "players",
  quarters: "quarters of an hour",
};

const differenceOf = (
  { day, type }: { day: number; type: string },
  found: Sums,
  expected: Sums,
): Difference | undefined => {
  const wrong = (Object.keys(NAMES) as (keyof Sums)[]).find(
    (name) => (type !== "" || name !== "times") && found[name] !== expected[name],
  );
  return wrong && { day, eventType: type, what: NAMES[wrong] };
};

/** Adds up what the documents hold. */
const readFound = async (work: Work, projectId: string, persons: Persons) => {
  const found = new Map<string, EventRow>();
  let documents = 0;
  const pages = await pagesIn<Row>(
    work,
    sql`select chunk, day, event_type, document from analytics_days where project_id = ${projectId}::uuid`,
    FIRST_DOCUMENTS,
  );
  for (let rows = await pages.next(); rows.length > 0; rows = await pages.next()) {
    for (const row of rows) {
      const { day, event_type: type } = row;
      const key = keyOf(day, type);
      const sums = found.get(key) ?? { day, type, ...noSums() };
      found.set(key, sums);
      await inSlices(addSums(sums, row, persons));
      documents++;
    }
  }
  return { found, documents };
};

/**
 * Holds a project's rollups against its events, up to the watermark. The transaction must see one snapshot.
 * Events that retention has dropped are missing: of days with such, rollups know more.
 */
export const verifyRollups = async (work: Work, projectId: string): Promise<Verification> => {
  const expected = await readExpected(work, projectId);
  const persons = await readPersons(work, projectId);
  const { found, documents } = await readFound(work, projectId, persons);
  const differences: Difference[] = [];
  let events = 0;
  for (const { type, events: count } of expected.values()) if (type !== "") events += count;
  for (const [key, one] of new Map([...expected, ...found])) {
    const difference = differenceOf(one, found.get(key) ?? noSums(), expected.get(key) ?? noSums());
    if (difference && differences.length < DIFFERENCES_MAX) differences.push(difference);
  }
  differences.push(...(await verifyFirsts(work, projectId, persons)));
  const gains = await verifyGains(work, projectId);
  differences.push(...gains.differences.slice(0, DIFFERENCES_MAX));
  for (const { day, timezone } of (await verifyDays(work, projectId)).slice(0, DIFFERENCES_MAX))
    differences.push({ day, eventType: "", what: `the day in ${timezone}, added up` });
  return { events, documents: documents + gains.documents, differences };
};
