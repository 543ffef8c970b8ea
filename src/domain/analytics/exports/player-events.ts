import { type RawBuilder, sql } from "kysely";
import { eventsOf } from "../events.ts";
import type { Frame } from "../range.ts";
import { CHUNK_PLAYERS, DAY_MS, eachTime } from "../rollups/documents.ts";
import type { DocumentRow } from "../rollups/each-player.ts";
import { openRolled, type Rolled } from "../rollups/rolled.ts";
import { pagesIn } from "../../kernel/cursor.ts";
import { mapInSlices } from "../../kernel/slices.ts";
import type { Work } from "../../kernel/work.ts";

/** Documents of the first page: nobody knows how large they are. */
const FIRST_DOCUMENTS = 10;
/** Players of one part of the query. */
const PLAYERS_AT_ONCE = 20_000;

/** A player's events: when the first and the last one were, in ms, and how many. */
type Events = { firstMs: number; lastMs: number; count: number };

const added = (one: Events, { firstMs, lastMs, count }: Events): Events =>
  count === 0
    ? one
    : {
        firstMs: Math.min(one.firstMs, firstMs),
        lastMs: Math.max(one.lastMs, lastMs),
        count: one.count + count,
      };

/** Events of players by number: of hundreds of thousands, an object of each takes its time. */
class EventsByNumber {
  #firsts = new Float64Array(0);
  #lasts = new Float64Array(0);
  #counts = new Int32Array(0);

  get size(): number {
    return this.#counts.length;
  }

  add(no: number, ms: number): void {
    if (no >= this.size) this.#grow(Math.max(no + 1, 2 * this.size, 4_096));
    const count = this.#counts[no]!++;
    if (count === 0 || ms < this.#firsts[no]!) this.#firsts[no] = ms;
    if (count === 0 || ms > this.#lasts[no]!) this.#lasts[no] = ms;
  }

  of(no: number): Events {
    const count = this.#counts[no] ?? 0;
    return { firstMs: this.#firsts[no]!, lastMs: this.#lasts[no]!, count };
  }

  #grow(size: number): void {
    const [firsts, lasts, counts] = [this.#firsts, this.#lasts, this.#counts];
    (this.#firsts = new Float64Array(size)).set(firsts);
    (this.#lasts = new Float64Array(size)).set(lasts);
    (this.#counts = new Int32Array(size)).set(counts);
  }
}

const readDocuments = async (
  work: Work,
  { projectId, frame: { asOfMs } }: Rolled,
): Promise<EventsByNumber> => {
  const found = new EventsByNumber();
  const query = sql`
    select chunk, day, document from analytics_days
    where project_id = ${projectId}::uuid and event_type <> '' and day <= ${Math.floor(asOfMs / DAY_MS)}::int`;
  const pages = await pagesIn<Pick<DocumentRow, "chunk" | "day" | "document">>(work, query, FIRST_DOCUMENTS);
  for (let rows = await pages.next(); rows.length > 0; rows = await pages.next())
    await mapInSlices(rows, ({ chunk, day, document }) =>
      eachTime(document, (player, ms) => {
        const at = day * DAY_MS + ms;
        if (at < asOfMs) found.add(chunk * CHUNK_PLAYERS + player, at);
      }),
    );
  return found;
};

/** Rows of players with their events; `type`: of what names them. */
const ofMany = (
  type: "int" | "uuid",
  players: readonly (readonly [id: number | string, Events])[],
): RawBuilder<unknown> => {
  const list = (values: readonly (number | string)[]): string => `{${values.join(",")}}`;
  return sql`select * from unnest(
    ${list(players.map(([id]) => id))}::${sql.raw(type)}[],
    ${list(players.map(([, { firstMs }]) => firstMs))}::float8[],
    ${list(players.map(([, { lastMs }]) => lastMs))}::float8[],
    ${list(players.map(([, { count }]) => count))}::int[]) as x(id, first_ms, last_ms, n)`;
};

const ofRolled = async (work: Work, rolled: Rolled): Promise<RawBuilder<unknown>> => {
  const found = await readDocuments(work, rolled);
  for (const [no, tail] of rolled.tails) for (const { ms } of tail) found.add(no, ms);
  const persons = [...rolled.persons.values()].map(({ id, numbers, tail }) => {
    const all = [
      ...numbers.map((no) => found.of(no)),
      ...tail.map(({ ms }): Events => ({ firstMs: ms, lastMs: ms, count: 1 })),
    ];
    return [id, all.reduce(added, { firstMs: Infinity, lastMs: -Infinity, count: 0 })] as const;
  });
  const blocks = Array.from(
    { length: Math.ceil(found.size / PLAYERS_AT_ONCE) },
    (_, i) => i * PLAYERS_AT_ONCE,
  );
  const parts = await mapInSlices(blocks, (from) => {
    const numbers = Array.from({ length: Math.min(PLAYERS_AT_ONCE, found.size - from) }, (_, i) => from + i);
    const players = numbers.filter((no) => found.of(no).count > 0 && !rolled.personOf.has(no));
    return ofMany(
      "int",
      players.map((no) => [no, found.of(no)] as const),
    );
  });
  const ofPersons = ofMany(
    "uuid",
    persons.filter(([, { count }]) => count > 0),
  );
  return sql`
    select p.player_id, x.first_ms, x.last_ms, x.n
    from (${sql.join([ofMany("int", []), ...parts], sql` union all `)}) x
    join analytics_players p on p.project_id = ${rolled.projectId}::uuid and p.no = x.id
    union all ${ofPersons}`;
};

/**
 * Finds when players had their first and their last event before `asOf`, and how many: from rollups where those
 * know all of it, and else from those events that are still kept, which takes several times as long.
 * @returns a query with the columns player_id, first_ms, last_ms and n; players without an event may be missing
 */
export const findEvents = async (work: Work, frame: Frame): Promise<RawBuilder<unknown>> => {
  const rolled = await openRolled(work, frame);
  // Nobody knows whether what was taken back was the last one.
  if (rolled && !rolled.hasUncounted) return ofRolled(work, rolled);
  const ms = (of: string) => sql`(extract(epoch from ${sql.raw(of)}(at)) * 1000)::float8`;
  return sql`
    select player_id, ${ms("min")} as first_ms, ${ms("max")} as last_ms, count(*) as n
    from (${eventsOf(frame)}) e group by 1`;
};
