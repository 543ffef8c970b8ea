import type { App } from "../app.ts";
import { starvedMs, threadCpuMs } from "../domain/kernel/cpu-clock.ts";
import { throwOutage } from "../domain/kernel/outages.ts";
import type { PlayersOf } from "../domain/progression/change-free-players.ts";
import { byProject, DUE_PAGE, type Due, findDue } from "../domain/progression/due-players.ts";
import type { Work } from "../domain/kernel/work.ts";

type Sweep = {
  due: Parameters<typeof findDue>[1];
  /** Processes a page's due players of one project in one transaction. */
  settle(work: Work, players: PlayersOf): Promise<void>;
};

/**
 * Goes once through all due players, in pages. A player who cannot be changed does not delay the others, nor
 * does one whose computation takes so long that PostgreSQL ends the transaction; skipped players are found by
 * the next run.
 */
export const sweepDue = async (app: App, sweep: Sweep): Promise<void> => {
  const { due } = sweep;
  let after: Due | undefined;
  for (;;) {
    const page: Due[] = await app.transact((work) => findDue(work, due, after));
    for (const [projectId, playerIds] of byProject(page)) {
      await settleTogether(app, sweep, { projectId, playerIds });
      await app.limits.pause?.();
    }
    if (page.length < DUE_PAGE) return;
    after = page.at(-1);
  }
};

const settleTogether = async (app: App, sweep: Sweep, players: PlayersOf): Promise<void> => {
  const { projectId, playerIds } = players;
  const sinceMs = threadCpuMs();
  try {
    await app.transact((work) => sweep.settle(work, players));
  } catch (err) {
    if (starvedMs(sinceMs) === undefined) throwOutage(err);
    if (playerIds.length === 1) {
      const what = { err, projectId, playerId: playerIds[0], table: sweep.due.table };
      app.log.error(what, "what is due could not be settled");
      return;
    }
    for (const playerId of playerIds) await settleTogether(app, sweep, { projectId, playerIds: [playerId] });
  }
};
