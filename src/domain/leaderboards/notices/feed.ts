import { sql } from "kysely";
import type { Json } from "../../kernel/events/events.ts";
import type { Work } from "../../kernel/work.ts";
import { getLeaderboard } from "../leaderboards.ts";
import { type Name, readNames } from "../names.ts";

/** Maximum number of lines kept per leaderboard. */
export const FEED_MAX = 100;

export const FEED_TYPES = ["leaderboard.rank_changed", "leaderboard.new_leader"] as const;
type FeedType = (typeof FEED_TYPES)[number];

/** A line as it is stored: project, leaderboard, id. Players are referenced by id only. */
export type FeedRow = { p: string; l: string; i: string; type: FeedType; data: unknown };

/** A line as the API shows it: `data` is that of the event of this type. */
export type FeedLine = { id: string; type: FeedType; createdAt: string; data: Json };

type Row = { id: string; type: FeedType; data: Json; created_at: Date };
type Person = Json & { playerId: string };

const peopleOf = ({ type, data }: Row): Person[] => {
  if (type === "leaderboard.rank_changed") return [data as Person];
  return [data["leader"] as Person, ...(data["previousLeader"] ? [data["previousLeader"] as Person] : [])];
};

/** Omits lines whose players are hidden by now; a hidden former leader becomes null. */
const showLine = (row: Row, names: ReadonlyMap<string, Name>): FeedLine[] => {
  const name = (person: Person): Json | null => {
    const found = names.get(person.playerId);
    return found ? { ...person, externalUserId: found.externalUserId } : null;
  };
  const { id, type, data, created_at: at } = row;
  const createdAt = at.toISOString();
  if (type === "leaderboard.rank_changed") {
    const shown = name(data as Person);
    return shown ? [{ id, type, createdAt, data: shown }] : [];
  }
  const [leader, previous] = peopleOf(row);
  const shown = name(leader!);
  if (!shown) return [];
  const { displayName = null } = names.get(leader!.playerId) ?? {};
  const previousLeader = previous ? name(previous) : null;
  return [{ id, type, createdAt, data: { ...data, leader: { ...shown, displayName }, previousLeader } }];
};

/** Returns the latest rank events of a leaderboard, newest first. */
export const readFeed = async (
  work: Work,
  projectId: string,
  leaderboardRef: string,
): Promise<FeedLine[]> => {
  const leaderboard = await getLeaderboard(work, projectId, leaderboardRef);
  const found = await sql<Row>`
    select id, type, data, created_at from leaderboard_feed
    where project_id = ${projectId} and leaderboard_id = ${leaderboard.id}
    order by id desc limit ${FEED_MAX}`.execute(work.db);
  const people = new Set(found.rows.flatMap(peopleOf).map(({ playerId }) => playerId));
  const names = await readNames(
    work,
    projectId,
    [...people].map((playerId) => ({ playerId })),
  );
  return found.rows.flatMap((row) => showLine(row, names));
};
