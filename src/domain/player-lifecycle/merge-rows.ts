import { sql } from "kysely";
import { mergeModeration } from "../social/chat/moderation/personal.ts";
import { mergeChat } from "../social/chat/personal.ts";
import type { Json } from "../kernel/events/events.ts";
import { insertWarehouseChanges } from "../kernel/events/warehouse-changes.ts";
import { allLists, openLists } from "../leaderboards/periods/lists-of-project.ts";
import { type PlayerState, eachHolding } from "../evaluation/player-state.ts";
import { HOLDING_LIFE } from "./holdings.ts";
import type { Work } from "../kernel/work.ts";
import type { Merging } from "./merge-holdings.ts";
import { METADATA_MAX_BYTES, type PlayerProfile, type ProfileColumns } from "../players/profile.ts";

const COLUMNS = ["displayName", "avatarUrl", "timezone", "locale", "country"] as const;

/** Returns the parts of the source's profile that the target takes over. */
export const mergedProfile = (
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
export const snapshotOf = (source: PlayerState, columns: ProfileColumns): string => {
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
export const moveRows = async (work: Work, merge: Moving): Promise<void> => {
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
export const writeMerge = async (
  { db, now }: Work,
  { merging, snapshot, createdBy }: MergeRow,
): Promise<void> => {
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
