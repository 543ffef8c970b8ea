import type { Cause } from "../../kernel/events/events.ts";
import { newId } from "../../kernel/ids.ts";
import { announcePlayer } from "../../evaluation/evaluate.ts";
import { externalKey, insertPlayers, lockPlayers } from "../load.ts";
import type { PlayerState } from "../../evaluation/player-state.ts";
import { type Several, takePlayers } from "../several.ts";
import type { Work } from "../../kernel/work.ts";
import {
  changeProfile,
  type ColumnsRow,
  type PlayerProfile,
  type ProfileColumns,
  profileProblem,
  readColumns,
  startProfile,
  writeColumns,
} from "../../players/profile.ts";

/** Players of one request that makes or changes many. */
export const UPSERT_MAX = 500;

export type PlayerInput = { externalUserId: string } & PlayerProfile;

export type Upserted =
  | { status: "CREATED" | "UPDATED"; playerId: string }
  | { status: "REJECTED"; message: string; isErased?: true };

/**
 * Makes those players that are new and changes the others by what is given, in order: the same statements
 * whatever their number. One whose attributes or tags would pass their limits is rejected alone.
 */
export const upsertPlayers = async (
  work: Work,
  projectId: string,
  { players, cause }: { players: readonly PlayerInput[]; cause: Cause },
): Promise<Upserted[]> => {
  const problems = players.map(profileProblem);
  const good = players.filter((_, i) => problems[i] === undefined);
  if (good.length === 0) return problems.map((problem) => reject(problem!));
  const names = [...new Set(good.map(({ externalUserId }) => externalUserId))];
  const made = new Set<string>();
  let found = new Map<string, PlayerState>();
  const several = await takePlayers(work, {
    projectId,
    lock: async () => [...(found = await lockOrMake(work, { projectId, names, made })).values()],
  });
  const ids = [...new Set([...found.values()].map(({ id }) => id))];
  const before = await readColumns(work, projectId, ids);
  const upsert = upserterOf(several, { made, before, cause });
  const results: Upserted[] = [];
  for (const [i, input] of players.entries()) {
    const problem = problems[i];
    if (problem === undefined)
      results.push(await upsert.one(found.get(externalKey({ projectId, ...input }))!, input));
    else results.push(reject(problem));
  }
  await several.save();
  await writeColumns(work, projectId, [...upsert.columns.values()]);
  return results;
};

type Wanted = { projectId: string; names: readonly string[]; made: Set<string> };

/** One for those who are there, one for those who are made, and more for who is renamed at this moment. */
const LOCK_TRIES = 4;

/** Locks the players, and makes those who are not there. @param made takes the ids of those who were made */
const lockOrMake = async (
  work: Work,
  { projectId, names, made }: Wanted,
): Promise<Map<string, PlayerState>> => {
  const found = new Map<string, PlayerState>();
  let missing = names.map((externalUserId) => ({ projectId, externalUserId, id: newId() }));
  for (let tries = 0; tries < LOCK_TRIES; tries++) {
    // Those who are there before others are made, as batches do: else the two could wait in a ring.
    for (const [key, player] of await lockPlayers(work, missing)) found.set(key, player);
    missing = missing.filter((ref) => !found.has(externalKey(ref)));
    if (missing.length === 0) return found;
    for (const id of await insertPlayers(work, missing)) made.add(id);
  }
  throw new Error("players come and go");
};

const reject = (message: string): Extract<Upserted, { status: "REJECTED" }> => ({
  status: "REJECTED",
  message,
});

type UpsertParts = { made: Set<string>; before: ReadonlyMap<string, ProfileColumns>; cause: Cause };

/** Takes the players of one upsert in turn, each of whom may be named several times. */
const upserterOf = ({ open, settle }: Several, { made, before, cause }: UpsertParts) => {
  const columns = new Map<string, ColumnsRow>();
  const one = async (
    player: PlayerState,
    { externalUserId: _name, ...profile }: PlayerInput,
  ): Promise<Upserted> => {
    if (player.status === "ERASED") return { ...reject("the player is ERASED"), isErased: true };
    const isNew = made.delete(player.id);
    const turn = open(player);
    if (isNew) {
      startProfile(player, profile);
      Object.assign(before.get(player.id)!, definedOf(profile));
      announcePlayer(turn, "IDENTIFY");
    } else {
      const problem = changeProfile(turn, before.get(player.id)!, { profile, cause });
      if (problem !== undefined) return reject(problem);
    }
    await settle(turn);
    const { id, zoneChangedMs } = player;
    const known = columns.get(id)?.profile;
    columns.set(id, { id, zoneChangedMs, profile: { ...known, ...definedOf(profile) } });
    return { status: isNew ? "CREATED" : "UPDATED", playerId: id };
  };
  return { one, columns };
};

const definedOf = (profile: PlayerProfile): PlayerProfile =>
  Object.fromEntries(Object.entries(profile).filter(([, value]) => value !== undefined));
