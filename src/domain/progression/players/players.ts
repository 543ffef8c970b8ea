import { type RawBuilder, sql } from "kysely";
import { conflict, DomainError, invalid, notFound } from "../../kernel/errors.ts";
import type { Cause } from "../../kernel/events/events.ts";
import { isId } from "../../kernel/ids.ts";
import { keyOfReference } from "../reference.ts";
import { changePlayer } from "../change.ts";
import { lockPlayersById } from "../load.ts";
import type { PlayerState } from "../../evaluation/player-state.ts";
import { openGroupChange } from "../group-change.ts";
import type { LedgerRow } from "../../evaluation/effects.ts";
import { grantXp, XP_MAX } from "../../evaluation/xp/xp.ts";
import type { Work } from "../../kernel/work.ts";
import { Player } from "../../players/player.ts";
import { changeProfile, type PlayerProfile, readColumns, writeColumns } from "../../players/profile.ts";
import { type PlayerInput, upsertPlayers } from "./upsert.ts";

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

/** Says how a player is named, where a bare externalUserId was given. */
export const unknownPlayer = (ref: string): DomainError => {
  if (isId(ref) || ref.startsWith("ext:")) return notFound("player");
  // The reference is not quoted: it might be a secret that was put in the wrong place.
  return new DomainError(
    "NOT_FOUND",
    "player not found: a player is named by the UUID, or by ext: and your own id, as in ext:ada",
  );
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
): Promise<{ player: Player; created: boolean }> => {
  const [result] = await upsertPlayers(work, projectId, { players: [input], cause });
  if (result!.status === "REJECTED")
    throw result!.isErased ? conflict("INVALID_STATE", result!.message) : beyondLimit(result!.message);
  const player = await refreshPlayer(work, projectId, result!.playerId);
  return { player, created: result!.status === "CREATED" };
};

const beyondLimit = (problem: string): DomainError =>
  invalid(problem.endsWith("tags") ? "tags" : "attributes", problem);

/**
 * Changes a player's profile; `player.updated` lists the changed fields.
 * @throws DomainError VALIDATION_ERROR when attributes or tags exceed their limits
 */
export const patchPlayer = async (
  work: Work,
  { projectId, id: asked }: Player,
  profile: PlayerProfile,
  cause: Cause = { kind: "API" },
): Promise<Player> => {
  let player: PlayerState | undefined;
  const { open, settle, save } = await openGroupChange(work, {
    projectId,
    lock: async () => [(player = await lockKnown(work, projectId, asked))],
  });
  const { id } = player!;
  const before = (await readColumns(work, projectId, [id])).get(id)!;
  const turn = open(player!);
  const problem = changeProfile(turn, before, { profile, cause });
  if (problem !== undefined) throw beyondLimit(problem);
  await settle(turn);
  await save();
  await writeColumns(work, projectId, [{ id, profile, zoneChangedMs: player!.zoneChangedMs }]);
  return refreshPlayer(work, projectId, id);
};

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

export type XpGrantRequest = {
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
  player: Player,
  { reference, boostable = false, ...grant }: XpGrantRequest,
): Promise<{ player: Player; ledgerEntry: LedgerRow | undefined }> => {
  const { projectId, id } = player;
  const key = await keyOfReference(work, player, reference);
  const changed = await changePlayer(work, projectId, id, (turn) => {
    checkGrant(turn.player, grant.amount);
    return grantXp(turn, { ...grant, key, boostable });
  });
  return { player: await refreshPlayer(work, projectId, changed.player.id), ledgerEntry: changed.value };
};

const checkGrant = ({ xp, status }: PlayerState, amount: number): void => {
  if (status === "ERASED" || (amount > 0 && status !== "ACTIVE"))
    throw conflict("PLAYER_INACTIVE", `the player is ${status}`);
  if (xp + amount < 0) throw conflict("INSUFFICIENT_XP", `the player has ${xp} XP`);
  if (xp + amount > XP_MAX) throw conflict("XP_LIMIT", `XP may not exceed ${XP_MAX}`);
};
