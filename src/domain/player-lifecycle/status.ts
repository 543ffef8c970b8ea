import { sql } from "kysely";
import { auditDefinition } from "../accounts/audit/definitions.ts";
import type { Cause } from "../kernel/events/events.ts";
import { leaveLobbies } from "../social/lobbies/leave-all.ts";
import type { PlayerState } from "../evaluation/player-state.ts";
import { HIDDEN_STATUSES } from "../progression/save.ts";
import { openGroupChange } from "../progression/group-change.ts";
import type { Work } from "../kernel/work.ts";
import type { Player } from "../players/player.ts";
import { lockKnown, refreshPlayer } from "../progression/players/players.ts";
import { updateRankEntries } from "./visibility.ts";

/** Statuses that can be set by hand. */
export const SETTABLE_STATUSES = ["ACTIVE", "SUSPENDED", "BANNED"] as const;
export type SettableStatus = (typeof SETTABLE_STATUSES)[number];

const REASON_OF_DELETION = "deleted";

/**
 * Sets a player's status: events of a player who is not ACTIVE are REJECTED when they are processed, and a
 * BANNED one is on no board and may not connect. Scores are kept meanwhile, and count again when the player
 * returns. Emits `player.updated`, unless nothing changes.
 * @throws DomainError NOT_FOUND; CONFLICT INVALID_STATE for an erased player
 */
export const setStatus = async (
  work: Work,
  player: Player,
  { status, reason, cause }: { status: SettableStatus; reason: string; cause: Cause },
): Promise<Player> => {
  const changed = await change(work, player, { status, isDeleted: false, cause: { ...cause, note: reason } });
  await auditDefinition(work, "player.status_changed", { projectId: player.projectId, id: changed.id });
  return changed;
};

/** Hides a player from lists and boards and suspends them, until a status is set again. */
export const deletePlayer = async (work: Work, player: Player, cause: Cause): Promise<void> => {
  const deletion = { ...cause, note: REASON_OF_DELETION };
  const { id } = await change(work, player, { status: "SUSPENDED", isDeleted: true, cause: deletion });
  await auditDefinition(work, "player.deleted", { projectId: player.projectId, id });
};

type Change = { status: SettableStatus; isDeleted: boolean; cause: Cause };

const isHidden = ({ status, isDeleted = false }: Pick<PlayerState, "status" | "isDeleted">): boolean =>
  isDeleted || HIDDEN_STATUSES.has(status);

const change = async (
  work: Work,
  { projectId, id: asked }: Player,
  { status, isDeleted, cause }: Change,
): Promise<Player> => {
  let state: PlayerState | undefined;
  const { open, settle, save } = await openGroupChange(work, {
    projectId,
    lock: async () => [(state = await lockKnown(work, projectId, asked))],
  });
  const player = state!;
  const { id, externalUserId } = player;
  const [before, wasHidden] = [player.status, isHidden(player)];
  if (before === status && (player.isDeleted ?? false) === isDeleted)
    return refreshPlayer(work, projectId, id);
  const turn = open(player);
  Object.assign(player, { status, isDeleted });
  turn.emit("player.updated", {
    playerId: id,
    externalUserId,
    changed: ["status"],
    before: { status: before },
    after: { status },
    cause,
  });
  await settle(turn);
  await save();
  const now = work.now.toISOString();
  await sql`
    update players set status = ${status}, deleted_at = ${isDeleted ? now : null}::timestamptz
    where project_id = ${projectId} and id = ${id}`.execute(work.db);
  if (isHidden(player)) await leaveLobbies(work, { projectId, playerId: id }, "KICKED");
  if (isHidden(player) !== wasHidden) await updateRankEntries(work, { projectId, id }, isHidden(player));
  return refreshPlayer(work, projectId, id);
};
