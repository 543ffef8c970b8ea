import { definitionKind } from "../definitions/definitions.ts";
import { checkActiveKey } from "../definitions/references.ts";
import { invalid } from "../../kernel/errors.ts";
import { checkBundles } from "../rewards/references.ts";
import type { Work } from "../../kernel/work.ts";
import { Streak, STREAKS_MAX, streakShape } from "../../evaluation/streaks/streak.ts";
import { sql } from "kysely";
import { followEdit } from "../../evaluation/streaks/advance.ts";
import { fnv1a } from "../../kernel/ids.ts";
import { changePlayers } from "../../progression/change.ts";
import { fittingPlayers } from "../../progression/load-states.ts";
import { changePage, DUE_PAGE, type EndingRows } from "../../progression/moved-ends.ts";

/** What decides how far a run has come and what it gives, as a number: other changes make nobody due. */
const measureOf = ({ qualify, milestones, daysOff }: Streak): number =>
  fnv1a(JSON.stringify([qualify, milestones.map(({ length, every }) => [length, every]), daysOff]));

/** Completes periods, and gives milestones, that an edited streak asks no more for than players have done. */
export const STREAK_EDITS: EndingRows = {
  kind: "streak",
  endsOf: ({ streaks }, key) => {
    const streak = streaks.get(key);
    return streak && { openMs: Infinity, claimMs: Infinity, kept: [measureOf(streak.definition)] };
  },
  readPage: async (work, { projectId, key, after }) => {
    const { rows } = await sql<{ id: string }>`
      select player_id as id from player_streaks
      where project_id = ${projectId}::uuid and streak_key = ${key} and player_id > ${after}::uuid
        and (current > 0 or doc ? 'progress')
      order by player_id limit ${DUE_PAGE}`.execute(work.db);
    const ids = rows.map(({ id }) => id);
    const playerIds = await fittingPlayers(work, projectId, ids);
    const isAll = rows.length < DUE_PAGE && playerIds.length === rows.length;
    return { playerIds, after: isAll ? undefined : playerIds.at(-1) };
  },
  moveDue: async (work, { projectId, key, playerIds }) => {
    await changePage(work, playerIds, (ids) =>
      changePlayers(work, projectId, ids, (turn) => followEdit(turn, key)),
    );
  },
};

/** Refuses changes that would alter the meaning of players' runs, and unknown names. */
const checkReferences = async (
  work: Work,
  projectId: string,
  streak: Streak,
  before: Streak | undefined,
): Promise<void> => {
  for (const field of ["mode", "period"] as const) {
    if (before && before[field] !== streak[field])
      throw invalid(field, "cannot change: create another streak");
  }
  const { key, repairCost, milestones } = streak;
  if (repairCost) {
    const field = "repairCost.currencyKey";
    await checkActiveKey(work, projectId, { kind: "currency", key: repairCost.currencyKey, field });
  }
  const bundles = milestones.map(({ rewards }, i) => ({ bundle: rewards, field: `milestones.${i}.rewards` }));
  await checkBundles(work, projectId, { kind: "streak", key, bundles });
};

export const streakKind = definitionKind<Streak>({
  kind: "streak",
  example: {
    key: "daily",
    name: "Daily lesson",
    mode: "PERIODIC",
    period: "DAY",
    qualify: {
      mode: "ANY",
      parts: [{ metric: { eventTypes: ["lesson.completed"], aggregate: "count" }, threshold: 1 }],
    },
  },
  plural: "streaks",
  tag: "Streaks",
  schema: Streak,
  shape: streakShape,
  max: STREAKS_MAX,
  check: checkReferences,
});
