import { sql } from "kysely";
import type { Work } from "../../kernel/work.ts";
import { DUE_KINDS, DUE_NAMES, type DueKind, type DueName } from "./due-kinds.ts";

type Times = { name: DueName; dueMs: number | null; nextMs: number | null };

const msOf = (time: Date | string | null): number | null => (time === null ? null : new Date(time).getTime());

/** Returns for each kind the earliest time up to now, and the next one after it. One statement. */
const readTimes = async ({ db, now }: Work, projectId: string): Promise<Times[]> => {
  const at = sql`${now.toISOString()}::timestamptz`;
  const kinds = DUE_NAMES.map((name) => {
    const kind: DueKind = DUE_KINDS[name];
    return sql`select ${sql.lit(name)} as name, min(due_at) filter (where due_at <= ${at}) as due,
      min(due_at) filter (where due_at > ${at}) as next from (${kind.times(projectId)}) t`;
  });
  type Row = { name: DueName; due: Date | string | null; next: Date | string | null };
  const { rows } = await sql<Row>`${sql.join(kinds, sql` union all `)}`.execute(db);
  return rows.map(({ name, due, next }) => ({ name, dueMs: msOf(due), nextMs: msOf(next) }));
};

/** `blocked`: the kinds of which others have to do something first. */
export type DoneNext =
  | { what: "DONE"; name: DueName; count: number }
  | { what: "NOTHING"; blocked: DueName[]; nextMs: number | undefined };

/**
 * Does the next of what is due in a project by `work.now`, the earliest first.
 * @returns what was done; or that nothing could be done, and when the next is due
 */
export const settleNext = async (work: Work, projectId: string): Promise<DoneNext> => {
  const times = await readTimes(work, projectId);
  const due = times
    .filter((one): one is Times & { dueMs: number } => one.dueMs !== null)
    .toSorted((a, b) => a.dueMs - b.dueMs);
  const blocked: DueName[] = [];
  for (const { name } of due) {
    const kind: DueKind = DUE_KINDS[name];
    const settled = await kind.settle(work, projectId);
    if (settled !== "BLOCKED") return { what: "DONE", name, count: settled.count };
    blocked.push(name);
  }
  const next = times.flatMap(({ nextMs }) => nextMs ?? []);
  return { what: "NOTHING", blocked, nextMs: next.length === 0 ? undefined : Math.min(...next) };
};
