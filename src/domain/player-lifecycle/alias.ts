import { sql } from "kysely";
import { auditDefinition } from "../accounts/audit/audit.ts";
import { publish } from "../evaluation/emit.ts";
import { eachHolding, type PlayerState } from "../evaluation/player-state.ts";
import { conflict, notFound } from "../kernel/errors.ts";
import { type Cause, DEFAULT_STRATEGY, type Json, type MergeStrategy } from "../kernel/events/events.ts";
import { emptySummary, type MergeSummary } from "../kernel/events/shapes.ts";
import { insertWarehouseChanges } from "../kernel/events/warehouse-changes.ts";
import { fnv1a, newId } from "../kernel/ids.ts";
import { inSlices, type Steps } from "../kernel/slices.ts";
import { unanswered } from "../kernel/statements.ts";
import { LOCK_SPACES, shareConfig, type Work } from "../kernel/work.ts";
import { allLists, openLists, touchOpenLists } from "../leaderboards/open-lists.ts";
import { HOLDING_LIFE, type HoldingLife } from "./holdings.ts";
import { followMergedCounters, mergeLives, mergeXp, type Merging } from "./merge-holdings.ts";
import { mergeAttributes, mergeDoc } from "./merge-progress.ts";
import { updateRankEntries } from "./personal-table.ts";
import type { Player } from "../players/player.ts";
import {
  METADATA_MAX_BYTES,
  type PlayerProfile,
  type ProfileColumns,
  readColumns,
  takeColumns,
  writeColumns,
} from "../players/profile.ts";
import { type GroupChange, openGroupChange, openOneChange } from "../progression/group-change.ts";
import { loadBoards } from "../progression/load-plan.ts";
import { lockPlayersById } from "../progression/load.ts";
import { PLAYER_PARTS } from "../progression/parts/player-parts.ts";
import { findPlayer, identifyPlayer, lockKnown, refreshPlayer } from "../progression/players/players.ts";
import { mergeChat, mergeModeration } from "../social/chat/personal.ts";
import { leaveLobbies } from "../social/lobbies/leave-all.ts";

/**
 * Serializes merges and aliases of a project: each may change whom the others are about. Must be the first
 * lock of the transaction.
 * A merge also changes the rows of those who were merged before. A batch that began before such a merge may
 * hold one of them while it waits for this merge's players; the database then ends one of the two, and
 * nothing is lost: the batch is repeated, or the caller gets 503 and retries.
 */
const lockMerges = async ({ db }: Work, projectId: string): Promise<void> => {
  const key = fnv1a(projectId) | 0;
  await unanswered(
    db,
    sql`
    select pg_advisory_xact_lock(${LOCK_SPACES.MERGES}::int, ${key}::int)`,
  );
};

const COLUMNS = ["displayName", "avatarUrl", "timezone", "locale", "country"] as const;

/** Returns the parts of the source's profile that the target takes over. */
const mergedProfile = (
  { target, source, strategy, summary }: Merging,
  columns: ReadonlyMap<string, ProfileColumns>,
): PlayerProfile => {
  const [mine, theirs] = [columns.get(target.player.id)!, columns.get(source.player.id)!];
  const isSource = strategy.profile === "SOURCE_WINS";
  const taken = COLUMNS.filter((name) => theirs[name] !== null && (isSource || mine[name] === null));
  const profile: Json = Object.fromEntries(taken.map((name) => [name, theirs[name]]));
  const [last, first] = isSource ? [theirs, mine] : [mine, theirs];
  const metadata = { ...(first.metadata as Json), ...(last.metadata as Json) };
  if (Buffer.byteLength(JSON.stringify(metadata)) <= METADATA_MAX_BYTES) profile["metadata"] = metadata;
  else summary.dropped.push("metadata");
  return profile;
};

/** Returns a snapshot of the source before anything is removed. */
const snapshotOf = (source: PlayerState, columns: ProfileColumns): string => {
  const { dirty: _, ...row } = source;
  const held = eachHolding((name) => Object.fromEntries<unknown>(source[name]));
  const boosts = [...source.boosts.values()];
  const segments = [...source.segments.keys()];
  return JSON.stringify({ ...row, ...columns, ...held, boosts, segments });
};

type Moving = { projectId: string; mergeId: string; targetId: string; sourceId: string };

/** Tables of the source's holdings that were merged into the target. Awards and runs stay as its history. */
const LEFT_BEHIND = [
  "player_states",
  ...Object.values(HOLDING_LIFE).flatMap(({ isLeftBehind, table }) => (isLeftBehind ? [table.table] : [])),
];

/**
 * Moves rows that are the same for another player; grants keep a key of their own, as both may have `lvl:5`.
 */
const moveRows = async (work: Work, merge: Moving): Promise<void> => {
  const { db, now } = work;
  const { projectId, mergeId, targetId, sourceId } = merge;
  const at = sql`${now.toISOString()}::timestamptz`;
  const ofSource = sql`project_id = ${projectId} and player_id = ${sourceId}`;
  for (const table of LEFT_BEHIND) await sql`delete from ${sql.table(table)} where ${ofSource}`.execute(db);
  await sql`
    delete from leaderboard_entries where ${ofSource} and period_id in (${openLists(projectId)})`.execute(db);
  await sql`
    delete from leaderboard_notices where ${ofSource} and period_id in (${allLists(projectId)})`.execute(db);
  // Places in closed lists move along: the target may have two in one list then.
  await sql`update leaderboard_results set player_id = ${targetId} where ${ofSource}`.execute(db);
  await sql`
    update leaderboard_periods set leader_id = ${targetId}
    where project_id = ${projectId} and leader_id = ${sourceId} and closed_at is not null`.execute(db);
  await sql`update score_reviews set player_id = ${targetId} where ${ofSource}`.execute(db);
  await sql`update quest_submissions set player_id = ${targetId} where ${ofSource}`.execute(db);
  await sql`update quest_codes set player_id = ${targetId} where ${ofSource}`.execute(db);
  await sql`
    update currency_holds set status = 'RELEASED', settled_at = ${at}
    where ${ofSource} and status = 'HELD'`.execute(db);
  await sql`update player_identities set player_id = ${targetId} where ${ofSource}`.execute(db);
  await sql`update inbox_messages set player_id = ${targetId} where ${ofSource}`.execute(db);
  await mergeChat(work, merge);
  await mergeModeration(work, merge);
  await sql`
    update reward_grants set player_id = ${targetId}, updated_at = ${at},
      idempotency_key = ${`mrg:${mergeId}:`} || idempotency_key
    where ${ofSource}`.execute(db);
  // Players merged into the source now refer to the target: a row always names the last of the chain.
  await sql`
    update players set merged_into = ${targetId}, updated_at = ${at}
    where project_id = ${projectId} and merged_into = ${sourceId}`.execute(db);
  await sql`
    update players set status = 'MERGED', merged_into = ${targetId}, updated_at = ${at},
      display_name = null, avatar_url = null, timezone = null, locale = null, country = null,
      attributes = '{}', metadata = '{}', tags = '{}'
    where project_id = ${projectId} and id = ${sourceId}`.execute(db);
};

type MergeRow = { merging: Merging; snapshot: string; createdBy: string };

/** Records what was merged, by whom and how. */
const writeMerge = async ({ db, now }: Work, { merging, snapshot, createdBy }: MergeRow): Promise<void> => {
  const { mergeId, target, source, strategy, summary } = merging;
  const { projectId } = target.player;
  await sql`
    with c as (${insertWarehouseChanges(projectId, "MERGED", sql`select ${mergeId}::uuid as ref`)})
    insert into player_merges
      (project_id, id, target_id, source_id, strategy, summary, source_snapshot, created_by, created_at)
    values (${projectId}, ${mergeId}, ${target.player.id}, ${source.player.id},
      ${JSON.stringify(strategy)}::jsonb, ${JSON.stringify(summary)}::jsonb, ${snapshot}::jsonb,
      ${createdBy}, ${now.toISOString()}::timestamptz)`.execute(db);
};

type Merge = {
  projectId: string;
  targetId: string;
  sourceId: string;
  strategy: MergeStrategy;
  /** Computes the summary without changing anything. */
  isDryRun?: boolean;
  cause: Omit<Cause, "kind">;
};

type Merged = { targetId: string; mergeId: string | null; summary: MergeSummary };

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
  await inSlices(join(merging));
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
  const counted = await sql<{ n: number }>`
    select count(*) as n from currency_holds
    where project_id = ${projectId} and player_id = ${id} and status = 'HELD'`.execute(db);
  return counted.rows[0]!.n;
};

/** Merges everything into the target, in pieces. */
function* join(merging: Merging): Steps<void> {
  const { target, source, summary } = merging;
  const level = target.player.level;
  yield* mergeDoc(merging);
  mergeAttributes(merging);
  for (const { merge } of Object.values<HoldingLife>(HOLDING_LIFE)) if (merge) yield* merge(merging);
  mergeLives(merging);
  // After the balances, which the rewards of a level that is reached may add to.
  mergeXp(merging);
  // Last, as its rewards are not a part of what was merged.
  yield* followMergedCounters(merging);
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

type Alias = { anonymousId: string; externalUserId: string; cause: Cause };

type Aliased = { player: Player; merged: boolean; linked: boolean };

/**
 * Identifies the player of `anonymousId` as `externalUserId`: assigns that id to the player if it is new,
 * otherwise merges the player into the one who has it. Both ids refer to the player from then on. Idempotent.
 * Somebody who is identified already is neither renamed nor merged: on a device that several people use, the
 * next one gets a player of their own, and `linked` is false.
 * @throws DomainError NOT_FOUND for an unknown anonymousId; CONFLICT PLAYER_INACTIVE
 */
export const aliasPlayer = async (
  work: Work,
  projectId: string,
  { anonymousId, externalUserId, cause }: Alias,
): Promise<Aliased> => {
  await lockMerges(work, projectId);
  // In the locking order of batches: the definitions before the players.
  await shareConfig(work, [projectId]);
  const source = await findPlayer(work, projectId, `ext:${anonymousId}`);
  if (!source) throw notFound("player");
  const known = await findPlayer(work, projectId, `ext:${externalUserId}`);
  if (known?.id === source.id)
    return { player: await refreshPlayer(work, projectId, source.id), merged: false, linked: true };
  if (await isIdentified(work, source, anonymousId)) {
    const player = known ?? (await identifyPlayer(work, projectId, { externalUserId }, cause)).player;
    return { player: await refreshPlayer(work, projectId, player.id), merged: false, linked: false };
  }
  return link(work, source, { externalUserId, known, cause });
};

type Link = Omit<Alias, "anonymousId"> & { known: Player | undefined };

const link = async (work: Work, source: Player, { externalUserId, known, cause }: Link): Promise<Aliased> => {
  const { projectId } = source;
  if (!known) {
    // Before the name, because batches lock the players they know before they create others.
    await lockKnown(work, projectId, source.id);
    const isReserved = await reserveName(work, projectId, externalUserId);
    if (isReserved)
      return { player: await rename(work, source, { externalUserId, cause }), merged: false, linked: true };
  }
  const target = known ?? (await findPlayer(work, projectId, `ext:${externalUserId}`));
  if (!target) throw notFound("player");
  const { actor } = cause;
  const { targetId } = await mergePlayers(work, {
    projectId,
    targetId: target.id,
    sourceId: source.id,
    strategy: DEFAULT_STRATEGY,
    cause: actor === undefined ? {} : { actor },
  });
  return { player: await refreshPlayer(work, projectId, targetId), merged: true, linked: true };
};

/** Whether a player has another id than `name`, which an alias or a merge has given. */
const isIdentified = async (
  { db }: Work,
  { projectId, id, externalUserId }: Player,
  name: string,
): Promise<boolean> => {
  if (externalUserId !== name) return true;
  const others = await sql`
    select 1 from players where project_id = ${projectId} and merged_into = ${id} limit 1`.execute(db);
  return others.rows.length > 0;
};

/**
 * Reserves a name until commit, as the row of a merged player without a target yet; false when it is taken.
 */
const reserveName = async (
  { db, now }: Work,
  projectId: string,
  externalUserId: string,
): Promise<boolean> => {
  const made = await sql`
    insert into players (project_id, id, external_user_id, status, created_at, updated_at)
    values (${projectId}, ${newId()}, ${externalUserId}, 'MERGED', ${now.toISOString()}::timestamptz,
      ${now.toISOString()}::timestamptz)
    on conflict do nothing returning 1`.execute(db);
  return made.rows.length > 0;
};

/** Swaps the names of both rows, so that the reserving row keeps the old name and refers to the player. */
const rename = async (
  work: Work,
  { projectId, id: asked }: Player,
  { externalUserId, cause }: Omit<Alias, "anonymousId">,
): Promise<Player> => {
  const { player, open, settle, save } = await openOneChange(work, projectId, () =>
    lockKnown(work, projectId, asked),
  );
  const { id, externalUserId: before } = player;
  const turn = open(player);
  player.externalUserId = externalUserId;
  const changed = ["externalUserId"];
  const difference = { before: { externalUserId: before }, after: { externalUserId } };
  turn.emit("player.updated", { playerId: id, externalUserId, changed, ...difference, cause });
  await settle(turn);
  await save();
  await swapNames(work, { projectId, id, from: before, to: externalUserId });
  return refreshPlayer(work, projectId, id);
};

type Swap = { projectId: string; id: string; from: string; to: string };

/** In three steps, since a name must be unique at any moment. */
const swapNames = async ({ db }: Work, { projectId, id, from, to }: Swap): Promise<void> => {
  const between = `renaming:${id}`;
  await sql`
    update players set external_user_id = ${between}, merged_into = ${id}
    where project_id = ${projectId} and external_user_id = ${to}`.execute(db);
  await sql`
    update players set external_user_id = ${to} where project_id = ${projectId} and id = ${id}`.execute(db);
  await sql`
    update players set external_user_id = ${from}
    where project_id = ${projectId} and external_user_id = ${between}`.execute(db);
};
