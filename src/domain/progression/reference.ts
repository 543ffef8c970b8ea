import { localKey } from "../kernel/work-state.ts";
import { Apart, type Outcome, together } from "../kernel/together.ts";
import type { Work } from "../kernel/work.ts";
import { lockRefs } from "./lock-refs.ts";
import { planOf } from "./locked-plan.ts";

/** `id`: the UUID, or `ext:` and the integrator's id where a request names the player. */
export type PlayerKey = { projectId: string; id: string };

/** Players whose rows a request of this transaction has for itself. */
const OWNED = localKey("owned players", () => new Set<string>());

/** Whether a request of this transaction has locked the player by `lockPlayerRow`. */
export const isOwned = (work: Work, playerId: string): boolean => work.local.get(OWNED).has(playerId);

const lockOne = async (work: Work, keys: readonly PlayerKey[]): Promise<Outcome<PlayerKey>[]> => {
  const { projectId } = keys[0]!;
  await planOf(work, projectId);
  const locked = await lockRefs(
    work,
    projectId,
    keys.map(({ id }) => id),
  );
  const owned = work.local.get(OWNED);
  return keys.map(({ id }) => {
    const found = locked.get(id)!;
    if ("error" in found) return found;
    const { player } = found;
    if (work.isShared && owned.has(player.id))
      return { error: new Apart("NEXT", "another request has the player") };
    owned.add(player.id);
    return { value: { projectId, id: player.id } };
  });
};

/**
 * Locks a player, or its merge target, in the lock order of batches: the project's definitions first, to
 * avoid deadlocks with a change of them. No other request of the transaction locks the same player.
 * @throws DomainError NOT_FOUND
 */
export const lockPlayerRow = together({ phase: "LOCKS", isWrite: false, run: lockOne });
