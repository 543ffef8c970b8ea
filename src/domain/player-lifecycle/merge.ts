import { sql } from "kysely";
import { auditDefinition } from "../accounts/audit/definitions.ts";
import { conflict, notFound } from "../kernel/errors.ts";
import type { Cause } from "../kernel/events/events.ts";
import { newId } from "../kernel/ids.ts";
import { loadBoards } from "../progression/load-boards.ts";
import { touchOpenLists } from "../leaderboards/open-lists.ts";
import { leaveLobbies } from "../social/lobbies/leave-all.ts";
import { publish } from "../evaluation/emit.ts";
import { lockPlayersById } from "../progression/load.ts";
import { PacedBudget, paced, type Pieces } from "../kernel/pace.ts";
import { PLAYER_PARTS } from "../progression/parts/parts.ts";
import type { PlayerState } from "../evaluation/player-state.ts";
import { type GroupChange, openGroupChange } from "../progression/group-change.ts";
import type { Work } from "../kernel/work.ts";
import { HOLDING_LIFE, type HoldingLife } from "./holdings.ts";
import { mergeLives, mergeXp, type Merging } from "./merge-holdings.ts";
import { lockMerges } from "./merge-lock.ts";
import { emptySummary, type MergeStrategy, type MergeSummary } from "../kernel/events/merge-plan.ts";
import { mergeAttributes, mergeDoc } from "./merge-progress.ts";
import { mergedProfile, moveRows, snapshotOf, writeMerge } from "./merge-rows.ts";
import { readColumns, takeColumns, writeColumns } from "../players/profile.ts";
import { updateRankEntries } from "./visibility.ts";

export type Merge = {
  projectId: string;
  targetId: string;
  sourceId: string;
  strategy: MergeStrategy;
  /** Computes the summary without changing anything. */
  isDryRun?: boolean;
  cause: Omit<Cause, "kind">;
};

export type Merged = { targetId: string; mergeId: string | null; summary: MergeSummary };

/**
 * Merges two players permanently: the source's data goes to the target by `strategy`, the source becomes
 * MERGED and its ids refer to the target from then on. Waiting events of the source count for the target.
 * Both ledgers stay consistent: the target's gains and the source's losses are entries `mrg:{mergeId}:…`. No
 * rules are triggered by merged holdings, only by `player.merged`.
 * @throws DomainError NOT_FOUND; CONFLICT: SAME_PLAYER, PLAYER_INACTIVE unless both are ACTIVE
 */
export const mergePlayers = async (work: Work, merge: Merge): Promise<Merged> => {
  const { projectId, targetId, sourceId, strategy, isDryRun = false } = merge;
  await lockMerges(work, projectId);
  let found = new Map<string, PlayerState>();
  const boards = await loadBoards(work, projectId);
  const several = await openGroupChange(work, {
    projectId,
    parts: PLAYER_PARTS,
    // Paused boards keep their entries too.
    planFor: async (plan) => ({ ...plan, boards }),
    lock: async () => {
      found = await lockPlayersById(work, projectId, [targetId, sourceId]);
      await touchOpenLists(work, [...found.values()], boards);
      return [...found.values()];
    },
  });
  const { target, source } = checked(found.get(targetId), found.get(sourceId));
  const mergeId = newId();
  const merging: Merging = {
    target: several.open(target),
    source: several.open(source),
    mergeId,
    strategy,
    cause: { kind: "MERGE", refId: mergeId, ...merge.cause },
    summary: { ...emptySummary(), holdsReleased: await countHolds(work, source) },
  };
  const columns = await readColumns(work, projectId, [target.id, source.id]);
  const snapshot = snapshotOf(source, columns.get(source.id)!);
  const profile = mergedProfile(merging, columns);
  await paced(join(merging), new PacedBudget(Infinity));
  takeColumns(target, profile, work.now.getTime());
  const { summary } = merging;
  if (isDryRun) return { targetId: target.id, mergeId: null, summary };
  await announce(several, merging);
  await several.save();
  await writeColumns(work, projectId, [{ id: target.id, profile, zoneChangedMs: target.zoneChangedMs }]);
  await leaveLobbies(work, { projectId, playerId: source.id }, "LEFT");
  await updateRankEntries(work, source, true);
  await moveRows(work, { projectId, mergeId, targetId: target.id, sourceId: source.id });
  await writeMerge(work, { merging, snapshot, createdBy: merge.cause.actor ?? "system" });
  await auditDefinition(work, "player.merged", { projectId, id: target.id });
  return { targetId: target.id, mergeId, summary };
};

type Pair = { target: PlayerState; source: PlayerState };

const checked = (target: PlayerState | undefined, source: PlayerState | undefined): Pair => {
  if (!target || !source) throw notFound("player");
  if (target === source) throw conflict("SAME_PLAYER", "the two are one player already");
  for (const { status } of [target, source])
    if (status !== "ACTIVE") throw conflict("PLAYER_INACTIVE", `a player is ${status}`);
  return { target, source };
};

const countHolds = async ({ db }: Work, { projectId, id }: PlayerState): Promise<number> => {
  const counted = await sql<{ n: string | number }>`
    select count(*) as n from currency_holds
    where project_id = ${projectId} and player_id = ${id} and status = 'HELD'`.execute(db);
  return Number(counted.rows[0]!.n);
};

/** Merges everything into the target, in pieces. */
function* join(merging: Merging): Pieces<void> {
  const { target, source, summary } = merging;
  const level = target.player.level;
  yield* mergeDoc(merging);
  mergeAttributes(merging);
  for (const { merge } of Object.values<HoldingLife>(HOLDING_LIFE)) if (merge) yield* merge(merging);
  mergeLives(merging);
  // After the balances, which the rewards of a level that is reached may add to.
  mergeXp(merging);
  summary.level = { target: level, result: target.player.level };
  source.player.status = "MERGED";
}

const announce = async (
  { settle }: GroupChange,
  { target, source, mergeId, cause, summary }: Merging,
): Promise<void> => {
  const refOf = ({ id, externalUserId }: PlayerState) => ({ playerId: id, externalUserId });
  publish(source, "player.updated", {
    ...refOf(source.player),
    changed: ["status"],
    before: { status: "ACTIVE" },
    after: { status: "MERGED" },
    cause,
  });
  // Merged holdings had their effects when the source got them.
  target.root.derived.length = 0;
  const parties = { target: refOf(target.player), source: refOf(source.player) };
  target.emit("player.merged", { ...parties, mergeId, summary });
  await settle(target);
};
