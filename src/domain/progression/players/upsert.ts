import type { Cause } from "../../kernel/events/events.ts";
import { newId } from "../../kernel/ids.ts";
import { announcePlayer } from "../../evaluation/evaluate.ts";
import { externalKey, type ExternalRef, insertPlayers, lockFreePlayers, lockPlayers } from "../load.ts";
import type { PlayerState } from "../../evaluation/player-state.ts";
import { type GroupChange, openGroupChange } from "../group-change.ts";
import type { Work } from "../../kernel/work.ts";
import { isOwned } from "../reference.ts";
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

/** Maximum players of one bulk upsert. */
export const UPSERT_MAX = 500;

export type PlayerInput = { externalUserId: string } & PlayerProfile;

export type Upserted =
  | { status: "CREATED" | "UPDATED"; playerId: string }
  | { status: "REJECTED"; message: string; isErased?: true };

/** Of a player whom others hold: only in a shared transaction, and never shown. */
export const HELD: Upserted = { status: "REJECTED", message: "held" };

/**
 * Creates new players and changes the given fields of others, in order, in a constant number of statements. A
 * player whose attributes or tags would exceed their limits is rejected alone.
 */
export const upsertPlayers = async (
  work: Work,
  projectId: string,
  { players, cause }: { players: readonly PlayerInput[]; cause: Cause },
): Promise<Upserted[]> =>
  upsertEach(
    work,
    projectId,
    players.map((input) => ({ input, cause })),
  );

export type Upsert = { input: PlayerInput; cause: Cause };

/**
 * As `upsertPlayers`, for different requests. In a shared transaction nobody is waited for: players whom
 * others hold are HELD.
 */
export const upsertEach = async (
  work: Work,
  projectId: string,
  upserts: readonly Upsert[],
): Promise<Upserted[]> => {
  const problems = upserts.map(({ input }) => profileProblem(input));
  const good = upserts.flatMap(({ input }, i) => (problems[i] === undefined ? [input] : []));
  if (good.length === 0) return problems.map((problem) => reject(problem!));
  const names = [...new Set(good.map(({ externalUserId }) => externalUserId))];
  const made = new Set<string>();
  let found = new Map<string, PlayerState>();
  const several = await openGroupChange(work, {
    projectId,
    lock: async () => [...(found = await lockOrCreate(work, { projectId, names, made })).values()],
  });
  const ids = [...new Set([...found.values()].map(({ id }) => id))];
  const before = await readColumns(work, projectId, ids);
  const upsert = upserterOf(several, { made, before });
  const results: Upserted[] = [];
  for (const [i, one] of upserts.entries()) {
    const problem = problems[i];
    const player = found.get(externalKey({ projectId, ...one.input }));
    if (problem !== undefined) results.push(reject(problem));
    else results.push(player ? await upsert.one(player, one) : HELD);
  }
  await several.save();
  await writeColumns(work, projectId, [...upsert.columns.values()]);
  return results;
};

type Wanted = { projectId: string; names: readonly string[]; made: Set<string> };

/** One attempt for existing players, one for created ones, and the others for concurrent renames. */
const LOCK_TRIES = 4;

/** Locks the players, creating missing ones. @param made receives the ids of the players created */
const lockOrCreate = async (
  work: Work,
  { projectId, names, made }: Wanted,
): Promise<Map<string, PlayerState>> => {
  const found = new Map<string, PlayerState>();
  let missing = names.map((externalUserId) => ({ projectId, externalUserId, id: newId() }));
  for (let tries = 0; tries < LOCK_TRIES; tries++) {
    // Existing players are locked before others are created, as in batches, to avoid deadlocks.
    const { players, held } = await lockNamed(work, missing);
    for (const [key, player] of players) found.set(key, player);
    const skipped = new Set(held.map(externalKey));
    missing = missing.filter((ref) => !found.has(externalKey(ref)) && !skipped.has(externalKey(ref)));
    if (missing.length === 0) return found;
    for (const id of await insertPlayers(work, missing)) made.add(id);
  }
  throw new Error("players were renamed or removed while they were being locked");
};

/** In a shared transaction nobody is waited for; players whom another of its requests has are left to it. */
const lockNamed = async (work: Work, refs: readonly ExternalRef[]) => {
  if (!work.isShared) return { players: await lockPlayers(work, refs), held: [] };
  const { players, held } = await lockFreePlayers(work, refs);
  const isTheirs = (ref: ExternalRef): boolean => {
    const player = players.get(externalKey(ref));
    return player !== undefined && isOwned(work, player.id);
  };
  const theirs = refs.filter(isTheirs);
  for (const ref of theirs) players.delete(externalKey(ref));
  return { players, held: [...held, ...theirs] };
};

const reject = (message: string): Extract<Upserted, { status: "REJECTED" }> => ({
  status: "REJECTED",
  message,
});

type UpsertParts = { made: Set<string>; before: ReadonlyMap<string, ProfileColumns> };

/** Applies the players of one upsert in turn; each may be named several times. */
const upserterOf = ({ open, settle }: GroupChange, { made, before }: UpsertParts) => {
  const columns = new Map<string, ColumnsRow>();
  const one = async (
    player: PlayerState,
    { input: { externalUserId: _name, ...profile }, cause }: Upsert,
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
