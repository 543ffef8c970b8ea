import { type RawBuilder, sql } from "kysely";
import { z } from "zod";
import type { LedgerRow } from "../../evaluation/effects.ts";
import { announcePlayer } from "../../evaluation/evaluate.ts";
import type { PlayerState } from "../../evaluation/player-state.ts";
import type { PlanTurn } from "../../evaluation/project-plan.ts";
import { grantXp, XP_MAX } from "../../evaluation/xp/xp.ts";
import { conflict, type DomainError, invalid, notFound } from "../../kernel/errors.ts";
import type { Cause } from "../../kernel/events/events.ts";
import { isId, newId } from "../../kernel/ids.ts";
import { definedOf } from "../../kernel/json.ts";
import { Apart, type Outcome, together } from "../../kernel/together.ts";
import type { Work } from "../../kernel/work.ts";
import { unknownPlayer } from "../../players/player-refs.ts";
import { Player } from "../../players/player.ts";
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
import { changePlayer, isOwned, lockPlayerRow, type PlayerKey } from "../change.ts";
import { type GroupChange, openGroupChange } from "../group-change.ts";
import {
  externalKey,
  type ExternalRef,
  insertPlayers,
  lockFreePlayers,
  lockPlayers,
  lockPlayersById,
} from "../load.ts";
import { kept } from "../../kernel/statements.ts";
import { alongside, type Loadable } from "../parts/part.ts";

/** Maximum ids at other providers of one player. */
export const IDENTITIES_MAX = 50;

/** The provider of the integrator's own id, which is part of the player and changed by alias and merge. */
export const PRIMARY_PROVIDER = "external";

/** An id of a player at another provider, by which the player can be looked up. */
export const Identity = z
  .object({ provider: z.string(), externalId: z.string(), createdAt: z.iso.datetime() })
  .meta({ id: "PlayerIdentity" });
export type Identity = z.output<typeof Identity>;

type Row = { provider: string; external_id: string; created_at: Date | string; player_id: string };

const show = (row: Row): Identity => ({
  provider: row.provider,
  externalId: row.external_id,
  createdAt: new Date(row.created_at).toISOString(),
});

const select = ({ projectId, id }: Player) => sql<Row>`
  select provider, external_id, created_at, player_id from player_identities
  where project_id = ${projectId} and player_id = ${id} order by provider, external_id`;

const shown = ({ externalUserId, createdAt }: Player, rows: readonly Row[]): Identity[] => {
  const primary = { provider: PRIMARY_PROVIDER, externalId: externalUserId };
  return [{ ...primary, createdAt: createdAt.toISOString() }, ...rows.map(show)];
};

/** Returns a player's ids: the integrator's own first, then by provider. */
export const listIdentities = async (work: Work, player: Player): Promise<Identity[]> =>
  shown(player, (await kept(work.db, select(player))).rows);

/** As `listIdentities`, along with the player's parts. */
export const identitiesAlong = (player: Player): { parts: Loadable[]; read: () => Identity[] } => {
  const rows: Row[] = [];
  const part = alongside(
    "id",
    sql`select 'id', -1, null::text, row_to_json(x) from (${select(player)}) x`,
    (_, row) => void rows.push(row as Row),
  );
  return { parts: [part], read: () => shown(player, rows) };
};

/**
 * Adds an id at another provider. An id that the player has already is returned unchanged.
 * @throws DomainError CONFLICT: IDENTITY_TAKEN by another player, IDENTITY_LIMIT
 */
export const addIdentity = async (
  work: Work,
  { projectId, id: asked }: Player,
  { provider, externalId }: Pick<Identity, "provider" | "externalId">,
): Promise<{ identity: Identity; created: boolean }> => {
  // Under the player's lock, so that a merge or an erasure includes it.
  const player = await lockKnown(work, projectId, asked);
  const made = await sql<Row>`
    insert into player_identities (project_id, provider, external_id, player_id, created_at)
    values (${projectId}, ${provider}, ${externalId}, ${player.id}, ${work.now.toISOString()}::timestamptz)
    on conflict do nothing returning *`.execute(work.db);
  const found = made.rows[0] ?? (await findIdentity(work, projectId, { provider, externalId }));
  if (found.player_id !== player.id)
    throw conflict("IDENTITY_TAKEN", "another player has this id; merge the two if they are one");
  await checkRoom(work, projectId, player.id);
  return { identity: show(found), created: made.rows.length > 0 };
};

const findIdentity = async (
  work: Work,
  projectId: string,
  { provider, externalId }: Pick<Identity, "provider" | "externalId">,
): Promise<Row> => {
  const found = await sql<Row>`
    select * from player_identities where project_id = ${projectId} and provider = ${provider}
      and external_id = ${externalId}`.execute(work.db);
  return found.rows[0]!;
};

const checkRoom = async ({ db }: Work, projectId: string, playerId: string): Promise<void> => {
  const counted = await sql<{ n: number }>`
    select count(*) as n from player_identities
    where project_id = ${projectId} and player_id = ${playerId}`.execute(db);
  if (counted.rows[0]!.n > IDENTITIES_MAX)
    throw conflict("IDENTITY_LIMIT", `a player may have ${IDENTITIES_MAX} ids at other providers`);
};

/** @throws DomainError NOT_FOUND when the player has no such id */
export const removeIdentity = async (
  { db }: Work,
  { projectId, id }: Player,
  { provider, externalId }: Pick<Identity, "provider" | "externalId">,
): Promise<void> => {
  const removed = await sql`
    delete from player_identities where project_id = ${projectId} and player_id = ${id}
      and provider = ${provider} and external_id = ${externalId} returning 1`.execute(db);
  if (removed.rows.length === 0) throw notFound("identity");
};

/** Maximum players of one bulk upsert. */
export const UPSERT_MAX = 500;

export type PlayerInput = { externalUserId: string } & PlayerProfile;

type Upserted =
  | { status: "CREATED" | "UPDATED"; playerId: string; playerStatus: PlayerState["status"] }
  | { status: "REJECTED"; message: string; isErased?: true };

/** Of a player whom others hold: only in a shared transaction, and never shown. */
const HELD: Upserted = { status: "REJECTED", message: "held" };

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

type Upsert = { input: PlayerInput; cause: Cause };

/**
 * As `upsertPlayers`, for different requests. In a shared transaction nobody is waited for: players whom
 * others hold are HELD.
 */
const upsertEach = async (work: Work, projectId: string, upserts: readonly Upsert[]): Promise<Upserted[]> => {
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
    return { status: isNew ? "CREATED" : "UPDATED", playerId: id, playerStatus: player.status };
  };
  return { one, columns };
};

export type { PlayerProfile } from "../../players/profile.ts";

/**
 * Resolves `{playerId}` of a path: the UUID, or `ext:` and the integrator's id. Merged and renamed players
 * are found by their old ids too.
 */
export const findPlayer = async (work: Work, projectId: string, ref: string): Promise<Player | undefined> => {
  const isExternal = ref.startsWith("ext:");
  if (!isExternal && !isId(ref)) return undefined;
  const where = isExternal ? { externalUserId: ref.slice(4) } : { id: ref };
  const found = await work.em.findOne(Player, { projectId, ...where });
  if (!found?.mergedInto) return found ?? undefined;
  return (await work.em.findOne(Player, { projectId, id: found.mergedInto })) ?? undefined;
};

/** @throws DomainError NOT_FOUND */
export const getPlayer = async (work: Work, projectId: string, ref: string): Promise<Player> => {
  const player = await findPlayer(work, projectId, ref);
  if (!player) throw unknownPlayer(ref);
  return player;
};

/**
 * Returns the condition that `column` is the player `ref`; without `ref` it is always true.
 * @throws DomainError NOT_FOUND
 */
export const isPlayer = async (
  work: Work,
  projectId: string,
  column: RawBuilder<unknown>,
  ref: string | undefined,
): Promise<RawBuilder<unknown>> =>
  ref === undefined ? sql`true` : sql`${column} = ${(await getPlayer(work, projectId, ref)).id}::uuid`;

/** Reads a player again after a change by SQL. */
export const refreshPlayer = ({ em }: Work, projectId: string, id: string): Promise<Player> =>
  em.findOneOrFail(Player, { projectId, id }, { refresh: true });

/**
 * Creates a player for a new externalUserId, or changes the given fields. Concurrent calls create one player.
 * @throws DomainError VALIDATION_ERROR when attributes or tags exceed their limits
 */
export const identifyPlayer = async (
  work: Work,
  projectId: string,
  input: PlayerInput,
  cause: Cause = { kind: "API" },
): Promise<Identified> => identifyOne(work, { projectId, input, cause });

type Identified = { player: PlayerKey; created: boolean };

const identifyOne = together({
  phase: "CHANGE",
  isWrite: true,
  run: async (work, upserts: readonly (Upsert & { projectId: string })[]) => {
    const { projectId } = upserts[0]!;
    return (await upsertEach(work, projectId, upserts)).map((one): Outcome<Identified> => {
      if (one === HELD) return { error: new Apart("ALONE", "others hold its player") };
      if (one.status !== "REJECTED")
        return { value: { player: { projectId, id: one.playerId }, created: one.status === "CREATED" } };
      return { error: one.isErased ? conflict("INVALID_STATE", one.message) : beyondLimit(one.message) };
    });
  },
});

const beyondLimit = (problem: string): DomainError =>
  invalid(problem.endsWith("tags") ? "tags" : "attributes", problem);

/**
 * Changes a player's profile; `player.updated` lists the changed fields.
 * @throws DomainError VALIDATION_ERROR when attributes or tags exceed their limits
 */
export const patchPlayer = async (
  work: Work,
  asked: PlayerKey,
  profile: PlayerProfile,
  cause: Cause = { kind: "API" },
): Promise<PlayerKey> => {
  const key = await lockPlayerRow(work, asked);
  const before = await readProfile(work, key);
  const patch = (turn: PlanTurn) => {
    if (turn.player.status === "ERASED") throw conflict("INVALID_STATE", "the player is ERASED");
    const problem = changeProfile(turn, before, { profile, cause });
    if (problem !== undefined) throw beyondLimit(problem);
    return () => turn.player.zoneChangedMs;
  };
  const { value } = await changePlayer(work, key, patch, { isOfActive: true });
  await writeProfile(work, { ...key, profile, zoneChangedMs: value });
  return key;
};

const readProfile = together({
  phase: "READS",
  isWrite: false,
  run: async (work, keys: readonly PlayerKey[]) => {
    const ids = keys.map(({ id }) => id);
    const columns = await readColumns(work, keys[0]!.projectId, ids);
    return keys.map(({ id }) => ({ value: columns.get(id)! }));
  },
});

const writeProfile = together({
  phase: "WRITES",
  isWrite: true,
  run: async (work, rows: readonly (ColumnsRow & PlayerKey)[]) => {
    await writeColumns(work, rows[0]!.projectId, rows);
    return rows.map(() => ({ value: undefined }));
  },
});

/** Locks a player, or its merge target. @throws DomainError NOT_FOUND */
export const lockOne = async (work: Work, projectId: string, id: string): Promise<PlayerState> => {
  const [player] = (await lockPlayersById(work, projectId, [id])).values();
  if (!player) throw notFound("player");
  return player;
};

/** As `lockOne`, rejecting erased players. @throws DomainError CONFLICT INVALID_STATE */
export const lockKnown = async (work: Work, projectId: string, id: string): Promise<PlayerState> => {
  const player = await lockOne(work, projectId, id);
  if (player.status === "ERASED") throw conflict("INVALID_STATE", "the player is ERASED");
  return player;
};

type XpGrantRequest = {
  amount: number;
  reason: string;
  boostable?: boolean | undefined;
  reference?: string | undefined;
  cause: Cause;
};

/**
 * Grants XP by REST, or removes it with a negative amount: exactly `amount` or nothing, unless boosts and the
 * daily cap are applied.
 * @throws DomainError CONFLICT: INSUFFICIENT_XP, XP_LIMIT, REFERENCE_USED, PLAYER_INACTIVE
 */
export const grantPlayerXp = async (
  work: Work,
  asked: PlayerKey,
  { reference, boostable = false, ...grant }: XpGrantRequest,
): Promise<{ player: PlayerKey; ledgerEntry: LedgerRow | undefined }> => {
  const give = (turn: PlanTurn, key: string) => {
    checkGrant(turn.player, grant.amount);
    const entry = grantXp(turn, { ...grant, key, boostable });
    return () => entry;
  };
  const { player, value } = await changePlayer(work, asked, give, { reference });
  return { player: { projectId: asked.projectId, id: player.id }, ledgerEntry: value };
};

const checkGrant = ({ xp, status }: PlayerState, amount: number): void => {
  if (status === "ERASED" || (amount > 0 && status !== "ACTIVE"))
    throw conflict("PLAYER_INACTIVE", `the player is ${status}`);
  if (xp + amount < 0) throw conflict("INSUFFICIENT_XP", `the player has ${xp} XP`);
  if (xp + amount > XP_MAX) throw conflict("XP_LIMIT", `XP may not exceed ${XP_MAX}`);
};
