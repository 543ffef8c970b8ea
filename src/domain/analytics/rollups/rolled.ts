import { type RawBuilder, sql } from "kysely";
import { localKey, type Work } from "../../kernel/work.ts";
import { eventsOf, instant, withIndexes } from "../events.ts";
import type { Frame } from "../range.ts";

/** Events behind the watermark that are read with each question: of more, all questions read events. */
const TAIL_MAX = 250_000;

/** An event that rollups do not hold, or one that they hold and that does not count any more. */
export type TailEvent = { type: string; ms: number; by: 1 | -1 };

/** A player whose rollups are several players', or who has none. */
export type Person = { id: string; numbers: number[]; tail: TailEvent[]; firstMs?: number | undefined };

/** Who a player is: by number or as a person, where rollups were read; by id, where events were. */
export type Who = number | Person | string;

/** Collects players whom a question counts. Each is added once. */
export class FoundPlayers {
  readonly #numbers: number[] = [];
  readonly #ids: string[] = [];

  add(who: Who): void {
    if (typeof who === "number") this.#numbers.push(who);
    else this.#ids.push(typeof who === "string" ? who : who.id);
  }

  /** A query of their ids, in the column player_id. */
  query({ projectId }: Frame): RawBuilder<unknown> {
    return sql`
      select n.player_id from analytics_players n where n.project_id = ${projectId}::uuid
        and n.no = any(${`{${this.#numbers.join(",")}}`}::int[])
      union all select unnest(${`{${this.#ids.join(",")}}`}::uuid[])`;
  }
}

/**
 * What a question needs to know beside the documents, all of one snapshot. Players are named by their number,
 * and by their id where they have none, or several because of merges.
 */
export type Rolled = {
  projectId: string;
  frame: Frame;
  /** By number: of players who are one number. */
  tails: ReadonlyMap<number, TailEvent[]>;
  /** By number: of players one of whose events does not count any more. NaN: none is left. */
  firsts: ReadonlyMap<number, number>;
  /** By id. */
  persons: ReadonlyMap<string, Person>;
  /** The numbers of persons. */
  personOf: ReadonlyMap<number, Person>;
  /** Whether there are events that the documents hold and that do not count. */
  hasUncounted: boolean;
};

type TailRow = { id: string; no: number | null; type: string; ms: number };

const MS = sql`round(extract(epoch from e.at) * 1000)::float8 as ms`;

const tailQuery = (frame: Frame, where: RawBuilder<unknown>): RawBuilder<TailRow> => sql<TailRow>`
  select e.player_id::text as id, n.no, e.event_type as type, ${MS}
  from (${eventsOf(frame, { where })}) e
  left join analytics_players n on n.project_id = ${frame.projectId}::uuid and n.player_id = e.player_id
  limit ${sql.lit(TAIL_MAX + 1)}`;

/** Events that the rollups hold and that do not count any more. */
const uncountedQuery = ({ projectId, asOfMs }: Frame, watermark: string): RawBuilder<TailRow> => sql<TailRow>`
  select coalesce(p.merged_into, p.id)::text as id, n.no, e.event_type as type,
    round(extract(epoch from e.occurred_at) * 1000)::float8 as ms
  from uncounted_events u
  join tracked_events e on e.project_id = u.project_id and e.id = u.event_id
  join players p on p.project_id = e.project_id and p.external_user_id = e.external_user_id
  left join analytics_players n on n.project_id = p.project_id and n.player_id = coalesce(p.merged_into, p.id)
  where u.project_id = ${projectId}::uuid and u.event_id <= ${watermark}::uuid
    and e.occurred_at < ${instant(asOfMs)} and not starts_with(e.event_type, 'system.')
    and not exists (select 1 from analytics_unknown x
      where x.project_id = u.project_id and x.event_id = u.event_id)
  limit ${sql.lit(TAIL_MAX + 1)}`;

/** The times of the first events, as far as there are any, of players with events that stopped to count. */
const readFirsts = async (
  { db }: Work,
  frame: Frame,
  ids: ReadonlySet<string>,
): Promise<Map<string, number>> => {
  if (ids.size === 0) return new Map();
  const where = sql`e.external_user_id in (
    select q.external_user_id from players q where q.project_id = ${frame.projectId}::uuid
      and coalesce(q.merged_into, q.id) = any(${`{${[...ids].join(",")}}`}::uuid[]))`;
  const { rows } = await sql<{ id: string; ms: number }>`
    select id, min(ms) as ms from (
      select e.player_id::text as id, ${MS} from (${eventsOf(frame, { where })}) e) x group by id`.execute(
    db,
  );
  return new Map(rows.map(({ id, ms }) => [id, ms]));
};

type MergedRow = { no: number; target: string; target_no: number | null };

const readMerged = async ({ db }: Work, { projectId }: Frame): Promise<MergedRow[]> => {
  const { rows } = await sql<MergedRow>`
    select n.no, p.merged_into::text as target, t.no as target_no
    from players p
    join analytics_players n on n.project_id = p.project_id and n.player_id = p.id
    left join analytics_players t on t.project_id = p.project_id and t.player_id = p.merged_into
    where p.project_id = ${projectId}::uuid and p.merged_into is not null`.execute(db);
  return rows;
};

/** Adds up who is who, and what the rollups do not know of each. */
class Persons {
  readonly tails = new Map<number, TailEvent[]>();
  readonly firsts = new Map<number, number>();
  readonly persons = new Map<string, Person>();
  readonly personOf = new Map<number, Person>();

  constructor(merged: readonly MergedRow[]) {
    for (const { no, target, target_no: targetNo } of merged) {
      const person = this.#person(target);
      if (targetNo !== null && !this.personOf.has(targetNo)) this.#join(person, targetNo);
      this.#join(person, no);
    }
  }

  #person(id: string): Person {
    let person = this.persons.get(id);
    if (!person) this.persons.set(id, (person = { id, numbers: [], tail: [] }));
    return person;
  }

  #join(person: Person, no: number): void {
    person.numbers.push(no);
    this.personOf.set(no, person);
  }

  add({ id, no, type, ms }: TailRow, by: 1 | -1): void {
    const person = no === null ? this.#person(id) : (this.personOf.get(no) ?? this.persons.get(id));
    if (person) return void person.tail.push({ type, ms, by });
    const tail = this.tails.get(no!);
    if (tail) tail.push({ type, ms, by });
    else this.tails.set(no!, [{ type, ms, by }]);
  }

  setFirst({ id, no }: TailRow, ms: number): void {
    const person = this.persons.get(id);
    if (person) person.firstMs = ms;
    else this.firsts.set(no!, ms);
  }
}

type StateRow = { watermark: string; isolation: string; unknown: boolean; uncounted: boolean };

const readState = async ({ db }: Work, projectId: string): Promise<StateRow | undefined> => {
  const { rows } = await sql<StateRow>`
    select watermark::text, current_setting('transaction_isolation') as isolation,
      exists (select from analytics_unknown u where u.project_id = r.project_id) as unknown,
      exists (select from uncounted_events u
        where u.project_id = r.project_id and u.event_id <= r.watermark) as uncounted
    from analytics_rollups r where project_id = ${projectId}::uuid and halted_at is null`.execute(db);
  return rows[0];
};

const read = async (work: Work, frame: Frame): Promise<Rolled | undefined> => {
  const { projectId } = frame;
  const state = await readState(work, projectId);
  if (state?.isolation !== "repeatable read") return undefined;
  return withIndexes(work, async () => {
    const added = await tailQuery(frame, sql`e.id > ${state.watermark}::uuid`).execute(work.db);
    if (added.rows.length > TAIL_MAX) return undefined;
    const isUnknown = sql`e.id in (
      select event_id from analytics_unknown where project_id = ${projectId}::uuid)`;
    const unknown = state.unknown ? (await tailQuery(frame, isUnknown).execute(work.db)).rows : [];
    const uncounted = state.uncounted
      ? (await uncountedQuery(frame, state.watermark).execute(work.db)).rows
      : [];
    if (unknown.length + uncounted.length > TAIL_MAX) return undefined;
    const persons = new Persons(await readMerged(work, frame));
    for (const row of [...added.rows, ...unknown]) persons.add(row, 1);
    for (const row of uncounted) persons.add(row, -1);
    const firsts = await readFirsts(work, frame, new Set(uncounted.map(({ id }) => id)));
    for (const row of uncounted) persons.setFirst(row, firsts.get(row.id) ?? Number.NaN);
    return { projectId, frame, ...pick(persons), hasUncounted: uncounted.length > 0 };
  });
};

const pick = ({ tails, firsts, persons, personOf }: Persons) => ({ tails, firsts, persons, personOf });

type Opened = { asOfMs: number; rolled: Promise<Rolled | undefined> };

const OPENED = localKey("opened rollups", () => new Map<string, Opened>());

/**
 * Opens the rollups of a project for the questions of this transaction, which must see one snapshot. Returns
 * undefined where events have to be read: there are no rollups yet, or they are far behind.
 */
export const openRolled = (work: Work, frame: Frame): Promise<Rolled | undefined> => {
  const opened = work.local.get(OPENED);
  const known = opened.get(frame.projectId);
  if (known?.asOfMs === frame.asOfMs) return known.rolled;
  const rolled = read(work, frame);
  opened.set(frame.projectId, { asOfMs: frame.asOfMs, rolled });
  return rolled;
};
