import type { PlayerState } from "../evaluation/player-state.ts";
import type { ProjectPlan } from "../evaluation/project-plan.ts";
import { addPlayers, monthOf } from "../kernel/usage-counters.ts";
import type { Work } from "../kernel/work.ts";

/**
 * Counts the players whose first event of the month is processed by a batch, by tenant. The month is saved
 * with the player, whose row the batch has locked, so each counts once a month however often its events are
 * tried.
 */
export class ActivePlayers {
  readonly #month: number;
  readonly #byTenant = new Map<string, number>();

  constructor({ serverNow }: Pick<Work, "serverNow">) {
    this.#month = monthOf(serverNow);
  }

  /** Notes an event of its own of a player. Months of servers whose clocks differ never count backwards. */
  note(player: PlayerState, { tenantId }: ProjectPlan): void {
    if (player.activeMonth !== null && player.activeMonth >= this.#month) return;
    player.activeMonth = this.#month;
    this.#byTenant.set(tenantId, (this.#byTenant.get(tenantId) ?? 0) + 1);
  }

  /**
   * Adds them to the usage of their tenants; the players must be saved in the same transaction.
   * @param part a partition that it holds
   */
  async save(work: Work, part: number): Promise<void> {
    await addPlayers(
      work,
      part,
      [...this.#byTenant].map(([tenantId, players]) => ({ tenantId, players })),
    );
  }
}
