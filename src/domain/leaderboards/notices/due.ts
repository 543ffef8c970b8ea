import { type RawBuilder, sql } from "kysely";
import type { Transact, Work } from "../../kernel/work.ts";
import type { RankStore } from "../../evaluation/boards/ranks.ts";
import { type ChangedList, lockNoticeLists, type NoticeList, readNoticeLists } from "./notice-lists.ts";
import { seeRanks } from "./seen-ranks.ts";
import { sendNotices } from "./send.ts";

/** Maximum number of players per transaction. */
const DUE_AT_ONCE = 1_000;
/** Attempts when another transaction sends notices for the same lists at the same time. */
const TRIES = 3;

type DueRow = { project_id: string; period_id: string; player_id: string };

const dueNotices = (at: Date): RawBuilder<unknown> =>
  sql`from leaderboard_notices where due_at <= ${at.toISOString()}::timestamptz`;

/** Whether a deferred notice is due. */
export const areNoticesDue = (at: Date): RawBuilder<unknown> => sql`exists (select ${dueNotices(at)})`;

const readDue = async ({ db, now }: Work): Promise<DueRow[]> => {
  const found = await sql<DueRow>`
    select project_id, period_id, player_id ${dueNotices(now)} order by due_at limit ${DUE_AT_ONCE}`.execute(
    db,
  );
  return found.rows;
};

const listsOf = (rows: readonly DueRow[]): ChangedList[] =>
  [...Map.groupBy(rows, (row) => row.period_id)].map(([periodId, ofList]) => ({
    projectId: ofList[0]!.project_id,
    periodId,
    playerIds: new Set(ofList.map((row) => row.player_id)),
  }));

/** Removes what is due for lists that are closed or send no notices any more. */
const forget = async ({ db }: Work, lists: readonly ChangedList[]): Promise<void> => {
  if (lists.length === 0) return;
  const keys = lists.map(({ projectId, periodId }) => ({ p: projectId, w: periodId }));
  await sql`
    update leaderboard_notices t set due_at = null
    from json_to_recordset(${JSON.stringify(keys)}::json) as x(p uuid, w uuid)
    where t.project_id = x.p and t.period_id = x.w and t.due_at is not null`.execute(db);
};

/**
 * Sends deferred notices with the players' current ranks.
 * @returns whether more may be due
 * @throws DomainError SERVICE_UNAVAILABLE while a rank index is being built
 */
export const sendDueNotices = async ({
  transact,
  ranks,
}: {
  transact: Transact;
  ranks: RankStore;
}): Promise<boolean> => {
  for (let tried = 0; tried < TRIES; tried++) {
    const { due, lists } = await transact(async (work) => {
      const found = listsOf(await readDue(work));
      return { due: found, lists: await readNoticeLists(work, found) };
    });
    if (due.length === 0) return false;
    const open = new Map(lists.map((list) => [list.ref.periodId, list]));
    const seen = await Promise.all(
      due.flatMap(({ periodId, playerIds }) => {
        const list = open.get(periodId);
        return list ? [seeRanks(ranks, list, playerIds)] : [];
      }),
    );
    const sent = await transact(async (work) => {
      const done = await sendNotices(work, seen);
      if (done)
        await forget(
          work,
          due.filter(({ periodId }) => !done.decisions.some(({ list }) => list.ref.periodId === periodId)),
        );
      return done;
    });
    if (sent) return due.reduce((sum, { playerIds }) => sum + playerIds.size, 0) === DUE_AT_ONCE;
  }
  return true;
};

/** Schedules changed players for an early evaluation, when their ranks cannot be read now. */
export const deferNotices = async (
  work: Work,
  lists: readonly NoticeList[],
  changed: readonly ChangedList[],
): Promise<void> => {
  const { db, now } = work;
  // A transaction that is sending notices for these lists does not know what is recorded here.
  await lockNoticeLists(work, lists);
  const rows = changed.flatMap(({ projectId, periodId, playerIds }) =>
    [...playerIds].map((playerId) => ({ p: projectId, w: periodId, i: playerId })),
  );
  if (rows.length === 0) return;
  await sql`
    insert into leaderboard_notices as t (project_id, period_id, player_id, due_at)
    select x.p, x.w, x.i, ${now.toISOString()}::timestamptz
    from json_to_recordset(${JSON.stringify(rows)}::json) as x(p uuid, w uuid, i uuid)
    on conflict (project_id, period_id, player_id)
      do update set due_at = coalesce(t.due_at, excluded.due_at)`.execute(db);
};
