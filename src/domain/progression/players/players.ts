import { type RawBuilder, sql } from "kysely";
import { conflict, type DomainError, invalid, notFound } from "../../kernel/errors.ts";
import type { Cause } from "../../kernel/events/events.ts";
import { isId } from "../../kernel/ids.ts";
import { lockPlayerRow, type PlayerKey } from "../reference.ts";
import { changePlayer } from "../change.ts";
import { lockPlayersById } from "../load.ts";
import type { PlayerState } from "../../evaluation/player-state.ts";
import { ANY_CHANGE } from "../group-change.ts";
import type { PlanTurn } from "../../evaluation/project-plan.ts";
import { Apart, type Outcome, together } from "../../kernel/together.ts";
import type { LedgerRow } from "../../evaluation/effects.ts";
import { grantXp, XP_MAX } from "../../evaluation/xp/xp.ts";
import type { Work } from "../../kernel/work.ts";
import { Player } from "../../players/player.ts";
import { unknownPlayer } from "../../players/player-refs.ts";
import {
  changeProfile,
  type ColumnsRow,
  type PlayerProfile,
  readColumns,
  writeColumns,
} from "../../players/profile.ts";
import { HELD, type PlayerInput, type Upsert, upsertEach } from "./upsert.ts";

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
  const { value } = await changePlayer(work, key, patch, { gives: [ANY_CHANGE], isOfActive: true });
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
