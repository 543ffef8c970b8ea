import { sql } from "kysely";
import { inSlices } from "../../kernel/slices.ts";
import { tableTexts } from "../../kernel/json-text.ts";
import type { Work } from "../../kernel/work.ts";
import {
  CHUNK_BITS,
  CHUNK_PLAYERS,
  DAY_MS,
  eachQuarter,
  eachTime,
  readFirsts,
  writeFirsts,
  STATEMENT_LENGTH,
} from "./documents.ts";

/** An event of a player, by number, that is there or is not any more. */
export type FirstChange = { no: number; ms: number; by: 1 | -1 };

/** Days that are read at once. */
const DAYS_AT_ONCE = 100;

/**
 * Finds when players of a chunk had their first event from a day on, in their documents. Those who had none
 * are left out.
 */
const findFirsts = async (
  { db }: Work,
  projectId: string,
  { chunk, players, fromDay }: { chunk: number; players: ReadonlySet<number>; fromDay: number },
): Promise<Map<number, number>> => {
  const found = new Map<number, number>();
  const missing = new Set(players);
  for (let after = fromDay - 1; missing.size > 0;) {
    const { rows } = await sql<{ day: number; document: Uint8Array }>`
      select day, document from analytics_days where project_id = ${projectId}::uuid
        and chunk = ${chunk}::int and day > ${after}::int and event_type = ''
      order by day limit ${sql.lit(DAYS_AT_ONCE)}`.execute(db);
    for (const { day, document } of rows) {
      const here = new Set<number>();
      eachQuarter(document, (player) => {
        if (missing.delete(player)) here.add(player);
      });
      if (here.size === 0) continue;
      const { rows: times } = await sql<{ document: Uint8Array }>`
        select document from analytics_days where project_id = ${projectId}::uuid
          and chunk = ${chunk}::int and day = ${day}::int and event_type <> ''`.execute(db);
      for (const one of times)
        eachTime(one.document, (player, ms) => {
          const at = day * DAY_MS + ms;
          if (here.has(player) && at < (found.get(player) ?? Infinity)) found.set(player, at);
        });
    }
    if (rows.length < DAYS_AT_ONCE) break;
    after = rows.at(-1)!.day;
  }
  return found;
};

/** Applies changes to the first times of a chunk. Returns the players whose first event is gone. */
const applyTo = (
  firsts: Float64Array,
  changes: readonly FirstChange[],
): { lost: Set<number>; isChanged: boolean } => {
  const lost = new Set<number>();
  let isChanged = false;
  for (const { no, ms, by } of changes) {
    const player = no & (CHUNK_PLAYERS - 1);
    const first = firsts[player]!;
    if (by === -1 && ms === first) lost.add(player);
    if (by === -1 || ms >= first) continue;
    firsts[player] = ms;
    isChanged = true;
  }
  return { lost, isChanged };
};

const findLost = async (
  work: Work,
  projectId: string,
  { chunk, firsts, lost }: { chunk: number; firsts: Float64Array; lost: ReadonlySet<number> },
): Promise<void> => {
  const fromDay = Math.floor(Math.min(...[...lost].map((player) => firsts[player]!)) / DAY_MS);
  const found = await findFirsts(work, projectId, { chunk, players: lost, fromDay });
  for (const player of lost) firsts[player] = found.get(player) ?? Number.NaN;
};

/** Brings the first times of players up to date, after their documents. */
export const writeFirstTimes = async (
  work: Work,
  projectId: string,
  changes: readonly FirstChange[],
): Promise<void> => {
  if (changes.length === 0) return;
  const { db } = work;
  const byChunk = Map.groupBy(changes, ({ no }) => no >> CHUNK_BITS);
  const { rows } = await sql<{ chunk: number; firsts: Uint8Array }>`
    select chunk, firsts from analytics_firsts where project_id = ${projectId}::uuid
      and chunk = any(${`{${[...byChunk.keys()].join(",")}}`}::int[])`.execute(db);
  const known = new Map(rows.map(({ chunk, firsts }) => [chunk, firsts]));
  const written: { c: number; b: string }[] = [];
  for (const [chunk, those] of byChunk) {
    const firsts = readFirsts(known.get(chunk));
    const { lost, isChanged } = applyTo(firsts, those);
    if (lost.size > 0) await findLost(work, projectId, { chunk, firsts, lost });
    if (isChanged || lost.size > 0)
      written.push({ c: chunk, b: Buffer.from(writeFirsts(firsts)).toString("base64") });
  }
  for (const text of await inSlices(tableTexts(written, STATEMENT_LENGTH)))
    await sql`
      insert into analytics_firsts (project_id, chunk, firsts)
      select ${projectId}::uuid, c, decode(b, 'base64')
      from json_to_recordset(${text}::json) as x(c int, b text)
      on conflict (project_id, chunk) do update set firsts = excluded.firsts`.execute(db);
};
